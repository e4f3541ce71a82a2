package oracle

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/berth-dev/berth/engine"
)

// evictions checks everything that a plan ends: each victim may be taken, for a cause that is true, by itself; and all
// of them together leave gangs, and budgets that are kept, whole.
func (w *world) evictions(plan engine.Plan) error {
	seen := map[string]bool{}
	for _, e := range plan.Evictions {
		if seen[e.Pod] {
			return fmt.Errorf("eviction of %s: twice", e.Pod)
		}
		seen[e.Pod] = true
		if err := w.eviction(plan, e); err != nil {
			return fmt.Errorf("eviction of %s (%s for %q): %w", e.Pod, e.Cause, e.For, err)
		}
	}
	if err := w.leftWhole(plan); err != nil {
		return err
	}
	return w.budgetsKept(plan)
}

// forOthers are the causes that take a place for another workload.
var forOthers = []engine.EvictionCause{engine.Reclaimed, engine.Preempted, engine.Shared, engine.Overran}

// ofAnybody are the causes for which work ends that may not be evicted for others.
var ofAnybody = []engine.EvictionCause{engine.MaxRun, engine.Broken, engine.Booked, engine.Drained}

func (w *world) eviction(plan engine.Plan, e engine.Eviction) error {
	p, known := w.pod[e.Pod]
	others := slices.Contains(forOthers, e.Cause)
	switch {
	case !known || p.UID != e.UID:
		return errors.New("no such pod")
	case p.Node == "" || p.Foreign || p.Terminating:
		return errors.New("it is not bound by us, or on its way out")
	case some(w.Evictions, func(o engine.Eviction) bool { return o.Pod == e.Pod && o.UID == e.UID && w.now.Before(o.Until) }):
		return errors.New("it is being evicted, or could not be")
	case !p.Evictable && !slices.Contains(ofAnybody, e.Cause):
		return errors.New("it may not be evicted")
	case e.At.Before(w.now) || !e.Until.After(e.At):
		return fmt.Errorf("at %v until %v", e.At, e.Until)
	case others && e.For == "":
		return errors.New("nobody gets the place")
	case (others || e.Cause == engine.Moved) && w.young(p):
		return errors.New("it has not run for its minimum")
	case w.cfg.Policy == engine.FIFO && e.For != "":
		return errors.New("policy fifo evicts nobody for others")
	case e.Surge && (e.Cause != engine.Moved || !p.Surges || p.Gang != "" && p.Gang != p.Key || e.To == "" || e.To == p.Node):
		return fmt.Errorf("it cannot stay until the next one runs on %q", e.To)
	}
	if e.For == "" {
		return nil
	}
	return w.beneficiary(plan, e, p)
}

// young says whether the pod's workload is within its minimum run time.
func (w *world) young(p engine.Pod) bool {
	least := w.minRun(w.gang[p.Gang].Queue)
	return !p.Started.IsZero() && w.now.Sub(p.Started) < least
}

// beneficiary checks that the workload which gets the place waits, may have others evicted, has the place held for it, and is
// entitled to it.
func (w *world) beneficiary(plan engine.Plan, e engine.Eviction, victim engine.Pod) error {
	g, from := w.gang[e.For], w.gang[victim.Gang]
	held := func(h engine.Hold) bool { return h.Gang == e.For && w.now.Before(h.Until) }
	switch {
	case e.For == victim.Gang:
		return errors.New("it is its own victim")
	case !some(plan.Waiting, func(x engine.Waiting) bool { return x.Gang == e.For }):
		return errors.New("the beneficiary does not wait")
	case g.Terms.Patient:
		return errors.New("nobody is stopped for the beneficiary")
	case g.Terms.Delay > 0 && w.now.Before(g.Created.Add(g.Terms.Delay)):
		return errors.New("the beneficiary is to wait first")
	case !some(plan.Changes, func(c engine.Change) bool { return c.Hold != nil && held(*c.Hold) }):
		return errors.New("the place is not held")
	case e.Cause == engine.Preempted && (g.Queue != from.Queue || g.Priority <= from.Priority):
		return fmt.Errorf("priority %d of queue %q against %d of queue %q", g.Priority, g.Queue, from.Priority, from.Queue)
	case slices.Contains([]engine.EvictionCause{engine.Reclaimed, engine.Shared}, e.Cause) && w.keeps(from.Queue):
		return fmt.Errorf("queue %s keeps what it borrows", from.Queue)
	case e.Cause == engine.Shared && w.cfg.Policy != engine.TimeShare:
		return errors.New("policy " + string(w.cfg.Policy) + " evicts no equals")
	case e.Cause == engine.Reclaimed:
		return w.reclaimed(plan, g, from)
	}
	return nil
}

