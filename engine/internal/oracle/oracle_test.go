package oracle

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
)

const gpu = "nvidia.com/gpu"

var noon = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

// pair is two racks of one node each, with four GPUs and ten places for pods a node.
func pair() engine.Snapshot {
	node := func(name, rack string) engine.Node {
		return engine.Node{Name: name, Labels: map[string]string{"rack": rack}, Allocatable: engine.Resources{{Resource: gpu, Value: 4}, {Resource: engine.Pods, Value: 10}}}
	}
	return engine.Snapshot{Nodes: []engine.Node{node("a", "0"), node("b", "1")}}
}

// gang adds a gang of as many members as there are numbers, each asking for so many GPUs.
func gang(snap engine.Snapshot, group engine.Group, gpus ...int64) engine.Snapshot {
	snap.Gangs = append(snap.Gangs, engine.Gang{Key: "g", Group: group})
	for i, n := range gpus {
		snap.Pods = append(snap.Pods, engine.Pod{Key: "g-" + string(rune('0'+i)), Gang: "g", Rank: i, Spec: engine.Spec{Requests: engine.Resources{{Resource: gpu, Value: n}}}})
	}
	return snap
}

// The oracle itself is held to cases small enough to be decided by hand.
func TestCanStart(t *testing.T) {
	rack := engine.Layout{Required: "rack"}
	edit := func(snap engine.Snapshot, change func(*engine.Snapshot)) engine.Snapshot { change(&snap); return snap }
	for _, c := range []struct {
		name string
		snap engine.Snapshot
		want bool
	}{
		{"eight single GPUs fill both nodes", gang(pair(), engine.Group{}, 1, 1, 2, 4), true},
		{"nine do not fit", gang(pair(), engine.Group{}, 1, 1, 1, 2, 4), false},
		{"three of three on two nodes of four", gang(pair(), engine.Group{}, 3, 3, 3), false},
		{"two of the three are enough", gang(pair(), engine.Group{Min: 2}, 3, 3, 3), true},
		{"fewer exist than the minimum", gang(pair(), engine.Group{Min: 2}, 1), false},
		{"fewer exist than the size", gang(pair(), engine.Group{Size: 2}, 1), false},
		{"one rack holds four", gang(pair(), engine.Group{Layout: rack}, 2, 2), true},
		{"and not five", gang(pair(), engine.Group{Layout: rack}, 2, 3), false},
		{"segments of two, each in a rack", gang(pair(), engine.Group{Layout: engine.Layout{Segment: 2, SegmentLevel: "rack"}}, 2, 2, 2, 2), true},
		{"segments follow the ranks", gang(pair(), engine.Group{Layout: engine.Layout{Segment: 2, SegmentLevel: "rack"}}, 3, 2, 1, 2), false},
		{"no such level", gang(pair(), engine.Group{Layout: engine.Layout{Required: "moon"}}, 1), false},
		{"a member that runs pins the rack", edit(gang(pair(), engine.Group{Layout: rack}, 4, 1), func(s *engine.Snapshot) { s.Pods[0].Node = "a" }), false},
		{"a whole node has no room for others", edit(gang(pair(), engine.Group{Layout: engine.Layout{WholeNodes: true}}, 1, 4), func(s *engine.Snapshot) {
			s.Pods = append(s.Pods, engine.Pod{Key: "other", Node: "a", Spec: engine.Spec{Requests: engine.Resources{{Resource: gpu, Value: 1}}}})
		}), false},
		{"a refusal bars the node for the whole gang", edit(gang(pair(), engine.Group{}, 4, 4), func(s *engine.Snapshot) {
			s.Refusals = []engine.Refusal{{Pod: "g-0", Node: "a", Until: noon.Add(1)}}
		}), false},
		{"a refusal ends at its moment", edit(gang(pair(), engine.Group{}, 4, 4), func(s *engine.Snapshot) {
			s.Refusals = []engine.Refusal{{Pod: "g-0", Node: "a", Until: noon}}
		}), true},
		{"a hold of others takes room", edit(gang(pair(), engine.Group{}, 4, 4), func(s *engine.Snapshot) {
			s.Pods = append(s.Pods, engine.Pod{Key: "other"})
			s.Holds = []engine.Hold{{Gang: "other", Node: "a", Requests: engine.Resources{{Resource: gpu, Value: 1}}, Until: noon.Add(1)}}
		}), false},
		{"the queue's limit", edit(gang(pair(), engine.Group{}, 2, 2), func(s *engine.Snapshot) {
			s.Gangs[0].Queue, s.Queues = "q", []engine.Queue{{Name: "q", Limits: engine.Resources{{Resource: gpu, Value: 3}}}}
		}), false},
	} {
		if got := CanStart(c.snap, engine.Config{}, noon, "g"); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// Devices are chosen so that the gang fits, not the first free ones: taking the clique apart for the
// single GPU would leave the pair without one.
func TestCanStartChoosesDevices(t *testing.T) {
	snap := gang(pair(), engine.Group{Layout: engine.Layout{Required: engine.NodeLevel}}, 1, 2)
	snap.Pods[1].GPU.Clique = engine.Require
	snap.Nodes = snap.Nodes[:1]
	snap.Nodes[0].Devices = []engine.Device{{ID: "d0", Clique: "c"}, {ID: "d1", Clique: "c"}, {ID: "d2"}, {ID: "d3", Clique: "c", Unhealthy: true}}
	if !CanStart(snap, engine.Config{}, noon, "g") {
		t.Error("the single GPU may take the device outside the clique")
	}
	snap.Nodes[0].Devices[2].Unhealthy = true
	if CanStart(snap, engine.Config{}, noon, "g") {
		t.Error("two healthy devices are not three")
	}
}

// A lawful plan passes, and each way to break it is named.
func TestValid(t *testing.T) {
	snap := gang(pair(), engine.Group{Layout: engine.Layout{Required: "rack"}}, 2, 2)
	until := noon.Add(30 * time.Second)
	plan := func(nodes ...string) engine.Plan {
		p := engine.Plan{Now: noon, Starts: []engine.Start{{Gang: "g", Kind: engine.Begin}}}
		for i, n := range nodes {
			key := snap.Pods[i].Key
			p.Starts[0].Placements = append(p.Starts[0].Placements, engine.Placement{Pod: key, Node: n})
			p.Changes = append(p.Changes, engine.Change{Assumption: &engine.Assumption{Pod: key, Node: n, Version: uint64(i + 1), Until: until}})
		}
		return p
	}
	early, kind := plan("a", "a"), plan("a", "a")
	early.WakeAt = noon
	kind.Starts[0].Kind = engine.Grow
	forgetful := plan("a", "a")
	forgetful.Changes = forgetful.Changes[:1]
	for _, c := range []struct {
		name string
		plan engine.Plan
		want string
	}{
		{"lawful", plan("a", "a"), ""},
		{"half a gang", plan("a"), "minimum of group"},
		{"two racks", plan("a", "b"), "required rack"},
		{"no such node", plan("a", "z"), "no such node"},
		{"wrong kind", kind, "is a begin"},
		{"nobody heard", engine.Plan{}, "has 0 answers"},
		{"assumption missing", forgetful, "memory would be"},
		{"wakes at once", early, "wakes at"},
	} {
		err := Valid(snap, engine.Config{}, noon, c.plan)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// A certificate made by hand passes, and each wrong number in it is found.
func TestCheck(t *testing.T) {
	snap := gang(pair(), engine.Group{Layout: engine.Layout{Required: "rack"}}, 3, 3)
	snap.Pods = append(snap.Pods, engine.Pod{Key: "other", Node: "a", Evictable: true, Spec: engine.Spec{Requests: engine.Resources{{Resource: gpu, Value: 2}}}})
	certificate := func(wrong func(*why.Certificate)) why.Certificate {
		c := why.Certificate{
			Need: 2, Level: "rack", Request: []why.Amount{{Resource: gpu, Value: 3}}, Total: 1, IfEvicted: 1,
			Domains: []why.Domain{
				{Name: "0", Rows: []why.Row{{Nodes: 1, Example: "a", Short: []why.Short{{Resource: gpu, Nodes: 1, By: 1}}}}},
				{Name: "1", Fits: 1, Rows: []why.Row{{Nodes: 1, Fits: 1, Example: "b"}}},
			},
			Classes: []why.Class{{Allocatable: snap.Nodes[0].Allocatable, PerEmpty: 1}},
		}
		wrong(&c)
		return c
	}
	for _, c := range []struct {
		name  string
		wrong func(*why.Certificate)
		want  string
	}{
		{"true", func(*why.Certificate) {}, ""},
		{"needs less", func(c *why.Certificate) { c.Need = 1 }, "needs 1"},
		{"anywhere", func(c *why.Certificate) { c.Level = "" }, "in one domain of"},
		{"another model", func(c *why.Certificate) { c.Model = "A" }, "no waiting member"},
		{"a node less", func(c *why.Certificate) { c.Domains = c.Domains[1:] }, "nodes like"},
		{"a shortage less", func(c *why.Certificate) { c.Domains[0].Rows[0].Short = nil }, "nodes like"},
		{"a wrong sum", func(c *why.Certificate) { c.Domains[1].Fits = 0 }, "its rows say"},
		{"a wrong total", func(c *why.Certificate) { c.Total = 2 }, "total 2"},
		{"a bound too low", func(c *why.Certificate) { c.IfEvicted = 0 }, "would hold 1"},
		{"out of order", func(c *why.Certificate) { c.Domains[0], c.Domains[1] = c.Domains[1], c.Domains[0] }, "not in order"},
	} {
		err := Check(snap, engine.Config{}, noon, "g", certificate(c.wrong))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	snap.Nodes[1].Allocatable = engine.Resources{{Resource: gpu, Value: 8}, {Resource: engine.Pods, Value: 10}}
	if err := Check(snap, engine.Config{}, noon, "g", certificate(func(*why.Certificate) {})); err == nil {
		t.Error("a certificate of another world passes")
	}
}

// A lawful reclaim passes, and each way to break it is named.
func TestValidEvictions(t *testing.T) {
	const gpu = "nvidia.com/gpu"
	gpus := func(n int64) engine.Resources { return engine.Resources{{Resource: gpu, Value: n}} }
	pod := func(key, queue, node string) engine.Pod {
		return engine.Pod{Key: key, Queue: queue, Node: node, Evictable: node != "", Spec: engine.Spec{Requests: gpus(1)}}
	}
	type world struct {
		snap engine.Snapshot
		plan engine.Plan
		cfg  engine.Config
	}
	fresh := func() *world {
		e := engine.Eviction{Pod: "b-0", Version: 1, Cause: engine.Reclaimed, For: "a-0", At: noon, Until: noon.Add(time.Minute)}
		hold := engine.Hold{Gang: "a-0", Version: 2, Node: "n", Requests: gpus(1), Until: noon.Add(time.Minute)}
		return &world{
			snap: engine.Snapshot{
				Nodes:  []engine.Node{{Name: "n", Allocatable: append(gpus(2), engine.Amount{Resource: engine.Pods, Value: 9})}},
				Queues: []engine.Queue{{Name: "a", Quota: gpus(1)}, {Name: "b", Quota: gpus(1)}},
				Pods:   []engine.Pod{pod("a-0", "a", ""), pod("b-0", "b", "n"), pod("b-1", "b", "n")},
			},
			plan: engine.Plan{
				Now: noon, Evictions: []engine.Eviction{e}, Waiting: []engine.Waiting{{Gang: "a-0"}},
				Changes: []engine.Change{{Eviction: &e}, {Hold: &hold}},
			},
		}
	}
	for _, c := range []struct {
		name  string
		spoil func(*world)
		want  string
	}{
		{"lawful", func(*world) {}, ""},
		{"not evictable", func(w *world) { w.snap.Pods[1].Evictable = false }, "may not be evicted"},
		{"on its way out", func(w *world) { w.snap.Pods[1].Terminating = true }, "on its way out"},
		{"another scheduler's", func(w *world) { w.snap.Pods[1].Foreign = true }, "not bound by us"},
		{"young", func(w *world) { w.snap.Queues[1].MinRun = time.Hour; w.snap.Pods[1].Started = noon.Add(-time.Minute) }, "minimum"},
		{"lender within quota", func(w *world) { w.snap.Queues[1].Quota = gpus(2) }, "no more than its quota"},
		{"lender above quota with what starts", func(w *world) {
			w.snap.Nodes[0].Allocatable[0].Value, w.snap.Queues[1].Quota, w.snap.Pods = 3, gpus(2), append(w.snap.Pods, pod("b-2", "b", ""))
			w.snap.Pods[3].Evictable = true
			w.plan.Starts = []engine.Start{{Gang: "b-2", Kind: engine.Begin, Placements: []engine.Placement{{Pod: "b-2", Node: "n"}}}}
			w.plan.Changes = append(w.plan.Changes, engine.Change{Assumption: &engine.Assumption{Pod: "b-2", Version: 3, Node: "n", Until: noon.Add(30 * time.Second)}})
		}, ""},
		{"claimant beyond quota", func(w *world) { w.snap.Queues[0].Quota = gpus(0) }, "would have 1"},
		{"claimant beyond quota but for what left for a booking before", func(w *world) {
			first := engine.Eviction{Pod: "a-1", Version: 1, Cause: engine.Booked, At: noon, Until: noon.Add(time.Minute)}
			w.snap.Pods = append(w.snap.Pods, pod("a-1", "a", "n"))
			w.plan.Evictions[0].Version, w.plan.Changes[0].Eviction.Version, w.plan.Changes[1].Hold.Version = 2, 2, 3
			w.plan.Evictions, w.plan.Changes = append(w.plan.Evictions, first), append([]engine.Change{{Eviction: &first}}, w.plan.Changes...)
		}, ""},
		{"claimant beyond quota but for what is preempted for it", func(w *world) {
			own := engine.Eviction{Pod: "a-1", Version: 3, Cause: engine.Preempted, For: "a-0", At: noon, Until: noon.Add(time.Minute)}
			w.snap.Pods = append(w.snap.Pods, pod("a-1", "a", "n"))
			w.snap.Pods[0].Priority = 1
			w.plan.Evictions, w.plan.Changes = append(w.plan.Evictions, own), append(w.plan.Changes, engine.Change{Eviction: &own})
		}, ""},
		{"claimant beyond quota but for what leaves after", func(w *world) {
			late := engine.Eviction{Pod: "a-1", Version: 3, Cause: engine.Booked, At: noon, Until: noon.Add(time.Minute)}
			w.snap.Pods = append(w.snap.Pods, pod("a-1", "a", "n"))
			w.plan.Evictions, w.plan.Changes = append(w.plan.Evictions, late), append(w.plan.Changes, engine.Change{Eviction: &late})
		}, "would have 2"},
		{"claimant beyond quota with what is held", func(w *world) {
			w.snap.Pods = append(w.snap.Pods, pod("a-1", "a", ""))
			w.snap.Holds = []engine.Hold{{Gang: "a-1", Node: "n", Requests: gpus(1), Until: noon.Add(time.Minute)}}
			w.plan.Waiting, w.plan.WakeAt = append(w.plan.Waiting, engine.Waiting{Gang: "a-1"}), noon.Add(time.Minute)
		}, "would have 2"},
		{"claimant beyond quota but for what is held no longer", func(w *world) {
			w.snap.Pods = append(w.snap.Pods, pod("a-1", "a", ""))
			w.snap.Pods[0].Priority = 1
			w.snap.Holds = []engine.Hold{{Gang: "a-1", Node: "n", Requests: gpus(1), Until: noon.Add(time.Minute)}}
			w.plan.Waiting = append(w.plan.Waiting, engine.Waiting{Gang: "a-1"})
			w.plan.WakeAt = noon.Add(time.Minute)
			w.plan.Changes = append([]engine.Change{{Gone: &engine.Ref{Kind: engine.KindHold, Key: "a-1@n"}}}, w.plan.Changes...)
		}, ""},
		{"fifo", func(w *world) { w.cfg.Policy = engine.FIFO }, "fifo"},
		{"patient", func(w *world) { w.snap.Pods[0].Terms.Patient = true }, "nobody is stopped"},
		{"not held", func(w *world) { w.plan.Changes = w.plan.Changes[:1] }, "not held"},
		{"not remembered", func(w *world) { w.plan.Changes = w.plan.Changes[1:] }, "and remembers"},
		{"no lower priority", func(w *world) {
			w.plan.Evictions[0].Cause, w.plan.Changes[0].Eviction.Cause, w.snap.Pods[1].Queue = engine.Preempted, engine.Preempted, "a"
		}, "priority 0"},
		{"budget kept", func(w *world) {
			w.snap.Pods[1].Budgets, w.snap.Disruptions, w.snap.Queues[1].KeepBudgets = []string{"d"}, []engine.Disruption{{Key: "d"}}, true
		}, "disruption budget d"},
		{"half a gang", func(w *world) {
			w.snap.Pods[1].Gang, w.snap.Pods[2].Gang = "b", "b"
			w.snap.Gangs = []engine.Gang{{Key: "b", Queue: "b"}}
		}, "under its minimum"},
	} {
		w := fresh()
		c.spoil(w)
		err := Valid(w.snap, w.cfg, noon, w.plan)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
