package engine_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/berth-dev/berth/engine"
)

// The cluster of the bars: 8 GPUs a node, racks of 100; of the nodes 30 % empty, 30 % full and the rest
// with 1 to 7 GPUs free; 50 node classes, in every rack; 200 pod classes that tell them apart; 5 % of the
// free GPUs on nodes without free CPU; 10 pods a node.
const (
	rackLabel   = "topology.berth.dev/rack"
	poolLabel   = "berth.dev/pool"
	typeLabel   = "node.kubernetes.io/instance-type"
	hostLabel   = "kubernetes.io/hostname"
	serialLabel = "example.com/serial" // differs on every node, as the host name does
	rackSize    = 100
	podsPerNode = 10
	pools       = 10 // the last two are dedicated: a taint keeps pods out that do not tolerate it
	podClasses  = 200
	benchGPU    = "nvidia.com/gpu"
	gib         = int64(1) << 30
)

// machines are the instance types; with the pools they make 50 node classes.
var machines = [...]struct {
	name, model string
	cores       int64
	memory      int64 // GiB
}{
	{"gpu8-a", "A100-SXM4-80GB", 96, 1024},
	{"gpu8-b", "H100-SXM5-80GB", 128, 1536},
	{"gpu8-c", "H100-SXM5-80GB", 192, 2048},
	{"gpu8-d", "H200-SXM5-141GB", 192, 2048},
	{"gpu8-e", "B200-SXM6-180GB", 224, 4096},
}

// terrain is how a cluster differs from that of the bars; the zero value is the one of the bars. The
// others look for a layout that breaks a bar.
type terrain struct {
	flat    bool // no topology
	sorted  bool // a rack has one class of node
	alike   bool // one class of node in all
	asked   bool // pods ask about labels that differ on every node
	crowded bool // nine nodes in ten full, the rest with one GPU free
}

var terrains = map[string]terrain{
	"bars": {}, "flat": {flat: true}, "sorted": {sorted: true}, "alike": {alike: true}, "asked": {asked: true},
	"crowded": {crowded: true},
}

// site is a cluster as it is generated.
type site struct {
	terrain
	rand     *rand.Rand
	snapshot engine.Snapshot
	specs    []engine.Spec // the pod classes
	free     int           // GPUs
	whole    int           // empty nodes with CPU free
}

// newSite makes the cluster of BENCH_LAYOUT, a name of terrains, and BENCH_SEED.
func newSite(b *testing.B, nodes int) *site {
	b.Helper()
	t, ok := terrains[cmp.Or(os.Getenv("BENCH_LAYOUT"), "bars")]
	if !ok {
		b.Fatalf("BENCH_LAYOUT is none of %q", slices.Sorted(maps.Keys(terrains)))
	}
	return t.site(benchSeed(b), nodes)
}

func benchSeed(b testing.TB) uint64 {
	seed, err := strconv.ParseUint(cmp.Or(os.Getenv("BENCH_SEED"), "1"), 10, 64)
	if err != nil {
		b.Fatalf("BENCH_SEED: %v", err)
	}
	return seed
}

// benchPacking is how nodes are chosen: as by default in the live scheduler, or as BENCH_PACKING says.
func benchPacking() engine.Packing {
	return engine.Packing(cmp.Or(os.Getenv("BENCH_PACKING"), string(engine.Priced)))
}

func (t terrain) site(seed uint64, nodes int) *site {
	s := &site{terrain: t, rand: rand.New(rand.NewPCG(seed, uint64(nodes)))}
	s.snapshot.Version = engine.SnapshotVersion
	for k := range podClasses {
		s.specs = append(s.specs, s.spec(k))
	}
	for i := range nodes {
		s.add(i)
	}
	return s
}

func (s *site) config() engine.Config {
	if s.flat {
		return engine.Config{Packing: benchPacking()}
	}
	return engine.Config{Packing: benchPacking(), Levels: []engine.Level{{Name: "rack", Label: rackLabel}}}
}

// level is the topology level of gangs that must stay together.
func (s *site) level() string {
	if s.flat {
		return ""
	}
	return "rack"
}

// add makes a node and the pods on it.
func (s *site) add(i int) {
	n := s.node(i)
	free := s.freeGPUs()
	l := load{site: s, node: n, cpu: amount(n.Allocatable, engine.CPU)}
	for l.gpus < 8-free {
		l.bind(s.pick(s.partOf(8 - free - l.gpus)))
	}
	s.free += free
	if starved := free > 0 && s.rand.IntN(100) < 5; starved {
		l.starve()
	} else if free == 8 {
		s.whole++
	}
	for len(s.snapshot.Pods) < podsPerNode*(i+1) {
		l.bind(s.pick(0))
	}
	s.snapshot.Nodes = append(s.snapshot.Nodes, n)
}

