package engine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
)

// yard is a small cluster in the making, for questions about evictions. What runs in it has run for two hours.
type yard struct {
	snap engine.Snapshot
	cfg  engine.Config
}

func newYard(nodes int, gpus int64) *yard {
	y := &yard{snap: engine.Snapshot{Version: engine.SnapshotVersion}, cfg: engine.Config{Levels: []engine.Level{{Name: "rack", Label: "rack"}}}}
	for i := range nodes {
		y.snap.Nodes = append(y.snap.Nodes, engine.Node{
			Name: fmt.Sprint("n", i), Version: 1, Labels: map[string]string{"rack": fmt.Sprint(i / 2)},
			Allocatable: engine.Resources{{Resource: gpu, Value: gpus}, {Resource: engine.Pods, Value: 20}},
		})
	}
	return y
}

func (y *yard) queue(name string, quota int64, edits ...func(*engine.Queue)) *yard {
	q := engine.Queue{Name: name, Version: 1}
	if quota >= 0 {
		q.Quota = engine.Resources{{Resource: gpu, Value: quota}}
	}
	for _, edit := range edits {
		edit(&q)
	}
	y.snap.Queues = append(y.snap.Queues, q)
	return y
}

func gpus(n int64) engine.Spec {
	return engine.Spec{Requests: engine.Resources{{Resource: gpu, Value: n}}}
}

// runs adds a pod that runs on the node.
func (y *yard) runs(key, queue, node string, n int64, edits ...func(*engine.Pod)) *yard {
	p := engine.Pod{Key: key, UID: "u", Version: 1, Queue: queue, Spec: gpus(n), Node: node, Evictable: true, Started: noon.Add(-2 * time.Hour)}
	for _, edit := range edits {
		edit(&p)
	}
	y.snap.Pods = append(y.snap.Pods, p)
	return y
}

// waits adds a pod that waits.
func (y *yard) waits(key, queue string, n int64, edits ...func(*engine.Pod)) *yard {
	return y.runs(key, queue, "", n, append([]func(*engine.Pod){func(p *engine.Pod) { p.Started, p.Created = time.Time{}, noon.Add(-time.Minute) }}, edits...)...)
}

// gang adds a gang; members on nodes run, and those on "" wait.
func (y *yard) gang(key, queue string, least int, n int64, nodes []string, edits ...func(*engine.Gang)) *yard {
	g := engine.Gang{Key: key, Version: 1, Queue: queue, Created: noon.Add(-time.Minute), Group: engine.Group{Min: least}}
	for _, edit := range edits {
		edit(&g)
	}
	y.snap.Gangs = append(y.snap.Gangs, g)
	for i, node := range nodes {
		add := y.runs
		if node == "" {
			add = func(key, queue, _ string, n int64, edits ...func(*engine.Pod)) *yard {
				return y.waits(key, queue, n, edits...)
			}
		}
		add(fmt.Sprintf("%s-%d", key, i), "", node, n, func(p *engine.Pod) { p.Gang, p.Rank = key, i })
	}
	return y
}

func (y *yard) load(t *testing.T) *engine.State {
	t.Helper()
	s := engine.Load(y.snap, y.cfg)
	if bad := s.Rejected(); len(bad) > 0 {
		t.Fatalf("rejected: %v", bad)
	}
	return s
}

func (y *yard) plan(t *testing.T) engine.Plan { t.Helper(); return y.load(t).Plan(noon) }

// victims is who is evicted, why and for whom.
func victims(plan engine.Plan) []string {
	var out []string
	for _, e := range plan.Evictions {
		out = append(out, fmt.Sprintf("%s %s for %s", e.Pod, e.Cause, e.For))
	}
	return out
}

