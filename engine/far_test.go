package engine_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/internal/oracle"
	"github.com/berth-dev/berth/engine/why"
)

// farWorld is two nodes that reach so many devices, and pods that want one each.
func farWorld(devices int, reach func(device, node int) string) *engine.State {
	var snap engine.Snapshot
	snap.Version = engine.SnapshotVersion
	for i := range 2 {
		n := engine.Node{Name: fmt.Sprint("n", i), Allocatable: engine.Resources{{Resource: engine.CPU, Value: 8000}, {Resource: engine.Pods, Value: 10}}}
		for d := range devices {
			if r := reach(d, i); r != "" {
				n.Offers = append(n.Offers, engine.Offer{ID: fmt.Sprint("far/", d), Selections: []string{"s"}, Reach: r})
			}
		}
		snap.Nodes = append(snap.Nodes, n)
	}
	return engine.Load(snap, engine.Config{})
}

func everyNode(int, int) string { return "all" }

// farPod wants one of the devices, on the node if it names one.
func farPod(name, node string, version uint64) *engine.Pod {
	p := &engine.Pod{Key: "ns/" + name, UID: name, Version: version}
	p.Claims = &engine.Claims{Requests: []engine.DeviceRequest{{Name: "c/r", Options: []engine.DeviceOption{{Selection: "s", Count: 1}}}}}
	if node != "" {
		p.Nodes = []string{node}
	}
	return p
}

// TestDeviceOfSeveralNodes has one device that two nodes reach: one pod gets it, on either node, and the next when it is gone.
func TestDeviceOfSeveralNodes(t *testing.T) {
	s := farWorld(1, everyNode)
	s.Apply(engine.Change{Pod: farPod("a", "n0", 1)}, engine.Change{Pod: farPod("b", "n1", 2)})
	plan := s.Plan(noon)
	if len(plan.Starts) != 1 || plan.Starts[0].Placements[0].Devices[0] != "far/0" {
		t.Fatalf("starts %+v", plan.Starts)
	}
	at := plan.Starts[0].Placements[0]
	bound, other := farPod("a", "", 3), "ns/b"
	if at.Pod == "ns/b" {
		bound, other = farPod("b", "", 3), "ns/a"
	}
	bound.Node, bound.Devices, bound.Claims = at.Node, at.Devices, nil
	s.Apply(engine.Change{Pod: bound})
	if plan := s.Plan(noon); len(plan.Starts) != 0 {
		t.Fatalf("the device is given twice: %+v", plan.Starts)
	}
	s.Apply(engine.Change{Gone: &engine.Ref{Kind: engine.KindPod, Key: bound.Key, Version: 4}})
	plan = s.Plan(noon)
	if len(plan.Starts) != 1 || plan.Starts[0].Placements[0].Pod != other {
		t.Fatalf("it is not given again: %+v", plan.Starts)
	}
}

// TestGangOfDevicesOfSeveralNodes has gangs that need as many devices as there are, and one more: what the nodes admit each does not add up.
func TestGangOfDevicesOfSeveralNodes(t *testing.T) {
	for _, c := range []struct {
		name          string
		devices, pods int
		reach         func(device, node int) string
		starts        bool
	}{
		{"as many as there are", 3, 3, everyNode, true},
		{"one more", 3, 4, everyNode, false},
		{"reached by some", 3, 3, func(d, n int) string {
			if d == 0 && n == 1 {
				return ""
			}
			return fmt.Sprint("nodes of ", min(d, 1))
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := farWorld(c.devices, c.reach)
			s.Apply(engine.Change{Gang: &engine.Gang{Key: "ns/g", Version: 1, Group: engine.Group{Size: c.pods, Min: c.pods}}})
			for i := range c.pods {
				p := farPod(fmt.Sprint("p", i), "", uint64(2+i))
				p.Gang = "ns/g"
				s.Apply(engine.Change{Pod: p})
			}
			plan := s.Plan(noon)
			if started := len(plan.Starts) == 1; started != c.starts {
				t.Fatalf("starts %+v, waits %+v", plan.Starts, plan.Waiting)
			}
			if c.starts {
				seen := make(map[string]bool)
				for _, at := range plan.Starts[0].Placements {
					if seen[at.Devices[0]] {
						t.Errorf("%s is given twice", at.Devices[0])
					}
					seen[at.Devices[0]] = true
				}
				return
			}
			t.Log(plan.Waiting[0].Gates[0].Sentence(plan.Certificates))
			if got := plan.Waiting[0].Gates[0]; got.Need != int64(c.pods) || got.Have != int64(c.devices) {
				t.Errorf("waits for %+v", got)
			}
		})
	}
}

