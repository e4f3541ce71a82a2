package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// answerLimit is how long a scheduler that runs may take for one thing.
const answerLimit = time.Minute

// large measures one large gang that waits when the scheduler starts, and another that comes while it runs.
func large(nodes, size int) func(context.Context, *cluster, string) ([]figure, error) {
	return func(ctx context.Context, c *cluster, who string) ([]figure, error) {
		if err := errors.Join(c.makeNodes(ctx, nodes), c.makeGang(ctx, "waiting", size, 1, "")); err != nil {
			return nil, err
		}
		s, figures, err := c.workOff(ctx, who, gatesForGangs, size)
		if s != nil {
			defer s.stop()
		}
		if err != nil {
			return nil, err
		}
		c.watcher.mark()
		if err := c.makeGangQuickly(ctx, "coming", size); err != nil {
			return nil, err
		}
		made := time.Now()
		times, err := c.watcher.await(ctx, size, answerLimit)
		if err != nil {
			return nil, err
		}
		return append(figures, figure{figOnline, times[len(times)-1].Sub(made).Seconds()}), nil
	}
}

// makeGangQuickly makes the pods of one gang many at a time.
func (c *cluster) makeGangQuickly(ctx context.Context, name string, size int) error {
	if err := c.makeGroup(ctx, name, size, ""); err != nil {
		return err
	}
	return parallel(ctx, size, func(ctx context.Context, i int) error { return c.makePod(ctx, member(name, i, 1)) })
}

// pace is the time between two pods that are created one by one.
const pace = 20 * time.Millisecond

// latency measures pods that come one by one, from sending the request that creates one to its binding.
func latency(nodes, pods int) func(context.Context, *cluster, string) ([]figure, error) {
	return func(ctx context.Context, c *cluster, who string) ([]figure, error) {
		s, err := c.idle(ctx, who, nodes)
		if s != nil {
			defer s.stop()
		}
		if err != nil {
			return nil, err
		}
		sent := make(map[string]time.Time)
		for i := range pods {
			name := fmt.Sprintf("single-%04d", i)
			sent[name] = time.Now()
			if err := c.makePod(ctx, pod(name, 1)); err != nil {
				return nil, err
			}
			time.Sleep(time.Until(sent[name].Add(pace)))
		}
		var took []time.Duration
		for name, at := range sent {
			bound, err := c.watcher.awaitPod(ctx, name, answerLimit)
			if err != nil {
				return nil, err
			}
			took = append(took, bound.Sub(at))
		}
		slices.Sort(took)
		return []figure{{figP50, milli(at(took, 50))}, {figP99, milli(at(took, 99))}, {figMax, milli(took[len(took)-1])}}, nil
	}
}

// idle starts a scheduler on empty nodes and returns when it has bound a first pod and is quiet.
func (c *cluster) idle(ctx context.Context, who string, nodes int) (*process, error) {
	if err := errors.Join(c.makeNodes(ctx, nodes), c.makePod(ctx, pod("first", 1))); err != nil {
		return nil, err
	}
	s, _, err := c.workOff(ctx, who, gatesForPods, 1)
	return s, err
}

// at is the value below which percent of the sorted times lie, by nearest rank.
func at(sorted []time.Duration, percent int) time.Duration {
	return sorted[max(0, (len(sorted)*percent+99)/100-1)]
}

func milli(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
