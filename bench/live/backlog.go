package main

import (
	"context"
	"errors"
	"time"

	v1alpha1 "github.com/berth-dev/berth/api/v1alpha1"
)

// backlogLimit is how long a scheduler may take to work off what was there before it.
const backlogLimit = 150 * time.Second

// gangSize is the number of pods in the gangs of a backlog.
const gangSize = 8

// singles measures a backlog of pods of one GPU.
func singles(nodes, pods int) func(context.Context, *cluster, string) ([]figure, error) {
	return func(ctx context.Context, c *cluster, who string) ([]figure, error) {
		if err := errors.Join(c.makeNodes(ctx, nodes), c.makePods(ctx, pods)); err != nil {
			return nil, err
		}
		return c.backlog(ctx, who, gatesForPods, pods)
	}
}

// gangs measures a backlog of gangs that each need a rack.
func gangs(nodes, n int) func(context.Context, *cluster, string) ([]figure, error) {
	return func(ctx context.Context, c *cluster, who string) ([]figure, error) {
		if err := errors.Join(c.makeNodes(ctx, nodes), c.makeGangs(ctx, n, gangSize, v1alpha1.LabelRack)); err != nil {
			return nil, err
		}
		return c.backlog(ctx, who, gatesForGangs, n*gangSize)
	}
}

// backlog starts a scheduler on what waits and returns when the last of so many pods has its node.
func (c *cluster) backlog(ctx context.Context, who, gates string, pods int) ([]figure, error) {
	s, figures, err := c.workOff(ctx, who, gates, pods)
	if s == nil {
		return nil, err
	}
	return figures, errors.Join(err, s.stop())
}

// workOff does the same and leaves the scheduler running.
func (c *cluster) workOff(ctx context.Context, who, gates string, pods int) (*process, []figure, error) {
	var err error
	if c.watcher, err = watchBindings(ctx, c.client); err != nil {
		return nil, nil, err
	}
	before, err := c.written(ctx)
	if err != nil {
		return nil, nil, err
	}
	quiet, known := c.loadNow(nil)
	s, err := c.schedule(ctx, who, gates)
	if err != nil {
		return nil, nil, err
	}
	times, err := c.watcher.await(ctx, pods, backlogLimit)
	if err != nil && !errors.Is(err, errTooSlow) {
		return s, nil, err
	}
	figures := rates(s.started, times, pods)
	if known {
		busy, _ := c.loadNow(s)
		figures = append(figures, busy.costs(quiet, len(times))...)
	}
	after, err := c.settled(ctx)
	return s, append(figures, writeFigures(after.since(before), len(times))...), err
}

// rates are what the times of the bindings say.
func rates(start time.Time, times []time.Time, pods int) []figure {
	out := []figure{{figBound, float64(len(times)) / float64(pods)}}
	if len(times) < 2 {
		return out
	}
	first, last, pause := times[0], times[len(times)-1], time.Duration(0)
	for i := 1; i < len(times); i++ {
		pause = max(pause, times[i].Sub(times[i-1]))
	}
	n := float64(len(times))
	return append(out,
		figure{figRate, n / last.Sub(start).Seconds()},
		figure{figSteady, (n - 1) / last.Sub(first).Seconds()},
		figure{figFirst, first.Sub(start).Seconds()},
		figure{figLast, last.Sub(start).Seconds()},
		figure{figPause, pause.Seconds()})
}

// writeFigures are what the scheduler wrote, by pod that got a node.
func writeFigures(w writes, bound int) []figure {
	n := float64(max(bound, 1))
	return []figure{
		{figWrites, w.byScheduler() / n},
		{figEvents, w["POST events"] / n},
		{figStatuses, (w["PATCH pods/status"] + w["PATCH podgroups/status"]) / n},
	}
}

// settled returns what the API server has counted once a second has passed in which no scheduler wrote.
func (c *cluster) settled(ctx context.Context) (writes, error) {
	before, err := c.written(ctx)
	for range 30 {
		if err != nil {
			return before, err
		}
		select {
		case <-ctx.Done():
			return before, context.Cause(ctx)
		case <-time.After(time.Second):
		}
		var now writes
		now, err = c.written(ctx)
		if now.byScheduler() == before.byScheduler() {
			return now, err
		}
		before = now
	}
	return before, err
}
