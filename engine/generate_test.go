package engine_test

import (
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
)

// The generators make small clusters that are crowded in every way the engine knows: few nodes, few
// labels, many rules. Names come from a small set, so that objects refer to each other and are replaced,
// deleted and made again.

const gpu = "nvidia.com/gpu"

var noon = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

// levels is the topology of all generated clusters. Racks are nested in blocks: "r0" of two blocks is two
// racks.
var levels = []engine.Level{{Name: "block", Label: "block"}, {Name: "rack", Label: "rack"}}

// seldom is true once in 2^k draws; it shrinks to false.
func seldom(t *rapid.T, k int) bool {
	for range k {
		if !rapid.Bool().Draw(t, "seldom") {
			return false
		}
	}
	return true
}

func pick[E any](t *rapid.T, of ...E) E { return rapid.SampledFrom(of).Draw(t, "pick") }

func upTo(t *rapid.T, n int) int { return rapid.IntRange(0, n).Draw(t, "upTo") }

func anyConfig(t *rapid.T) engine.Config {
	cfg := engine.Config{
		Levels: levels, Packing: pick(t, "", engine.Loose, engine.LeastF, engine.Priced),
		Policy: pick(t, "", engine.TimeShare, engine.FIFO, engine.Strict),
		Heads:  pick(t, 0, 1, -1), HalfLife: pick(t, 0, time.Hour), MinRun: pick(t, 0, time.Minute),
		Moves: engine.Moves{Off: seldom(t, 2), Background: pick[int64](t, 0, 0, 3600)}, Overtake: pick(t, 0, time.Second, -1),
	}
	if seldom(t, 3) {
		cfg.Rates = []engine.Rate{{Model: "A", Units: 2}}
	}
	return cfg
}

// anyTerms is how a workload runs over time; mostly nothing is said.
func anyTerms(t *rapid.T) (terms engine.Terms) {
	if seldom(t, 1) {
		return engine.Terms{}
	}
	return engine.Terms{
		Expected: pick(t, 0, time.Minute, time.Hour), Max: pick(t, 0, 0, time.Minute, time.Hour), Like: pick(t, "", "train"),
		Checkpoint: pick(t, 0, 10*time.Second), Restart: pick(t, 0, time.Second), Grace: pick(t, 0, 30*time.Second),
		Delay: pick(t, 0, 0, 0, time.Minute), Patient: seldom(t, 3),
	}
}

// anyNode makes a node of up to four GPUs. Devices are named after the node, so no two nodes share one.
func anyNode(t *rapid.T, name string) engine.Node {
	n := engine.Node{Name: name, Pool: pick(t, "", "p"), Labels: map[string]string{}, Cordoned: seldom(t, 4)}
	if seldom(t, 4) {
		n.Quarantine = "GpuXidErrorWatch"
	}
	for _, key := range []string{"block", "rack", "disk"} {
		if v := pick(t, "0", "1", "0", "1", ""); v != "" {
			n.Labels[key] = v
		}
	}
	if seldom(t, 2) {
		n.Taints = append(n.Taints, engine.Taint{Key: "team", Value: pick(t, "a", "b"), Effect: pick(t, engine.NoSchedule, engine.PreferNoSchedule, engine.NoExecute)})
	}
	gpus := pick(t, 2, 4, 4, 3, 1, 0)
	n.Allocatable = engine.Resources{{Resource: gpu, Value: int64(gpus)}, {Resource: engine.CPU, Value: pick[int64](t, 4000, 8000, 1000)}, {Resource: engine.Pods, Value: pick[int64](t, 110, 110, 110, 3, 1, 0)}}
	if !seldom(t, 2) {
		n.Devices = anyDevices(t, name, gpus)
	}
	if seldom(t, 3) {
		n.Devices, n.Offers, n.ByClaims = nil, anyOffers(t, name), pick(t, []string{gpu}, []string{gpu}, nil, []string{mig})
	} else if seldom(t, 2) {
		n.Slices, n.Model = anySlices(t), pick(t, "", "A", "B", "A-MIG-1g.10gb")
		if n.Slices[0].Resource == gpu {
			n.Devices = nil
		} else {
			n.Allocatable = append(n.Allocatable, engine.Amount{Resource: mig, Value: pick[int64](t, 2, 1, 4)})
		}
	}
	if n.Offers == nil && seldom(t, 3) { // beside what a device plugin counts
		n.Offers, n.ByClaims = anyOffers(t, name), pick(t, nil, nil, nil, []string{mig}, []string{gpu})
	}
	return n
}

// mig is a resource of which some nodes have instances.
const mig = "nvidia.com/mig-3g.40gb"

func anySlices(t *rapid.T) []engine.Slice {
	return []engine.Slice{{Resource: pick(t, gpu, mig), Memory: pick[int64](t, 250, 500, 1000), Compute: pick[int64](t, 250, 428)}}
}