// TestDevicesOfSeveralNodesEqualBruteForce has nodes with devices of their own and such that any of them reach, some of them held, and a gang
// that claims one or two for each member.
func TestDevicesOfSeveralNodesEqualBruteForce(t *testing.T) {
	often(t, 10, func(t *rapid.T) {
		snap := engine.Snapshot{Version: engine.SnapshotVersion}
		reaches := []int{1 + upTo(t, 6), 7, 1 + upTo(t, 6)}
		for i := range 3 {
			n := engine.Node{Name: fmt.Sprint("n", i), Allocatable: engine.Resources{{Resource: engine.CPU, Value: pick[int64](t, 1000, 2000, 4000)}, {Resource: engine.Pods, Value: 10}}}
			for d := range upTo(t, 2) {
				n.Offers = append(n.Offers, engine.Offer{ID: fmt.Sprintf("%s/%d", n.Name, d), Selections: []string{pick(t, "s", "u")}})
			}
			for d, nodes := range reaches {
				if nodes&(1<<i) != 0 {
					n.Offers = append(n.Offers, engine.Offer{ID: fmt.Sprint("far/", d), Selections: []string{[]string{"s", "s", "u"}[d]}, Reach: fmt.Sprint("nodes ", nodes)})
				}
			}
			snap.Nodes = append(snap.Nodes, n)
		}
		if seldom(t, 1) {
			snap.Pods = append(snap.Pods, engine.Pod{Key: "ns/held", UID: "held", Version: 1, Node: pick(t, "n0", "n1", "n2"), Devices: []string{pick(t, "far/0", "far/1", "far/2")}})
		}
		count := 1 + upTo(t, 3)
		snap.Gangs = []engine.Gang{{Key: "ns/g", Version: 2, Group: engine.Group{Size: count, Min: count}}}
		alike := seldom(t, 1)
		claims := func() *engine.Claims {
			return &engine.Claims{Requests: []engine.DeviceRequest{{Name: "c/r", Options: []engine.DeviceOption{{Selection: pick(t, "s", "s", "u"), Count: pick(t, 1, 1, 2)}}}}}
		}
		all := claims()
		for i := range count {
			p := farPod(fmt.Sprint("p", i), "", uint64(3+i))
			p.Gang, p.Claims, p.Requests = "ns/g", all, engine.Resources{{Resource: engine.CPU, Value: 1000}}
			if !alike {
				p.Claims = claims()
			}
			snap.Pods = append(snap.Pods, *p)
		}
		can := oracle.CanStart(snap, engine.Config{}, noon, "ns/g")
		plan := engine.Schedule(snap, noon, engine.Config{})
		if got := verdict(plan, "ns/g"); can != (got == why.Placed) {
			t.Fatalf("verdict %q, but brute force says %v\n%s\n%s", got, can, text(t, snap), text(t, plan))
		}
		if err := oracle.Valid(snap, engine.Config{}, noon, plan); err != nil {
			t.Fatalf("%v\n%s\n%s", err, text(t, snap), text(t, plan))
		}
	})
}

// TestVictimElsewhere has the only device, which two nodes reach, held on the other node, where the claimant may not be.
func TestVictimElsewhere(t *testing.T) {
	s := farWorld(1, everyNode)
	low := farPod("low", "", 1)
	low.Node, low.Devices, low.Claims, low.Evictable, low.Started = "n1", []string{"far/0"}, nil, true, noon
	high := farPod("high", "n0", 2)
	high.Priority = 10
	s.Apply(engine.Change{Pod: low}, engine.Change{Pod: high})
	plan := s.Plan(noon)
	if len(plan.Evictions) != 1 || plan.Evictions[0].Pod != "ns/low" || plan.Evictions[0].For != "ns/high" {
		t.Fatalf("evictions %+v, waits %+v", plan.Evictions, plan.Waiting)
	}
	s.Apply(plan.Changes...)
	newcomer := farPod("newcomer", "n1", 3)
	newcomer.Priority = 10
	s.Apply(engine.Change{Gone: &engine.Ref{Kind: engine.KindPod, Key: "ns/low", Version: 4}}, engine.Change{Pod: newcomer})
	plan = s.Plan(noon.Add(time.Second))
	if len(plan.Starts) != 1 || plan.Starts[0].Placements[0].Pod != "ns/high" || plan.Starts[0].Placements[0].Node != "n0" {
		t.Fatalf("starts %+v, waits %+v", plan.Starts, plan.Waiting)
	}
}

