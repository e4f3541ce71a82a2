package engine_test

import (
	gocmp "cmp"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/internal/oracle"
	"github.com/berth-dev/berth/engine/why"
)

// accepted is the state's dump without what it rejected: the world as the engine takes it.
func accepted(s *engine.State) engine.Snapshot {
	bad := map[engine.Ref]bool{}
	for _, r := range s.Rejected() {
		bad[engine.Ref{Kind: r.Kind, Key: r.Key}] = true
	}
	is := func(kind engine.Kind, key string) bool { return bad[engine.Ref{Kind: kind, Key: key}] }
	snap := s.Dump()
	snap.Nodes = slices.DeleteFunc(snap.Nodes, func(n engine.Node) bool { return is(engine.KindNode, n.Name) })
	snap.Pods = slices.DeleteFunc(snap.Pods, func(p engine.Pod) bool { return is(engine.KindPod, p.Key) })
	snap.Gangs = slices.DeleteFunc(snap.Gangs, func(g engine.Gang) bool { return is(engine.KindGang, g.Key) })
	snap.Queues = slices.DeleteFunc(snap.Queues, func(q engine.Queue) bool { return is(engine.KindQueue, q.Name) })
	return snap
}

// judged is accepted with what queues that have no place in the tree still say: how long their work runs before it may be
// evicted, when it is warned, that disruption budgets are kept, and how parts of GPUs count.
func judged(s *engine.State) engine.Snapshot {
	snap, all := accepted(s), s.Dump().Queues
	for _, q := range all {
		if !slices.ContainsFunc(snap.Queues, func(o engine.Queue) bool { return o.Name == q.Name }) {
			snap.Queues = append(snap.Queues, engine.Queue{Name: q.Name, Parent: "none", MinRun: q.MinRun, Warning: q.Warning, KeepBudgets: q.KeepBudgets, PartsBy: q.PartsBy})
		}
	}
	return snap
}

// hands carries plans out, well or badly, and lets the world move on.
type hands struct {
	state *engine.State
	now   time.Time
}

func (h *hands) version() uint64 { return h.state.Dump().Latest + 1 }

// carryOut binds some of what was planned, has some refused, and lets the rest expire.
func (h *hands) carryOut(t *rapid.T, plan engine.Plan) {
	h.state.Apply(plan.Changes...)
	for _, s := range plan.Starts {
		for _, x := range s.Placements {
			switch pick(t, "bound", "bound", "refused", "lost") {
			case "bound":
				h.bind(x)
			case "refused":
				h.refuse(x)
			}
		}
	}
	for _, e := range plan.Evictions {
		h.evict(e, pick(t, "terminates", "comes back", "is gone", "refused", "lost"))
	}
}

// evict does to a victim what the cluster may do.
func (h *hands) evict(e engine.Eviction, how string) {
	for _, p := range h.state.Dump().Pods {
		if p.Key != e.Pod {
			continue
		}
		p.Version = h.version()
		switch how {
		case "terminates":
			p.Terminating, p.ReleaseAt = true, e.At.Add(30*time.Second)
			h.state.Apply(engine.Change{Pod: &p})
		case "comes back":
			h.state.Apply(engine.Change{Gone: &engine.Ref{Kind: engine.KindPod, Key: p.Key, Version: p.Version}})
			p.Node, p.Devices, p.Started, p.UID, p.Version = "", nil, time.Time{}, p.UID+"'", p.Version+1
			h.state.Apply(engine.Change{Pod: &p})
		case "is gone":
			h.state.Apply(engine.Change{Gone: &engine.Ref{Kind: engine.KindPod, Key: p.Key, Version: p.Version}})
		case "refused":
			e.Refused, e.Version, e.Until = true, p.Version, h.now.Add(time.Minute)
			h.state.Apply(engine.Change{Eviction: &e})
		}
	}
}

func (h *hands) bind(x engine.Placement) {
	for _, p := range h.state.Dump().Pods {
		if p.Key == x.Pod {
			p.Node, p.Devices, p.Started, p.Version = x.Node, x.Devices, h.now, h.version()
			h.state.Apply(engine.Change{Pod: &p})
		}
	}
}

func (h *hands) refuse(x engine.Placement) {
	h.state.Apply(
		engine.Change{Refusal: &engine.Refusal{Pod: x.Pod, UID: x.UID, Version: h.version(), Node: x.Node, Reason: "no", Until: h.now.Add(time.Minute)}},
		engine.Change{Gone: &engine.Ref{Kind: engine.KindAssumption, Key: x.Pod, Version: h.version()}})
}