func prio(p int32) func(*engine.Pod) { return func(o *engine.Pod) { o.Priority = p } }
func ranFor(d time.Duration) func(*engine.Pod) {
	return func(o *engine.Pod) { o.Started = noon.Add(-d) }
}
func terms(t engine.Terms) func(*engine.Pod)     { return func(o *engine.Pod) { o.Terms = t } }
func under(parent string) func(*engine.Queue)    { return func(q *engine.Queue) { q.Parent = parent } }
func budgeted(keys ...string) func(*engine.Pod)  { return func(o *engine.Pod) { o.Budgets = keys } }
func fixed(o *engine.Pod)                        { o.Evictable = false }
func minRun(d time.Duration) func(*engine.Queue) { return func(q *engine.Queue) { q.MinRun = d } }
func keepsBudgets(q *engine.Queue)               { q.KeepBudgets = true }
func keeps(q *engine.Queue)                      { q.Keeps = true }
func gangPrio(p int32) func(*engine.Gang)        { return func(g *engine.Gang) { g.Priority = p } }
func core(g *engine.Gang)                        { g.Core = true }
func inRack(g *engine.Gang)                      { g.Layout.Required = "rack" }
func limit(n int64) func(*engine.Queue) {
	return func(q *engine.Queue) { q.Limits = engine.Resources{{Resource: gpu, Value: n}} }
}

func timeshared(y *yard) *yard {
	y.cfg.Policy = engine.TimeShare
	return y
}