// anyOffers makes up to three devices for claims, and maybe such that several nodes reach. How many pods they hold is a matter of counting:
// no device is of two selections, and none shares a card with another.
func anyOffers(t *rapid.T, node string) (out []engine.Offer) {
	for i := range pick(t, 0, 0, 1, 2) {
		out = append(out, engine.Offer{ID: fmt.Sprintf("far%d", i), Selections: []string{"s"}, Attributes: map[string]string{"root": "p"}, Reach: fmt.Sprint("some", i)})
	}
	if seldom(t, 2) { // shares of it have names, or none
		out = append(out, engine.Offer{
			ID: "wide", Selections: []string{"v"}, Attributes: map[string]string{"root": "p"}, Reach: "some", Shared: true, Capacity: []engine.Counter{{Name: "rate", Amount: 4}},
			Uses: []engine.Use{{Selection: "v", Draws: []engine.Draw{{Counter: "rate", Amount: 1}}}},
		})
	}
	if seldom(t, 3) {
		out = append(out, engine.Offer{
			ID: node + "-shared", Selections: []string{"w"}, Attributes: map[string]string{"root": "p"}, Shared: true, Capacity: []engine.Counter{{Name: "rate", Amount: pick[int64](t, 1, 2, 3)}},
			Uses: []engine.Use{{Selection: "w", Draws: []engine.Draw{{Counter: "rate", Amount: pick[int64](t, 1, 2)}}}},
		})
	}
	for i := range 1 + upTo(t, 2) {
		o := engine.Offer{ID: fmt.Sprintf("%s-dev%d", node, i), Selections: []string{pick(t, "s", "s", "u")}, Taken: seldom(t, 5)}
		if v := pick(t, "p", "p", "q", ""); v != "" {
			o.Attributes = map[string]string{"root": v}
		}
		out = append(out, o)
	}
	return out
}

func anyClaims(t *rapid.T) *engine.Claims {
	opt := engine.DeviceOption{Selection: pick(t, "s", "s", "u", "w"), Count: pick(t, 1, 1, 2)}
	if opt.Selection == "w" {
		opt.Count = 1 // a node has one that is shared
	}
	c := &engine.Claims{Requests: []engine.DeviceRequest{{Name: "c/r"}}, Counted: seldom(t, 3)}
	if seldom(t, 2) {
		opt.Match, c.Match = []int{0}, []engine.DeviceAgreement{{Attribute: "root"}}
	}
	c.Requests[0].Options = []engine.DeviceOption{opt}
	return c
}

func anyDevices(t *rapid.T, node string, count int) []engine.Device {
	out := []engine.Device{}
	model, mixed, shared := pick(t, "A", "B"), seldom(t, 2), seldom(t, 1)
	for i := range count {
		d := engine.Device{ID: fmt.Sprintf("%s-gpu%d", node, i), Model: model, Clique: "c", NUMA: i / 2, Unhealthy: seldom(t, 5)}
		if shared {
			d.Memory, d.Parts = pick[int64](t, 4, 4, 8), pick(t, 2, 2, 3, 1)
		}
		if mixed {
			d.Model, d.Clique, d.NUMA = pick(t, "A", "B"), pick(t, "c", "d", ""), upTo(t, 2)-1
		}
		out = append(out, d)
	}
	return out
}

func anySpec(t *rapid.T) engine.Spec {
	s := engine.Spec{Requests: engine.Resources{{Resource: gpu, Value: pick[int64](t, 1, 1, 2, 0, 3)}}}
	if seldom(t, 1) {
		s.Requests = append(s.Requests, engine.Amount{Resource: engine.CPU, Value: pick[int64](t, 1000, 3000, 0)})
	}
	if seldom(t, 4) {
		s.Selector = map[string]string{"disk": pick(t, "0", "1")}
	}
	if seldom(t, 4) {
		s.Affinity = anyAffinity(t)
	}
	if seldom(t, 2) {
		s.Preferred = []engine.Preference{{Weight: pick[int32](t, 1, 100), Term: anyTerm(t)}}
	}
	if seldom(t, 2) {
		s.Tolerations = []engine.Toleration{anyToleration(t)}
	}
	if seldom(t, 3) {
		s.Ports = []engine.Port{{IP: pick(t, "", "10.0.0.1", "10.0.0.2"), Protocol: pick(t, "", "UDP"), Port: pick[int32](t, 80, 81)}}
	}
	if seldom(t, 5) {
		s.NodeName = pick(t, "n0", "n1", "n9")
	}
	if seldom(t, 5) {
		s.Nodes = pick(t, []string{"n0", "n1"}, []string{"n2"}, []string{})
	}
	if s.Requests[0].Value > 0 {
		s.GPU = anyGPU(t)
		anyNames(t, &s.GPU)
	}
	if seldom(t, 3) {
		s.Claims = anyClaims(t)
		if s.Claims.GPUsByCount = seldom(t, 1); !s.Claims.GPUsByCount {
			s.Requests[0].Value, s.GPU = pick[int64](t, 0, 0, 1), engine.GPU{}
		} else if seldom(t, 2) {
			s.Requests[0].Value, s.GPU, s.Part = 0, engine.GPU{Models: s.GPU.Models}, anyPart(t)
		}
		s.Claimed = pick[int64](t, 0, 0, 142, 500)
	} else if seldom(t, 2) {
		s.Requests[0].Value, s.GPU, s.Part = 0, engine.GPU{Models: s.GPU.Models}, anyPart(t)
		anyNames(t, &s.GPU)
	} else if seldom(t, 3) {
		s.Requests[0].Value, s.GPU = 0, engine.GPU{}
		s.Requests = append(s.Requests, engine.Amount{Resource: mig, Value: pick[int64](t, 1, 1, 2)})
	}
	return s
}

