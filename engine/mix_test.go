package engine

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine/internal/api"
)

// asks is a pod that waits for so many GPUs and cores.
func asks(key string, version uint64, gpus, cores int64, models ...string) api.Change {
	return api.Change{Pod: &api.Pod{Key: key, UID: "u", Version: version, Spec: api.Spec{
		Requests: api.Resources{{Resource: "nvidia.com/gpu", Value: gpus}, {Resource: api.CPU, Value: cores * 1000}}, GPU: api.GPU{Models: models},
	}}}
}

// machine is a node with GPUs of a model.
func machine(name string, version uint64, gpus int, model string) api.Change {
	n := &api.Node{Name: name, Version: version, Allocatable: api.Resources{{Resource: "nvidia.com/gpu", Value: int64(gpus)}, {Resource: api.CPU, Value: 64_000}, {Resource: api.Pods, Value: 99}}}
	for i := range gpus {
		n.Devices = append(n.Devices, api.Device{ID: fmt.Sprint(name, "-", i), Model: model})
	}
	return api.Change{Node: n}
}

// told is the mix that the plan tells, without its version; nil: none.
func told(plan api.Plan) *api.RequestMix {
	for _, c := range plan.Changes {
		if c.RequestMix != nil {
			mix := *c.RequestMix
			mix.Version = 0
			return &mix
		}
	}
	return nil
}

func TestMixIsToldWhenItHasBecomeAnother(t *testing.T) {
	s := Load(api.Snapshot{}, api.Config{Packing: api.Priced})
	if got := told(s.Plan(shareNoon)); got != nil {
		t.Errorf("where nothing is asked for it tells %+v", got)
	}
	s.Apply(machine("n0", 1, 8, "A"), machine("n1", 2, 4, "B"))
	for i := range uint64(8) {
		s.Apply(asks(fmt.Sprint("ns/a", i), 10+i, 1, 4))
	}
	step := func(why string, want *api.RequestMix) {
		t.Helper()
		plan := s.Plan(shareNoon)
		if diff := cmp.Diff(want, told(plan)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", why, diff)
		}
		s.Apply(plan.Changes...)
		if again := told(s.Plan(shareNoon)); again != nil {
			t.Errorf("%s: it is told again: %+v", why, again)
		}
	}
	supply := []api.ModelSupply{{Model: "A", GPUs: 8}, {Model: "B", GPUs: 4}}
	ones := api.RequestKind{GPUs: 1, CPU: 4000, Count: 8}
	step("the first", &api.RequestMix{Requests: []api.RequestKind{ones}, Supply: supply})
	s.Apply(asks("ns/b0", 30, 4, 4, "B"))
	step("one in nine is another", nil)
	s.Apply(asks("ns/b1", 31, 4, 4, "B"))
	step("two in ten are others: two fifths in sum", &api.RequestMix{Requests: []api.RequestKind{ones, {GPUs: 4, CPU: 4000, Models: []string{"B"}, Count: 2}}, Supply: supply})
	s.Apply(asks("ns/c", 32, 4, 4, "A", "A", "none"), asks("ns/d", 33, 1, 1, "none"))
	step("one in eleven is another, and one asks for what there is not", nil)
	s.Apply(machine("n2", 40, 8, "C"))
	step("two in five GPUs are of another model", &api.RequestMix{
		Requests: []api.RequestKind{ones, {GPUs: 4, CPU: 4000, Models: []string{"A", "none"}, Count: 1}, {GPUs: 4, CPU: 4000, Models: []string{"B"}, Count: 2}},
		Supply:   append(slices.Clone(supply), api.ModelSupply{Model: "C", GPUs: 8}),
	})
	for _, p := range s.Dump().Pods {
		s.Apply(api.Change{Gone: &api.Ref{Kind: api.KindPod, Key: p.Key, Version: 1000}})
	}
	step("all are gone: what was known is the best guess", nil)
	if s.Dump().RequestMix == nil {
		t.Error("it is forgotten")
	}
}

