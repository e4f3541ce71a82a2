package scheduler

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/berth-dev/berth/engine"
)

// vow is a start that a workload's pods say it was promised.
type vow struct {
	start time.Time // zero: none
	at    time.Time // when it was said
}

const (
	// vowStep is how far a promise moves before it is said again: it is told in minutes.
	vowStep = time.Minute
	// vowEvery is the least time from one that is said of a workload to the next, or to none.
	vowEvery = time.Minute
)

// promiseOf is the start that the plan promises the workload, zero for none.
func promiseOf(gang string, plan *engine.Plan) time.Time {
	for i := range plan.Promises {
		if plan.Promises[i].Gang == gang {
			return plan.Promises[i].Start
		}
	}
	return time.Time{}
}

// tellVow says a promise that came, went or moved, onto the conditions alone. It returns when there is one to say that
// it is too early for; zero: there is none.
func (y *sayer) tellVow(w *engine.Waiting, plan *engine.Plan) (later time.Time) {
	start, last := promiseOf(w.Gang, plan), y.vows[w.Gang]
	if start.IsZero() == last.start.IsZero() && start.Sub(last.start).Abs() <= vowStep {
		return later
	}
	if due := last.at.Add(vowEvery); !last.start.IsZero() && plan.Now.Before(due) {
		return due
	}
	said := y.pending(w, plan)
	for _, p := range y.s.feed.Waiting(w.Gang) {
		key := keyOf(p)
		y.later(p, func(ctx context.Context) {
			err := y.gate.again(ctx, p.Namespace, func(ctx context.Context) error { return y.patchPod(ctx, key, p.UID, said) })
			if err != nil && !apierrors.IsNotFound(err) {
				y.s.log.Warn("write condition", "pod", key, "err", err)
			}
		})
	}
	return later
}

// forgetVows drops what was said of workloads that wait no more, now and then.
func (y *sayer) forgetVows(plan engine.Plan) {
	if len(y.vows) > 2*len(plan.Waiting)+1000 {
		clear(y.vows)
	}
}
