package oracle

import (
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
	for _, s := range plan.Starts {
		if err := w.start(s); err != nil {
			return fmt.Errorf("start of %s: %w", s.Gang, err)
		}
	}
	return w.remembered(plan)
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

// start carries one start out, checking every step.
func (w *world) start(s engine.Start) error {
	g, ok := w.gang[s.Gang]
	if !ok {
		return fmt.Errorf("no such gang")
	}
	if want := w.kind(g); s.Kind != want {
		return fmt.Errorf("is a %s, not a %s", want, s.Kind)
	}
	if models := w.models(g); s.Model != "" && !slices.Contains(models, s.Model) {
		return fmt.Errorf("model %s is none of %v", s.Model, models)
	}
	waiting, last := w.waiting(s.Gang), -1
	var started []engine.Pod
	for _, x := range s.Placements {
		i := slices.IndexFunc(waiting, func(p engine.Pod) bool { return p.Key == x.Pod && p.UID == x.UID })
		if i <= last {
			return fmt.Errorf("%s does not wait, or is out of order", x.Pod)
		}
		n, ok := w.node[x.Node]
		if !ok {
			return fmt.Errorf("no node %s", x.Node)
		}
		p := waiting[i]
		if len(p.Features) > 0 {
			return fmt.Errorf("%s asks for %v", p.Key, p.Features)
		}
		if err := w.bar(p, n, x.Devices, s.Model); err != nil {
			return fmt.Errorf("%s: %w", p.Key, err)
		}
		w.at[p.Key] = spot{x.Node, x.Devices}
		started, last = append(started, p), i
	}
	return w.lawful(g, started)
}

// kind is what a start would be to the gang as it is now.
func (w *world) kind(g engine.Gang) engine.StartKind {
	switch members := w.members(g, g.Group); {
	case len(w.up(members)) == 0:
		return engine.Begin
	case w.full(g, g.Group):
		return engine.Grow
	}
	return engine.Repair
}

// remembered checks the plan's edits of memory: afterwards it holds what was live, an assumption for each
// placement and nothing else. WakeAt is when the first of what was live ends.
func (w *world) remembered(plan engine.Plan) error {
	want, first := w.liveMemory(), time.Time{}
	for _, until := range want {
		if first.IsZero() || until.Before(first) {
			first = until
		}
	}
	if !plan.WakeAt.Equal(first) {
		return fmt.Errorf("wakes at %v, want %v", plan.WakeAt, first)
	}
	for _, s := range plan.Starts {
		for _, x := range s.Placements {
			want[ref(engine.KindAssumption, x.Pod)] = w.now.Add(gocmp.Or(w.cfg.AssumeFor, 30*time.Second))
		}
	}
	got := memory(w.Snapshot)
	for _, c := range plan.Changes {
		switch {
		case c.Assumption != nil && c.Assumption.Version > w.Latest:
			got[ref(engine.KindAssumption, c.Assumption.Pod)] = c.Assumption.Until
		case c.Gone != nil:
			delete(got, ref(c.Gone.Kind, c.Gone.Key))
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
	was := newWorld(w.Snapshot, w.cfg, w.now)
	s := engine.Snapshot{
		Assumptions: slices.DeleteFunc(slices.Clone(w.Assumptions), func(a engine.Assumption) bool { return !was.live(a) }),
		Refusals:    slices.DeleteFunc(slices.Clone(w.Refusals), func(r engine.Refusal) bool { return !was.counts(r) }),
		Holds:       slices.DeleteFunc(slices.Clone(w.Holds), func(h engine.Hold) bool { return !was.stands(h) }),
	}
	return memory(s)
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