func (s *site) freeGPUs() int {
	if s.crowded {
		return max(0, s.rand.IntN(10)-8)
	}
	switch p := s.rand.IntN(10); {
	case p < 3:
		return 8
	case p < 6:
		return 0
	}
	return 1 + s.rand.IntN(7)
}

// partOf is a GPU count of one pod, at most n.
func (s *site) partOf(n int) int64 {
	for {
		if g := 1 << s.rand.IntN(4); g <= n {
			return int64(g)
		}
	}
}

// pick is a pod class with that many GPUs and, without any, less than a core.
func (s *site) pick(gpus int64) engine.Spec {
	for {
		spec := s.specs[s.rand.IntN(podClasses)]
		if amount(spec.Requests, benchGPU) == gpus && (gpus > 0 || amount(spec.Requests, engine.CPU) < 1000) {
			return spec
		}
	}
}

func (s *site) node(i int) engine.Node {
	rack, kind := i/rackSize, s.rand.IntN(pools*len(machines))
	switch {
	case s.sorted:
		kind = rack % (pools * len(machines))
	case s.alike:
		kind = 0
	}
	pool, machine := kind%pools, machines[kind/pools]
	n := engine.Node{
		Name: fmt.Sprintf("node-%05d", i), Version: 1, Pool: fmt.Sprintf("pool-%d", pool),
		Labels: map[string]string{
			hostLabel: fmt.Sprintf("node-%05d", i), rackLabel: fmt.Sprintf("rack-%03d", rack), poolLabel: fmt.Sprintf("pool-%d", pool),
			typeLabel: machine.name, serialLabel: strconv.Itoa(100_000 + i), "nvidia.com/gpu.product": machine.model, "topology.kubernetes.io/zone": fmt.Sprintf("zone-%d", rack%3),
			"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
		},
		Allocatable: engine.Resources{
			{Resource: engine.CPU, Value: machine.cores * 1000}, {Resource: engine.Memory, Value: machine.memory * gib},
			{Resource: engine.Pods, Value: 110}, {Resource: benchGPU, Value: 8},
		},
	}
	if pool >= pools-2 {
		n.Taints = []engine.Taint{{Key: "dedicated", Value: n.Pool, Effect: engine.NoSchedule}}
	}
	for d := range 8 {
		n.Devices = append(n.Devices, engine.Device{
			ID: fmt.Sprintf("GPU-%05d-%d", i, d), Model: machine.model, Clique: n.Name, NUMA: d / 4,
		})
	}
	return n
}

// spec is pod class k: a quarter without GPUs, three eighths with one, an eighth each with 2, 4 and 8; a
// fifth each asking nothing of the node, a pool, instance types, not a pool, and GPU models. Eight of them
// take whole powers of two of cores, so that any CPU can be used up.
func (s *site) spec(k int) engine.Spec {
	j, gpus := k/8, [...]int64{0, 0, 1, 1, 1, 2, 4, 8}[k%8]
	if k%8 == 0 && j < 8 {
		return engine.Spec{Requests: engine.Resources{{Resource: engine.CPU, Value: 1000 << j}, {Resource: engine.Memory, Value: gib}}}
	}
	spec := engine.Spec{Requests: engine.Resources{
		{Resource: engine.CPU, Value: int64(100 + 10*j + 5*(k%8))}, {Resource: engine.Memory, Value: int64(256+64*j) << 20},
	}}
	if gpus > 0 {
		spec.Requests = engine.Resources{
			{Resource: engine.CPU, Value: gpus*int64(4+j%5)*1000 + int64(50*(k%8))},
			{Resource: engine.Memory, Value: gpus * int64(32+2*j) * gib}, {Resource: benchGPU, Value: gpus},
		}
	}
	if !s.alike {
		constrain(&spec, j)
	}
	if s.asked && j%5 == 0 {
		spec.Affinity = []engine.Term{{Labels: []engine.Requirement{
			{Key: hostLabel, Op: engine.NotIn, Values: []string{"node-00000"}}, {Key: serialLabel, Op: engine.Gt, Values: []string{"100000"}},
		}}}
	}
	return spec
}