// TestVictimsElsewhereEqualBruteForce has devices of nodes and such that several reach, some of them held by work that may be evicted, and a pod that may
// be on some of the nodes: somebody is evicted for it exactly where that helps, and nobody in vain.
func TestVictimsElsewhereEqualBruteForce(t *testing.T) {
	often(t, 10, func(t *rapid.T) {
		snap := engine.Snapshot{Version: engine.SnapshotVersion}
		reaches := []int{1 + upTo(t, 6), 7}
		free := map[string]int{"far/0": reaches[0], "far/1": 7}
		for i := range 3 {
			n := engine.Node{Name: fmt.Sprint("n", i), Allocatable: engine.Resources{{Resource: engine.CPU, Value: pick[int64](t, 1000, 2000)}, {Resource: engine.Pods, Value: 10}}}
			if seldom(t, 2) {
				id := fmt.Sprintf("%s/own", n.Name)
				n.Offers, free[id] = append(n.Offers, engine.Offer{ID: id, Selections: []string{"s"}}), 1<<i
			}
			for d, nodes := range reaches {
				if nodes&(1<<i) != 0 {
					n.Offers = append(n.Offers, engine.Offer{ID: fmt.Sprint("far/", d), Selections: []string{"s"}, Reach: fmt.Sprint("nodes ", nodes)})
				}
			}
			snap.Nodes = append(snap.Nodes, n)
		}
		cpu := map[string]int64{}
		for _, id := range slices.Sorted(maps.Keys(free)) {
			at := upTo(t, 2)
			node := fmt.Sprint("n", at)
			if free[id]&(1<<at) == 0 || cpu[node]+1000 > snap.Nodes[at].Allocatable.Get(engine.CPU) || seldom(t, 3) {
				continue
			}
			cpu[node] += 1000
			p := farPod("held-"+strings.ReplaceAll(id, "/", "-"), "", uint64(len(snap.Pods)+1))
			p.Claims, p.Node, p.Devices, p.Started = nil, node, []string{id}, noon
			p.Requests = engine.Resources{{Resource: engine.CPU, Value: 1000}}
			p.Evictable, p.Priority = !seldom(t, 3), pick[int32](t, 0, 0, 20)
			snap.Pods = append(snap.Pods, *p)
		}
		want := farPod("p", "", 50)
		want.Priority, want.Requests = 10, engine.Resources{{Resource: engine.CPU, Value: 1000}}
		want.Claims.Requests[0].Options[0].Count = pick(t, 1, 1, 2)
		if mask := 1 + upTo(t, 6); mask != 7 {
			want.Nodes = []string{}
			for i := range 3 {
				if mask&(1<<i) != 0 {
					want.Nodes = append(want.Nodes, fmt.Sprint("n", i))
				}
			}
		}
		running := len(snap.Pods)
		snap.Pods = append(snap.Pods, *want)
		without := func(gone func(p *engine.Pod) bool) bool {
			rest := snap
			rest.Pods = slices.DeleteFunc(slices.Clone(snap.Pods), func(p engine.Pod) bool { return gone(&p) })
			return oracle.CanStart(rest, engine.Config{}, noon, "ns/p")
		}
		can := false
		for set := range 1 << running {
			gone := map[string]bool{}
			legal := true
			for i := range running {
				if p := &snap.Pods[i]; set&(1<<i) != 0 {
					gone[p.Key], legal = true, legal && p.Evictable && p.Priority < want.Priority
				}
			}
			can = can || legal && set > 0 && without(func(p *engine.Pod) bool { return gone[p.Key] })
		}
		starts := without(func(*engine.Pod) bool { return false })
		plan := engine.Schedule(snap, noon, engine.Config{})
		victims := map[string]bool{}
		for _, e := range plan.Evictions {
			victims[e.Pod] = true
		}
		if (len(victims) > 0) != (can && !starts) {
			t.Fatalf("victims %v, but brute force says starts %v, with evictions %v\n%s\n%s", victims, starts, can, text(t, snap), text(t, plan))
		}
		if len(victims) == 0 {
			return
		}
		for spared := range victims {
			if without(func(p *engine.Pod) bool { return victims[p.Key] && p.Key != spared }) {
				t.Fatalf("%s is evicted in vain\n%s\n%s", spared, text(t, snap), text(t, plan))
			}
		}
		if !without(func(p *engine.Pod) bool { return victims[p.Key] }) {
			t.Fatalf("%v are evicted in vain\n%s\n%s", victims, text(t, snap), text(t, plan))
		}
	})
}