// Nobody is evicted where a rule protects all that could be.
func TestNobodyIsEvicted(t *testing.T) {
	for _, c := range []struct {
		name string
		yard *yard
	}{
		{"an equal of its queue", newYard(1, 2).queue("a", -1).runs("old", "a", "n0", 2).waits("new", "a", 1)},
		{"a higher priority", newYard(1, 2).queue("a", -1).runs("old", "a", "n0", 2, prio(5)).waits("new", "a", 1)},
		{"another queue's, where nothing is promised", newYard(1, 2).queue("a", -1).queue("b", -1).runs("old", "b", "n0", 2).waits("new", "a", 1, prio(5))},
		{"a queue within its quota", newYard(1, 2).queue("a", 1).queue("b", 2).runs("old", "b", "n0", 2).waits("new", "a", 1, prio(5))},
		{"for a claimant above its quota", newYard(1, 2).queue("a", 1).queue("b", 1).runs("old", "b", "n0", 2).waits("new", "a", 2, prio(5))},
		{"for a claimant whose department is above its quota", newYard(2, 2).queue("d", 1).queue("e", 2).queue("a", 2, under("d")).queue("b", 0, under("e")).
			runs("old", "b", "n0", 2).runs("other", "b", "n1", 2).waits("new", "a", 2)},
		{"what quota covers, as it has the priority", newYard(1, 4).queue("a", 2).queue("b", 2, minRun(time.Hour)).runs("first", "b", "n0", 2, prio(5)).runs("second", "b", "n0", 2, prio(1), ranFor(time.Minute)).waits("new", "a", 2)},
		{"what a queue borrows and keeps", newYard(1, 2).queue("a", 2).queue("b", 0, keeps).runs("old", "b", "n0", 2).waits("new", "a", 1, prio(5))},
		{"what it keeps, for a share", timeshared(newYard(1, 2).queue("a", -1).queue("b", -1, keeps).runs("old", "b", "n0", 1).runs("older", "b", "n0", 1).waits("new", "a", 1))},
		{"work without a queue, by a queue", newYard(1, 2).queue("a", 2).runs("old", "", "n0", 2).waits("new", "a", 1, prio(5))},
		{"a queue's, for work without one", newYard(1, 2).queue("a", 0).runs("old", "a", "n0", 2).waits("new", "", 1, prio(5))},
		{"what may not be", newYard(1, 2).queue("a", -1).runs("old", "a", "n0", 2, fixed).waits("new", "a", 1, prio(5))},
		{"what another scheduler placed", newYard(1, 2).queue("a", -1).runs("old", "a", "n0", 2, fixed, func(p *engine.Pod) { p.Foreign = true }).waits("new", "a", 1, prio(5))},
		{"young work of the queue", newYard(1, 2).queue("a", -1, minRun(time.Hour)).runs("old", "a", "n0", 2, ranFor(time.Minute)).waits("new", "a", 1, prio(5))},
		{"by one who is patient", newYard(1, 2).queue("a", -1).runs("old", "a", "n0", 2).waits("new", "a", 1, prio(5), terms(engine.Terms{Patient: true}))},
		{"by one who waits for an autoscaler", newYard(1, 2).queue("a", -1).runs("old", "a", "n0", 2).waits("new", "a", 1, prio(5), terms(engine.Terms{Delay: 2 * time.Minute}))},
		{"where it does not help", newYard(2, 2).queue("a", -1).runs("old", "a", "n0", 2).runs("other", "a", "n1", 2, prio(5)).gang("new", "a", 2, 2, []string{"", ""}, gangPrio(5))},
		{"where one domain is too small", newYard(4, 2).queue("a", -1).runs("old", "a", "n0", 2).runs("x", "a", "n1", 2, prio(5)).runs("y", "a", "n2", 2).runs("z", "a", "n3", 2, prio(5)).
			gang("new", "a", 2, 2, []string{"", ""}, gangPrio(5), inRack)},
		{"a gang's core", newYard(2, 2).queue("a", -1).gang("old", "a", 2, 2, []string{"n0", "n1"}, core).waits("new", "a", 1, prio(5))},
		{"a gang of which one may not go", newYard(2, 2).queue("a", -1).gang("old", "a", 2, 2, []string{"n0"}).runs("old-1", "", "n1", 2, fixed, func(p *engine.Pod) { p.Gang, p.Rank = "old", 1 }).waits("new", "a", 1, prio(5))},
		{"in a queue that keeps budgets", func() *yard {
			y := newYard(1, 2).queue("a", -1, keepsBudgets).runs("old", "a", "n0", 2, budgeted("pdb")).waits("new", "a", 1, prio(5))
			y.snap.Disruptions = []engine.Disruption{{Key: "pdb", Version: 1}}
			return y
		}()},
		{"what could not be a short time ago", func() *yard {
			y := newYard(1, 2).queue("a", -1).runs("old", "a", "n0", 2).waits("new", "a", 1, prio(5))
			y.snap.Evictions = []engine.Eviction{{Pod: "old", UID: "u", Version: 2, Cause: engine.Preempted, For: "new", At: noon, Until: noon.Add(time.Minute), Refused: true}}
			return y
		}()},
		{"before its promise has come", func() *yard {
			y := newYard(1, 2).queue("a", -1).runs("old", "a", "n0", 2, ranFor(time.Hour), terms(engine.Terms{Expected: time.Minute})).waits("new", "a", 1)
			y.snap.Promises = []engine.Promise{{Gang: "new", Version: 1, Since: noon.Add(-2 * time.Hour), Start: noon.Add(time.Minute)}}
			return y
		}()},
		{"what started before the promise", func() *yard {
			y := newYard(1, 2).queue("a", -1).runs("old", "a", "n0", 2, ranFor(time.Hour), terms(engine.Terms{Expected: time.Minute})).waits("new", "a", 1)
			y.snap.Promises = []engine.Promise{{Gang: "new", Version: 1, Since: noon.Add(-time.Minute), Start: noon.Add(-time.Second)}}
			return y
		}()},
		{"what is idle where that is allowed", newYard(1, 2).queue("a", -1).runs("old", "a", "n0", 2, func(p *engine.Pod) { p.Idle = noon.Add(-time.Hour) }).waits("new", "a", 1)},
		{"a queue's limit, by equals", newYard(2, 2).queue("a", -1, limit(2)).runs("old", "a", "n0", 2).waits("new", "a", 1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan := c.yard.plan(t)
			if diff := cmp.Diff([]string(nil), victims(plan)); diff != "" {
				t.Errorf("evicted (-want +got):\n%s", diff)
			}
			if len(plan.Starts) > 0 || len(plan.Waiting) != 1 || plan.Waiting[0].Cause == why.MakingRoom {
				t.Errorf("plan:\n%s", text(t, plan))
			}
		})
	}
}

