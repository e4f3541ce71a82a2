package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/kube/inspect"
)

const (
	inspections = 5
	nodeImages  = 50 // that a kubelet reports of its node, by default the most
)

// inspection measures how long it takes to read a busy cluster: nodes as large as kubelets make them, pods of which
// half wait, and an event for each.
func inspection(nodes, pods int) func(context.Context, *cluster, string) ([]figure, error) {
	return func(ctx context.Context, c *cluster, _ string) ([]figure, error) {
		if err := errors.Join(c.makeLargeNodes(ctx, nodes), c.makeHalfBound(ctx, nodes, pods), c.makeEvents(ctx, pods)); err != nil {
			return nil, err
		}
		var took []time.Duration
		cpu := ownCPU()
		for range inspections {
			began := time.Now()
			f, err := inspect.Gather(ctx, inspect.Options{Config: c.admin})
			if err != nil {
				return nil, err
			}
			took = append(took, time.Since(began))
			if len(f.Nodes) != nodes || len(f.Pods) != pods || len(f.Events) < pods || len(f.Unseen) > 0 {
				return nil, fmt.Errorf("read %d of %d nodes, %d of %d pods, %d of %d events; unseen: %v", len(f.Nodes), nodes, len(f.Pods), pods, len(f.Events), pods, f.Unseen)
			}
		}
		each := (ownCPU() - cpu) / inspections
		slices.Sort(took)
		return []figure{{figGather, at(took, 50).Seconds()}, {figGatherMax, took[len(took)-1].Seconds()}, {figReaderCPU, each.Seconds()}}, nil
	}
}

// ownCPU is what this process has used.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func (c *cluster) makeLargeNodes(ctx context.Context, n int) error {
	return parallel(ctx, n, func(ctx context.Context, i int) error {
		large := node(i)
		for image := range nodeImages {
			large.Status.Images = append(large.Status.Images, corev1.ContainerImage{
				Names:     []string{fmt.Sprintf("registry.example/team-%d/image-%d@sha256:%064x", image%7, image, image), fmt.Sprintf("registry.example/team-%d/image-%d:v1.2.%d", image%7, image, image)},
				SizeBytes: int64(image+1) << 24,
			})
		}
		_, err := c.client.CoreV1().Nodes().Create(ctx, large, metav1.CreateOptions{})
		return err
	})
}

// makeHalfBound makes pods of which every other one has a node.
func (c *cluster) makeHalfBound(ctx context.Context, nodes, n int) error {
	return parallel(ctx, n, func(ctx context.Context, i int) error {
		p := pod(fmt.Sprintf("pod-%05d", i), 1)
		if i%2 == 0 {
			p.Spec.NodeName = nodeName(i / 2 % nodes)
		}
		return c.makePod(ctx, p)
	})
}

func (c *cluster) makeEvents(ctx context.Context, n int) error {
	return parallel(ctx, n, func(ctx context.Context, i int) error {
		name := fmt.Sprintf("pod-%05d", i)
		_, err := c.client.CoreV1().Events(namespace).Create(ctx, &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: name + ".1"},
			InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: name},
			Type:           corev1.EventTypeWarning, Reason: "FailedScheduling", Source: corev1.EventSource{Component: schedulerName},
			Message: "0/5000 nodes are available: 1200 Insufficient nvidia.com/gpu, 3800 node(s) had untolerated taint(s).",
		}, metav1.CreateOptions{})
		return err
	})
}