func constrain(spec *engine.Spec, j int) {
	machine, other := machines[j/5], machines[(j/5+2)%len(machines)]
	pool := fmt.Sprintf("pool-%d", j%(pools-2))
	switch j % 5 {
	case 1:
		spec.Selector = map[string]string{poolLabel: pool}
	case 2:
		spec.Affinity = []engine.Term{{Labels: []engine.Requirement{{Key: typeLabel, Op: engine.In, Values: []string{machine.name, other.name}}}}}
	case 3:
		spec.Affinity = []engine.Term{{Labels: []engine.Requirement{{Key: poolLabel, Op: engine.NotIn, Values: []string{pool}}}}}
		spec.Preferred = []engine.Preference{{Weight: int32(1 + j), Term: engine.Term{Labels: []engine.Requirement{{Key: typeLabel, Op: engine.In, Values: []string{machine.name}}}}}}
	case 4:
		spec.GPU.Models = []string{machine.model, other.model}
	}
	if j%2 == 0 {
		spec.Tolerations = []engine.Toleration{{Key: "dedicated", Op: "Exists"}}
	}
}

// load is what is on a node while pods are bound to it.
type load struct {
	*site
	node engine.Node
	gpus int
	cpu  int64 // left
}

// bind adds a pod with its own copy of the spec, as a decoder makes it. Whether a bound pod's constraints
// match its node is nobody's question any more.
func (l *load) bind(spec engine.Spec) {
	i, gpus := len(l.snapshot.Pods), int(amount(spec.Requests, benchGPU))
	p := engine.Pod{
		Key: fmt.Sprintf("team-%02d/job-%06d", i%20, i), UID: fmt.Sprintf("%08x-5eed-4000-8000-%012x", i*2654435761&0xffffffff, i),
		Version: 1, Created: benchNow, Spec: own(spec), Node: l.node.Name, Evictable: i%3 == 0,
	}
	for _, d := range l.node.Devices[l.gpus : l.gpus+gpus] {
		p.Devices = append(p.Devices, d.ID)
	}
	l.gpus += gpus
	l.cpu -= amount(spec.Requests, engine.CPU)
	l.snapshot.Pods = append(l.snapshot.Pods, p)
}

// starve takes whole cores until less than one is left.
func (l *load) starve() {
	for j := 7; j >= 0; j-- {
		if l.cpu >= 1000<<j {
			l.bind(l.specs[8*j])
		}
	}
}

func own(s engine.Spec) engine.Spec {
	s.Requests, s.Selector = slices.Clone(s.Requests), maps.Clone(s.Selector)
	s.Affinity, s.Preferred, s.Tolerations = slices.Clone(s.Affinity), slices.Clone(s.Preferred), slices.Clone(s.Tolerations)
	s.GPU.Models = slices.Clone(s.GPU.Models)
	return s
}

func amount(r engine.Resources, name string) int64 {
	for _, a := range r {
		if a.Resource == name {
			return a.Value
		}
	}
	return 0
}

// The cluster is the one that the bars are about.
func TestBenchmarkCluster(t *testing.T) {
	s := terrain{}.site(1, 5000)
	used, cpu := map[string]int64{}, map[string]int64{}
	for _, p := range s.snapshot.Pods {
		used[p.Node] += amount(p.Requests, benchGPU)
		cpu[p.Node] += amount(p.Requests, engine.CPU)
	}
	kinds, count := map[string]bool{}, map[string]int{}
	for _, n := range s.snapshot.Nodes {
		free := 8 - used[n.Name]
		count["free"] += int(free)
		count[fmt.Sprintf("free=%d", free)]++
		if amount(n.Allocatable, engine.CPU)-cpu[n.Name] < 1000 {
			count["starved"] += int(free)
		}
		kinds[fmt.Sprint(n.Pool, n.Labels[typeLabel], n.Taints, n.Allocatable, n.Devices[0].Model)] = true
	}
	classes := map[string]bool{}
	for _, spec := range s.specs {
		classes[fmt.Sprint(spec)] = true
	}
	within := func(what string, got, low, high int) {
		if got < low || got > high {
			t.Errorf("%s: %d, want %d to %d", what, got, low, high)
		}
	}
	within("pods", len(s.snapshot.Pods), 50_000, 50_000)
	within("pod classes", len(classes), 200, 200)
	within("node classes", len(kinds), 50, 50)
	within("empty nodes", count["free=8"], 1400, 1600)
	within("full nodes", count["free=0"], 1400, 1600)
	within("nodes with 3 free", count["free=3"], 230, 340)
	within("GPUs free", s.free, count["free"], count["free"])
	within("GPUs short of CPU, per mille of the free ones", count["starved"]*1000/count["free"], 35, 65)
}
