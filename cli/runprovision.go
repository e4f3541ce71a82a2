package cli

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/fleet"
	"github.com/berth-dev/berth/kube/provision"
	"github.com/berth-dev/berth/kube/scheduler"
)

// startProvision has machines launched for what waits, by pools that say so. The fleet is their provider.
func (s *session) startProvision(seen *scheduler.Observer) error {
	cfg, err := s.cp.Config("fleet")
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(s.log, nil)).With("component", "provision")
	s.provision = keep("the provisioner", func(ctx context.Context) error {
		return provision.Run(ctx, provision.Options{Config: cfg, Cluster: seen, Like: bootedNode, Log: log})
	}, s.report.say, log)
	return nil
}

// bootedNode is node i of a pool once it is up.
func bootedNode(pool *v1alpha1.Pool, i int) (*corev1.Node, error) {
	p := pool.DeepCopy()
	p.Spec.Launch, p.Spec.Nodes = nil, new(int32(i+1))
	booted, err := fleet.Boot([]v1alpha1.Pool{*p}, time.Now())
	if err != nil {
		return nil, err
	}
	if len(booted.Nodes) <= i {
		return nil, fmt.Errorf("pool %s cannot be carried out as it is written", pool.Name)
	}
	return booted.Nodes[i], nil
}