// Of those that may be evicted for somebody, those are that cost least, whole gangs as gangs.
func TestWhoIsEvicted(t *testing.T) {
	idle := func(p *engine.Pod) { p.Idle = noon.Add(-time.Hour) }
	promised := func(y *yard) *yard {
		y.snap.Promises = []engine.Promise{{Gang: "new", Version: 1, Since: noon.Add(-time.Hour), Start: noon}}
		return y
	}
	budget := func(y *yard, key string, allowed int) *yard {
		y.snap.Disruptions = append(y.snap.Disruptions, engine.Disruption{Key: key, Version: 1, Allowed: allowed})
		return y
	}
	for _, c := range []struct {
		name string
		yard *yard
		want []string
	}{
		{"a lower priority of the queue", newYard(1, 2).queue("a", -1).runs("old", "a", "n0", 2).waits("new", "a", 1, prio(5)), []string{"old preempted for new"}},
		{"a lower priority where there are no queues", newYard(1, 2).runs("old", "", "n0", 2).waits("new", "", 1, prio(5)), []string{"old preempted for new"}},
		{"what was borrowed", newYard(1, 4).queue("a", 2).queue("b", 2).runs("first", "b", "n0", 2, ranFor(3*time.Hour)).runs("second", "b", "n0", 2).waits("new", "a", 2), []string{"second reclaimed for new"}},
		{"what was borrowed, whatever its priority", newYard(1, 4).queue("a", 2).queue("b", 2).runs("first", "b", "n0", 2, prio(9)).runs("second", "b", "n0", 2, prio(8)).waits("new", "a", 2, prio(-5)), []string{"second reclaimed for new"}},
		{"what was borrowed, though it ran before what may not be evicted", newYard(1, 4).queue("a", 2).queue("b", 2).runs("first", "b", "n0", 2, prio(9)).runs("second", "b", "n0", 2, fixed).waits("new", "a", 2), []string{"first reclaimed for new"}},
		{"what was borrowed from another department", newYard(1, 4).queue("d", 2).queue("e", 2).queue("a", 2, under("d")).queue("b", 9, under("e")).
			runs("first", "b", "n0", 2, ranFor(3*time.Hour)).runs("second", "b", "n0", 2).waits("new", "a", 2), []string{"second reclaimed for new"}},
		{"the cheapest", newYard(2, 2).queue("a", -1).runs("long", "a", "n0", 2).runs("short", "a", "n1", 2, ranFor(time.Minute)).waits("new", "a", 2, prio(5)), []string{"short preempted for new"}},
		{"the one that has just saved its work", newYard(2, 2).queue("a", -1).runs("short", "a", "n0", 2, ranFor(10*time.Minute)).runs("saved", "a", "n1", 2, ranFor(61*time.Minute), terms(engine.Terms{Checkpoint: time.Hour})).waits("new", "a", 2, prio(5)),
			[]string{"saved preempted for new"}},
		{"no more than needed", newYard(1, 4).queue("a", -1).runs("w", "a", "n0", 1).runs("x", "a", "n0", 1).runs("z", "a", "n0", 2).waits("new", "a", 2, prio(5)), []string{"z preempted for new"}},
		{"small ones of one node", newYard(2, 2).queue("a", -1).runs("w", "a", "n0", 1, ranFor(time.Minute)).runs("x", "a", "n1", 1, ranFor(time.Minute)).runs("y", "a", "n0", 1).runs("z", "a", "n1", 1, ranFor(time.Minute)).
			waits("new", "a", 2, prio(5)), []string{"x preempted for new", "z preempted for new"}},
		{"a gang, whole", newYard(2, 2).queue("a", -1).gang("old", "a", 2, 2, []string{"n0", "n1"}).waits("new", "a", 1, prio(5)), []string{"old-0 preempted for new", "old-1 preempted for new"}},
		{"members above the minimum, the last first", newYard(3, 2).queue("a", -1).gang("old", "a", 1, 2, []string{"n0", "n1", "n2"}).waits("new", "a", 1, prio(5)), []string{"old-2 preempted for new"}},
		{"members above the minimum, of a core", newYard(3, 2).queue("a", -1).gang("old", "a", 1, 2, []string{"n0", "n1", "n2"}, core).gang("new", "a", 2, 2, []string{"", ""}, gangPrio(5)), []string{"old-1 preempted for new", "old-2 preempted for new"}},
		{"in the domain where it helps", newYard(4, 2).queue("a", -1).runs("w", "a", "n0", 2).runs("x", "a", "n1", 2, prio(5)).runs("y", "a", "n2", 2).runs("z", "a", "n3", 2).
			gang("new", "a", 2, 2, []string{"", ""}, gangPrio(5), inRack), []string{"y preempted for new", "z preempted for new"}},
		{"where the queue's limit is in the way", newYard(2, 2).queue("a", -1, limit(2)).runs("old", "a", "n0", 2).waits("new", "a", 1, prio(5)), []string{"old preempted for new"}},
		{"what keeps budgets, though it costs more", budget(newYard(2, 2).queue("a", -1).runs("cheap", "a", "n0", 2, ranFor(time.Minute), budgeted("pdb")).runs("dear", "a", "n1", 2).waits("new", "a", 2, prio(5)), "pdb", 0), []string{"dear preempted for new"}},
		{"what breaks a budget, if nothing else will do", budget(newYard(1, 2).queue("a", -1).runs("old", "a", "n0", 2, budgeted("pdb")).waits("new", "a", 2, prio(5)), "pdb", 0), []string{"old preempted for new"}},
		{"as many as the budget allows", budget(newYard(2, 2).queue("a", -1).runs("w", "a", "n0", 1, budgeted("pdb")).runs("x", "a", "n0", 1, budgeted("pdb")).runs("y", "a", "n1", 1, budgeted("pdb")).runs("z", "a", "n1", 1).waits("new", "a", 2, prio(5)), "pdb", 1), []string{"y preempted for new", "z preempted for new"}},
		{"what ran into a promise", promised(newYard(2, 2).queue("a", -1).queue("b", -1).runs("old", "b", "n0", 2, ranFor(30*time.Minute), terms(engine.Terms{Expected: 10 * time.Minute})).runs("fair", "b", "n1", 2, ranFor(time.Minute), terms(engine.Terms{Expected: 10 * time.Minute})).waits("new", "a", 2)),
			[]string{"old overran for new"}},
		{"what is idle, for anybody", newYard(1, 2).queue("a", -1).queue("b", -1, func(q *engine.Queue) { q.ReclaimIdle = time.Minute }).runs("old", "b", "n0", 2, idle).waits("new", "a", 1), []string{"old idle for new"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan := c.yard.plan(t)
			if diff := cmp.Diff(c.want, victims(plan)); diff != "" {
				t.Errorf("evicted (-want +got):\n%s\n%s", diff, text(t, plan))
			}
			i := slices.IndexFunc(plan.Waiting, func(w engine.Waiting) bool { return w.Gang == "new" })
			if i < 0 || plan.Waiting[i].Cause != why.MakingRoom || plan.Waiting[i].Verdict != why.Blocked {
				t.Errorf("the claimant is not said to wait for room:\n%s", text(t, plan))
			}
		})
	}
}

