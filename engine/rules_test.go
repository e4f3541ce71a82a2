package engine_test

import (
	"fmt"
	"math/bits"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/internal/oracle"
	"github.com/berth-dev/berth/engine/why"
)

const hostname = "kubernetes.io/hostname"

// anyPodLabels is few labels of few values, so that selectors match some pods and not others.
func anyPodLabels(t *rapid.T) map[string]string {
	return pick(t, map[string]string{"app": "x"}, map[string]string{"app": "y"}, map[string]string{"app": "x", "tier": "db"}, nil)
}

func anySelector(t *rapid.T) []engine.Requirement {
	x := engine.Requirement{Key: "app", Op: engine.In, Values: []string{"x"}}
	return pick(t,
		[]engine.Requirement{x}, []engine.Requirement{x},
		[]engine.Requirement{{Key: "app", Op: pick(t, engine.In, engine.NotIn), Values: []string{"x", "z"}}},
		[]engine.Requirement{x, {Key: "tier", Op: pick(t, engine.Exists, engine.DoesNotExist)}},
		[]engine.Requirement{{Key: "app", Op: engine.NotIn, Values: []string{"x"}}},
		[]engine.Requirement{}, nil)
}

func anyPodTerm(t *rapid.T) engine.PodTerm {
	return engine.PodTerm{
		Topology:   pick(t, "rack", hostname, "block", "nowhere"),
		Namespaces: pick(t, []string{"a"}, nil, []string{"a", "b"}, []string{"b"}, []string{}), Labels: anySelector(t),
	}
}

func anySpread(t *rapid.T) engine.Spread {
	return engine.Spread{
		Topology: pick(t, "rack", hostname, "block", "disk"), Namespace: pick(t, "a", "a", "a", "b"), Labels: anySelector(t), MaxSkew: pick[int32](t, 1, 1, 2),
		MinDomains: pick[int32](t, 0, 0, 0, 2, 3), AnyNode: seldom(t, 1), Untainted: seldom(t, 1), Soft: seldom(t, 3),
	}
}

// inAnyNamespace is a rule that reads as the other does.
func inAnyNamespace(p engine.PodTerm) engine.PodTerm {
	p.Namespaces = nil
	return p
}

// again seldom states the first of the rules twice, or once more as one that reads alike.
func again[R any](t *rapid.T, rules []R, alike func(R) R) []R {
	if len(rules) == 0 || !seldom(t, 2) {
		return rules
	}
	twin := rules[0]
	if seldom(t, 1) {
		twin = alike(twin)
	}
	return append(rules, twin)
}

// anyRules gives the spec rules between pods.
func anyRules(t *rapid.T, s *engine.Spec) {
	var r engine.PodRules
	for seldom(t, 2) {
		r.PodAffinity = append(r.PodAffinity, anyPodTerm(t))
	}
	for seldom(t, 1) {
		r.PodAntiAffinity = append(r.PodAntiAffinity, anyPodTerm(t))
	}
	for seldom(t, 1) {
		r.Spread = append(r.Spread, anySpread(t))
	}
	r.PodAffinity, r.PodAntiAffinity = again(t, r.PodAffinity, inAnyNamespace), again(t, r.PodAntiAffinity, inAnyNamespace)
	r.Spread = again(t, r.Spread, func(s engine.Spread) engine.Spread { s.MinDomains = 0; return s })
	for seldom(t, 2) {
		r.PodPreferred = append(r.PodPreferred, engine.PodPreference{Weight: pick[int32](t, 100, 1, -1, -100), PodTerm: anyPodTerm(t)})
	}
	if s.PodRules = nil; r.Any() {
		s.PodRules = &r
	}
}

