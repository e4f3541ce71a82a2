package engine_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-dev/berth/engine"
)

// The busy cluster is one as it is met in production: racks of machines of one type on the five levels of the topology that
// the live scheduler has by default; 200 queues, three deep, with quotas, limits and weights, that borrow from each other;
// 360 request shapes, 300 of them with GPUs, a third of these of gangs; devices as the live scheduler knows them, which is models at most, and never
// which of them a pod holds. What runs in it, and what waits, was decided by the engine itself: see settle.
const (
	busyGPUShapes = 300
	busyCPUShapes = 60
	busyTeams     = 168 // in 24 departments of 8 organisations: 200 queues
	busyDepts     = 24
	busyOrgs      = 8
	busyMovers    = 2_000 // pods that move from time to time
)

func busyConfig() engine.Config {
	return engine.Config{Packing: benchPacking(), Levels: []engine.Level{
		{Name: "region", Label: "topology.kubernetes.io/region"}, {Name: "zone", Label: "topology.kubernetes.io/zone"},
		{Name: "block", Label: "berth.dev/block"}, {Name: "rack", Label: "berth.dev/rack"}, {Name: "clique", Label: "nvidia.com/gpu.clique"},
	}}
}

// busyMachines are the machine types, with how many of ten racks are of each. Machines of the fifth are cabled together:
// their rack is one NVLink clique. Those of the last have no GPUs.
var busyMachines = [...]struct {
	name, model string
	gpus, cores int64
	memory      int64 // GiB
	racks, rack int   // of ten racks; nodes in one
}{
	{"gpu8-a", "A100-SXM4-80GB", 8, 96, 1024, 2, 16},
	{"gpu8-b", "H100-SXM5-80GB", 8, 192, 2048, 3, 16},
	{"gpu8-c", "H200-SXM5-141GB", 8, 192, 2048, 2, 16},
	{"gpu8-d", "B200-SXM6-180GB", 8, 224, 4096, 1, 8},
	{"gpu4-e", "GB200", 4, 144, 960, 1, 18},
	{"cpu-f", "", 0, 128, 512, 1, 16},
}

// busySite is the busy cluster as it is generated.
type busySite struct {
	rand     *rand.Rand
	snapshot engine.Snapshot
	specs    []busyShape
	gpus     int64
	version  uint64
	jobs     int
	pods     map[string]*engine.Pod // as last told
	now      time.Time

	waiting []engine.Change // what waits; not in the snapshot
	movers  []mover
}

// busyShape is what a workload asks for: its pods, how many there are and where they lie, and the priority of its kind of
// work. Two of three are pods by themselves, the others gangs of up to 16 pods.
type busyShape struct {
	engine.Spec
	priority int32
	size     int // 1: a pod by itself
	layout   engine.Layout
}

func (f *busySite) next() uint64 {
	f.version++
	return f.version
}