// world carries out what is planned: evicted pods end and wait again, and what starts is bound.
type world struct {
	state   *engine.State
	now     time.Time
	evicted map[string]int
	log     []string

	turns int
	last  map[string]int // by pod and by workload: the turn in which it was last evicted
	again string         // who was evicted a second time for a workload that had not been evicted since the first
}

func (w *world) pod(key string) engine.Pod {
	for _, p := range w.state.Dump().Pods {
		if p.Key == key {
			return p
		}
	}
	return engine.Pod{}
}

func (w *world) edit(key string, change func(*engine.Pod)) {
	p := w.pod(key)
	change(&p)
	p.Version = w.state.Dump().Latest + 1
	w.state.Apply(engine.Change{Pod: &p})
}

// turn plans and carries the plan out; it reports whether anything happened.
func (w *world) turn() bool {
	w.turns++
	plan := w.state.Plan(w.now)
	w.log = append(w.log, fmt.Sprint("evicts ", victims(plan)))
	w.state.Apply(plan.Changes...)
	for _, e := range plan.Evictions {
		if before := w.last[e.Pod]; before > 0 && w.last[e.For] < before && w.again == "" {
			w.again = fmt.Sprintf("%s was evicted in turn %d and, for %s, in turn %d", e.Pod, before, e.For, w.turns)
		}
	}
	for _, s := range plan.Starts {
		w.log = append(w.log, fmt.Sprint("starts ", s.Gang, " ", s.Placements))
		for _, x := range s.Placements {
			w.edit(x.Pod, func(p *engine.Pod) { p.Node, p.Devices, p.Started = x.Node, x.Devices, w.now })
		}
	}
	for _, e := range plan.Evictions {
		w.evicted[e.Pod]++
		if w.last == nil {
			w.last = map[string]int{}
		}
		w.last[e.Pod] = w.turns
		if gang := w.pod(e.Pod).Gang; gang != "" {
			w.last[gang] = w.turns
		}
		w.edit(e.Pod, func(p *engine.Pod) { p.Node, p.Started, p.UID = "", time.Time{}, p.UID+"'" })
	}
	return len(plan.Starts)+len(plan.Evictions) > 0
}

