package scheduler

import (
	"context"
	"sync"
	"time"

	"github.com/berth-dev/berth/kube/cluster"
	"github.com/berth-dev/berth/kube/devices"
)

// preparer sees to it that every claim of every member of a start has its devices, or its volume, before one member is bound.
// Devices are allocated first, and where their drivers have binding conditions these are waited for. For each claim of a volume it writes down which volume it takes, or for
// which node one is to be made, and waits for those who do it. If one of them does not get its volume, none of the start is
// bound: claims that are still without lose the note for which node, the nodes are refused, and the engine plans again, with the
// volumes that did come.
//
//	reserved --asked--> awaited --all bound--> sent to the binder
//	    |                  |
//	    '------------------'--given up, moved or too late--> taken back, planned again
//
// All it knows is in the claims: a successor that finds them half done goes on from there.
type preparer struct {
	s     *scheduler
	queue *backlog[*preparation]
	gate  *gate
	makes devices.Maker
}

func newPreparer(s *scheduler) *preparer {
	return &preparer{s: s, queue: newBacklog[*preparation](), gate: newGate(preparers), makes: devices.NewMaker()}
}

// preparers bounds the requests about claims and volumes in flight.
const preparers = 16

// preparation is a start whose claims are being seen to; without a start, devices that are given back.
type preparation struct {
	*cluster.Reservation
	start *start
}

// add takes on a start with claims that need volumes, and says whether it is one.
func (v *preparer) add(s *start) bool {
	r, short := v.s.feed.Reserve(s.Start)
	switch {
	case short:
		v.s.log.Info("too few volumes", "workload", s.Gang)
	case r != nil:
		v.queue.put(&preparation{r, s})
	}
	return r != nil || short
}

func (v *preparer) run(ctx context.Context) {
	sending, end := outlive(ctx)
	defer end()
	var all sync.WaitGroup
	defer all.Wait()
	for p, ok := v.queue.get(ctx); ok; p, ok = v.queue.get(ctx) {
		all.Go(func() { v.prepare(ctx, sending, p) })
	}
}

// recover gives back the devices of claims whose pods were not bound in time, each namespace by itself: requests about one may hang. It
// returns when to look again.
func (v *preparer) recover() time.Time {
	stranded, next := v.s.feed.Stranded(v.s.opts.Engine.AssumeFor)
	by := make(map[string][]cluster.DeviceWant)
	for _, w := range stranded {
		by[namespaceOf(w.Pod)] = append(by[namespaceOf(w.Pod)], w)
	}
	for _, namespace := range sortedNames(by) {
		v.queue.put(&preparation{Reservation: &cluster.Reservation{Devices: by[namespace]}})
	}
	return next
}

// prepare ends with the start on its way to the binder, or given up. When ctx ends it is left as it is.
func (v *preparer) prepare(ctx, sending context.Context, p *preparation) {
	if p.start == nil {
		v.giveBack(sending, p)
		return
	}
	// Earlier than bindings are late, so that not some of them are sent and some are not.
	began := p.start.planned
	ctx, cancel := context.WithDeadline(ctx, began.Add(v.s.opts.Engine.AssumeFor*2/5))
	defer cancel()
	failed := v.allocate(ctx, p)
	attached := false
	if failed == nil {
		attached, failed = v.attach(ctx, p)
	}
	if failed == nil && attached {
		failed = v.ask(ctx, p)
	}
	if failed == nil && attached {
		failed = v.await(ctx, p)
	}
	switch {
	case context.Cause(ctx) == context.Canceled:
	case failed == nil && !attached:
		// The claims keep their devices, so the next plan is for the same nodes and goes on waiting.
		v.s.feed.Abandon(p.Reservation)
	case failed == nil:
		v.s.log.Info("claims met", "workload", p.start.Gang, "volumes", len(p.Wants), "devices", len(p.Devices), "took", time.Since(began))
		v.s.feed.Release(p.Reservation)
		v.s.binds.send(p.start)
	default:
		sending, cancel := context.WithDeadline(sending, began.Add(v.s.opts.Engine.AssumeFor*3/4))
		defer cancel()
		v.fail(sending, p, failed)
	}
}

// attach waits until the devices of every claim are attached to their nodes, where their drivers ask for that. It is false where they are not
// by the time that ctx ends.
func (v *preparer) attach(ctx context.Context, p *preparation) (bool, *cluster.Failure) {
	told := cluster.Attaching{}
	for {
		waits, failed := v.s.feed.Attaching(p.Reservation)
		if failed != nil || waits == nil {
			return failed == nil, failed
		}
		if *waits != told {
			v.s.log.Info("devices are being attached", "workload", p.start.Gang, "claim", waits.Claim, "device", waits.Device, "condition", waits.Condition)
			v.s.reports.attaching(p.start, waits)
			told = *waits
		}
		wait := lookAgain
		if !waits.Until.IsZero() {
			wait = min(wait, time.Until(waits.Until)+time.Millisecond) // it is late by then
		}
		select {
		case <-p.Changed:
		case <-time.After(wait):
		case <-ctx.Done():
			return false, nil
		}
	}
}

// lookAgain is how long at most devices go unnoticed that are late by a clock which is not this one.
const lookAgain = 5 * time.Second

// await waits until every claim has its volume.
func (v *preparer) await(ctx context.Context, p *preparation) *cluster.Failure {
	for {
		missing, failed := v.s.feed.Progress(p.Reservation)
		if failed != nil || len(missing) == 0 {
			return failed
		}
		select {
		case <-p.Changed:
		case <-ctx.Done():
			return &cluster.Failure{Reason: "claim " + missing[0].Claim + " got no volume in time", Blamed: missing}
		}
	}
}

// fail gives the start up. The notes on claims go first: the next plan must not be held to them.
func (v *preparer) fail(ctx context.Context, p *preparation, failed *cluster.Failure) {
	v.s.log.Warn("claims", "workload", p.start.Gang, "reason", failed.Reason)
	if failed.Device != nil {
		v.s.reports.notAttached(p.start, failed.Device)
	}
	v.each(p.Wants, func(w cluster.Want) *cluster.Failure { v.takeBack(ctx, w); return nil })
	v.giveBack(ctx, p)
	refusals := 0
	for _, w := range failed.Blamed {
		refusals = max(refusals, v.s.feed.Refuse(w.Pod, w.Node, failed.Reason))
	}
	if refusals < patience {
		v.s.feed.Abandon(p.Reservation)
		return
	}
	time.AfterFunc(cluster.RefuseFor, func() { v.s.feed.Abandon(p.Reservation) })
}

// each does it for all wants, and returns one of the failures, if any.
func (v *preparer) each(wants []cluster.Want, do func(cluster.Want) *cluster.Failure) (failed *cluster.Failure) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, w := range wants {
		all.Go(func() {
			if f := do(w); f != nil {
				mu.Lock()
				defer mu.Unlock()
				failed = f
			}
		})
	}
	all.Wait()
	return failed
}