// anyRuledCase is a cluster whose pods have rules, with a gang that waits.
func anyRuledCase(t *rapid.T, cfg engine.Config) (engine.Snapshot, string) {
	snap := engine.Snapshot{Version: engine.SnapshotVersion}
	taken := map[string]bool{}
	for i := range 2 + upTo(t, 3) {
		n := anyNode(t, fmt.Sprintf("n%d", i))
		n.Labels[hostname] = n.Name
		if seldom(t, 4) {
			n.Labels[hostname] = "n0"
		}
		if seldom(t, 4) {
			delete(n.Labels, hostname)
		}
		snap.Nodes = append(snap.Nodes, n)
		for j := range pick(t, 0, 1, 0, 2) {
			p := anyBound(t, fmt.Sprintf("%s/bound-%d-%d", pick(t, "a", "a", "b"), i, j), n, taken)
			p.Labels = anyPodLabels(t)
			if seldom(t, 1) {
				anyRules(t, &p.Spec)
			}
			snap.Pods = append(snap.Pods, p)
		}
	}
	g := engine.Gang{Key: "gang", Priority: pick[int32](t, 0, 5), Terms: anyTerms(t)}
	members := anyMembers(t, "a/gang", 1+upTo(t, 3))
	spec, other, labels, others := members[0].Spec, members[0].Spec, anyPodLabels(t), anyPodLabels(t)
	spec.GPU, other.GPU = engine.GPU{}, engine.GPU{}
	anyRules(t, &spec)
	anyRules(t, &other)
	mixed := seldom(t, 2)
	for i := range members {
		members[i].Gang, members[i].Spec, members[i].Labels = "gang", spec, labels
		if mixed && rapid.Bool().Draw(t, "other") {
			members[i].Spec = other
		}
		if mixed && rapid.Bool().Draw(t, "others") {
			members[i].Labels = others
		}
	}
	if len(members) == 1 && seldom(t, 1) {
		p := members[0]
		p.Key, p.Gang, p.Priority = "a/gang", "", g.Priority
		members = []engine.Pod{p}
		g.Key = "a/gang"
	} else {
		if seldom(t, 1) {
			g.Layout = engine.Layout{Required: pick(t, "rack", "block", engine.NodeLevel)}
		}
		g.Min = pick(t, 0, 1)
		snap.Gangs = []engine.Gang{g}
	}
	for len(members) > 1 && seldom(t, 2) {
		settle(t, snap, members)
	}
	snap.Pods = append(snap.Pods, members...)
	anyToCome(t, &snap, g.Key)
	s := engine.Load(snap, cfg)
	if bad := s.Rejected(); len(bad) > 0 {
		t.Fatalf("the generator made nonsense: %v", bad)
	}
	return s.Dump(), g.Key
}

// anyToCome adds pods that are to come: nominated ones, and places that are held. They wait for something that the engine does not
// decide, so that the gang is alone in asking for a place.
func anyToCome(t *rapid.T, snap *engine.Snapshot, gang string) {
	node := func() string { return snap.Nodes[upTo(t, len(snap.Nodes)-1)].Name }
	comes := func(key string) engine.Pod {
		p := engine.Pod{Key: key, UID: "u", Labels: anyPodLabels(t), Priority: pick[int32](t, 0, 5, 9)}
		p.Requests = engine.Resources{{Resource: gpu, Value: 1}}
		p.Features = []why.Feature{why.Claims}
		anyRules(t, &p.Spec)
		return p
	}
	hold := func(gang string, pods int64) {
		h := engine.Hold{Gang: gang, Version: 1, Node: node(), Requests: engine.Resources{{Resource: gpu, Value: pods}, {Resource: engine.Pods, Value: pods}}, Until: noon.Add(time.Minute)}
		if !slices.ContainsFunc(snap.Holds, func(o engine.Hold) bool { return o.Gang == h.Gang && o.Node == h.Node }) {
			snap.Holds = append(snap.Holds, h)
		}
	}
	for i := range pick(t, 0, 0, 1, 2) {
		p := comes(fmt.Sprintf("a/nominated-%d", i))
		p.Nominated = node()
		snap.Pods = append(snap.Pods, p)
	}
	if seldom(t, 1) {
		p := comes("b/held")
		p.Owner = pick(t, "", "owner")
		hold(pick(t, p.Key, p.Key, "owner"), 1)
		snap.Holds[len(snap.Holds)-1].Coming = seldom(t, 1)
		snap.Pods = append(snap.Pods, p)
	}
	if seldom(t, 1) {
		snap.Gangs = append(snap.Gangs, engine.Gang{Key: "held"})
		for i := range 1 + upTo(t, 2) {
			p := comes(fmt.Sprintf("a/held-%d", i))
			p.Gang = "held"
			snap.Pods = append(snap.Pods, p)
		}
		hold("held", 1+int64(upTo(t, 1)))
		hold("held", 1)
	}
	if seldom(t, 3) {
		hold(gang, 1)
	}
}