// The place is held for the claimant until its victims are gone; meanwhile nobody else is evicted for it, and nobody else
// gets the place. Then it starts.
func TestEvictionIsSeenThrough(t *testing.T) {
	y := newYard(1, 2).queue("a", -1, func(q *engine.Queue) { q.Warning = 10 * time.Second }).runs("old", "a", "n0", 2, terms(engine.Terms{Grace: 20 * time.Second})).
		waits("new", "a", 2, prio(5)).waits("other", "a", 1, prio(1))
	s := y.load(t)
	plan := s.Plan(noon)
	want := []engine.Eviction{{Pod: "old", UID: "u", Version: 2, Cause: engine.Preempted, For: "new", At: noon.Add(10 * time.Second), Until: noon.Add(60 * time.Second)}}
	if diff := cmp.Diff(want, plan.Evictions); diff != "" {
		t.Fatalf("evictions (-want +got):\n%s", diff)
	}
	s.Apply(plan.Changes...)
	for i, at := range []time.Duration{time.Second, 20 * time.Second, 40 * time.Second} {
		w := &world{state: s}
		if i == 1 {
			w.edit("old", func(p *engine.Pod) { p.Terminating, p.ReleaseAt = true, noon.Add(30*time.Second) })
		}
		plan := s.Plan(noon.Add(at))
		if len(plan.Evictions)+len(plan.Starts) > 0 || plan.Waiting[0].Gang != "new" || plan.Waiting[0].Cause != why.MakingRoom || plan.Waiting[1].Cause == why.MakingRoom {
			t.Fatalf("after %v:\n%s", at, text(t, plan))
		}
		s.Apply(plan.Changes...)
	}
	s.Apply(engine.Change{Gone: &engine.Ref{Kind: engine.KindPod, Key: "old", Version: 1000}})
	plan = s.Plan(noon.Add(50 * time.Second))
	if len(plan.Starts) != 1 || plan.Starts[0].Gang != "new" {
		t.Fatalf("with the victim gone:\n%s", text(t, plan))
	}
	s.Apply(plan.Changes...)
	if snap := s.Dump(); len(snap.Holds)+len(snap.Evictions) > 0 {
		t.Errorf("left over: %v %v", snap.Holds, snap.Evictions)
	}
}

