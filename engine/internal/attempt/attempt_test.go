package attempt

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/calendar"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/draft"
	"github.com/berth-dev/berth/engine/internal/index"
	"github.com/berth-dev/berth/engine/internal/order"
	"github.com/berth-dev/berth/engine/internal/place"
	"github.com/berth-dev/berth/engine/internal/preempt"
	"github.com/berth-dev/berth/engine/internal/quota"
	"github.com/berth-dev/berth/engine/why"
)

var noon = time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)

func gpus(n int64) api.Resources { return api.Resources{{Resource: "nvidia.com/gpu", Value: n}} }

func waits(key string, n int64, models ...string) api.Pod {
	return api.Pod{Key: key, UID: key, Version: 1, Created: noon, Spec: api.Spec{Requests: gpus(n), GPU: api.GPU{Models: models}}}
}

// nobody is preemption in a cycle in which nobody is evicted and nothing is held.
type nobody struct{}

func (nobody) Settles(*cluster.Gang) bool                                { return false }
func (nobody) Rights() []preempt.Right                                   { return nil }
func (nobody) Returning(int) int64                                       { return 0 }
func (nobody) OverShare(*cluster.Gang) (over preempt.OverShare, ok bool) { return }
func (nobody) EachAwaited(func(string, *cluster.Gang, []*cluster.Hold))  {}

// world is a model with a node of 4 GPUs of model A and one of 2 of model B.
type world struct {
	*cluster.Model
	draft *draft.Draft
	*Attempts
}

func begin(pods ...api.Pod) world {
	config, _ := api.Config{}.Normal()
	m := cluster.NewModel(config)
	ix, line, d := index.New(m), order.NewLine(m), draft.New(noon, 100)
	nodes := []api.Node{
		{Name: "a", Version: 1, Allocatable: append(gpus(4), api.Amount{Resource: api.Pods, Value: 99}), Devices: cards("a", "A", 4)},
		{Name: "b", Version: 1, Allocatable: append(gpus(2), api.Amount{Resource: api.Pods, Value: 99}), Devices: cards("b", "B", 2)},
	}
	m.LoadAll(&api.Snapshot{Version: api.SnapshotVersion, Nodes: nodes, Pods: pods})
	line.Follow(m.Freshen())
	ix.Refresh()
	a := New(&d, m, ix, place.New(m, ix), line)
	limits := quota.New(m, &d, quota.Questions{Models: a.Models, AllModels: a.AllModels, Plain: a.PlainDemands}, nobody{})
	a.Ask(limits, calendar.New(m, &d, calendar.Questions{Claim: a.Claim, Fits: a.WouldFit, Could: a.Could, CouldEver: a.CouldEver, Place: a.PlaceFirst}))
	return world{m, &d, a}
}

func cards(node, model string, n int) (out []api.Device) {
	for i := range n {
		out = append(out, api.Device{ID: node + string(rune('0'+i)), Model: model})
	}
	return out
}

// A question that many ask is proved once, for as long as the model stands as it did.
func TestOneProofForAllWhoAsk(t *testing.T) {
	w := begin(waits("first", 5), waits("second", 5), waits("small", 1))
	first, second := w.WorkloadNamed("first"), w.WorkloadNamed("second")
	s, stuck := w.Stuck(first, first.TurnNow())
	if !stuck || s.Proved {
		t.Fatalf("stuck %v, proved before %v", stuck, s.Proved)
	}
	told := w.Show(s)
	again, stuck := w.Stuck(second, second.TurnNow())
	if !stuck || !again.Proved {
		t.Fatalf("the second who asks: stuck %v, proved before %v", stuck, again.Proved)
	}
	if diff := cmp.Diff(told, w.Show(again)); diff != "" || len(w.draft.Plan.Certificates) != 1 {
		t.Errorf("%d certificates, and the two are told (-first +second):\n%s", len(w.draft.Plan.Certificates), diff)
	}
	small := w.WorkloadNamed("small")
	if _, stuck := w.Stuck(small, small.TurnNow()); stuck {
		t.Error("a pod that fits is stuck")
	}
	if !w.Place(small, small.TurnNow()).OK {
		t.Fatal("a pod that fits has no place")
	}
	if s, _ := w.Stuck(second, second.TurnNow()); s.Proved {
		t.Error("a proof holds although a pod was placed since")
	}
}

// By its certificate it is known of a gang whether empty nodes would hold it; without one, and in another state of the model, nothing is said.
func TestWhatEmptyNodesRefuse(t *testing.T) {
	runs := waits("runs", 3)
	runs.Node = "a"
	w := begin(runs, waits("large", 5), waits("fits-later", 4), waits("small", 1))
	for _, c := range []struct {
		key   string
		could bool
	}{{"large", false}, {"fits-later", true}} {
		g := w.WorkloadNamed(c.key)
		if !w.CouldEver(g, g.TurnNow()) {
			t.Errorf("%s: nothing is proved of it yet", c.key)
		}
		s, stuck := w.Stuck(g, g.TurnNow())
		if !stuck {
			t.Fatalf("%s has a place", c.key)
		}
		w.Show(s)
		if got := w.CouldEver(g, g.TurnNow()); got != c.could {
			t.Errorf("%s: it could ever have a place: %t", c.key, got)
		}
	}
	small, large := w.WorkloadNamed("small"), w.WorkloadNamed("large")
	w.Place(small, small.TurnNow())
	if !w.CouldEver(large, large.TurnNow()) {
		t.Error("a proof of another state counts")
	}
}

// Of several GPU models the first with a place is taken; where none has one, the two that are wanted most are proved to have none.
func TestModelsInOrder(t *testing.T) {
	for _, c := range []struct {
		name   string
		pod    api.Pod
		model  string
		causes []why.Cause
	}{
		{"the first", waits("p", 2, "B", "A"), "B", nil},
		{"the second", waits("p", 4, "B", "A"), "A", nil},
		{"neither", waits("p", 5, "B", "A"), "", []why.Cause{why.LargerThanAnyNode, why.LargerThanAnyNode}},
		{"no node has it", waits("p", 1, "C"), "", []why.Cause{why.NoMatchingNode}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := begin(c.pod)
			g := w.WorkloadNamed("p")
			found := w.Place(g, g.TurnNow())
			var causes []why.Cause
			for _, gate := range found.Gates {
				causes = append(causes, gate.Cause)
			}
			if diff := cmp.Diff(c.causes, causes); diff != "" || !found.OK != (c.model == "") || found.OK && found.Model != c.model {
				t.Errorf("got %+v, want model %q and causes (-want +got):\n%s", found, c.model, diff)
			}
		})
	}
}

// What is tried out is undone: the place, what was claimed for it, and that nothing is proved meanwhile.
func TestTryLeavesNothing(t *testing.T) {
	w := begin(waits("p", 4))
	g := w.WorkloadNamed("p")
	standing := w.Standing()
	w.Try(g, func([]*cluster.Hold) {
		if !w.Place(g, g.TurnNow()).OK {
			t.Error("no place")
		}
	})
	if w.Standing() != standing || w.Pods["p"].Host != nil || w.Quiet || w.claimed != nil {
		t.Errorf("standing %d, was %d; host %v; quiet %v; claimed %v", w.Standing(), standing, w.Pods["p"].Host, w.Quiet, w.claimed)
	}
}