func anyPart(t *rapid.T) *engine.Part {
	p := &engine.Part{Cards: pick(t, 1, 1, 1, 2), Compute: pick[int64](t, 0, 0, 500, 1000)}
	if p.Memory = pick[int64](t, 2, 0, 3, 9); p.Memory == 0 {
		p.Share = pick[int64](t, 500, 250, 1000)
	}
	p.Spread = pick(t, false, true)
	return p
}

func anyGPU(t *rapid.T) engine.GPU {
	return engine.GPU{
		Models: pick(t, nil, nil, nil, nil, []string{"A"}, []string{"B", "A"}, []string{"A-MIG-1g.10gb"}),
		Clique: pick(t, "", "", "", engine.Prefer, engine.Require),
		NUMA:   pick(t, "", "", "", engine.Prefer, engine.Require),
	}
}

// anyNames lets some pods have some devices only.
func anyNames(t *rapid.T, g *engine.GPU) {
	if seldom(t, 3) {
		g.Only = pick(t, nil, []string{"n0-gpu0"}, []string{"n0-gpu1", "n1-gpu0", "n1-gpu1"}, []string{"d0", "d1", "d2", "nobody"})
		g.Except = pick(t, nil, nil, []string{"n0-gpu0"}, []string{"n0-gpu1", "n1-gpu0", "d1"})
		g.NotModels = pick(t, nil, nil, []string{"A"})
	}
}

func anyAffinity(t *rapid.T) []engine.Term {
	return pick(t, []engine.Term{anyTerm(t)}, []engine.Term{anyTerm(t), anyTerm(t)}, []engine.Term{})
}

func anyTerm(t *rapid.T) engine.Term {
	return pick(t,
		engine.Term{Labels: []engine.Requirement{{Key: "disk", Op: pick(t, engine.In, engine.NotIn), Values: []string{pick(t, "0", "1")}}}},
		engine.Term{Labels: []engine.Requirement{{Key: pick(t, "rack", "disk"), Op: pick(t, engine.Exists, engine.DoesNotExist)}}},
		engine.Term{Labels: []engine.Requirement{{Key: "rack", Op: pick(t, engine.Gt, engine.Lt), Values: []string{pick(t, "0", "1")}}}},
		engine.Term{Fields: []engine.Requirement{{Key: "metadata.name", Op: pick(t, engine.In, engine.NotIn), Values: []string{pick(t, "n0", "n1")}}}},
		engine.Term{})
}

func anyToleration(t *rapid.T) engine.Toleration {
	return pick(t,
		engine.Toleration{Op: "Exists"},
		engine.Toleration{Key: "team", Op: pick(t, "", "Equal"), Value: pick(t, "a", "b"), Effect: pick(t, "", engine.NoSchedule)},
		engine.Toleration{Key: "team", Op: "Exists", Effect: pick(t, "", engine.NoExecute)},
		engine.Toleration{Key: "node.kubernetes.io/unschedulable", Op: "Exists"})
}

func anyLayout(t *rapid.T) (l engine.Layout) {
	l.Required = pick(t, "", "", "rack", "block", "disk", engine.NodeLevel)
	if seldom(t, 5) {
		l.Required = "nowhere"
	}
	if seldom(t, 2) {
		l.Spread = pick(t, "rack", engine.NodeLevel)
		return l
	}
	l.Preferred = pick(t, "", "rack", "block")
	l.Balanced = l.Preferred != "" && seldom(t, 1)
	if seldom(t, 2) {
		l.Segment, l.SegmentLevel = pick(t, 2, 3, 1), pick(t, "rack", engine.NodeLevel, "disk")
	}
	return l
}

// anyGang makes a gang and its waiting members: of one class, of unlike ones, or a tree of groups.
func anyGang(t *rapid.T, key string, most int) (engine.Gang, []engine.Pod) {
	g := engine.Gang{Key: key, Queue: pick(t, "", "q", "", "r", "s"), User: pick(t, "", "ann"), Priority: pick[int32](t, 0, 5), Created: noon.Add(-time.Duration(upTo(t, 3)) * time.Second)}
	g.Terms = anyTerms(t)
	if seldom(t, 5) {
		g.Queue = "nowhere"
	}
	members := anyMembers(t, key, 1+upTo(t, most-1))
	if seldom(t, 2) {
		g.Groups, g.MinGroups = anyGroups(t, members), pick(t, 0, 1)
		g.Layout = engine.Layout{Required: pick(t, "", "block", "rack"), WholeNodes: seldom(t, 3)}
		g.Each = seldom(t, 2)
		return g, members
	}
	g.Layout = anyLayout(t)
	g.Layout.WholeNodes = seldom(t, 3)
	g.Min = min(upTo(t, len(members)), pick(t, len(members), 1))
	g.Size = pick(t, 0, len(members))
	g.Each = g.Layout.Segment == 0 && seldom(t, 3)
	return g, members
}

func anyMembers(t *rapid.T, gang string, count int) (out []engine.Pod) {
	spec, other := anySpec(t), anySpec(t)
	other.GPU.Models = spec.GPU.Models
	mixed, evictable := seldom(t, 2), pick(t, false, true)
	for i := range count {
		p := engine.Pod{Key: fmt.Sprintf("%s-%d", gang, i), UID: "u", Gang: gang, Rank: pick(t, i, i, 0), Spec: spec, Evictable: evictable}
		if mixed && rapid.Bool().Draw(t, "other") {
			p.Spec = other
		}
		out = append(out, p)
	}
	return out
}

