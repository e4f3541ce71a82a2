package engine_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/berth-dev/berth/engine"
)

// Parts of GPUs, slices and devices of claims. The bars, on one core: one fraction among 50,000 cards in 20 us, one MIG slice in 20 us,
// a claim of 8 GPUs that have to agree in an attribute on 5,000 nodes in 200 us, a cycle with 1,000 waiting slices of 12 kinds in 50 ms.

// partsSite is a cluster in which GPUs are given in parts.
type partsSite struct {
	engine.Snapshot
	rand *rand.Rand
	now  time.Time
}

func newPartsSite() *partsSite {
	return &partsSite{Snapshot: engine.Snapshot{Version: engine.SnapshotVersion}, rand: rand.New(rand.NewPCG(17, 0)), now: time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC)}
}

func (s *partsSite) node(i int, more engine.Resources) *engine.Node {
	s.Nodes = append(s.Nodes, engine.Node{
		Name: fmt.Sprintf("n%05d", i), Version: 1,
		Allocatable: append(engine.Resources{{Resource: engine.CPU, Value: 128_000}, {Resource: engine.Pods, Value: 250}}, more...),
	})
	return &s.Nodes[i]
}

func (s *partsSite) bind(n *engine.Node, spec engine.Spec, devices ...string) {
	s.Pods = append(s.Pods, engine.Pod{Key: fmt.Sprintf("bench/bound-%06d", len(s.Pods)), UID: "u", Version: 1, Node: n.Name, Devices: devices, Spec: spec})
}

// one measures how long it takes to place one pod more.
func (s *partsSite) one(b *testing.B, spec engine.Spec) {
	state := engine.Load(s.Snapshot, engine.Config{})
	version := uint64(1 << 20)
	turn := func() {
		version++
		state.Apply(engine.Change{Pod: &engine.Pod{Key: "bench/one", UID: "u", Version: version, Spec: spec}})
		if plan := state.Plan(s.now); len(plan.Starts) != 1 {
			b.Fatal(engine.Describe(plan))
		}
		version++
		state.Apply(engine.Change{Gone: &engine.Ref{Kind: engine.KindPod, Key: "bench/one", Version: version}})
	}
	turn() // its class is warm
	for b.Loop() {
		turn()
	}
}

// BenchmarkEnginePartsPlaceOne places 30 % of a card; on half of the 50,000 cards others have parts.
func BenchmarkEnginePartsPlaceOne(b *testing.B) {
	s := newPartsSite()
	for i := range 6250 {
		n := s.node(i, engine.Resources{{Resource: benchGPU, Value: 8}})
		for g := range 8 {
			n.Devices = append(n.Devices, engine.Device{ID: fmt.Sprintf("n%05d-%d", i, g), Model: "H100", Memory: 81_559, Parts: 10})
		}
		for g := range 8 {
			if s.rand.IntN(2) == 0 {
				s.bind(n, engine.Spec{Part: &engine.Part{Cards: 1, Share: 100 * (1 + s.rand.Int64N(10)), Compute: 100}}, n.Devices[g].ID)
			}
		}
	}
	s.one(b, engine.Spec{Part: &engine.Part{Cards: 1, Share: 300, Compute: 300}})
}

var sliceKinds = [...]string{"1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb", "1g.12gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb", "1g.18gb"}

// slices makes nodes that each have up to so many free slices of one kind.
func (s *partsSite) slices(nodes, free int) {
	for i := range nodes {
		resource := "nvidia.com/mig-" + sliceKinds[i%len(sliceKinds)]
		n := s.node(i, engine.Resources{{Resource: resource, Value: 14}})
		for range 14 - s.rand.IntN(free+1) {
			s.bind(n, sliceOf(i))
		}
	}
}

func sliceOf(i int) engine.Spec {
	return engine.Spec{Requests: engine.Resources{{Resource: "nvidia.com/mig-" + sliceKinds[i%len(sliceKinds)], Value: 1}}}
}

// BenchmarkEngineSlicesPlaceOne places one MIG slice among 50,000 cards.
func BenchmarkEngineSlicesPlaceOne(b *testing.B) {
	s := newPartsSite()
	s.slices(6250, 4)
	s.one(b, sliceOf(1))
}

// BenchmarkEngineSlices1000Wait plans with 1,000 slices of 12 kinds that wait, after one pod has ended.
func BenchmarkEngineSlices1000Wait(b *testing.B) {
	s := newPartsSite()
	s.slices(1200, 0)
	for i := range 1000 {
		s.Pods = append(s.Pods, engine.Pod{Key: fmt.Sprintf("bench/waits-%04d", i), UID: "u", Version: 1, Spec: sliceOf(i)})
	}
	state := engine.Load(s.Snapshot, engine.Config{})
	state.Plan(s.now)
	victim := s.Pods[0]
	for b.Loop() {
		victim.Version += 2
		state.Apply(engine.Change{Gone: &engine.Ref{Kind: engine.KindPod, Key: victim.Key, Version: victim.Version - 1}})
		if plan := state.Plan(s.now); len(plan.Starts) != 1 || len(plan.Waiting) != 999 {
			b.Fatal(len(plan.Starts), len(plan.Waiting))
		}
		back := victim
		state.Apply(engine.Change{Pod: &back})
	}
}

// BenchmarkEngineClaimsPlaceEight places a claim of 8 GPUs of one PCIe root on 5,000 nodes with two roots of 8, on most of which some
// are taken.
func BenchmarkEngineClaimsPlaceEight(b *testing.B) {
	s := newPartsSite()
	for i := range 5000 {
		n := s.node(i, nil)
		for g := range 16 {
			n.Offers = append(n.Offers, engine.Offer{
				ID: fmt.Sprintf("gpu/n%05d/%02d", i, g), Selections: []string{"gpu"}, Attributes: map[string]string{"root": fmt.Sprint(g / 8)}, Taken: s.rand.IntN(8) == 0,
			})
		}
	}
	s.one(b, engine.Spec{Claims: &engine.Claims{
		Requests: []engine.DeviceRequest{{Name: "gpus", Options: []engine.DeviceOption{{Selection: "gpu", Count: 8, Match: []int{0}}}}},
		Match:    []engine.DeviceAgreement{{Attribute: "root"}},
	}})
}