// keeps says whether the queue is not asked for what it borrows.
func (w *world) keeps(name string) bool {
	q, _ := w.queue(name)
	return q.Keeps
}

// reclaimed checks that the victim's side holds more than it was promised, with what starts in the same plan, and that the claimant's stays within that.
func (w *world) reclaimed(plan engine.Plan, g, from engine.Gang) error {
	claimant, lender := w.siblings(g.Queue, from.Queue)
	if lender.Name != "" {
		if claimant.Name == lender.Name {
			return fmt.Errorf("queue %s takes from itself", lender.Name)
		}
		after := w.with(plan.Starts)
		used := after.charges(after.charged(lender.Name))
		payer, _ := w.queue(from.Queue)
		first := w.decidedBy(plan, firstFor(plan, g.Key)-1)
		over := func(a engine.Amount) bool {
			// What is held counts, too, also what the plan holds before it makes room for this claimant.
			has := max(used[a.Resource], w.committed(lender.Name, a.Resource, ""), first.committed(lender.Name, a.Resource, ""))
			return w.promised(a.Resource) && w.covers(payer, a.Resource) && has > amount(lender.Quota, a.Resource)
		}
		if !some(w.resources(), over) {
			return fmt.Errorf("queue %s has no more than its quota", lender.Name)
		}
	}
	// What was decided for the claimant or before it counts: victims of its own queue make way in its quota too.
	then := w.decidedBy(plan, lastFor(plan, g.Key))
	for _, a := range w.resources() {
		var takes int64
		for _, c := range plan.Changes {
			if c.Hold != nil && c.Hold.Gang == g.Key {
				takes += w.billOf(*c.Hold)[a.Resource]
			}
		}
		if has := then.committed(claimant.Name, a.Resource, g.Key) + takes; w.promised(a.Resource) && takes > 0 && has > amount(claimant.Quota, a.Resource) {
			return fmt.Errorf("queue %s would have %d of %s", claimant.Name, has, a.Resource)
		}
	}
	return nil
}

// firstFor is the version of the plan's first eviction for the gang.
func firstFor(plan engine.Plan, gang string) (version uint64) {
	for _, e := range plan.Evictions {
		if e.For == gang && (version == 0 || e.Version < version) {
			version = e.Version
		}
	}
	return version
}

// lastFor is the version of the plan's last eviction for the gang.
func lastFor(plan engine.Plan, gang string) (version uint64) {
	for _, e := range plan.Evictions {
		if e.For == gang {
			version = max(version, e.Version)
		}
	}
	return version
}

// decidedBy is the world with what the plan changes up to a version carried out, in its order: starts, evictions, and places
// that are held or no longer held. Pods that are moved come back, and count where they are.
func (w *world) decidedBy(plan engine.Plan, version uint64) *world {
	after := *w
	after.at, after.Evictions, after.Holds = maps.Clone(w.at), slices.Clip(w.Evictions), slices.Clip(w.Holds)
	for _, c := range plan.Changes {
		if ref, ok := c.Ref(); ok && ref.Version > version {
			break
		}
		switch {
		case c.Assumption != nil:
			after.at[c.Assumption.Pod] = spot{c.Assumption.Node, c.Assumption.Devices}
		case c.Eviction != nil && c.Eviction.Cause != engine.Moved:
			after.Evictions = append(after.Evictions, *c.Eviction)
		case c.Hold != nil && !c.Hold.Coming:
			after.Holds = append(after.Holds, *c.Hold)
		case c.Gone != nil && c.Gone.Kind == engine.KindHold:
			after.Holds = filter(after.Holds, func(h engine.Hold) bool { return place(h).Key != c.Gone.Key })
		}
	}
	return &after
}

