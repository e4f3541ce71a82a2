package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// restart measures a scheduler that starts on a busy cluster: eight pods on every node, seven of them with one
// GPU each, and a new one that waits. They are bound but not started, since there are no kubelets. The scheduler
// that ran before ended in order, and then, the second time, was killed.
func restart(nodes int) func(context.Context, *cluster, string) ([]figure, error) {
	return func(ctx context.Context, c *cluster, who string) ([]figure, error) {
		if err := errors.Join(c.makeNodes(ctx, nodes), c.occupy(ctx, nodes)); err != nil {
			return nil, err
		}
		var err error
		if c.watcher, err = watchBindings(ctx, c.client); err != nil {
			return nil, err
		}
		first, s, err := c.startToBinding(ctx, who, "new-0")
		if err != nil {
			return nil, err
		}
		if err := s.stop(); err != nil {
			return nil, err
		}
		again, s, err := c.startToBinding(ctx, who, "new-1")
		if err != nil {
			return nil, err
		}
		if err := s.kill(); err != nil {
			return nil, err
		}
		killed, s, err := c.startToBinding(ctx, who, "new-2")
		if err != nil {
			return nil, err
		}
		return []figure{{figCold, first.Seconds()}, {figRestart, again.Seconds()}, {figKilled, killed.Seconds()}}, s.stop()
	}
}

// occupy makes the pods that run.
func (c *cluster) occupy(ctx context.Context, nodes int) error {
	return parallel(ctx, nodes*gpusPerNode, func(ctx context.Context, i int) error {
		p := pod(fmt.Sprintf("running-%05d", i), 1)
		if i%gpusPerNode == 0 {
			p = pod(p.Name, 0)
		}
		p.Spec.NodeName = nodeName(i / gpusPerNode)
		return c.makePod(ctx, p)
	})
}

// startToBinding makes a pod, starts the scheduler, and returns how long it then took to bind the pod.
func (c *cluster) startToBinding(ctx context.Context, who, name string) (time.Duration, *process, error) {
	if err := c.makePod(ctx, pod(name, 1)); err != nil {
		return 0, nil, err
	}
	s, err := c.schedule(ctx, who, gatesForPods)
	if err != nil {
		return 0, nil, err
	}
	bound, err := c.watcher.awaitPod(ctx, name, answerLimit)
	if err != nil {
		return 0, nil, errors.Join(err, s.stop())
	}
	return bound.Sub(s.started), s, nil
}
