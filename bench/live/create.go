package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// writers is how many requests of ours are in flight while objects are made.
const writers = 32

// parallel calls f(0..n-1) until one fails.
func parallel(ctx context.Context, n int, f func(context.Context, int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(writers, n) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := f(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// makeNodes makes n ready nodes. Admission taints every new node until a controller has looked at it.
func (c *cluster) makeNodes(ctx context.Context, n int) error {
	nodes := c.client.CoreV1().Nodes()
	return parallel(ctx, n, func(ctx context.Context, i int) error {
		if _, err := nodes.Create(ctx, node(i), metav1.CreateOptions{}); err != nil {
			return err
		}
		_, err := nodes.Patch(ctx, nodeName(i), types.MergePatchType, []byte(`{"spec":{"taints":null}}`), metav1.PatchOptions{})
		return err
	})
}

func (c *cluster) makePod(ctx context.Context, p *corev1.Pod) error {
	_, err := c.client.CoreV1().Pods(namespace).Create(ctx, p, metav1.CreateOptions{})
	return err
}

// makePods makes n pods of one GPU each.
func (c *cluster) makePods(ctx context.Context, n int) error {
	return parallel(ctx, n, func(ctx context.Context, i int) error {
		return c.makePod(ctx, pod(fmt.Sprintf("pod-%05d", i), 1))
	})
}

// makeGangs makes n gangs of that size, of pods of one GPU each, within one rack or whatever label says.
func (c *cluster) makeGangs(ctx context.Context, n, size int, label string) error {
	return parallel(ctx, n, func(ctx context.Context, i int) error {
		return c.makeGang(ctx, fmt.Sprintf("gang-%04d", i), size, 1, label)
	})
}

func (c *cluster) makeGroup(ctx context.Context, name string, size int, label string) error {
	_, err := c.client.SchedulingV1beta1().PodGroups(namespace).Create(ctx, group(name, size, label), metav1.CreateOptions{})
	return err
}

// makeGang makes the gang and its pods one after the other.
func (c *cluster) makeGang(ctx context.Context, name string, size int, gpus int64, label string) error {
	if err := c.makeGroup(ctx, name, size, label); err != nil {
		return err
	}
	for i := range size {
		if err := c.makePod(ctx, member(name, i, gpus)); err != nil {
			return err
		}
	}
	return nil
}