// anyGroups deals the members to the leaves of one of a few trees. A leaf without members has no minimum
// to wait for and is left out.
func anyGroups(t *rapid.T, members []engine.Pod) (groups []engine.Group) {
	leaves := pick(t, []string{"x", "y"}, []string{"x"}, []string{"x", "y", "z"})
	count := map[string]int{}
	for i := range members {
		members[i].Subgroup = pick(t, leaves...)
		count[members[i].Subgroup]++
	}
	nested := seldom(t, 1)
	for _, leaf := range leaves {
		if count[leaf] == 0 {
			continue
		}
		grp := engine.Group{Name: leaf, Min: pick(t, 0, 1), Whole: seldom(t, 3), Layout: anyLayout(t)}
		grp.Each = grp.Layout.Segment == 0 && seldom(t, 2)
		if nested && leaf != "x" {
			grp.Parent = "inner"
		}
		groups = append(groups, grp)
	}
	if nested && count["y"]+count["z"] > 0 {
		groups = append(groups, engine.Group{Name: "inner", MinGroups: pick(t, 0, 1), Whole: seldom(t, 3), Each: seldom(t, 2), Layout: engine.Layout{Required: pick(t, "", "rack")}})
	}
	return groups
}

// anyBound makes an occupant of the node: running or terminating, with its devices known or not.
func anyBound(t *rapid.T, key string, n engine.Node, taken map[string]bool) engine.Pod {
	p := engine.Pod{Key: key, UID: "u", Node: n.Name, Queue: pick(t, "", "q", "r", "s"), User: pick(t, "", "ann"), Evictable: rapid.Bool().Draw(t, "evictable")}
	p.Priority, p.Terms, p.Started = pick[int32](t, 0, 5), anyTerms(t), started(t)
	p.Budgets = pick(t, nil, nil, []string{"pdb"}, []string{"pdb", "unknown"})
	if seldom(t, 2) {
		p.Idle = noon.Add(-time.Minute)
	}
	p.Foreign = !p.Evictable && seldom(t, 1)
	p.Requests = engine.Resources{{Resource: gpu, Value: pick[int64](t, 1, 0, 2)}, {Resource: engine.CPU, Value: pick[int64](t, 1000, 0)}}
	if seldom(t, 3) {
		p.Ports = []engine.Port{{IP: pick(t, "", "10.0.0.1"), Port: 80}}
	}
	if seldom(t, 2) {
		p.Terminating, p.ReleaseAt, p.Evictable = true, noon.Add(time.Minute), false
	}
	if seldom(t, 2) {
		p.Requests[0].Value, p.Part = 0, anyPart(t)
		p.Devices = anyShared(t, p.Part, n, taken)
		return p
	}
	p.Devices = anyHeld(t, p.Requests[0].Value, n, taken)
	return p
}

// anyShared is cards of the node that nobody holds whole, and that others may have given away more of than there is; nil: not known.
func anyShared(t *rapid.T, part *engine.Part, n engine.Node, taken map[string]bool) (ids []string) {
	for _, d := range n.Devices {
		if len(ids) < part.Cards && (!taken[d.ID] || taken["part of "+d.ID]) {
			ids = append(ids, d.ID)
		}
	}
	if len(ids) < part.Cards || seldom(t, 3) {
		return nil
	}
	for _, id := range ids {
		taken[id], taken["part of "+id] = true, true
	}
	return ids
}

// started is since when something runs: for long, for a moment, or, by a clock that is off, from the future on.
func started(t *rapid.T) time.Time {
	return pick(t, time.Time{}, noon.Add(-time.Hour), noon.Add(-2*time.Minute), noon.Add(-time.Second), noon.Add(time.Second))
}

// anyHeld is devices of the node that nobody has yet, or nil: not known.
func anyHeld(t *rapid.T, count int64, n engine.Node, taken map[string]bool) (ids []string) {
	if seldom(t, 2) {
		return nil
	}
	for _, d := range n.Devices {
		if int64(len(ids)) < count && !taken[d.ID] {
			ids = append(ids, d.ID)
		}
	}
	if int64(len(ids)) < count {
		return nil
	}
	for _, id := range ids {
		taken[id] = true
	}
	return ids
}

// anyNominee is a pod that is nominated for a node and stays where it is: another scheduler's, or one that
// asks for what the engine does not decide.
func anyNominee(t *rapid.T) engine.Pod {
	p := engine.Pod{Key: "nominee", UID: "u", Priority: pick[int32](t, 0, 5, 9), Nominated: pick(t, "n0", "n1"), Spec: anySpec(t)}
	if p.Foreign = rapid.Bool().Draw(t, "foreign"); !p.Foreign {
		p.Features = []why.Feature{why.Claims}
	}
	return p
}