func oneOf[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// busySites are made once for all benchmarks: what is in them takes some seconds to settle.
var busySites sync.Map

// newBusySite makes a cluster of so many nodes, of whose GPUs the given percentage is asked for by what runs. Above 100 the
// cluster is full, and so many workloads wait.
func newBusySite(b testing.TB, nodes, percent, waiting int) *busySite {
	made, _ := busySites.LoadOrStore([3]int{nodes, percent, waiting}, sync.OnceValue(func() *busySite {
		f := &busySite{rand: rand.New(rand.NewPCG(benchSeed(b), uint64(nodes))), pods: make(map[string]*engine.Pod), now: benchNow.Add(-time.Hour)}
		f.snapshot.Version = engine.SnapshotVersion
		for rack := 0; len(f.snapshot.Nodes) < nodes; rack++ {
			f.rack(rack, nodes)
		}
		f.queues()
		f.shapes()
		f.settle(percent, waiting)
		return f
	}))
	f := *made.(func() *busySite)() // a copy: versions and turns are the user's own
	f.pods = maps.Clone(f.pods)
	return &f
}

func (f *busySite) rack(rack, nodes int) {
	kind, share := 0, rack*7%10
	for ; share >= busyMachines[kind].racks; kind++ {
		share -= busyMachines[kind].racks
	}
	pool := rack * 5 % 12
	for range busyMachines[kind].rack {
		if len(f.snapshot.Nodes) < nodes {
			f.node(rack, kind, pool)
		}
	}
}

// node adds a machine to the rack. Two of the twelve pools are dedicated, and one is of machines that may be taken away. Of
// a tenth of the GPU nodes no label says what their GPUs are, and one node in a hundred is cordoned.
func (f *busySite) node(rack, kind, pool int) {
	i, m := len(f.snapshot.Nodes), busyMachines[kind]
	name := fmt.Sprintf("node-%05d", i)
	n := engine.Node{
		Name: name, Version: f.next(), Pool: fmt.Sprintf("pool-%02d", pool), Cordoned: f.rand.IntN(100) == 0,
		Labels: map[string]string{
			"topology.kubernetes.io/region": fmt.Sprintf("region-%d", rack/160), "topology.kubernetes.io/zone": fmt.Sprintf("zone-%d", rack/80),
			"berth.dev/block": fmt.Sprintf("block-%02d", rack/16), "berth.dev/rack": fmt.Sprintf("rack-%03d", rack), poolLabel: fmt.Sprintf("pool-%02d", pool),
			hostLabel: name, typeLabel: m.name, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", serialLabel: strconv.Itoa(100_000 + i),
			"example.com/capacity": "reserved", "example.com/driver": fmt.Sprintf("5%d5", 3+rack%4),
		},
		Allocatable: engine.Resources{
			{Resource: engine.CPU, Value: m.cores*1000 - 500}, {Resource: engine.Memory, Value: m.memory*gib - 4*gib}, {Resource: engine.Pods, Value: 110},
			{Resource: "ephemeral-storage", Value: 3500 * gib},
		},
	}
	switch pool {
	case 3, 8:
		n.Taints = append(n.Taints, engine.Taint{Key: "dedicated", Value: n.Pool, Effect: engine.NoSchedule})
	case 5:
		n.Taints = append(n.Taints, engine.Taint{Key: "example.com/spot", Effect: engine.NoSchedule})
		n.Labels["example.com/capacity"] = "spot"
	}
	if m.gpus > 0 {
		n.Allocatable = append(n.Allocatable, engine.Amount{Resource: benchGPU, Value: m.gpus})
		n.Taints = append(n.Taints, engine.Taint{Key: benchGPU, Effect: engine.NoSchedule})
		f.gpus += m.gpus
	}
	if m.gpus == 4 {
		n.Labels["kubernetes.io/arch"], n.Labels["nvidia.com/gpu.clique"] = "arm64", fmt.Sprintf("clique-%03d", rack)
	}
	if m.gpus > 0 && f.rand.IntN(10) > 0 {
		n.Labels["nvidia.com/gpu.product"], n.Labels["nvidia.com/gpu.count"] = m.model, strconv.FormatInt(m.gpus, 10)
		for d := range m.gpus {
			n.Devices = append(n.Devices, engine.Device{ID: fmt.Sprintf("%s/gpu-%d", name, d), Model: m.model})
		}
	}
	f.snapshot.Nodes = append(f.snapshot.Nodes, n)
	for d, cpu := range []int64{100, 200, 250, 500} { // of daemon sets
		key := fmt.Sprintf("kube-system/daemon-%d-%05d", d, i)
		f.snapshot.Pods = append(f.snapshot.Pods, engine.Pod{
			Key: key, UID: key, Version: f.next(), Created: f.now, Node: name, Foreign: true, Endless: true,
			Spec: engine.Spec{Requests: engine.Resources{{Resource: engine.CPU, Value: cpu}, {Resource: engine.Memory, Value: gib / 4}}},
		})
	}
}

func busyTeam(i int) string { return fmt.Sprintf("team-%03d", i) }

// queues makes the tree. Quotas of teams differ by a factor of five, and together are what there is. A third of the teams
// have limits, some lend less than all, treat their users alike, or have a number of workloads that may run.
func (f *busySite) queues() {
	gpus := func(v int64) engine.Resources { return engine.Resources{{Resource: benchGPU, Value: v}} }
	parts, sum := make([]int64, busyTeams), int64(0)
	for i := range parts {
		parts[i] = 1 + f.rand.Int64N(5)
		sum += parts[i]
	}
	var teams []engine.Queue
	above := map[string]int64{}
	for i := range busyTeams {
		dept := i % busyDepts
		quota := f.gpus * parts[i] / sum
		q := engine.Queue{Name: busyTeam(i), Version: f.next(), Parent: fmt.Sprintf("dept-%02d", dept), Quota: gpus(quota), Weight: 1 + int64(i%3)}
		switch i % 6 {
		case 0:
			q.Limits = gpus(quota * 2)
		case 1:
			q.Limits = append(gpus(quota*3/2), engine.Amount{Resource: engine.CPU, Value: quota * 40_000})
		}
		if i%10 == 7 {
			q.FairUsers = true
		}
		if i%12 == 5 {
			q.MaxRunning = 200
		}
		teams = append(teams, q)
		above[q.Parent] += quota
		above[fmt.Sprintf("org-%d", dept%busyOrgs)] += quota
	}
	for o := range busyOrgs {
		name := fmt.Sprintf("org-%d", o)
		f.snapshot.Queues = append(f.snapshot.Queues, engine.Queue{Name: name, Version: f.next(), Quota: gpus(above[name]), Weight: 1 + int64(o%2)})
	}
	for d := range busyDepts {
		name := fmt.Sprintf("dept-%02d", d)
		q := engine.Queue{Name: name, Version: f.next(), Parent: fmt.Sprintf("org-%d", d%busyOrgs), Quota: gpus(above[name])}
		if d%5 == 0 {
			q.Limits = gpus(above[name] * 2)
		}
		f.snapshot.Queues = append(f.snapshot.Queues, q)
	}
	f.snapshot.Queues = append(f.snapshot.Queues, teams...)
}

// shapes makes what pods ask for, each different from all others.
func (f *busySite) shapes() {
	known := map[string]bool{}
	for len(f.specs) < busyGPUShapes+busyCPUShapes {
		gpus := int64(0)
		if len(f.specs) < busyGPUShapes {
			gpus = oneOf[int64](f.rand, 1, 1, 1, 2, 2, 4, 4, 8, 8, 8)
		}
		sh := f.shape(gpus)
		if text := fmt.Sprint(sh); !known[text] {
			known[text] = true
			f.specs = append(f.specs, sh)
		}
	}
}

func (f *busySite) shape(gpus int64) busyShape {
	r := f.rand
	sh := busyShape{priority: oneOf[int32](r, 0, 0, 0, 0, 0, 0, 100, 1000), size: 1}
	if gpus == 0 {
		cpu := oneOf[int64](r, 250, 500, 1000, 2000, 4000, 8000, 16000)
		sh.Requests = engine.Resources{{Resource: engine.CPU, Value: cpu}, {Resource: engine.Memory, Value: cpu * gib / oneOf[int64](r, 250, 500, 1000)}}
	} else {
		sh.Requests = engine.Resources{
			{Resource: engine.CPU, Value: gpus * oneOf[int64](r, 4, 6, 8, 10, 11) * 1000}, {Resource: engine.Memory, Value: gpus * oneOf[int64](r, 32, 48, 64, 96, 100) * gib},
			{Resource: benchGPU, Value: gpus},
		}
		sh.Tolerations = append(sh.Tolerations, engine.Toleration{Key: benchGPU, Op: "Exists"})
		if r.IntN(3) == 0 {
			sh.size = oneOf(r, 2, 2, 4, 8, 8+int(gpus))
			sh.layout = oneOf(r, engine.Layout{}, engine.Layout{Required: "block"}, engine.Layout{Preferred: "rack"}, engine.Layout{Required: "rack"})
		}
	}
	if r.IntN(4) == 0 {
		sh.Requests = append(sh.Requests, engine.Amount{Resource: "ephemeral-storage", Value: oneOf[int64](r, 20, 100, 400) * gib})
	}
	switch r.IntN(8) {
	case 0:
		sh.Tolerations = append(sh.Tolerations, engine.Toleration{Key: "dedicated", Op: "Equal", Value: oneOf(r, "pool-03", "pool-08")})
	case 1:
		sh.Tolerations = append(sh.Tolerations, engine.Toleration{Key: "example.com/spot", Op: "Exists"})
		sh.Preferred = append(sh.Preferred, prefers(80, "example.com/capacity", "spot"))
	}
	f.constrain(&sh.Spec, gpus)
	return sh
}

func asks(key string, op engine.Op, values ...string) engine.Requirement {
	return engine.Requirement{Key: key, Op: op, Values: values}
}

func prefers(weight int32, key string, values ...string) engine.Preference {
	return engine.Preference{Weight: weight, Term: engine.Term{Labels: []engine.Requirement{asks(key, engine.In, values...)}}}
}

// constrain says which nodes the pods may be on, as manifests do: a quarter say nothing.
func (f *busySite) constrain(spec *engine.Spec, gpus int64) {
	r := f.rand
	types := []string{"gpu8-a", "gpu8-b", "gpu8-c", "gpu8-d"}
	models := []string{"A100-SXM4-80GB", "H100-SXM5-80GB", "H200-SXM5-141GB", "B200-SXM6-180GB"}
	if gpus == 0 {
		types = append(types, "cpu-f")
	}
	one := r.IntN(3)
	switch r.IntN(10) {
	case 0:
		spec.Selector = map[string]string{poolLabel: fmt.Sprintf("pool-%02d", oneOf(r, 0, 1, 2, 4, 6, 7, 9, 10, 11))}
	case 1:
		spec.Selector = map[string]string{typeLabel: oneOf(r, types...), "kubernetes.io/arch": "amd64"}
	case 2:
		spec.Affinity = []engine.Term{{Labels: []engine.Requirement{asks(typeLabel, engine.In, types[one:one+2]...)}}}
	case 3:
		spec.Affinity = []engine.Term{
			{Labels: []engine.Requirement{asks("nvidia.com/gpu.product", engine.In, models[one]), asks("example.com/driver", engine.NotIn, "535")}},
			{Labels: []engine.Requirement{asks("nvidia.com/gpu.product", engine.In, models[one+1])}},
		}
	case 4:
		spec.Affinity = []engine.Term{{Labels: []engine.Requirement{asks("example.com/driver", engine.Gt, oneOf(r, "534", "544")), asks("example.com/capacity", engine.NotIn, "spot")}}}
		spec.Preferred = append(spec.Preferred, prefers(int32(1+r.IntN(100)), "topology.kubernetes.io/zone", fmt.Sprintf("zone-%d", one)))
	case 5:
		spec.Preferred = append(spec.Preferred, prefers(50, typeLabel, types[one]), prefers(20, typeLabel, types[one+1]))
	case 6:
		if gpus > 0 {
			spec.GPU.Models = models[one : one+2]
		}
	case 7:
		spec.Affinity = []engine.Term{{Labels: []engine.Requirement{asks("topology.kubernetes.io/zone", engine.In, fmt.Sprintf("zone-%d", one), fmt.Sprintf("zone-%d", one+1))}}}
	}
}

// job is a workload of a team. It has a user, says how long it runs in one of two cases, and may be evicted in nine of ten.
func (f *busySite) job(sh busyShape, team int) []engine.Change {
	r := f.rand
	f.jobs++
	key := fmt.Sprintf("%s/job-%05d", busyTeam(team), f.jobs)
	created := f.now.Add(-time.Duration(r.IntN(3600)) * time.Second)
	user, evictable := fmt.Sprintf("user-%d", r.IntN(4)), r.IntN(10) > 0
	var terms engine.Terms
	if r.IntN(2) == 0 {
		terms.Expected = time.Duration(2+r.IntN(40)) * time.Hour
	}
	pod := func(name string) *engine.Pod {
		return &engine.Pod{Key: name, UID: name, Version: f.next(), Created: created, Spec: own(sh.Spec), Evictable: evictable, Owner: key, Priority: sh.priority}
	}
	if sh.size == 1 {
		p := pod(key)
		p.Queue, p.User, p.Terms = busyTeam(team), user, terms
		return []engine.Change{{Pod: p}}
	}
	g := &engine.Gang{Key: key, Version: f.next(), Created: created, Queue: busyTeam(team), User: user, Priority: sh.priority, Terms: terms, Group: engine.Group{Min: sh.size, Layout: sh.layout}}
	out := []engine.Change{{Gang: g}}
	for rank := range sh.size {
		p := pod(fmt.Sprintf("%s-%d", key, rank))
		p.Gang, p.Rank = key, rank
		out = append(out, engine.Change{Pod: p})
	}
	return out
}

func changesGPUs(changes []engine.Change) (gpus int64) {
	for _, c := range changes {
		if c.Pod != nil {
			gpus += amount(c.Pod.Requests, benchGPU)
		}
	}
	return gpus
}

// settle lets jobs come until the given percentage of the GPUs is asked for, one in four without GPUs, and carries out what
// the engine plans until it plans nothing more: what then runs, borrows and waits is what does so live. Then so many more
// come that find no place. They are of teams that hold their quota, and of the lowest priority: those that could have others
// evicted have had them evicted, in a cluster that has been running for some time.
func (f *busySite) settle(percent, waiting int) {
	s := engine.Load(f.snapshot, busyConfig())
	for asked := int64(0); asked*100 < f.gpus*int64(percent); {
		sh := f.specs[f.rand.IntN(busyGPUShapes)]
		if f.rand.IntN(4) == 0 {
			sh = f.specs[busyGPUShapes+f.rand.IntN(busyCPUShapes)]
		}
		job := f.job(sh, min(f.rand.IntN(busyTeams), f.rand.IntN(busyTeams))) // some ask for much more than others
		asked += changesGPUs(job)
		f.tell(s, job)
	}
	f.live(s)
	if waiting > 0 {
		held := f.held()
		for range waiting + waiting/20 { // some start
			sh, team := f.specs[f.rand.IntN(busyGPUShapes)], f.rand.IntN(busyTeams)
			for held[busyTeam(team)] < amount(f.snapshot.Queues[busyOrgs+busyDepts+team].Quota, benchGPU) {
				team = (team + 1) % busyTeams
			}
			sh.priority = 0
			f.tell(s, f.job(sh, team))
		}
		f.live(s)
	}
	f.snapshot = s.Dump()
	f.version = f.snapshot.Latest
	f.part()
	f.now = benchNow
	f.findMovers()
}

// held is what the teams' pods hold.
func (f *busySite) held() map[string]int64 {
	out := map[string]int64{}
	for key, p := range f.pods {
		if p.Node != "" {
			team, _, _ := strings.Cut(key, "/")
			out[team] += amount(p.Requests, benchGPU)
		}
	}
	return out
}

func (f *busySite) tell(s *engine.State, changes []engine.Change) {
	for _, c := range changes {
		if c.Pod != nil {
			f.pods[c.Pod.Key] = c.Pod
		}
	}
	if rejected := s.Apply(changes...); len(rejected) > 0 {
		panic(rejected[0].Reason)
	}
}

// live carries out what is planned until nothing more is. Who is evicted comes back and waits.
func (f *busySite) live(s *engine.State) {
	for range 50 {
		f.now = f.now.Add(10 * time.Second)
		plan := s.Plan(f.now)
		f.tell(s, plan.Changes)
		if len(plan.Starts)+len(plan.Evictions) == 0 {
			return
		}
		f.version += 1 << 20 // above the plan's own
		f.bind(s, plan)
		for _, e := range plan.Evictions {
			f.tell(s, []engine.Change{{Gone: &engine.Ref{Kind: engine.KindPod, Key: e.Pod, Version: f.next()}}})
			p := *f.pods[e.Pod]
			p.Version, p.UID, p.Node, p.Started = f.next(), fmt.Sprint(p.UID, "'"), "", time.Time{}
			f.tell(s, []engine.Change{{Pod: &p}})
		}
	}
	panic("the cluster does not settle")
}

// bind binds what the plan starts. Which devices the pods hold nobody says.
func (f *busySite) bind(s *engine.State, plan engine.Plan) {
	for _, start := range plan.Starts {
		for _, x := range start.Placements {
			p := *f.pods[x.Pod]
			p.Version, p.Node, p.Started = f.next(), x.Node, f.now
			f.tell(s, []engine.Change{{Pod: &p}})
		}
	}
}

// part takes out of the snapshot what waits. Gangs that run, and could grow, stay.
func (f *busySite) part() {
	runs := map[string]bool{}
	for _, p := range f.snapshot.Pods {
		if p.Node != "" {
			runs[p.WorkloadKey()] = true
		}
	}
	f.snapshot.Gangs = slices.DeleteFunc(f.snapshot.Gangs, func(g engine.Gang) bool {
		if !runs[g.Key] {
			f.waiting = append(f.waiting, engine.Change{Gang: &g})
		}
		return !runs[g.Key]
	})
	f.snapshot.Pods = slices.DeleteFunc(f.snapshot.Pods, func(p engine.Pod) bool {
		if !runs[p.WorkloadKey()] {
			f.waiting = append(f.waiting, engine.Change{Pod: &p})
		}
		return !runs[p.WorkloadKey()]
	})
}

// mover is a pod that is now on one node and now on another, both of which have room for it.
type mover struct {
	pod   engine.Pod
	nodes [2]string
}

// findMovers finds pods by themselves that can move to another node, half of them with GPUs.
func (f *busySite) findMovers() {
	free := map[string]map[string]int64{}
	for _, n := range f.snapshot.Nodes {
		free[n.Name] = map[string]int64{}
		for _, a := range n.Allocatable {
			free[n.Name][a.Resource] = a.Value
		}
	}
	take := func(node string, r engine.Resources) {
		for _, a := range r {
			free[node][a.Resource] -= a.Value
		}
	}
	for _, p := range f.snapshot.Pods {
		if p.Node != "" {
			take(p.Node, p.Requests)
		}
	}
	var with, without int
	for _, i := range f.rand.Perm(len(f.snapshot.Pods)) {
		p := f.snapshot.Pods[i]
		count := &without
		if amount(p.Requests, benchGPU) > 0 {
			count = &with
		}
		if p.Node == "" || p.Gang != "" || *count >= busyMovers/2 {
			continue
		}
		for range 40 {
			to := f.snapshot.Nodes[f.rand.IntN(len(f.snapshot.Nodes))].Name
			if to != p.Node && !slices.ContainsFunc(p.Requests, func(a engine.Amount) bool { return free[to][a.Resource] < a.Value }) {
				take(to, p.Requests)
				f.movers = append(f.movers, mover{p, [2]string{p.Node, to}})
				*count++
				break
			}
		}
	}
}

// moves moves the next n pods.
func (f *busySite) moves(turn, n int) (out []engine.Change) {
	for i := range n {
		k := turn*n + i
		m := &f.movers[k%len(f.movers)]
		p := m.pod
		p.Version, p.Node = f.next(), m.nodes[(k/len(f.movers)+1)%2]
		out = append(out, engine.Change{Pod: &p})
	}
	return out
}

func cloneWith(labels map[string]string, key, value string) map[string]string {
	out := maps.Clone(labels)
	out[key] = value
	return out
}

// The busy cluster, a small one of its kind, is as described.
func TestBusyCluster(t *testing.T) {
	f := newBusySite(t, 400, 100, 1_000)
	shapes, workloads := map[string]bool{}, map[string]bool{}
	for _, c := range f.waiting {
		if c.Pod != nil {
			shapes[fmt.Sprint(c.Pod.Spec)] = true
			workloads[c.Pod.WorkloadKey()] = true
		}
	}
	held, free, borrow := f.held(), f.gpus, 0
	for _, gpus := range held {
		free -= gpus
	}
	for _, q := range f.snapshot.Queues {
		if held[q.Name] > amount(q.Quota, benchGPU) {
			borrow++
		}
	}
	for _, c := range []struct {
		what          string
		got, min, max int
	}{
		{"nodes", len(f.snapshot.Nodes), 400, 400}, {"queues", len(f.snapshot.Queues), 200, 200}, {"request shapes", len(f.specs), 360, 360},
		{"workloads that wait", len(workloads), 1000, 1200}, {"request shapes that wait", len(shapes), 250, 360},
		{"queues that borrow", borrow, 30, 120}, {"per cent of the GPUs free", int(free * 100 / f.gpus), 0, 20},
		{"pods that move", len(f.movers), 200, busyMovers},
	} {
		if c.got < c.min || c.got > c.max {
			t.Errorf("%s: %d, want %d to %d", c.what, c.got, c.min, c.max)
		}
	}
	s := engine.Load(f.snapshot, busyConfig())
	s.Apply(f.waiting...)
	if plan := s.Plan(f.now); len(plan.Starts)+len(plan.Evictions) > 0 {
		t.Errorf("%d start and %d are evicted: the cluster has not settled", len(plan.Starts), len(plan.Evictions))
	}
}
