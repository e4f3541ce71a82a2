package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// work makes workloads and deletes them, such that between 70 and 130 of a hundred GPUs are asked for. The
// goroutine of proceed owns it.
type work struct {
	w     *world
	made  int
	lives []*life
}

// life is a workload that exists, at least in part.
type life struct {
	recipe
	ends time.Time
}

func newWork(w *world) *work { return &work{w: w} }

// pace is between two workloads.
const pace = 150 * time.Millisecond

// proceed makes and deletes workloads until ctx ends. The API server may be away at any time: what was not made
// is forgotten, what was not deleted is deleted later.
func (k *work) proceed(ctx context.Context, r *rand.Rand) {
	target := aim(r)
	for ticks := 1; ctx.Err() == nil; ticks++ {
		if ticks%60 == 0 {
			target = aim(r)
		}
		k.deleteOld(ctx)
		if k.w.seen.demand() < target {
			k.add(ctx, k.draw(r))
		}
		select {
		case <-ctx.Done():
		case <-time.After(pace):
		}
	}
}

// pile makes more than there is room for, of work that goes on, so that at rest the cluster is full and some of
// it waits.
func (k *work) pile(ctx context.Context, r *rand.Rand) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for ctx.Err() == nil && k.w.seen.demand() < nodes*8*3/2 {
		c := k.draw(r)
		delete(c.sim, "sim.berth.dev/fail-after")
		delete(c.sim, "sim.berth.dev/run")
		k.add(ctx, c)
		lasting(ctx, pace)
	}
}

func aim(r *rand.Rand) int64 { return nodes * 8 * (70 + r.Int64N(60)) / 100 }

func (k *work) draw(r *rand.Rand) recipe {
	k.made++
	return draw(r, fmt.Sprintf("w%d", k.made))
}

func (k *work) add(ctx context.Context, c recipe) {
	k.lives = append(k.lives, &life{recipe: c, ends: time.Now().Add(c.life)})
	if err := c.create(ctx, k.w.client); err != nil {
		k.w.tally.count("workloads not made, or in part")
		return
	}
	k.w.tally.count("workloads made: " + c.kind())
}

func (c recipe) kind() string {
	what := c.owner
	switch {
	case what == "" && c.min > 0:
		what = "bare pods"
	case what == "":
		what = "bare pod"
	}
	switch {
	case c.group:
		what += ", PodGroup"
	case c.min > 0:
		what += ", gang"
	}
	if c.disks {
		what += ", disks"
	}
	if c.rule != "" {
		what += ", " + c.rule
	}
	return what + ", " + c.scheduler
}

// deleteOld deletes what has lived long enough, done or not.
func (k *work) deleteOld(ctx context.Context) {
	k.lives = slices.DeleteFunc(k.lives, func(l *life) bool {
		return time.Now().After(l.ends) && l.delete(ctx, k.w) == nil
	})
}

func (l *life) delete(ctx context.Context, w *world) error {
	background := metav1.DeletePropagationBackground
	o := metav1.DeleteOptions{PropagationPolicy: &background}
	var errs []error
	switch l.owner {
	case "job":
		errs = append(errs, w.client.BatchV1().Jobs(namespace).Delete(ctx, l.name, o))
	case "statefulset":
		errs = append(errs, w.client.AppsV1().StatefulSets(namespace).Delete(ctx, l.name, o))
	case "deployment":
		errs = append(errs, w.client.AppsV1().Deployments(namespace).Delete(ctx, l.name, o))
	default:
		for i := range l.members {
			errs = append(errs, w.client.CoreV1().Pods(namespace).Delete(ctx, fmt.Sprintf("%s-%d", l.name, i), o))
		}
	}
	if l.group {
		errs = append(errs, w.client.SchedulingV1beta1().PodGroups(namespace).Delete(ctx, l.name, o))
	}
	return errors.Join(slices.DeleteFunc(errs, apierrors.IsNotFound)...)
}