// anyCluster makes nodes with occupants, a queue and nothing that waits.
func anyCluster(t *rapid.T) (snap engine.Snapshot) {
	snap.Version = engine.SnapshotVersion
	taken := map[string]bool{}
	for i := range 5 - upTo(t, 4) {
		n := anyNode(t, fmt.Sprintf("n%d", i))
		snap.Nodes = append(snap.Nodes, n)
		for j := range pick(t, 0, 1, 0, 2) {
			snap.Pods = append(snap.Pods, anyBound(t, fmt.Sprintf("bound-%d-%d", i, j), n, taken))
		}
	}
	for i, name := range queueNames {
		snap.Queues = append(snap.Queues, anyQueue(t, name, append(queueNames[:i:i], "")))
	}
	if seldom(t, 1) {
		snap.Disruptions = []engine.Disruption{{Key: "pdb", Allowed: pick(t, 0, 1)}}
	}
	return snap
}

// queueNames are of queues that may exist. Parents mostly come before their children.
var queueNames = []string{"q", "r", "s"}

// anyQueue makes a queue below one of the parents.
func anyQueue(t *rapid.T, name string, parents []string) engine.Queue {
	q := engine.Queue{
		Name: name, Parent: pick(t, parents...), Quota: anyQuota(t), Namespaces: anyNamespaces(t),
		Weight: pick[int64](t, 0, 3), Priority: pick[int32](t, 0, 5), MaxRunning: pick(t, 0, 0, 0, 1, 3), FairUsers: seldom(t, 2),
		MinRun: pick(t, 0, 0, time.Minute), Warning: pick(t, 0, 0, 10*time.Second), PromoteAfter: pick(t, 0, 0, time.Second),
		ReclaimIdle: pick(t, 0, 0, time.Second), KeepBudgets: seldom(t, 2), Keeps: seldom(t, 3), Strict: seldom(t, 2),
	}
	q.Limits = slices.DeleteFunc(anyLimits(t), func(a engine.Amount) bool {
		quota := q.Quota.Of(a.Resource)
		return a.Value*1000+a.Milli < quota.Value*1000+quota.Milli
	})
	if seldom(t, 2) {
		q.Lend = engine.Resources{{Resource: gpu, Value: int64(upTo(t, 2))}}
	}
	if seldom(t, 2) {
		q.UserLimits = engine.Resources{{Resource: gpu, Value: int64(pick(t, 4, 2, 1))}}
	}
	if seldom(t, 3) {
		q.Budgets = []engine.Budget{{Resource: gpu, Seconds: pick[int64](t, 3600, 1), Period: time.Hour, From: noon.Add(-time.Minute)}}
	}
	q.DevicesOnly = seldom(t, 4)
	q.PartsBy = pick[engine.PartsBy](t, "", "", "larger", "compute", "memory")
	return q
}

func anyQuota(t *rapid.T) (quota engine.Resources) {
	if seldom(t, 1) {
		quota = append(quota, engine.Amount{Resource: gpu, Value: int64(pick(t, 4, 2, 1, 8)), Milli: pick[int64](t, 0, 0, 0, 500)})
	}
	if seldom(t, 4) {
		quota = append(quota, engine.Amount{Resource: engine.OfModel(gpu, "A"), Value: int64(pick(t, 2, 1))})
	}
	if seldom(t, 3) {
		quota = append(quota, engine.Amount{Resource: engine.CPU, Value: 4000})
	}
	return quota
}

// anyNamespaces is mostly everybody; keys here have no namespace, so that one of them is all of its key.
func anyNamespaces(t *rapid.T) []string {
	if !seldom(t, 4) {
		return nil
	}
	return pick(t, []string{}, []string{"gang", "gang-0"}, podNames[:1])
}

func anyLimits(t *rapid.T) (limits engine.Resources) {
	if seldom(t, 1) {
		limits = append(limits, engine.Amount{Resource: gpu, Value: int64(pick(t, 4, 8, 6, 2, 0)), Milli: pick[int64](t, 0, 0, 250)})
	}
	if seldom(t, 2) {
		limits = append(limits, engine.Amount{Resource: engine.Pods, Value: int64(pick(t, 5, 8, 3, 1))})
	}
	return limits
}

// soon is a moment about noon: past, exactly noon, or to come.
func soon(t *rapid.T) time.Time {
	return noon.Add(pick(t, time.Second, time.Minute, 0, -time.Second))
}

// anyMemory adds what the engine may remember about a gang and its members.
func anyMemory(t *rapid.T, snap *engine.Snapshot, g engine.Gang, members []engine.Pod) {
	node := func() string { return snap.Nodes[upTo(t, len(snap.Nodes)-1)].Name }
	if seldom(t, 2) {
		snap.Refusals = append(snap.Refusals, engine.Refusal{Pod: members[0].Key, UID: pick(t, "u", "", "old"), Version: 1, Node: node(), Reason: "no", Until: soon(t)})
	}
	if seldom(t, 2) {
		snap.Holds = append(snap.Holds, engine.Hold{Gang: pick(t, "nominee", g.Key, "gone"), Version: 1, Node: node(), Requests: engine.Resources{{Resource: gpu, Value: 1}}, Until: soon(t)})
	}
	if seldom(t, 2) {
		snap.Pods = append(snap.Pods, anyNominee(t))
	}
	if seldom(t, 2) {
		snap.Assumptions = append(snap.Assumptions, engine.Assumption{Pod: members[0].Key, UID: pick(t, "u", "u", "old"), Version: 1, Node: node(), Until: soon(t)})
	}
	snap.Latest = 1
}