// A mix is of use to nobody where nothing is priced.
func TestMixIsToldWhereSomethingIsPriced(t *testing.T) {
	priced := func(c api.Change) api.Change { c.Node.Packing = api.Priced; return c }
	for name, c := range map[string]struct {
		cfg     api.Config
		changes []api.Change
		want    bool
	}{
		"nowhere":    {api.Config{}, []api.Change{machine("n0", 1, 8, "A")}, false},
		"everywhere": {api.Config{Packing: api.Priced}, []api.Change{machine("n0", 1, 8, "A")}, true},
		"on a node":  {api.Config{}, []api.Change{priced(machine("n0", 1, 8, "A"))}, true},
		"no more":    {api.Config{}, []api.Change{priced(machine("n0", 1, 8, "A")), machine("n0", 2, 8, "A")}, false},
		"in a queue": {api.Config{}, []api.Change{machine("n0", 1, 8, "A"), {Queue: &api.Queue{Name: "q", Version: 2, Packing: api.Priced}}}, true},
	} {
		s := Load(api.Snapshot{}, c.cfg)
		s.Apply(append(c.changes, asks("ns/a", 9, 1, 1))...)
		if got := told(s.Plan(shareNoon)); (got != nil) != c.want {
			t.Errorf("%s: told %+v", name, got)
		}
	}
}

// Whoever sends more kinds of requests, models and amounts than a mix can hold gets a mix that makes sense, and no other after it.
func TestMixIsBounded(t *testing.T) {
	s := Load(api.Snapshot{}, api.Config{Packing: api.Priced})
	version := uint64(0)
	next := func() uint64 { version++; return version }
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprintf("m%02d", i))
		s.Apply(machine(fmt.Sprintf("n%02d", i), next(), 1+i%3, many[i]))
	}
	for i := range int64(600) {
		s.Apply(asks(fmt.Sprintf("ns/p%03d", i), next(), 1+i%5, i, pick3(i, nil, many, many[i%100:])...))
	}
	s.Apply(asks("ns/huge", next(), api.MaxAmount, api.MaxAmount/1000), asks("ns/odd", next(), 1, 1, "", "\x00", "a\x00b"))
	plan := s.Plan(shareNoon)
	mix := told(plan)
	if mix == nil || mix.Check() != "" || len(mix.Requests) != api.MostRequestKinds || len(mix.Supply) != api.MostMixedModels {
		t.Fatalf("the mix is %+v", mix)
	}
	if rejected := s.Apply(plan.Changes...); len(rejected) > 0 {
		t.Errorf("of its own plan it rejects %v", rejected)
	}
	if again := told(s.Plan(shareNoon)); again != nil {
		t.Errorf("it is told again: %+v", again)
	}
	if found, _ := s.Audit(0, 1000); len(found) > 0 {
		t.Error(found)
	}
}

func pick3(i int64, of ...[]string) []string { return of[i%3] }

// A mix that makes no sense counts as none, and the next plan mends it.
func TestMixThatMakesNoSense(t *testing.T) {
	one := func(k api.RequestKind) *api.RequestMix {
		return &api.RequestMix{Version: 9, Requests: []api.RequestKind{k}}
	}
	many := &api.RequestMix{Version: 9}
	for i := range int64(api.MostRequestKinds + 1) {
		many.Requests = append(many.Requests, api.RequestKind{GPUs: 1, CPU: i, Count: 1})
	}
	for name, bad := range map[string]*api.RequestMix{
		"no GPU":             one(api.RequestKind{Count: 1}),
		"none of a kind":     one(api.RequestKind{GPUs: 1}),
		"a negative amount":  one(api.RequestKind{GPUs: 1, CPU: -1, Count: 1}),
		"too many GPUs":      one(api.RequestKind{GPUs: api.MostMixedGPUs + 1, Count: 1}),
		"too many cores":     one(api.RequestKind{GPUs: 1, CPU: api.MostMixedCPU + 1, Count: 1}),
		"too often":          one(api.RequestKind{GPUs: 1, Count: api.MostMixedCount + 1}),
		"models out of turn": one(api.RequestKind{GPUs: 1, Count: 1, Models: []string{"B", "A"}}),
		"too many kinds":     many,
		"kinds out of turn":  {Version: 9, Requests: []api.RequestKind{{GPUs: 2, Count: 1}, {GPUs: 1, Count: 1}}},
		"a kind twice":       {Version: 9, Requests: []api.RequestKind{{GPUs: 1, Count: 1}, {GPUs: 1, Count: 2}}},
		"supply of nothing":  {Version: 9, Supply: []api.ModelSupply{{Model: "A"}}},
		"too much supply":    {Version: 9, Supply: []api.ModelSupply{{Model: "A", GPUs: api.MostSuppliedOfOne + 1}}},
		"a model twice":      {Version: 9, Supply: []api.ModelSupply{{Model: "A", GPUs: 1}, {Model: "A", GPUs: 1}}},
	} {
		s := Load(api.Snapshot{}, api.Config{Packing: api.Priced})
		if rejected := s.Apply(machine("n0", 1, 8, "A"), asks("ns/a", 2, 1, 1), api.Change{RequestMix: bad}); len(rejected) != 1 || rejected[0].Kind != api.KindRequestMix {
			t.Errorf("%s: rejected are %v", name, rejected)
		}
		plan := s.Plan(shareNoon)
		if len(plan.Starts) != 1 || told(plan) == nil {
			t.Errorf("%s: %+v", name, plan)
		}
		s.Apply(plan.Changes...)
		if rejected := s.Rejected(); len(rejected) > 0 {
			t.Errorf("%s: still rejected: %v", name, rejected)
		}
	}
}