// with is the world with the starts carried out.
func (w *world) with(starts []engine.Start) *world {
	after := *w
	after.at = maps.Clone(w.at)
	for _, s := range starts {
		for _, x := range s.Placements {
			after.at[x.Pod] = spot{x.Node, x.Devices}
		}
	}
	return &after
}

// without is the world with the evictions carried out: a pod that is evicted is no longer a member of its gang, like any pod
// that is on its way out.
func (w *world) without(evicted []engine.Eviction) *world {
	after := *w
	after.at, after.was = maps.Clone(w.at), maps.Clone(w.was)
	for _, e := range evicted {
		delete(after.at, e.Pod)
		delete(after.was, e.Pod)
	}
	after.Pods = filter(w.Pods, func(p engine.Pod) bool { return !some(evicted, func(e engine.Eviction) bool { return e.Pod == p.Key }) })
	return &after
}

// leaving says whether the pod is on its way out.
func (w *world) leaving(p engine.Pod) bool {
	return w.sentAway(p) || w.timeIsUp(p)
}

// sentAway says whether the pod was on its way out before the plan was made.
func (w *world) sentAway(p engine.Pod) bool {
	return p.Terminating || p.Node != "" && some(w.Evictions, func(e engine.Eviction) bool {
		return e.Pod == p.Key && e.UID == p.UID && !e.Refused && w.now.Before(e.Until)
	})
}

// frozen says whether nothing of the pod's queue is evicted, whatever the cause.
func (w *world) frozen(p engine.Pod) bool {
	queue := p.Queue
	if p.Gang != "" {
		queue = w.gang[p.Gang].Queue
	}
	up, _ := w.chain(queue)
	return some(up, func(q engine.Queue) bool { return q.Frozen })
}

// timeIsUp says whether the pod's workload has run for as long as it may, so that the plan ends it before all else.
func (w *world) timeIsUp(p engine.Pod) bool {
	terms := p.Terms
	if p.Gang != "" {
		terms = w.gang[p.Gang].Terms
	}
	tried := some(w.Evictions, func(e engine.Eviction) bool { return e.Pod == p.Key && e.UID == p.UID && w.now.Before(e.Until) })
	if p.Node == "" || p.Foreign || terms.Max == 0 || tried || w.frozen(p) {
		return false
	}
	first := p.Started
	for _, m := range w.Pods {
		if m.Gang == "" || m.Gang != p.Gang || m.Foreign || w.sentAway(m) {
			continue
		}
		at := m.Started
		if m.Node == "" {
			i := slices.IndexFunc(w.Assumptions, func(a engine.Assumption) bool { return a.Pod == m.Key && w.live(a) })
			if i < 0 {
				continue
			}
			at = w.Assumptions[i].Until.Add(-cmp.Or(w.cfg.AssumeFor, 30*time.Second))
		}
		if at.IsZero() {
			return false
		}
		if at.Before(first) {
			first = at
		}
	}
	return !first.IsZero() && !w.now.Before(first.Add(terms.Max))
}

// resources is one amount of each resource that queues are promised.
func (w *world) resources() (out engine.Resources) {
	for _, q := range w.Queues {
		for _, a := range q.Quota {
			if !some(out, func(o engine.Amount) bool { return o.Resource == a.Resource }) {
				out = append(out, a)
			}
		}
	}
	return out
}