// anyCase is a cluster with one gang that waits, in part or whole, and what is remembered about it.
func anyCase(t *rapid.T, cfg engine.Config, most int) (engine.Snapshot, string) {
	snap := anyCluster(t)
	g, members := anyGang(t, "gang", most)
	if len(members) == 1 && seldom(t, 1) {
		p := members[0]
		p.Key, p.Gang, p.Subgroup, p.Queue, p.Priority = "gang", "", "", g.Queue, g.Priority
		members = []engine.Pod{p}
	} else {
		snap.Gangs = []engine.Gang{g}
	}
	anyMemory(t, &snap, g, members)
	for len(members) > 1 && seldom(t, 1) {
		settle(t, snap, members)
	}
	snap.Pods = append(snap.Pods, members...)
	s := engine.Load(snap, cfg)
	if bad := s.Rejected(); len(bad) > 0 {
		t.Fatalf("the generator made nonsense: %v", bad)
	}
	return s.Dump(), "gang"
}

// anyDeviceCase is one node of six GPUs of all kinds and a gang whose members ask for them in unlike ways.
func anyDeviceCase(t *rapid.T) engine.Snapshot {
	n := engine.Node{Name: "n0", Allocatable: engine.Resources{{Resource: gpu, Value: 6}, {Resource: engine.Pods, Value: 9}}}
	for i := range 6 {
		n.Devices = append(n.Devices, engine.Device{ID: fmt.Sprint("d", i), Model: pick(t, "A", "A", "B"), Clique: pick(t, "c", "d", ""), NUMA: upTo(t, 2) - 1})
	}
	snap := engine.Snapshot{Version: engine.SnapshotVersion, Nodes: []engine.Node{n}, Gangs: []engine.Gang{{Key: "gang"}}}
	for i := range 1 + upTo(t, 3) {
		p := engine.Pod{Key: fmt.Sprint("gang-", i), Gang: "gang", Rank: i}
		p.Requests = engine.Resources{{Resource: gpu, Value: pick[int64](t, 1, 2, 3)}}
		p.GPU = engine.GPU{Models: pick(t, nil, nil, []string{"A"}), Clique: pick(t, "", engine.Require), NUMA: pick(t, "", engine.Require)}
		anyNames(t, &p.GPU)
		snap.Pods = append(snap.Pods, p)
	}
	return snap
}

// settle binds one of the members, as if the gang had run and lost the others.
func settle(t *rapid.T, snap engine.Snapshot, members []engine.Pod) {
	p := &members[upTo(t, len(members)-1)]
	p.Node = snap.Nodes[upTo(t, len(snap.Nodes)-1)].Name
	p.Terminating = seldom(t, 2)
}

// anyHistory is what a small world went through, each change with a version of its own: nodes and pods
// come, change, go and come back under a new UID, and some of what is told makes no sense.
func anyHistory(t *rapid.T) (history []engine.Change) {
	for i := range 20 + upTo(t, 30) {
		c := anyChange(t, uint64(i+1))
		history = append(history, c)
		if seldom(t, 4) {
			history = append(history, c)
		}
	}
	return history
}

func anyChange(t *rapid.T, version uint64) engine.Change {
	c := plainChange(t, version)
	if c.Pod != nil && seldom(t, 1) {
		c.Pod.Labels = anyPodLabels(t)
		if seldom(t, 1) {
			anyRules(t, &c.Pod.Spec)
		}
	}
	return c
}

// queueFlavors is the kinds of nodes on which a queue counts GPUs apart; mostly none.
func queueFlavors(t *rapid.T) []engine.FlavorGroup {
	if !seldom(t, 3) {
		return nil
	}
	return []engine.FlavorGroup{{Resources: []string{gpu}, Flavors: []engine.Flavor{{Name: "one", Labels: map[string]string{"disk": "1"}}, {Name: "other", Labels: pick(t, nil, map[string]string{"disk": "0"})}}}}
}

