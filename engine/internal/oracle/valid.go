package oracle

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	gocmp "cmp"

	"github.com/berth-dev/berth/engine"
)

// Valid says what is unlawful about a plan made from the snapshot at that time; nil: nothing. The snapshot
// holds no rejected objects.
func Valid(snap engine.Snapshot, cfg engine.Config, now time.Time, plan engine.Plan) error {
	w := newWorld(snap, cfg, now)
	if err := w.heard(plan); err != nil {
		return err
	}
	if err := w.remembered(plan); err != nil {
		return err
	}
	for _, check := range []func(engine.Plan) error{w.noted, w.evictions, w.promises} {
		if err := check(plan); err != nil {
			return err
		}
	}
	w.Holds = filter(w.Holds, func(h engine.Hold) bool {
		return !some(plan.Changes, func(c engine.Change) bool {
			return c.Gone != nil && c.Gone.Key == h.Gang+"@"+h.Node && w.outbid(plan, c.Gone)
		})
	})
	w.plan = &plan
	for _, s := range plan.Starts {
		if err := w.start(s, plan.Evictions); err != nil {
			return fmt.Errorf("start of %s: %w", s.Gang, err)
		}
	}
	return nil
}

// heard checks that every gang with waiting members either starts or is told why it waits.
func (w *world) heard(plan engine.Plan) error {
	answers := map[string]int{}
	for _, s := range plan.Starts {
		answers[s.Gang] = 1
	}
	for _, x := range plan.Waiting {
		answers[x.Gang]++
	}
	for _, p := range w.Pods {
		if key := p.Gang; len(w.waiting(key)) > 0 && answers[key] != 1 {
			return fmt.Errorf("gang %s waits and has %d answers", key, answers[key])
		}
	}
	return nil
}

// start carries one start out, checking every step. Holds of the gang have served. Of a gang that is evicted in the same plan
// others may begin anew.
func (w *world) start(s engine.Start, evicted []engine.Eviction) error {
	g, ok := w.gang[s.Gang]
	if !ok {
		return errors.New("no such gang")
	}
	if want := w.kind(g); s.Kind != want && s.Kind != w.without(evicted).kind(g) {
		return fmt.Errorf("is a %s, not a %s", want, s.Kind)
	}
	if models := w.models(g); s.Model != "" && !slices.Equal(models, []string{""}) && !slices.Contains(models, s.Model) {
		return fmt.Errorf("model %s is none of %v", s.Model, models)
	}
	w.was = maps.Clone(w.at)
	waiting, last, ruled := w.waiting(s.Gang), -1, w.ruled()
	for _, x := range s.Placements {
		i := slices.IndexFunc(waiting, func(p engine.Pod) bool { return p.Key == x.Pod && p.UID == x.UID })
		if i <= last {
			return fmt.Errorf("%s does not wait, or is out of order", x.Pod)
		}
		last = i
		if ruled {
			continue
		}
		if err := w.place(waiting[i], x, s.Model); err != nil {
			return fmt.Errorf("%s on %s: %w", x.Pod, x.Node, err)
		}
	}
	if ruled {
		if err := w.placeInAnyOrder(waiting, s.Placements, s.Model); err != nil {
			return err
		}
	}
	if broken := w.overdraft(g); broken != "" {
		return fmt.Errorf("breaks %s", broken)
	}
	if broken := w.mixture(g); broken != "" && w.without(evicted).mixture(g) != "" {
		return fmt.Errorf("breaks %s", broken)
	}
	if broken := w.disorder(g); broken != "" && w.without(evicted).disorder(g) != "" {
		return fmt.Errorf("breaks %s", broken)
	}
	mine := w.claimed(w.Holds, s.Gang)
	w.Holds = filter(w.Holds, func(h engine.Hold) bool { return !mine[place(h)] })
	return nil
}