// leftWhole checks that a gang that had its minimum has it still, or is evicted whole. Members that are moved come back,
// those whose time is up go one by one, and those on booked nodes leave a gang to be repaired elsewhere. A core is kept from others,
// and not from the end of its queue.
func (w *world) leftWhole(plan engine.Plan) error {
	gone := map[string]bool{}
	for _, e := range plan.Evictions {
		gone[e.Pod] = e.Cause != engine.Moved && e.Cause != engine.MaxRun && e.Cause != engine.Booked
	}
	for _, e := range plan.Evictions {
		g := w.gang[w.pod[e.Pod].Gang]
		if !gone[e.Pod] || !w.full(g, g.Group) {
			continue
		}
		after := *w
		after.at = map[string]spot{}
		left := 0
		for _, p := range w.up(w.members(g, g.Group)) {
			if !gone[p.Key] && !w.leaving(p) {
				after.at[p.Key] = w.at[p.Key]
				left++
			}
		}
		if g.Whole && left > 0 {
			return fmt.Errorf("gang %s is evicted whole or not at all, and is left with %d members", g.Key, left)
		}
		for _, group := range g.Groups {
			if members := w.up(w.members(g, group)); group.Whole && len(members) > 0 {
				if stay := len(after.up(members)); stay > 0 && stay < len(members) {
					return fmt.Errorf("group %s of gang %s is evicted whole or not at all, and is left with %d members", group.Name, g.Key, stay)
				}
			}
		}
		if full := after.full(g, g.Group); !full && (left > 0 || g.Core && e.Cause != engine.Drained) {
			return fmt.Errorf("gang %s is left with %d members, under its minimum", g.Key, left)
		}
	}
	return nil
}

// budgetsKept checks that no more pods go than disruption budgets allow: never for moves, nor where the queue says so.
func (w *world) budgetsKept(plan engine.Plan) error {
	for _, d := range w.Disruptions {
		strict, moved := 0, 0
		for _, e := range plan.Evictions {
			p := w.pod[e.Pod]
			q, _ := w.queue(w.gang[p.Gang].Queue)
			if !slices.Contains(p.Budgets, d.Key) {
				continue
			}
			switch {
			case e.Surge: // another is ready before it goes
			case e.Cause == engine.Moved:
				moved++
			case q.KeepBudgets && slices.Contains(forOthers, e.Cause):
				strict++
			}
		}
		if n := strict + moved; n > max(0, d.Allowed) {
			return fmt.Errorf("disruption budget %s allows %d, and %d go", d.Key, d.Allowed, n)
		}
	}
	return nil
}

// promises checks that each is to a workload that waits, from now or before on, and that new ones are remembered.
func (w *world) promises(plan engine.Plan) error {
	seen := map[string]bool{}
	for _, p := range plan.Promises {
		switch {
		case seen[p.Gang]:
			return fmt.Errorf("promise to %s: twice", p.Gang)
		case p.Since.After(w.now):
			return fmt.Errorf("promise to %s: since %v", p.Gang, p.Since)
		case !slices.IsSorted(p.Nodes):
			return fmt.Errorf("promise to %s: nodes %v are not in order", p.Gang, p.Nodes)
		case !some(plan.Waiting, func(x engine.Waiting) bool { return x.Gang == p.Gang }):
			return fmt.Errorf("promise to %s, which does not wait", p.Gang)
		}
		seen[p.Gang] = true
		same := func(o engine.Promise) bool {
			return o.Gang == p.Gang && o.Version == p.Version && o.Start.Equal(p.Start)
		}
		if !some(w.Promises, same) && !some(plan.Changes, func(c engine.Change) bool { return c.Promise != nil && same(*c.Promise) }) {
			return fmt.Errorf("promise to %s is not remembered", p.Gang)
		}
	}
	return nil
}

// noted checks that the plan's evictions are its edits of memory about evictions, and that edits come in order.
func (w *world) noted(plan engine.Plan) error {
	last := w.Latest
	var evicted []engine.Eviction
	for _, c := range plan.Changes {
		ref, is := c.Ref()
		if !is {
			continue
		}
		if ref.Version <= last {
			return fmt.Errorf("%s %s has version %d after %d", ref.Kind, ref.Key, ref.Version, last)
		}
		last = ref.Version
		if c.Eviction != nil {
			evicted = append(evicted, *c.Eviction)
		}
	}
	byPod := func(a, b engine.Eviction) int { return cmp.Compare(a.Pod, b.Pod) }
	want := slices.SortedFunc(slices.Values(plan.Evictions), byPod)
	slices.SortFunc(evicted, byPod)
	if !slices.Equal(want, evicted) {
		return fmt.Errorf("evicts %v and remembers %v", want, evicted)
	}
	return nil
}