// moveOn lets time pass and something else happen.
func (h *hands) moveOn(t *rapid.T) {
	h.now = h.now.Add(pick(t, time.Second, 31*time.Second, 0))
	for range upTo(t, 3) {
		h.state.Apply(sensible([]engine.Change{anyChange(t, h.version())})...)
	}
}

// Every plan is lawful whatever happened to the ones before: nothing is over-allocated by our own doing,
// gangs start whole, quota and domains hold, memory is edited as told.
func TestPlansAreLawful(t *testing.T) {
	often(t, 5, func(t *rapid.T) {
		cfg := anyConfig(t)
		h := &hands{lived(cfg, sensible(anyHistory(t))), noon}
		for range 1 + upTo(t, 5) {
			snap, plan := accepted(h.state), h.state.Plan(h.now)
			if err := oracle.Valid(judged(h.state), cfg, h.now, plan); err != nil {
				t.Fatalf("%v\n%s\n%s", err, text(t, snap), text(t, plan))
			}
			if diff := cmp.Diff(oracle.Used(judged(h.state), cfg, h.state.Dump().Gangs), usedByQueue(h.state, judged(h.state))); diff != "" {
				t.Fatalf("what queues use (-recount +account):\n%s\n%s", diff, text(t, snap))
			}
			h.carryOut(t, plan)
			h.moveOn(t)
		}
	})
}

// usedByQueue is the state's accounts of the queues that the snapshot has.
func usedByQueue(s *engine.State, snap engine.Snapshot) map[string]map[string]int64 {
	out := map[string]map[string]int64{}
	for _, u := range s.QueueUses() {
		if slices.ContainsFunc(snap.Queues, func(q engine.Queue) bool { return q.Name == u.Name }) {
			out[u.Name] = map[string]int64{}
			for _, a := range u.Used {
				out[u.Name][a.Resource] = a.Value
				if strings.HasPrefix(a.Resource, "nvidia.com/gpu") {
					out[u.Name][a.Resource] = a.Value*1000 + a.Milli
				}
			}
		}
	}
	return out
}

// With the world standing still, and every plan carried out, the engine comes to rest: it protects the
// live scheduler from working for ever on nothing.
func TestCyclesReachAFixedPoint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := &hands{lived(anyConfig(t), anyHistory(t)), noon}
		plan, evicted := h.state.Plan(h.now), map[string]bool{}
		for range 10 {
			h.state.Apply(plan.Changes...)
			for _, s := range plan.Starts {
				for _, x := range s.Placements {
					h.bind(x)
				}
			}
			for _, e := range plan.Evictions {
				if evicted[e.Pod] {
					t.Fatalf("%s is evicted twice", e.Pod)
				}
				evicted[e.Pod] = true
				h.evict(e, "comes back")
			}
			plan = h.state.Plan(h.now)
		}
		if len(plan.Starts)+len(plan.Evictions)+len(plan.Changes) > 0 {
			t.Fatalf("still at work after ten cycles:\n%s", text(t, plan))
		}
		h.now = plan.WakeAt.Add(-time.Nanosecond)
		if later := h.state.Plan(h.now); !plan.WakeAt.IsZero() && cmp.Diff(timeless(plan), timeless(later)) != "" {
			t.Fatalf("the answer changed before WakeAt:\n%s", cmp.Diff(timeless(plan), timeless(later)))
		}
	})
}

// timeless is the plan without the moment it was made at.
func timeless(plan engine.Plan) engine.Plan {
	plan.Now = time.Time{}
	return plan
}