// An eviction that could not be carried out, or was not in time, is over: another victim is looked for.
func TestEvictionThatFails(t *testing.T) {
	y := newYard(2, 2).queue("a", -1).runs("cheap", "a", "n0", 2, ranFor(time.Minute)).runs("dear", "a", "n1", 2).waits("new", "a", 2, prio(5))
	for _, c := range []struct {
		name   string
		then   func(*engine.State)
		at     time.Duration
		want   []string
		wakeAt time.Duration
	}{
		{"under way", func(*engine.State) {}, time.Second, nil, 30 * time.Second},
		{"refused", func(s *engine.State) {
			e := s.Dump().Evictions[0]
			e.Refused, e.Until, e.Version = true, noon.Add(5*time.Minute), 100
			s.Apply(engine.Change{Eviction: &e})
		}, time.Second, []string{"dear preempted for new"}, 30 * time.Second},
		{"not seen to end", func(*engine.State) {}, 30 * time.Second, []string{"cheap preempted for new"}, 60 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := y.load(t)
			s.Apply(s.Plan(noon).Changes...)
			c.then(s)
			plan := s.Plan(noon.Add(c.at))
			if diff := cmp.Diff(c.want, victims(plan)); diff != "" {
				t.Errorf("evicted (-want +got):\n%s\n%s", diff, text(t, plan))
			}
			if got := plan.WakeAt.Sub(noon); got != c.wakeAt {
				t.Errorf("wakes after %v, want %v", got, c.wakeAt)
			}
		})
	}
}

// What protects for a time says until when: the plan wakes then.
func TestProtectionEnds(t *testing.T) {
	young := newYard(1, 2).queue("a", -1, minRun(time.Hour)).runs("old", "a", "n0", 2, ranFor(50*time.Minute)).waits("new", "a", 1, prio(5))
	delayed := newYard(1, 2).queue("a", -1).runs("old", "a", "n0", 2).waits("new", "a", 1, prio(5), terms(engine.Terms{Delay: 11 * time.Minute}))
	idle := newYard(1, 2).queue("a", -1, func(q *engine.Queue) { q.ReclaimIdle = time.Hour }).runs("old", "a", "n0", 2, func(p *engine.Pod) { p.Idle = noon.Add(-50 * time.Minute) }).waits("new", "a", 1)
	for name, y := range map[string]*yard{"young": young, "delayed": delayed, "idle": idle} {
		s := y.load(t)
		for now := noon; now.Before(noon.Add(10 * time.Minute)); {
			plan := s.Plan(now)
			if got := victims(plan); len(got) > 0 || !plan.WakeAt.After(now) || plan.WakeAt.After(noon.Add(10*time.Minute)) {
				t.Fatalf("%s: at %v evicts %v and wakes at %v", name, now, got, plan.WakeAt)
			}
			s.Apply(plan.Changes...)
			now = plan.WakeAt
		}
		if got := victims(s.Plan(noon.Add(10 * time.Minute))); len(got) != 1 {
			t.Errorf("%s: evicts %v once it may", name, got)
		}
	}
}

// Two claims of one cycle have two victims, and a victim's gang does not grow in the cycle that ends it.
func TestClaimsDoNotShareVictims(t *testing.T) {
	y := newYard(2, 2).queue("a", -1).runs("w", "a", "n0", 2).runs("x", "a", "n1", 2).waits("new-1", "a", 2, prio(5)).waits("new-2", "a", 2, prio(5))
	if diff := cmp.Diff([]string{"x preempted for new-1", "w preempted for new-2"}, victims(y.plan(t))); diff != "" {
		t.Errorf("evicted (-want +got):\n%s", diff)
	}
	y = newYard(2, 2).queue("a", -1).gang("old", "a", 2, 1, []string{"n0", "n0", ""}).runs("x", "a", "n1", 1, prio(9)).waits("new", "a", 2, prio(5))
	plan := y.plan(t)
	if diff := cmp.Diff([]string{"old-0 preempted for new", "old-1 preempted for new"}, victims(plan)); diff != "" || len(plan.Starts) > 0 {
		t.Errorf("evicted (-want +got):\n%s\n%s", diff, text(t, plan))
	}
}