// place carries one placement out, if the pod may be there, with these devices or any like them.
func (w *world) place(p engine.Pod, x engine.Placement, model string) error {
	n, ok := w.node[x.Node]
	p = w.given(p, n)
	free := names(w.usable(p, n, model))
	if claimsOn(p, n) != nil {
		free = append(free, slices.Concat(w.offers(p, n)...)...)
	}
	if p.Part != nil {
		free = append(free, names(filter(n.Devices, func(d engine.Device) bool { return w.lack(p, n, d, model) == "" }))...)
	}
	kinds := func(ids []string) (out []string) {
		for _, d := range filter(n.Devices, func(d engine.Device) bool { return slices.Contains(ids, d.ID) }) {
			kind := fmt.Sprint(d.Model, d.Clique, d.NUMA)
			if p.Part != nil {
				kind = w.cardKind(n, d)
			}
			out = append(out, kind)
		}
		for _, o := range n.Offers {
			for range filter(ids, func(id string) bool { return deviceOf(id) == o.ID }) {
				out = append(out, offerKind(o))
			}
		}
		slices.Sort(out)
		return out
	}
	switch {
	case !ok:
		return errors.New("no such node")
	case len(p.Features) > 0 || !w.hasGroup(p):
		return fmt.Errorf("it asks for %v in group %q", p.Features, p.Subgroup)
	case !w.fits(p, n):
		return errors.New("it does not fit")
	case some(x.Devices, func(id string) bool { return !slices.Contains(free, id) }):
		return fmt.Errorf("devices %v are not all free", x.Devices)
	case !some(w.choices(p, n, model), func(ids []string) bool {
		return slices.Equal(kinds(ids), kinds(x.Devices)) && len(ids) == len(x.Devices)
	}):
		return fmt.Errorf("devices %v are not what it asks for", x.Devices)
	}
	w.at[p.Key] = spot{x.Node, x.Devices}
	return nil
}

// hasGroup says whether the pod's subgroup exists and is a leaf.
func (w *world) hasGroup(p engine.Pod) bool {
	groups := w.gang[p.Gang].Groups
	return !some(groups, func(g engine.Group) bool { return g.Parent == p.Subgroup }) &&
		(p.Subgroup == "" || some(groups, func(g engine.Group) bool { return g.Name == p.Subgroup }))
}

// kind is what a start would be to the gang as it is now.
func (w *world) kind(g engine.Gang) engine.StartKind {
	switch {
	case len(w.up(w.members(g, g.Group))) == 0:
		return engine.Begin
	case w.full(g, g.Group):
		return engine.Grow
	}
	return engine.Repair
}

// outbid says whether somebody who goes before the one that the place was held for has it now, or what its queue is allowed: of the same queue and a
// higher priority, or of another that is promised something, or under timeshare has a share.
func (w *world) outbid(plan engine.Plan, gone *engine.Ref) bool {
	i := slices.IndexFunc(w.Holds, func(h engine.Hold) bool { return gone.Kind == engine.KindHold && h.Gang+"@"+h.Node == gone.Key })
	if i < 0 {
		return false
	}
	old := w.gang[w.Holds[i].Gang]
	before := func(key string) bool {
		g := w.gang[key]
		if g.Queue == old.Queue {
			return g.Priority > old.Priority
		}
		q, _ := w.queue(g.Queue)
		return len(q.Quota) > 0 || w.cfg.Policy == engine.TimeShare
	}
	return some(plan.Changes, func(c engine.Change) bool {
		// It has another place instead, or its replacement has: a pod may use what is held for its owner, and gives that up.
		return c.Hold != nil && w.claimed(w.Holds, c.Hold.Gang)[place(w.Holds[i])]
	}) || some(plan.Changes, func(c engine.Change) bool {
		return c.Hold != nil && c.Hold.Gang != old.Key && before(c.Hold.Gang) && (c.Hold.Node == w.Holds[i].Node || w.compete(c.Hold.Gang, old.Key))
	}) || some(plan.Starts, func(s engine.Start) bool {
		return before(s.Gang) && (w.compete(s.Gang, old.Key) || some(s.Placements, func(p engine.Placement) bool { return p.Node == w.Holds[i].Node }))
	})
}

