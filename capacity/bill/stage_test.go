package bill_test

import (
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/capacity"
	"github.com/berth-dev/berth/capacity/bill"
	"github.com/berth-dev/berth/engine"
)

// TestUnusedByStage is an hour of a machine of eight GPUs at 80 USD, of which a pod holds two: what kept the other six from being held.
func TestUnusedByStage(t *testing.T) {
	taint := func(key string, effect engine.Effect) func(*engine.Node) {
		return func(n *engine.Node) { n.Taints = append(n.Taints, engine.Taint{Key: key, Effect: effect}) }
	}
	offers := func(gpus int64) func(*engine.Node) {
		return func(n *engine.Node) { n.Allocatable = engine.Resources{{Resource: "nvidia.com/gpu", Value: gpus}} }
	}
	for _, c := range []struct {
		name  string
		edits []func(*engine.Node)
		want  map[string]int64 // GPU-hours by stage
	}{
		{"all is well", nil, map[string]int64{"schedulable": 6}},
		{"not Ready", []func(*engine.Node){taint("node.kubernetes.io/not-ready", engine.NoExecute), offers(0)}, map[string]int64{"registered": 6}},
		{"out of reach", []func(*engine.Node){taint("node.kubernetes.io/unreachable", engine.NoSchedule)}, map[string]int64{"registered": 6}},
		{"six are offered", []func(*engine.Node){offers(6)}, map[string]int64{"ready": 2, "schedulable": 4}},
		{"none is offered", []func(*engine.Node){offers(0)}, map[string]int64{"ready": 6}},
		{"more is offered than there is", []func(*engine.Node){offers(64)}, map[string]int64{"schedulable": 6}},
		{"cordoned, and seven are offered", []func(*engine.Node){offers(7), func(n *engine.Node) { n.Cordoned = true }}, map[string]int64{"ready": 1, "healthy": 5}},
		{"not trusted", []func(*engine.Node){func(n *engine.Node) { n.Quarantine = "xid" }}, map[string]int64{"healthy": 6}},
		{"short of memory", []func(*engine.Node){taint("node.kubernetes.io/memory-pressure", engine.NoSchedule)}, map[string]int64{"healthy": 6}},
		{"its GPUs' own taint", []func(*engine.Node){taint("nvidia.com/gpu", engine.NoSchedule)}, map[string]int64{"schedulable": 6}},
		{"a taint that keeps nobody away", []func(*engine.Node){taint("node.kubernetes.io/not-ready", engine.PreferNoSchedule)}, map[string]int64{"schedulable": 6}},
		{"a sick GPU", []func(*engine.Node){offers(7), func(n *engine.Node) {
			n.Devices = []engine.Device{{ID: "a"}, {ID: "b", Unhealthy: true}}
		}}, map[string]int64{"advertised": 1, "schedulable": 5}},
		{"cut by MIG", []func(*engine.Node){func(n *engine.Node) { cut(engine.Change{Node: n}) }}, map[string]int64{"schedulable": 6}},
		{"time-sliced by four", []func(*engine.Node){offers(32), func(n *engine.Node) { n.Labels["nvidia.com/gpu.replicas"] = "4" }}, map[string]int64{"schedulable": 6}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := bill.New(bill.Options{Tariff: eight})
			n, p := aNode("n", "p", 8, 1), aPod("a/x", "q", "n", 2, 1)
			for _, edit := range c.edits {
				edit(n.Node)
			}
			if n.Node.Labels["nvidia.com/gpu.replicas"] != "" {
				p = aPod("a/x", "q", "n", 8, 1)
			}
			if len(n.Node.Slices) > 0 {
				p.Pod.Requests = engine.Resources{{Resource: "nvidia.com/mig-3g.40gb", Value: 4}}
			}
			b.Add(bill.Step{Now: noon, Fresh: true, Changes: []engine.Change{n, p}})
			r := b.Close(after(60), bill.ByQueue)
			got, money := map[string]int64{}, capacity.Micro(0)
			for _, l := range r.UnusedBy {
				got[l.Name] = l.Used / bill.Hour
				money += l.Cost[0].Micro
			}
			if diff := gocmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if r.Unused.Used != 6*bill.Hour || money != 60_000_000 || r.Unused.Cost[0].Micro != money {
				t.Errorf("unused: %d hours, %v; by stage %v", r.Unused.Used/bill.Hour, r.Unused.Cost, money)
			}
		})
	}

	// Machines of a reservation that are no nodes are paid for, and a node that comes and goes is each for as long as it was.
	x := bill.Reservation{Name: "r", Instances: 2, GPUs: 8, Start: noon, End: noon.Add(time.Hour), Price: bill.Price{Known: true, Micro: 80_000_000, Currency: "EUR"}}
	b := bill.New(bill.Options{Tariff: bill.Tariff{Reservations: []bill.Reservation{x}, Pools: map[string]bill.Pool{"p": {GPUs: 8, Reservations: []string{"r"}}}}})
	b.Add(bill.Step{Now: noon, Fresh: true, Changes: []engine.Change{aNode("n", "p", 8, 1)}})
	sick := aNode("n", "p", 0, 2)
	b.Add(bill.Step{Now: after(30), Changes: []engine.Change{sick}})
	r := b.Close(after(60), bill.ByQueue)
	got := map[string]int64{}
	for _, l := range r.UnusedBy {
		got[l.Name] = l.Used / bill.Hour
	}
	if diff := gocmp.Diff(map[string]int64{"paid": 8, "ready": 4, "schedulable": 4}, got); diff != "" || r.Paid.Used != 16*bill.Hour {
		t.Error(diff)
	}
}