// plainChange is a change without rules between pods.
func plainChange(t *rapid.T, version uint64) engine.Change {
	switch pick(t, "pod", "pod", "node", "member", "member", "bound", "gang", "gone", "memory", "queue", "queue", "policy", "nonsense") {
	case "node":
		n := anyNode(t, pick(t, nodeNames...))
		n.Version, n.Images = version, pick(t, nil, []engine.Image{{Name: "train", Bytes: 1 << 30}}, []engine.Image{{Name: "serve", Bytes: 1 << 29}, {Name: "train", Bytes: 1 << 30}})
		return engine.Change{Node: &n}
	case "bound":
		p := anyBound(t, pick(t, "bound-0", "bound-1", "bound-2"), anyNode(t, pick(t, nodeNames...)), map[string]bool{})
		p.Version, p.Endless = version, seldom(t, 2)
		for range upTo(t, 2) {
			p.Devices = append(p.Devices, pick(t, "far0", "far1", "wide?rate=1", "wide?rate=1#ns/claim", "wide?rate=2#ns/other"))
		}
		return engine.Change{Pod: &p}
	case "gang":
		g, _ := anyGang(t, pick(t, gangNames...), 4)
		g.Version, g.Core, g.Whole = version, seldom(t, 3), seldom(t, 4)
		return engine.Change{Gang: &g}
	case "queue":
		i := upTo(t, len(queueNames)-1)
		parents := append(queueNames[:i:i], "", "")
		if seldom(t, 4) {
			parents = append(queueNames[:len(queueNames):len(queueNames)], "nowhere")
		}
		q := anyQueue(t, queueNames[i], parents)
		q.Version, q.Stop, q.Frozen, q.Flavors, q.QuotaFirst = version, pick(t, "", "", "", "", engine.StopHold, engine.StopDrain), seldom(t, 3), queueFlavors(t), seldom(t, 1)
		if len(q.Flavors) > 0 {
			q.Quota = append(q.Quota, engine.Amount{Resource: engine.OfFlavor(gpu, "one"), Value: int64(upTo(t, 3))})
		}
		return engine.Change{Queue: &q}
	case "policy":
		return anyPolicy(t, version)
	case "gone":
		return engine.Change{Gone: anyRef(t, version)}
	case "memory":
		return anyMemoryEdit(t, version)
	case "nonsense":
		return nonsense(t, version)
	case "pod":
		p := engine.Pod{Key: pick(t, podNames...), UID: pick(t, "u", "v"), Version: version, Queue: pick(t, "", "q", "r", "s"), User: pick(t, "", "ann"), Priority: pick[int32](t, 0, 5), Foreign: seldom(t, 3), Spec: anySpec(t)}
		p.Terms, p.Evictable, p.Endless, p.Images = anyTerms(t), !p.Foreign && pick(t, false, true), seldom(t, 2), pick(t, nil, nil, []string{"train", "train"}, []string{"serve"})
		if seldom(t, 2) {
			p.Node, p.Started = pick(t, nodeNames...), started(t)
		} else if seldom(t, 2) {
			p.Nominated = pick(t, nodeNames...)
		}
		return engine.Change{Pod: &p}
	}
	p := pick(t, anyMembers(t, pick(t, gangNames...), 4)...)
	p.Version, p.Subgroup, p.UID = version, pick(t, "", "", "x", "y"), pick(t, "u", "v")
	if seldom(t, 2) {
		p.Node, p.Terminating, p.Started = pick(t, nodeNames...), seldom(t, 2), started(t)
	}
	p.Evictable = p.Evictable != seldom(t, 4) // a gang may have members of both kinds
	return engine.Change{Pod: &p}
}

var (
	nodeNames = []string{"n0", "n1", "n2", "n3"}
	gangNames = []string{"gang", "band"}
	podNames  = []string{"solo-0", "solo-1", "solo-2"}
)

func anyRef(t *rapid.T, version uint64) *engine.Ref {
	kind := pick(t, engine.KindPod, engine.KindNode, engine.KindGang, engine.KindQueue, engine.KindAssumption, engine.KindRefusal, engine.KindHold,
		engine.KindDisruption, engine.KindBooking, engine.KindEviction, engine.KindPromise, engine.KindUsage, engine.KindDegradation, engine.KindRunTimeEstimate, engine.KindRequestMix)
	key := map[engine.Kind][]string{
		engine.KindPod: append([]string{"gang-0", "gang-1", "band-0"}, podNames...), engine.KindNode: nodeNames, engine.KindGang: gangNames, engine.KindQueue: queueNames,
		engine.KindAssumption: append([]string{"gang-0"}, podNames...), engine.KindRefusal: {"gang-0@n0", "solo-0@n1"}, engine.KindHold: {"gang@n0", "band@n1"},
		engine.KindDisruption: {"pdb"}, engine.KindBooking: {"calendar"}, engine.KindEviction: {"bound-0", "gang-0", "solo-0"},
		engine.KindPromise: gangNames, engine.KindDegradation: gangNames, engine.KindUsage: queueNames, engine.KindRunTimeEstimate: {"train"}, engine.KindRequestMix: {"cluster", "other"},
	}[kind]
	return &engine.Ref{Kind: kind, Key: pick(t, key...), Version: version}
}

func anyMemoryEdit(t *rapid.T, version uint64) engine.Change {
	pod, node := pick(t, "gang-0", "gang-1", "solo-0", "solo-1"), pick(t, nodeNames...)
	switch pick(t, "assumption", "refusal", "hold") {
	case "assumption":
		return engine.Change{Assumption: &engine.Assumption{Pod: pod, UID: pick(t, "u", "v"), Version: version, Node: node, Until: soon(t)}}
	case "refusal":
		return engine.Change{Refusal: &engine.Refusal{Pod: pod, UID: pick(t, "u", "v"), Version: version, Node: node, Reason: "no", Until: soon(t)}}
	}
	return engine.Change{Hold: &engine.Hold{Gang: pick(t, "gang", "band", "solo-0"), Version: version, Node: node, Requests: engine.Resources{{Resource: gpu, Value: 1}}, Cards: anyHeldCards(t, node), Devices: anyHeldDevices(t, node), Claimed: pick[int64](t, 0, 0, 500), Until: soon(t)}}
}

// anyHeldDevices are devices for claims, whether or not the node has these.
func anyHeldDevices(t *rapid.T, node string) (out []string) {
	for range upTo(t, 2) {
		out = append(out, fmt.Sprint(node, "-dev", upTo(t, 3)))
	}
	return out
}

// anyHeldCards is what is held of cards of the node, whether or not it has these.
func anyHeldCards(t *rapid.T, node string) (out []engine.HeldCard) {
	for range upTo(t, 2) {
		c := engine.HeldCard{ID: fmt.Sprint(node, "-gpu", upTo(t, 3))}
		if !seldom(t, 3) {
			c.Part = anyPart(t)
		}
		out = append(out, c)
	}
	return out
}

