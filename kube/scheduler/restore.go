package scheduler

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/cluster"
	"github.com/berth-dev/berth/kube/convert"
	"github.com/berth-dev/berth/kube/report"
)

// restore gives the engine back, before the first plan, what the scheduler before this one had decided and not finished:
// evictions, by the conditions of their victims, and the places kept, by those of the pods that wait for them.
func (s *scheduler) restore(now time.Time) {
	v := s.evicts
	v.mu.Lock()
	defer v.mu.Unlock()
	free := make(map[string]time.Time) // when a node has the room that is being made on it, at the latest
	for _, m := range s.feed.Pods() {
		p := m.Object
		if p.Spec.NodeName == "" {
			continue
		}
		if p.DeletionTimestamp != nil {
			free[p.Spec.NodeName] = later(free[p.Spec.NodeName], p.DeletionTimestamp.Time)
			continue
		}
		if s, ok := convert.SurgeOf(p); ok {
			free[p.Spec.NodeName] = later(free[p.Spec.NodeName], v.restoreSurge(m, s, now))
			continue
		}
		said, ok := report.EvictionOf(p)
		switch {
		case ok && (said.Surge || said.Cause == engine.Broken), !ok && report.Evicted(p):
			// No place is held any more, or a version before wrote what cannot be read, or it is seen anew whether a gang is under its
			// minimum: it is decided anew.
			v.later(keyOf(p), once(func(ctx context.Context) { v.takeBack(ctx, p) }))
			continue
		case !ok:
			continue
		}
		e := engine.Eviction{
			Pod: m.Key, UID: string(p.UID), Cause: said.Cause, For: s.marked(said.For), At: said.At.UTC(),
			Until: later(now, said.At).Add(graceOf(p) + s.opts.Engine.AssumeFor).UTC(),
		}
		free[p.Spec.NodeName] = later(free[p.Spec.NodeName], e.Until)
		if kept := v.enter(e, nil); kept != nil {
			kept.said, kept.warned = said, true // what the pod says stands
			s.inbox.Put(engine.Change{Eviction: &e})
		}
	}
	for _, m := range s.feed.Pods() {
		if m.Waiting() && cluster.PlaceHeld(m.Object) {
			v.restoreHold(m, later(now, free[m.Object.Status.NominatedNodeName]).Add(s.opts.Engine.AssumeFor))
		}
	}
}

// restoreHold takes the pod's nomination for part of a hold.
func (v *evictor) restoreHold(m cluster.Pod, until time.Time) {
	node := m.Object.Status.NominatedNodeName
	named := namedBy(m.Object, node)
	v.holds.nominated[m.Key] = nomination{pod: m.Key, gang: m.Workload, node: node, uid: m.Object.UID, named: named}
	h := v.holds.held[m.Workload][node]
	h.Gang, h.Node, h.Until = m.Workload, node, until.Round(0).UTC()
	h.Requests = plus(plus(h.Requests, m.Requests), engine.Resources{{Resource: engine.Pods, Value: 1}})
	h.Cards, h.Devices, h.Claimed = slices.Concat(h.Cards, named.Cards), slices.Concat(h.Devices, named.Devices), h.Claimed+named.Claimed
	insert(v.holds.held, m.Workload, node, h)
	v.s.inbox.Put(engine.Change{Hold: &h})
}

// namedBy is what the pod says of what is held by name on the node: nothing where that makes no sense, since any
// client that may write the pod's status may have written it.
func namedBy(p *corev1.Pod, node string) report.Named {
	held, ok := report.HeldOf(p)
	if !ok || held.Node != node || len(held.Cards)+len(held.Devices) > mostNamed || held.Claimed > mostNamed*engine.Whole {
		return report.Named{}
	}
	h := engine.Hold{Gang: keyOf(p), Node: node, Cards: held.Cards, Devices: held.Devices, Claimed: held.Claimed}
	if h.Check() != "" {
		return report.Named{}
	}
	return held.Named
}

// plus returns the sum.
func plus(a, b engine.Resources) engine.Resources {
	out := append(engine.Resources(nil), a...)
	for _, more := range b {
		found := false
		for i := range out {
			if out[i].Resource == more.Resource {
				out[i].Value += more.Value
				found = true
			}
		}
		if !found {
			out = append(out, more)
		}
	}
	return out
}

func graceOf(p *corev1.Pod) time.Duration {
	if s := p.Spec.TerminationGracePeriodSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return corev1.DefaultTerminationGracePeriodSeconds * time.Second
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