// Objects that make no sense are named and have no effect, told one by one or in a snapshot; the rest of
// the state works on. It protects a cluster from the one bad object in it.
func TestNonsenseIsNamedAndSetAside(t *testing.T) {
	room := engine.Resources{{Resource: gpu, Value: 2}, {Resource: engine.Pods, Value: 9}}
	minus := engine.Spec{Requests: engine.Resources{{Resource: gpu, Value: -1}}}
	badTerm := engine.Spec{Affinity: []engine.Term{{Labels: []engine.Requirement{{Key: "rack", Op: "Near", Values: []string{"0"}}}}}}
	group := func(groups ...engine.Group) *engine.Gang { return &engine.Gang{Key: "bad", Groups: groups} }
	for _, c := range []struct {
		name   string
		change engine.Change
		want   engine.Ref
	}{
		{"minimum above size", engine.Change{Gang: &engine.Gang{Key: "bad", Group: engine.Group{Min: 3, Size: 2}}}, engine.Ref{Kind: engine.KindGang, Key: "bad"}},
		{"unreadable to its caller", engine.Change{Gang: &engine.Gang{Key: "bad", Invalid: "min is \"many\""}}, engine.Ref{Kind: engine.KindGang, Key: "bad"}},
		{"negative request", engine.Change{Pod: &engine.Pod{Key: "bad", Spec: minus}}, engine.Ref{Kind: engine.KindPod, Key: "bad"}},
		{"negative allocatable", engine.Change{Node: &engine.Node{Name: "bad", Allocatable: minus.Requests}}, engine.Ref{Kind: engine.KindNode, Key: "bad"}},
		{"negative limit", engine.Change{Queue: &engine.Queue{Name: "bad", Limits: minus.Requests}}, engine.Ref{Kind: engine.KindQueue, Key: "bad"}},
		{"unknown parent", engine.Change{Gang: group(engine.Group{Name: "x", Parent: "y"})}, engine.Ref{Kind: engine.KindGang, Key: "bad"}},
		{"circle of groups", engine.Change{Gang: group(engine.Group{Name: "x", Parent: "y"}, engine.Group{Name: "y", Parent: "x"})}, engine.Ref{Kind: engine.KindGang, Key: "bad"}},
		{"group of itself", engine.Change{Gang: group(engine.Group{Name: "x", Parent: "x"})}, engine.Ref{Kind: engine.KindGang, Key: "bad"}},
		{"two groups of one name", engine.Change{Gang: group(engine.Group{Name: "x"}, engine.Group{Name: "x"})}, engine.Ref{Kind: engine.KindGang, Key: "bad"}},
		{"bad requirement", engine.Change{Pod: &engine.Pod{Key: "bad", Spec: badTerm}}, engine.Ref{Kind: engine.KindPod, Key: "bad"}},
		{"pod without a key", engine.Change{Pod: &engine.Pod{}}, engine.Ref{Kind: engine.KindPod}},
		{"node without a name", engine.Change{Node: &engine.Node{}}, engine.Ref{Kind: engine.KindNode}},
		{"gang without a key", engine.Change{Gang: &engine.Gang{}}, engine.Ref{Kind: engine.KindGang}},
		{"a device on two nodes", engine.Change{Node: &engine.Node{Name: "n1", Allocatable: room, Devices: []engine.Device{{ID: "d0"}}}}, engine.Ref{Kind: engine.KindNode, Key: "n1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			good := engine.Snapshot{
				Version: engine.SnapshotVersion,
				Nodes:   []engine.Node{{Name: "n0", Allocatable: room, Devices: []engine.Device{{ID: "d0"}, {ID: "d1"}}}},
				Pods:    []engine.Pod{{Key: "good", Spec: engine.Spec{Requests: engine.Resources{{Resource: gpu, Value: 2}}}}},
			}
			told := engine.Load(good, engine.Config{})
			if got := told.Apply(c.change); len(got) != 1 || got[0].Ref != c.want || got[0].Reason == "" {
				t.Errorf("Apply rejected %v, want %v", got, c.want)
			}
			for _, s := range []*engine.State{told, engine.Load(with(good, c.change), engine.Config{})} {
				if got := s.Rejected(); len(got) != 1 || got[0].Ref != c.want || got[0].Reason == "" {
					t.Errorf("standing rejections are %v, want %v", got, c.want)
				}
				want := []engine.Start{{Gang: "good", Kind: engine.Begin, Placements: []engine.Placement{{Pod: "good", Node: "n0", Devices: []string{"d0", "d1"}}}}}
				if diff := cmp.Diff(want, s.Plan(noon).Starts); diff != "" {
					t.Errorf("starts (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// with adds the change's object to the snapshot.
func with(snap engine.Snapshot, c engine.Change) engine.Snapshot {
	switch {
	case c.Node != nil:
		snap.Nodes = append(slices.Clip(snap.Nodes), *c.Node)
	case c.Pod != nil:
		snap.Pods = append(slices.Clip(snap.Pods), *c.Pod)
	case c.Gang != nil:
		snap.Gangs = append(slices.Clip(snap.Gangs), *c.Gang)
	case c.Queue != nil:
		snap.Queues = append(slices.Clip(snap.Queues), *c.Queue)
	}
	return snap
}

// Two contents of one name and version are said to be so, and whichever comes first the same one stays.
func TestTwoNodesOfOneName(t *testing.T) {
	small := engine.Node{Name: "n0", Version: 3, Allocatable: engine.Resources{{Resource: gpu, Value: 2}}}
	large := engine.Node{Name: "n0", Version: 3, Allocatable: engine.Resources{{Resource: gpu, Value: 8}}}
	told := lived(engine.Config{}, []engine.Change{{Node: &small}})
	got := told.Apply(engine.Change{Node: &large})
	if want := (engine.Ref{Kind: engine.KindNode, Key: "n0", Version: 3}); len(got) != 1 || got[0].Ref != want {
		t.Errorf("rejected %v, want %v", got, want)
	}
	same(t, "told the other way round", told, lived(engine.Config{}, []engine.Change{{Node: &large}, {Node: &small}}))
	for _, nodes := range [][]engine.Node{{small, large}, {large, small}} {
		loaded := engine.Load(engine.Snapshot{Version: engine.SnapshotVersion, Nodes: nodes}, engine.Config{})
		same(t, "both in one snapshot", told, loaded)
	}
}

// An object that is mended counts again, and its rejection is gone.
func TestMendedObjectCounts(t *testing.T) {
	bad := engine.Gang{Key: "g", Version: 1, Group: engine.Group{Min: 3, Size: 2}}
	mended := engine.Gang{Key: "g", Version: 2, Group: engine.Group{Min: 1}}
	node := engine.Node{Name: "n0", Version: 1, Allocatable: engine.Resources{{Resource: engine.Pods, Value: 9}}}
	pod := engine.Pod{Key: "p", Version: 1, Gang: "g"}
	s := lived(engine.Config{}, []engine.Change{{Gang: &bad}, {Node: &node}, {Pod: &pod}})
	if plan := s.Plan(noon); len(plan.Starts) > 0 || len(plan.Waiting) != 1 || plan.Waiting[0].Verdict != why.Invalid {
		t.Errorf("plan with a rejected gang:\n%s", text(t, plan))
	}
	s.Apply(engine.Change{Gang: &mended})
	if plan := s.Plan(noon); len(s.Rejected()) > 0 || len(plan.Starts) != 1 {
		t.Errorf("rejected %v, plan with the mended gang:\n%s", s.Rejected(), text(t, plan))
	}
}

// Every figure of a report equals the one counted from scratch: it protects accounts that are kept up by
// adding and subtracting from drifting.
func TestReportEqualsRecount(t *testing.T) {
	often(t, 3, func(t *rapid.T) {
		h := &hands{lived(anyConfig(t), sensible(anyHistory(t))), noon}
		for range 1 + upTo(t, 3) {
			if diff := cmp.Diff(recount(accepted(h.state)), h.state.Report()); diff != "" {
				t.Fatalf("report (-recount +report):\n%s\n%s", diff, text(t, accepted(h.state)))
			}
			h.carryOut(t, h.state.Plan(h.now))
			h.moveOn(t)
		}
	})
}

// recount makes a report of a snapshot the long way. Assumptions count until they are dropped: a report
// has no clock.
func recount(snap engine.Snapshot) (r engine.Report) {
	pools, sums := map[string]*engine.Usage{}, map[engine.Largest]int64{}
	for _, n := range snap.Nodes {
		on, size, counted := occupants(snap, n.Name), n.Allocatable.Get(gpu), int64(0)
		for _, o := range on {
			counted += o.gpus
		}
		given := counted + inParts(n, on)
		if pools[n.Pool] == nil {
			pools[n.Pool] = &engine.Usage{Pool: n.Pool}
		}
		for _, u := range []*engine.Usage{&r.All, pools[n.Pool]} {
			u.Nodes, u.GPUs, u.Allocated = u.Nodes+1, u.GPUs+size, u.Allocated+given
			if given > 0 {
				u.InUse += max(size, given)
			} else if size > 0 {
				u.FreeNodes++
			}
		}
		for model, count := range freeByModel(n, size-counted-heldOn(snap, n.Name), append(on, coming(snap, n)...)) {
			for _, place := range places(n) {
				place.Model = model
				sums[place] += count
			}
		}
	}
	delete(pools, "")
	for _, name := range slices.Sorted(maps.Keys(pools)) {
		r.Pools = append(r.Pools, *pools[name])
	}
	r.Largest = largest(sums)
	return r
}

type occupant struct {
	gpus    int64
	cards   int64 // that it has parts of
	devices []string
}

// inParts counts the cards of which parts are given away, each once, and those of pods that do not say which.
func inParts(n engine.Node, on []occupant) int64 {
	cards, unknown := map[string]bool{}, int64(0)
	for _, o := range on {
		left := o.cards
		for _, d := range n.Devices {
			if o.cards > 0 && d.Parts > 0 && slices.Contains(o.devices, d.ID) {
				cards[d.ID] = true
				left--
			}
		}
		unknown += max(0, left)
	}
	return int64(len(cards)) + unknown
}

// occupants is who is on the node, bound or assumed.
func occupants(snap engine.Snapshot, node string) (out []occupant) {
	for _, p := range snap.Pods {
		at, devices := p.Node, p.Devices
		for _, a := range snap.Assumptions {
			if p.Node == "" && !p.Terminating && !p.Foreign && a.Pod == p.Key && a.UID == p.UID {
				at, devices = a.Node, a.Devices
			}
		}
		if at == node {
			o := occupant{gpus: p.Requests.Get(gpu), devices: devices}
			if p.Part != nil {
				o.cards = int64(p.Part.Cards)
			}
			out = append(out, o)
		}
	}
	return out
}

// heldOn is the GPUs that holds keep on the node.
func heldOn(snap engine.Snapshot, node string) (total int64) {
	for _, h := range snap.Holds {
		if h.Node == node {
			total += h.Requests.Get(gpu)
		}
	}
	return total
}

// coming is who has cards held on the node, if it gives parts.
func coming(snap engine.Snapshot, n engine.Node) (out []occupant) {
	if !slices.ContainsFunc(n.Devices, func(d engine.Device) bool { return d.Parts > 0 }) {
		return nil
	}
	for _, h := range snap.Holds {
		for _, c := range h.Cards {
			if h.Node == n.Name {
				out = append(out, occupant{devices: []string{c.ID}})
			}
		}
	}
	return out
}

// freeByModel is how many GPUs of each model a job could be sure of on the node.
func freeByModel(n engine.Node, free int64, on []occupant) map[string]int64 {
	if n.Cordoned || free <= 0 {
		return nil
	}
	if len(n.Devices) == 0 {
		return map[string]int64{"": free}
	}
	silent, count := int64(0), map[string]int64{}
	for _, o := range on {
		known := int64(0)
		for _, d := range n.Devices {
			if slices.Contains(o.devices, d.ID) {
				known++
			}
		}
		silent += max(0, o.gpus+o.cards-known)
	}
	for _, d := range n.Devices {
		has := func(o occupant) bool { return slices.Contains(o.devices, d.ID) }
		if !d.Unhealthy && !slices.ContainsFunc(on, has) {
			count[d.Model]++
		}
	}
	for model := range count {
		count[model] = max(0, min(free, count[model]-silent))
	}
	return count
}

// places is the node's domains of all levels that a report is about.
func places(n engine.Node) []engine.Largest {
	out := []engine.Largest{{Level: ""}, {Level: engine.NodeLevel, Domain: n.Name}}
	path := ""
	for i, l := range levels {
		v, ok := n.Labels[l.Label]
		if path += v; ok {
			out = append(out, engine.Largest{Level: l.Name, Domain: path})
		}
		if i == 0 {
			path += "/"
		}
	}
	return out
}

// largest picks the largest domain per model and level, the first by name of equals.
func largest(sums map[engine.Largest]int64) (out []engine.Largest) {
	order := []string{"", "block", "rack", engine.NodeLevel}
	all := slices.SortedFunc(maps.Keys(sums), func(a, b engine.Largest) int {
		return gocmp.Or(gocmp.Compare(a.Model, b.Model), gocmp.Compare(slices.Index(order, a.Level), slices.Index(order, b.Level)),
			gocmp.Compare(sums[b], sums[a]), gocmp.Compare(a.Domain, b.Domain))
	})
	for _, l := range all {
		last := len(out) - 1
		if sums[l] > 0 && (last < 0 || out[last].Model != l.Model || out[last].Level != l.Level) {
			l.GPUs = sums[l]
			out = append(out, l)
		}
	}
	return out
}