// anyPolicy is what else is told or remembered that decides who goes and who stays.
func anyPolicy(t *rapid.T, version uint64) engine.Change {
	switch pick(t, "disruption", "booking", "eviction", "eviction", "promise", "usage", "run-time-estimate", "degradation", "request-mix") {
	case "disruption":
		return engine.Change{Disruption: &engine.Disruption{Key: "pdb", Version: version, Allowed: upTo(t, 2)}}
	case "booking":
		from := soon(t)
		return engine.Change{Booking: &engine.Booking{Name: "calendar", Version: version, Queue: pick(t, queueNames...), Nodes: pick(t, nodeNames[:1], nodeNames[1:3]), From: from, To: from.Add(time.Hour)}}
	case "eviction":
		return engine.Change{Eviction: &engine.Eviction{
			Pod: pick(t, "bound-0", "bound-1", "gang-0", "gang-1", "solo-0"), UID: pick(t, "u", "v"), Version: version,
			Cause: pick(t, engine.Reclaimed, engine.MaxRun), For: pick(t, "", "gang", "solo-1"), At: soon(t), Until: soon(t), Refused: seldom(t, 2),
		}}
	case "promise":
		return engine.Change{Promise: &engine.Promise{Gang: pick(t, "gang", "band", "solo-0"), Version: version, Since: noon.Add(-time.Minute), Start: soon(t), Nodes: pick(t, nodeNames[:1], nodeNames[1:3])}}
	case "degradation":
		return engine.Change{Degradation: &engine.Degradation{Gang: pick(t, gangNames...), Version: version, Since: noon.Add(-pick(t, time.Second, time.Hour))}}
	case "request-mix":
		mix := &engine.RequestMix{Version: version, Supply: []engine.ModelSupply{{Model: "A", GPUs: 4}, {Model: "B", GPUs: 2}}}
		for gpus := range int64(3) {
			mix.Requests = append(mix.Requests, engine.RequestKind{GPUs: 1 + gpus, CPU: pick[int64](t, 0, 1000), Models: pick(t, nil, []string{"A"}), Count: 1 + int64(upTo(t, 9))})
		}
		return engine.Change{RequestMix: mix}
	case "usage":
		return engine.Change{Usage: &engine.QueueUsage{Queue: pick(t, queueNames...), Version: version, At: noon.Add(-time.Second), Decayed: int64(upTo(t, 1000)), Spent: pick(t, nil, []int64{2}), Total: 1000, Users: []engine.UserUsage{{User: "ann", Decayed: 7}}}}
	}
	return engine.Change{RunTimeEstimate: &engine.RunTimeEstimate{Like: "train", Version: version, Count: 1 + upTo(t, 20), Short: time.Second, Median: time.Minute, Long: time.Hour}}
}

// nonsense is an object that contradicts itself, or another one.
func nonsense(t *rapid.T, version uint64) engine.Change {
	minus := engine.Resources{{Resource: gpu, Value: -1}}
	switch upTo(t, 10) {
	case 0:
		return engine.Change{Node: &engine.Node{Name: pick(t, nodeNames...), Version: version, Allocatable: minus}}
	case 1:
		return engine.Change{Pod: &engine.Pod{Key: pick(t, "solo-0", "gang-0"), Version: version, Spec: engine.Spec{Requests: minus}}}
	case 2:
		return engine.Change{Gang: &engine.Gang{Key: pick(t, gangNames...), Version: version, Group: engine.Group{Min: 3, Size: 2}}}
	case 3:
		n := anyNode(t, pick(t, "n0", "n1"))
		n.Version, n.Devices = version, []engine.Device{{ID: "shared", Model: "A"}}
		return engine.Change{Node: &n}
	case 4:
		return engine.Change{Queue: &engine.Queue{Name: "q", Version: version, Limits: minus}}
	case 5:
		return engine.Change{Gone: &engine.Ref{Kind: "moon", Key: "n0", Version: version}}
	case 6:
		return engine.Change{Queue: &engine.Queue{Name: pick(t, queueNames...), Version: version, Quota: engine.Resources{{Resource: gpu, Value: 2}}, Limits: engine.Resources{{Resource: gpu, Value: 1}}}}
	case 7:
		return engine.Change{Booking: &engine.Booking{Name: "calendar", Version: version, Queue: "q", Nodes: nodeNames[:1], From: noon, To: noon}}
	case 8:
		return engine.Change{RunTimeEstimate: &engine.RunTimeEstimate{Like: "train", Version: version, Short: time.Hour}}
	case 9:
		return engine.Change{RequestMix: &engine.RequestMix{Version: version, Requests: []engine.RequestKind{{GPUs: 2, Count: 1}, {GPUs: 1, Count: 1}}}}
	}
	return engine.Change{Pod: &engine.Pod{Version: version}}
}

// sensible is the history without nodes that claim another's device: such a node counts in part, which
// the oracle does not model.
func sensible(history []engine.Change) []engine.Change {
	return slices.DeleteFunc(history, func(c engine.Change) bool {
		return c.Node != nil && slices.ContainsFunc(c.Node.Devices, func(d engine.Device) bool { return d.ID == "shared" })
	})
}