// compete says whether what is held for one of the gangs can keep the other from starting on any node: a queue of both has
// a limit, some queue does not lend all of its quota, or a pod of one of them has rules about others.
func (w *world) compete(a, b string) bool {
	ruled := func(p engine.Pod) bool { return (p.Gang == a || p.Gang == b) && hasRules(p) }
	lends := func(q engine.Queue) bool { return len(q.Lend) > 0 }
	limits := func(q engine.Queue) bool {
		return len(q.Limits)+len(q.UserLimits)+q.MaxRunning > 0 && w.below(w.gang[b].Queue, q.Name)
	}
	up, _ := w.chain(w.gang[a].Queue)
	return some(w.Pods, ruled) || some(w.Queues, lends) || some(up, limits)
}

// remembered checks the plan's edits of memory: afterwards it holds what was live, less the holds of gangs
// that start, an assumption for each placement, holds for workloads that wait, and nothing else. WakeAt is no later than the
// end of the first of what was live. What is remembered of evictions, promises, usage and run-time estimates is not of this kind.
func (w *world) remembered(plan engine.Plan) error {
	want, first := w.liveMemory(), time.Time{}
	//archtest:any-order the first of all
	for _, until := range want {
		if first.IsZero() || until.Before(first) {
			first = until
		}
	}
	if late := plan.WakeAt.IsZero() || plan.WakeAt.After(first); !first.IsZero() && late || !plan.WakeAt.IsZero() && !plan.WakeAt.After(w.now) {
		return fmt.Errorf("wakes at %v, want %v or before, and after now", plan.WakeAt, first)
	}
	holds := w.Holds
	for _, s := range plan.Starts {
		mine := w.claimed(holds, s.Gang)
		for at := range mine {
			delete(want, at)
		}
		holds = filter(holds, func(h engine.Hold) bool { return !mine[place(h)] })
		for _, x := range s.Placements {
			want[ref(engine.KindAssumption, x.Pod)] = w.now.Add(gocmp.Or(w.cfg.AssumeFor, 30*time.Second))
		}
	}
	got := memory(w.Snapshot)
	for _, c := range plan.Changes {
		switch {
		case c.Assumption != nil && c.Assumption.Version > w.Latest:
			got[ref(engine.KindAssumption, c.Assumption.Pod)] = c.Assumption.Until
		case c.Hold != nil && w.stands(*c.Hold):
			got[ref(engine.KindHold, c.Hold.Gang+"@"+c.Hold.Node)] = c.Hold.Until
			want[ref(engine.KindHold, c.Hold.Gang+"@"+c.Hold.Node)] = c.Hold.Until
		case c.Eviction != nil, c.Promise != nil, c.Usage != nil, c.RunTimeEstimate != nil, c.Degradation != nil, c.RequestMix != nil:
		case c.Gone != nil:
			delete(got, ref(c.Gone.Kind, c.Gone.Key))
			if w.outbid(plan, c.Gone) {
				delete(want, ref(c.Gone.Kind, c.Gone.Key))
			}
		default:
			return fmt.Errorf("not an edit of memory that counts: %+v", c)
		}
	}
	if !maps.EqualFunc(want, got, time.Time.Equal) {
		return fmt.Errorf("memory would be %v, want %v", got, want)
	}
	return nil
}

// liveMemory is the snapshot's memory without what is stale.
func (w *world) liveMemory() map[engine.Ref]time.Time {
	return memory(engine.Snapshot{
		Assumptions: filter(w.Assumptions, w.live), Refusals: filter(w.Refusals, w.counts), Holds: filter(w.Holds, w.stands),
	})
}

// memory is when each piece of memory ends, by kind and key.
func memory(s engine.Snapshot) map[engine.Ref]time.Time {
	m := map[engine.Ref]time.Time{}
	for _, a := range s.Assumptions {
		m[ref(engine.KindAssumption, a.Pod)] = a.Until
	}
	for _, r := range s.Refusals {
		m[ref(engine.KindRefusal, r.Pod+"@"+r.Node)] = r.Until
	}
	for _, h := range s.Holds {
		m[ref(engine.KindHold, h.Gang+"@"+h.Node)] = h.Until
	}
	return m
}

func ref(kind engine.Kind, key string) engine.Ref { return engine.Ref{Kind: kind, Key: key} }