// The engine keeps rules between pods exactly: it starts a gang where some order of placing its pods breaks none, and nowhere
// else. Its certificates name the rules, and its counts are those of a recount.
func TestRulesEqualBruteForce(t *testing.T) {
	often(t, 20, func(t *rapid.T) {
		cfg := engine.Config{Levels: levels, Moves: engine.Moves{Off: true}}
		snap, gang := anyRuledCase(t, cfg)
		can := oracle.CanStart(snap, cfg, noon, gang)
		s := engine.Load(snap, cfg)
		plan := s.Plan(noon)
		got := verdict(plan, gang)
		switch {
		case got == why.NotFound && !can:
		case can != (got == why.Placed):
			t.Fatalf("verdict %q, but brute force says %v\n%s\n%s", got, can, text(t, snap), text(t, plan))
		}
		if err := oracle.Valid(snap, cfg, noon, plan); err != nil {
			t.Fatalf("%v\n%s\n%s", err, text(t, snap), text(t, plan))
		}
		for _, p := range proofs(snap, plan) {
			if err := oracle.Check(p.snap, cfg, noon, p.gang, p.cert); err != nil {
				t.Fatalf("%s: %v\n%s\n%s", p.gang, err, text(t, p.cert), text(t, p.snap))
			}
		}
		if found, _ := s.Audit(0, 1000); len(found) > 0 {
			t.Fatalf("after a plan the counts are wrong: %+v\n%s", found, text(t, snap))
		}
		if free := without(snap); got == why.Impossible && !can && oracle.CanStart(free, cfg, noon, gang) {
			w := plan.Waiting[slices.IndexFunc(plan.Waiting, func(w engine.Waiting) bool { return w.Gang == gang })]
			if !slices.ContainsFunc(w.Gates, func(g why.Gate) bool { return g.Cause == why.PodRules }) {
				t.Fatalf("only rules are in the way, and it is told %s\n%s", w.Cause, text(t, snap))
			}
		}
	})
}

// without is the snapshot without rules between pods.
func without(snap engine.Snapshot) engine.Snapshot {
	snap.Pods = slices.Clone(snap.Pods)
	for i := range snap.Pods {
		snap.Pods[i].PodRules = nil
	}
	return snap
}

// Who is evicted may be on another node than the one that is taken, and the pod that a claimant must be near is not evicted for
// it: with few pods the victims are as few as any that let it start, and nobody is evicted where no set does.
func TestVictimsUnderRules(t *testing.T) {
	often(t, 10, func(t *rapid.T) {
		cfg := engine.Config{Levels: levels, Moves: engine.Moves{Off: true}}
		snap := engine.Snapshot{Version: engine.SnapshotVersion, Queues: []engine.Queue{{Name: "q"}}}
		var running []string
		for i := range 1 + upTo(t, 3) {
			n := engine.Node{
				Name: fmt.Sprintf("n%d", i), Labels: map[string]string{"rack": pick(t, "0", "1"), "block": "0", hostname: fmt.Sprintf("n%d", i)},
				Allocatable: engine.Resources{{Resource: gpu, Value: pick[int64](t, 2, 3)}, {Resource: engine.Pods, Value: 9}},
			}
			snap.Nodes = append(snap.Nodes, n)
			for j := range upTo(t, 2) {
				p := engine.Pod{Key: fmt.Sprintf("a/r%d-%d", i, j), UID: "u", Queue: "q", Node: n.Name, Evictable: true, Started: noon.Add(-time.Hour), Labels: anyPodLabels(t)}
				p.Requests = engine.Resources{{Resource: gpu, Value: 1}}
				if seldom(t, 1) {
					p.PodRules = &engine.PodRules{PodAntiAffinity: []engine.PodTerm{anyPodTerm(t)}}
				}
				p.Evictable = !seldom(t, 2)
				if snap.Pods = append(snap.Pods, p); p.Evictable {
					running = append(running, p.Key)
				}
			}
		}
		p := engine.Pod{Key: "a/high", UID: "u", Queue: "q", Priority: 5, Labels: anyPodLabels(t)}
		p.Requests = engine.Resources{{Resource: gpu, Value: pick[int64](t, 1, 2)}}
		anyRules(t, &p.Spec)
		snap.Pods = append(snap.Pods, p)
		plan := engine.Schedule(snap, noon, cfg)
		fewest := -1
		for set := range 1 << len(running) {
			if n := bits.OnesCount(uint(set)); (fewest < 0 || n < fewest) && oracle.CanStart(less(snap, running, set), cfg, noon, "a/high") {
				fewest = n
			}
		}
		started := verdict(plan, "a/high") == why.Placed
		victims := 0
		for _, e := range plan.Evictions {
			victims |= 1 << slices.Index(running, e.Pod)
		}
		switch {
		case started != (fewest == 0), len(plan.Evictions) != max(0, fewest):
			t.Fatalf("the fewest victims that let it start are %d; it starts: %v, and %d are evicted\n%s\n%s", fewest, started, len(plan.Evictions), text(t, snap), text(t, plan))
		case fewest > 0 && !oracle.CanStart(less(snap, running, victims), cfg, noon, "a/high"):
			t.Fatalf("without its victims it does not start\n%s\n%s", text(t, snap), text(t, plan))
		}
	})
}

// less is the snapshot without those of the pods that are in the set.
func less(snap engine.Snapshot, pods []string, set int) engine.Snapshot {
	snap.Pods = slices.DeleteFunc(slices.Clone(snap.Pods), func(p engine.Pod) bool {
		i := slices.Index(pods, p.Key)
		return i >= 0 && set>>i&1 == 1
	})
	return snap
}