// Which mix holds follows from what was told, whenever it was last looked at.
func TestMixFollowsFromTheDump(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := api.Config{Packing: api.Priced}
		s := Load(api.Snapshot{}, cfg)
		version := uint64(0)
		next := func() uint64 { version++; return version }
		for i := range 3 {
			s.Apply(machine(fmt.Sprint("n", i), next(), 8, string(rune('A'+i))))
		}
		small := rapid.SampledFrom([]int{3, 12, 60}).Draw(t, "pods")
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			key := fmt.Sprint("ns/p", rapid.IntRange(0, small).Draw(t, "pod"))
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				s.Apply(machine("n1", next(), rapid.IntRange(1, 16).Draw(t, "gpus"), "B"))
			case 1, 2:
				s.Apply(api.Change{Gone: &api.Ref{Kind: api.KindPod, Key: key, Version: next()}})
			default:
				s.Apply(asks(key, next(), rapid.SampledFrom([]int64{0, 1, 1, 1, 2, 8}).Draw(t, "asks"), 4, rapid.SampledFrom([][]string{nil, nil, {"A"}, {"Z"}}).Draw(t, "models")...))
			}
			if !rapid.Bool().Draw(t, "look") {
				continue
			}
			want, got := Load(s.Dump(), cfg).Plan(shareNoon), s.Plan(shareNoon)
			if diff := cmp.Diff(told(want), told(got)); diff != "" {
				t.Fatalf("loaded anew it tells another mix (-anew +kept):\n%s", diff)
			}
			for _, c := range got.Changes {
				if version = max(version, s.m.Latest); c.RequestMix != nil && rapid.Bool().Draw(t, "apply") {
					s.Apply(c)
				}
			}
			version = max(version, s.m.Latest)
		}
		if found, _ := s.Audit(0, 1000); len(found) > 0 {
			t.Fatal(found)
		}
	})
}

// A card of which a part is given away is of no use to who asks for whole ones: its node is not one that is still empty.
func TestCardsInPartsCountAsTaken(t *testing.T) {
	s := Load(api.Snapshot{}, api.Config{Packing: api.Priced})
	for i, name := range []string{"empty", "shared"} {
		c := machine(name, uint64(1+i), 2, "A")
		for j := range c.Node.Devices {
			c.Node.Devices[j].Memory, c.Node.Devices[j].Parts = 1000, 4
		}
		s.Apply(c)
	}
	s.Apply(asks("ns/whole", 10, 1, 1), api.Change{Pod: &api.Pod{
		Key: "ns/part", UID: "u", Version: 11, Node: "shared", Devices: []string{"shared-0"}, Spec: api.Spec{Part: &api.Part{Cards: 1, Memory: 100}},
	}})
	plan := s.Plan(shareNoon)
	if len(plan.Starts) != 1 || plan.Starts[0].Placements[0].Node != "shared" {
		t.Errorf("it does not go to the node that is in use: %+v", plan.Starts)
	}
}