// TestPromisedDevicesAreKept has devices of nodes and such that several reach, held by work that ends at known times or never, a pod that is promised a
// start, and others that come after it: whoever starts leaves it, by brute force, what it needs at that time.
func TestPromisedDevicesAreKept(t *testing.T) {
	often(t, 10, func(t *rapid.T) {
		snap := engine.Snapshot{Version: engine.SnapshotVersion}
		far := 1 + upTo(t, 6)
		ids := map[string]int{"far/0": far}
		for i := range 3 {
			n := engine.Node{Name: fmt.Sprint("n", i), Allocatable: engine.Resources{{Resource: engine.CPU, Value: 4000}, {Resource: engine.Pods, Value: 10}}}
			for d := range upTo(t, 2) {
				id := fmt.Sprintf("%s/%d", n.Name, d)
				n.Offers, ids[id] = append(n.Offers, engine.Offer{ID: id, Selections: []string{"s"}}), 1<<i
			}
			if seldom(t, 2) { // a card of two halves, or whole
				n.Counters = []engine.Counter{{Name: n.Name + "/card", Amount: 2}}
				for d, amount := range []int64{1, 1, 2} {
					id := fmt.Sprintf("%s/part-%d", n.Name, d)
					n.Offers = append(n.Offers, engine.Offer{ID: id, Selections: []string{[]string{"half", "half", "s"}[d]}, Draws: []engine.Draw{{Counter: n.Name + "/card", Amount: amount}}})
					if d == 0 {
						ids[id] = 1 << i
					}
				}
			}
			if far&(1<<i) != 0 {
				n.Offers = append(n.Offers, engine.Offer{ID: "far/0", Selections: []string{"s"}, Reach: fmt.Sprint("nodes ", far)})
			}
			snap.Nodes = append(snap.Nodes, n)
		}
		ends := map[string]time.Time{}
		lasts := func(p *engine.Pod) {
			if h := upTo(t, 3); h > 0 {
				p.Terms.Expected = hours(float64(h))
				ends[p.Key] = noon.Add(hours(float64(h)))
			}
		}
		for _, id := range slices.Sorted(maps.Keys(ids)) {
			at := upTo(t, 2)
			if ids[id]&(1<<at) == 0 {
				continue
			}
			p := farPod("old-"+strings.ReplaceAll(id, "/", "-"), "", uint64(len(snap.Pods)+1))
			p.Claims, p.Node, p.Devices, p.Started = nil, fmt.Sprint("n", at), []string{id}, noon
			lasts(p)
			snap.Pods = append(snap.Pods, *p)
		}
		asks := func(name string, version uint64) *engine.Pod {
			p := farPod(name, "", version)
			p.Claims.Requests[0].Options[0] = engine.DeviceOption{Selection: pick(t, "s", "s", "half"), Count: pick(t, 1, 1, 2)}
			if seldom(t, 2) {
				p.Nodes = []string{pick(t, "n0", "n1", "n2")}
			}
			return p
		}
		head := asks("head", 50)
		head.Priority = 10
		snap.Pods = append(snap.Pods, *head)
		for i := range 1 + upTo(t, 3) {
			p := asks(fmt.Sprint("new-", i), uint64(51+i))
			lasts(p)
			snap.Pods = append(snap.Pods, *p)
		}
		plan := engine.Schedule(snap, noon, engine.Config{})
		at := slices.IndexFunc(plan.Promises, func(p engine.Promise) bool { return p.Gang == "ns/head" })
		if at < 0 {
			return
		}
		start := plan.Promises[at].Start
		placed := map[string]engine.Placement{}
		for _, s := range plan.Starts {
			for _, p := range s.Placements {
				placed[p.Pod] = p
			}
		}
		then := snap
		then.Pods = nil
		for _, p := range snap.Pods {
			if end, ends := ends[p.Key]; ends && !end.After(start) {
				continue
			}
			if to, starts := placed[p.Key]; starts {
				p.Node, p.Devices, p.Claims, p.Started = to.Node, to.Devices, nil, noon
			} else if p.Node == "" && p.Key != "ns/head" {
				continue
			}
			then.Pods = append(then.Pods, p)
		}
		if !oracle.CanStart(then, engine.Config{}, start, "ns/head") {
			t.Fatalf("the promise of %v is not kept\n%s\n%s", start, text(t, snap), text(t, plan))
		}
	})
}
