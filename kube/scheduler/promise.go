package scheduler

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/berth-dev/berth/engine"
)

// announcement is a start that a workload's pods say it was promised.
type announcement struct {
	start time.Time // zero: none
	at    time.Time // when it was said
}

const (
	// promiseStep is how far a promise moves before it is said again: it is told in minutes.
	promiseStep = time.Minute
	// promiseEvery is the least time from one that is said of a workload to the next, or to none.
	promiseEvery = time.Minute
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

// announcePromise says a promise that came, went or moved, onto the conditions alone. It returns when there is one to say that
// it is too early for; zero: there is none.
func (r *reporter) announcePromise(w *engine.Waiting, plan *engine.Plan) (later time.Time) {
	start, last := promiseOf(w.Gang, plan), r.announced[w.Gang]
	if start.IsZero() == last.start.IsZero() && start.Sub(last.start).Abs() <= promiseStep {
		return later
	}
	if due := last.at.Add(promiseEvery); !last.start.IsZero() && plan.Now.Before(due) {
		return due
	}
	said := r.pending(w, plan)
	for _, p := range r.s.feed.Waiting(w.Gang) {
		key := keyOf(p)
		r.later(p, func(ctx context.Context) {
			err := r.gate.again(ctx, p.Namespace, func(ctx context.Context) error { return r.patchPod(ctx, key, p.UID, said) })
			if err != nil && !apierrors.IsNotFound(err) {
				r.s.log.Warn("write condition", "pod", key, "err", err)
			}
		})
	}
	return later
}

// forgetAnnounced drops what was said of workloads that wait no more, now and then.
func (r *reporter) forgetAnnounced(plan engine.Plan) {
	if len(r.announced) > 2*len(plan.Waiting)+1000 {
		clear(r.announced)
	}
}