// Where what leaves already will do nobody is evicted, and the place is held for who could have asked for it.
func TestWhatLeavesWillDo(t *testing.T) {
	y := newYard(1, 2).queue("a", -1).runs("old", "a", "n0", 1).runs("gone", "a", "n0", 1, func(p *engine.Pod) { p.Terminating, p.ReleaseAt = true, noon.Add(time.Minute) }).waits("new", "a", 1, prio(5))
	plan := y.plan(t)
	want := []engine.Change{{Hold: &engine.Hold{Gang: "new", Version: 2, Node: "n0", Requests: engine.Resources{{Resource: gpu, Value: 1}, {Resource: engine.Pods, Value: 1}}, Until: noon.Add(90 * time.Second)}}}
	got := slices.DeleteFunc(plan.Changes, func(c engine.Change) bool { return c.Hold == nil })
	if diff := cmp.Diff(want, got); diff != "" || len(plan.Evictions) > 0 || plan.Waiting[0].Cause != why.MakingRoom {
		t.Errorf("changes (-want +got):\n%s\n%s", diff, text(t, plan))
	}
}

// What is lent of one GPU model is refused, as of one flavor: nobody counts what there is of it.
func TestLendOfAModelIsRefused(t *testing.T) {
	for resource, want := range map[string]bool{gpu: false, engine.OfModel(gpu, "H100"): true, engine.OfFlavor(gpu, "spot"): true} {
		amounts := engine.Resources{{Resource: resource, Value: 2}}
		s := engine.Load(newYard(1, 4).queue("q", -1, func(q *engine.Queue) { q.Quota, q.Lend = amounts, amounts }).snap, engine.Config{})
		if got := len(s.Rejected()) > 0; got != want {
			t.Errorf("lend of %s: refused %v (%v)", resource, got, s.Rejected())
		}
	}
}

// A workload that fails to have others evicted says nothing of one for which a place is held: what is held counts in its queue already.
func TestHeldPlaceIsNotAsked(t *testing.T) {
	node := engine.Node{Name: "n", Version: 1, Allocatable: slices.Concat(gpus(8).Requests, engine.Resources{{Resource: engine.Pods, Value: 100}})}
	pod := func(key, queue string, created time.Time) engine.Pod {
		return engine.Pod{Key: key, UID: "u", Version: 1, Queue: queue, Created: created, Evictable: true, Spec: gpus(8)}
	}
	runs := pod("borrower", "lent", noon.Add(-2*time.Hour))
	runs.Node, runs.Started = "n", noon.Add(-time.Hour)
	snap := engine.Snapshot{
		Version: engine.SnapshotVersion, Nodes: []engine.Node{node},
		Queues: []engine.Queue{{Name: "owed", Version: 1, Quota: gpus(8).Requests}, {Name: "lent", Version: 1}},
		Pods:   []engine.Pod{runs, pod("held", "owed", noon.Add(-time.Minute))},
		Holds:  []engine.Hold{{Gang: "held", Version: 1, Node: "n", Requests: gpus(8).Requests, Until: noon.Add(10 * time.Minute)}},
	}
	for _, before := range []string{"", "older"} {
		if before != "" {
			snap.Pods = append(snap.Pods, pod(before, "owed", noon.Add(-time.Hour)))
		}
		plan := engine.Schedule(snap, noon, engine.Config{})
		if len(plan.Evictions) != 1 || plan.Evictions[0].For != "held" {
			t.Errorf("behind %q:\n%s", before, engine.Describe(plan))
		}
	}
}
