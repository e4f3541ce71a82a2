package cli

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/fleet"
	"github.com/berth-dev/berth/fleet/provisioner"
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
		return provision.Run(ctx, provision.Options{Config: cfg, Cluster: seen, Like: bootedNode, ByOthers: s.provisioner != "", Log: log})
	}, s.report.say, log)
	return s.startRequests(seen)
}

// startRequests has the scheduler ask the autoscaler that is played for the nodes of gangs, where that was asked for.
func (s *session) startRequests(seen *scheduler.Observer) error {
	class, err := parseRequests(s.requests)
	if err != nil || class == "" {
		return err
	}
	cfg, err := s.cp.Config("berth-scheduler")
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(s.log, nil)).With("component", "requests")
	s.asked = keep("provisioning requests", func(ctx context.Context) error {
		return provision.RunRequests(ctx, provision.RequestOptions{Config: cfg, Cluster: seen, Class: class, Log: log})
	}, s.report.say, log)
	return nil
}

// startProvisioner plays the provisioner that was asked for.
func (s *session) startProvisioner(ctx context.Context) error {
	admin, err := s.cp.Config("admin")
	if err != nil {
		return err
	}
	if err := provisioner.Install(ctx, admin, provisioner.Kind(s.provisioner)); err != nil {
		return err
	}
	cfg, err := s.cp.Config("fleet")
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(s.log, nil)).With("component", s.provisioner)
	s.played = keep("the provisioner "+s.provisioner, func(ctx context.Context) error {
		return provisioner.Run(ctx, provisioner.Options{Config: cfg, Kind: provisioner.Kind(s.provisioner), Like: bootedNode, Expanders: s.expanders, NodeRepair: s.nodeRepair, Speed: s.speed, Log: log})
	}, s.report.say, log)
	s.report.did("playing " + s.provisioner)
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
