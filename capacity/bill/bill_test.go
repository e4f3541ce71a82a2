package bill_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/capacity"
	"github.com/berth-dev/berth/capacity/bill"
	"github.com/berth-dev/berth/engine"
)

var noon = time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC)

func after(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }

func aNode(name, pool string, gpus int64, version uint64) engine.Change {
	return engine.Change{Node: &engine.Node{Name: name, Version: version, Labels: map[string]string{v1alpha1.LabelPool: pool}, Allocatable: engine.Resources{{Resource: "nvidia.com/gpu", Value: gpus}}}}
}

func aPod(key, queue, node string, gpus int64, version uint64) engine.Change {
	p := &engine.Pod{Key: key, UID: key, Queue: queue, Node: node, Version: version}
	p.Requests = engine.Resources{{Resource: "nvidia.com/gpu", Value: gpus}}
	return engine.Change{Pod: p}
}

func gone(kind engine.Kind, key string, version uint64) engine.Change {
	return engine.Change{Gone: &engine.Ref{Kind: kind, Key: key, Version: version}}
}

func edited(c engine.Change, edit func(*engine.Pod)) engine.Change {
	edit(c.Pod)
	return c
}

// cut is the node with its GPUs cut by MIG, into instances of half of one.
func cut(c engine.Change) engine.Change {
	c.Node.Allocatable = engine.Resources{{Resource: "nvidia.com/mig-3g.40gb", Value: 16}}
	c.Node.Slices = []engine.Slice{{Resource: "nvidia.com/mig-3g.40gb", Memory: 500, Compute: 428}}
	return c
}

// eight is a pool of machines with 8 GPUs at 80 an hour, 10 a GPU.
var eight = bill.Tariff{Pools: map[string]bill.Pool{"p": {GPUs: 8, Price: bill.Price{Known: true, Micro: 80_000_000, Currency: "USD"}}}}

// printed is a report as the bills below are written.
func printed(r *bill.Report) (out []string) {
	hours := func(n int64) string {
		return fmt.Sprintf("%d.%03d", n/bill.Hour, n%bill.Hour*1000/bill.Hour)
	}
	line := func(name string, l bill.Line) {
		out = append(out, fmt.Sprintf("%s: %s h %v, unpriced %s, idle %s, waits %s by %d, lost %s by %d, share %v", name, hours(l.Used), amounts(l.Cost), hours(l.Unpriced), hours(l.Idle), hours(l.Waiting), l.Waited, hours(l.Lost), l.Evicted, amounts(l.Share)))
	}
	for _, l := range r.Lines {
		line("["+l.Name+"]", l)
	}
	line("unused", r.Unused)
	line("paid", r.Paid)
	return out
}

func amounts(all []capacity.Amount) (out []string) {
	for _, a := range all {
		out = append(out, a.Micro.Text()+" "+a.Currency)
	}
	return out
}

// TestBillOfSelectedNodes: nodes of Karpenter's are charged by the Pool that selects them: the reserved one to its reservation at 40 an
// hour, the one on demand at the pool's 80, and one that no Pool selects has no price.
func TestBillOfSelectedNodes(t *testing.T) {
	node := func(name, paid, pool string, version uint64) engine.Change {
		c := aNode(name, "", 8, version)
		c.Node.Labels = map[string]string{"karpenter.sh/nodepool": pool, "karpenter.sh/capacity-type": paid}
		return c
	}
	tariff := bill.Tariff{
		Reservations: []bill.Reservation{{Name: "block", GPUs: 8, Instances: 1, Start: noon, Price: bill.Price{Known: true, Micro: 40_000_000, Currency: "USD"}}},
		Pools:        map[string]bill.Pool{"gpu": {Reservations: []string{"block"}, Selects: &v1alpha1.NodeSelection{NodePool: "h200"}, Price: bill.Price{Known: true, Micro: 80_000_000, Currency: "USD"}}},
	}
	b := bill.New(bill.Options{Tariff: tariff})
	b.Add(bill.Step{Now: after(0), Fresh: true, Changes: []engine.Change{node("a", "on-demand", "h200", 1), node("b", "reserved", "h200", 2), node("c", "on-demand", "other", 3)}})
	r := b.Close(after(60), bill.ByQueue)
	if got := fmt.Sprint(amounts(r.Paid.Cost), r.Paid.Unpriced/bill.Hour); got != "[120.00 USD] 8" {
		t.Error(got)
	}
}

// A machine that registers under another name is paid for once while both Node objects are there, and holds what the pods of the one
// that its kubelet keeps hold: that pods of the other still stand in the API gives them no GPU.
func TestMachineUnderTwoNames(t *testing.T) {
	node := func(name string, version uint64, ready bool) engine.Change {
		c := aNode(name, "p", 8, version)
		c.Node.Machine = "aws:///us-east-1a/i-0abc"
		if !ready {
			c.Node.Taints = []engine.Taint{{Key: "node.kubernetes.io/unreachable", Effect: engine.NoExecute}}
		}
		return c
	}
	reserved := bill.Tariff{
		Reservations: []bill.Reservation{{Name: "block", GPUs: 8, Instances: 2, Start: noon, Price: bill.Price{Known: true, Micro: 40_000_000, Currency: "USD"}}},
		Pools:        map[string]bill.Pool{"p": {GPUs: 8, Reservations: []string{"block"}, Price: bill.Price{Known: true, Micro: 80_000_000, Currency: "USD"}}},
	}
	steps := []bill.Step{
		{Now: after(0), Fresh: true, Changes: []engine.Change{node("old", 1, true), aPod("x/1", "a", "old", 8, 2)}},
		{Now: after(60), Changes: []engine.Change{node("new", 3, true)}}, // both are Ready: the later one counts
		{Now: after(75), Changes: []engine.Change{node("old", 4, false), aPod("x/2", "b", "new", 4, 5)}},
		{Now: after(120), Changes: []engine.Change{gone(engine.KindPod, "x/1", 6), gone(engine.KindNode, "old", 7)}},
	}
	for _, c := range []struct {
		tariff     bill.Tariff
		paid, a, b string
	}{
		// Three hours of 8 GPUs at 10 are 240: a's first is 80, b has 4 GPUs for 105 minutes, 70.
		{eight, "[240.00 USD]", "[80.00 USD]", "[70.00 USD]"},
		// The machine is one of the two that are reserved at 5 a GPU, and the other is no node all the time: 240 again.
		{reserved, "[240.00 USD]", "[40.00 USD]", "[35.00 USD]"},
	} {
		book := bill.New(bill.Options{Tariff: c.tariff})
		for i, s := range steps {
			book.Add(s)
			if m := book.Moment(); len(m.Nodes) != 1 || m.Sum().GPUs != 8 {
				t.Errorf("after step %d there are %d machines with %d GPUs, want one with 8", i, len(m.Nodes), m.Sum().GPUs)
			}
		}
		r := book.Close(after(180), bill.ByQueue)
		got := map[string]string{"paid": fmt.Sprint(amounts(r.Paid.Cost))}
		for _, l := range r.Lines {
			got[l.Name] = fmt.Sprint(amounts(l.Cost))
		}
		if diff := gocmp.Diff(map[string]string{"paid": c.paid, "a": c.a, "b": c.b}, got); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	}
}

// Parts of GPUs that a pod has through claims are billed as queues count them, and devices that are no GPUs are not billed: neither what a
// pod has, nor what it waits for.
func TestBillOfClaims(t *testing.T) {
	node := aNode("n", "p", 0, 1)
	node.Node.ByClaims = []string{"nvidia.com/gpu"}
	card := &engine.Claims{Requests: []engine.DeviceRequest{{Name: "nic", Options: []engine.DeviceOption{{Selection: "nic", Count: 4}}}}}
	pods := []engine.Change{
		edited(aPod("x/mig", "mig", "n", 0, 2), func(p *engine.Pod) {
			p.Requests, p.Claimed, p.Devices = nil, 250, []string{"gpu.nvidia.com/n/gpu-0-mig-1g.20gb-0"}
		}),
		edited(aPod("x/both", "both", "n", 1, 3), func(p *engine.Pod) {
			p.Devices, p.Claims = []string{"gpu.nvidia.com/n/gpu-1", "net.example.com/n/nic-0"}, card
		}),
		edited(aPod("x/card", "card", "n", 0, 4), func(p *engine.Pod) {
			p.Requests, p.Devices, p.Claims = nil, []string{"net.example.com/n/nic-1"}, card
		}),
		edited(aPod("x/waits", "waits", "", 0, 5), func(p *engine.Pod) { p.Requests, p.Claims = nil, card }),
	}
	b := bill.New(bill.Options{Tariff: eight})
	b.Add(bill.Step{Now: after(0), Fresh: true, Changes: append(pods, node)})
	r := b.Close(after(60), bill.ByQueue)
	got := map[string][2]int64{}
	for _, l := range r.Lines {
		got[l.Name] = [2]int64{l.Used, l.Waiting}
	}
	if diff := gocmp.Diff(map[string][2]int64{"both": {bill.Hour, 0}, "mig": {bill.Hour / 4, 0}}, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// A log begins anew every hour with all that is known. What the bill remembered stands: how many GPUs a machine has of which some are
// broken, whom the pods of a gang that is over are charged to, who is being evicted, and since when work waits.
func TestBillOfLogsThatBeginAnew(t *testing.T) {
	gang := engine.Change{Gang: &engine.Gang{Key: "x/g", Version: 3, Queue: "a"}}
	member := func(node string, version uint64) engine.Change {
		return edited(aPod("x/1", "", node, 4, version), func(p *engine.Pod) { p.Gang = "x/g" })
	}
	for _, anew := range []bool{false, true} {
		b := bill.New(bill.Options{Tariff: bill.Tariff{Pools: map[string]bill.Pool{"p": {Price: eight.Pools["p"].Price}}}})
		b.Add(bill.Step{Now: after(0), Fresh: true, Changes: []engine.Change{aNode("n", "p", 8, 1), gang, member("n", 2)}})
		b.Add(bill.Step{Now: after(30), Changes: []engine.Change{aNode("n", "p", 6, 4), gone(engine.KindGang, "x/g", 5)}, Evictions: []engine.Eviction{{Pod: "x/1", Cause: engine.Preempted}}})
		live := []engine.Change{aNode("n", "p", 6, 4), member("n", 2)}
		if !anew {
			live = nil
		}
		b.Add(bill.Step{Now: after(60), Fresh: anew, Changes: live})
		b.Add(bill.Step{Now: after(90), Fresh: anew, Changes: append(live, gone(engine.KindPod, "x/1", 6))})
		r := b.Close(after(120), bill.ByQueue)
		want := []string{
			"[a]: 6.000 h [60.00 USD], unpriced 0.000, idle 0.000, waits 0.000 by 0, lost 6.000 by 1, share [100.00 USD]",
			"unused: 10.000 h [100.00 USD], unpriced 0.000, idle 0.000, waits 0.000 by 0, lost 0.000 by 0, share []",
			"paid: 16.000 h [160.00 USD], unpriced 0.000, idle 0.000, waits 0.000 by 0, lost 6.000 by 1, share []",
		}
		if diff := gocmp.Diff(want, printed(r)); diff != "" {
			t.Errorf("anew %v: -want +got\n%s", anew, diff)
		}
	}
}

// What pods ask for may be anything, and be asked for by many for long: sums are large then, and never wrap around.
func TestBillOfAbsurdRequests(t *testing.T) {
	b := bill.New(bill.Options{Tariff: eight})
	changes := []engine.Change{aNode("n", "p", 8, 1)}
	for i := range 1000 {
		changes = append(changes, aPod(fmt.Sprintf("x/%d", i), "a", "", 1_000_000_000_000_000_000, uint64(2+i)), edited(aPod(fmt.Sprintf("y/%d", i), "b", "", 0, uint64(2+i)), func(p *engine.Pod) {
			p.Requests, p.Part = nil, &engine.Part{Cards: 1 << 40, Share: 1 << 40}
		}))
	}
	b.Add(bill.Step{Now: after(0), Fresh: true, Changes: changes})
	r := b.Close(after(366*24*60), bill.ByQueue)
	for _, l := range append(r.Lines, r.Paid) {
		if l.Waiting != math.MaxInt64 {
			t.Errorf("%q waits for %d", l.Name, l.Waiting)
		}
	}
}

// TestBills are bills that were computed by hand.
func TestBills(t *testing.T) {
	for _, c := range []struct {
		name  string
		o     bill.Options
		steps []bill.Step
		close int // minutes
		by    bill.By
		want  []string
	}{
		{
			// The node says that an instance is half of a GPU: one for an hour is half a GPU-hour, 5. The other 7.5 are 75, all b's share.
			name: "an instance of MIG", o: bill.Options{Tariff: eight}, close: 60,
			steps: []bill.Step{
				{Now: after(0), Fresh: true, Changes: []engine.Change{cut(aNode("n", "p", 0, 1)), edited(aPod("x/1", "b", "n", 0, 2), func(p *engine.Pod) {
					p.Requests = engine.Resources{{Resource: "nvidia.com/mig-3g.40gb", Value: 1}}
				})}},
			},
			want: []string{
				"[b]: 0.500 h [5.00 USD], unpriced 0.000, idle 0.000, waits 0.000 by 0, lost 0.000 by 0, share [75.00 USD]",
				"unused: 7.500 h [75.00 USD], unpriced 0.000, idle 0.000, waits 0.000 by 0, lost 0.000 by 0, share []",
				"paid: 8.000 h [80.00 USD], unpriced 0.000, idle 0.000, waits 0.000 by 0, lost 0.000 by 0, share []",
			},
		},
		{
			// 8 GPUs for two hours are 16 GPU-hours, 160. a has 4 for one hour: 40. b has 2 for 30 minutes: 10. c's pod has no queue, 1 for
			// two hours: 20. The other 9 GPU-hours are 90, of which a has 4/7, b 1/7, c 2/7.
			name: "a machine and three pods", o: bill.Options{Tariff: eight}, close: 120,
			steps: []bill.Step{
				{Now: after(0), Fresh: true, Changes: []engine.Change{aNode("n", "p", 8, 1), aPod("x/1", "a", "n", 4, 2), aPod("y/1", "", "n", 1, 3)}},
				{Now: after(60), Changes: []engine.Change{gone(engine.KindPod, "x/1", 5), aPod("x/2", "b", "n", 2, 4)}},
				{Now: after(90), Changes: []engine.Change{gone(engine.KindPod, "x/2", 6)}},
			},
			want: []string{
				"[a]: 4.000 h [40.00 USD], unpriced 0.000, idle 0.000, waits 0.000 by 0, lost 0.000 by 0, share [51.428571 USD]",
				"[b]: 1.000 h [10.00 USD], unpriced 0.000, idle 0.000, waits 0.000 by 0, lost 0.000 by 0, share [12.857143 USD]",
				"[]: 2.000 h [20.00 USD], unpriced 0.000, idle 0.000, waits 0.000 by 0, lost 0.000 by 0, share [25.714286 USD]",
				"unused: 9.000 h [90.00 USD], unpriced 0.000, idle 0.000, waits 0.000 by 0, lost 0.000 by 0, share []",
				"paid: 16.000 h [160.00 USD], unpriced 0.000, idle 0.000, waits 0.000 by 0, lost 0.000 by 0, share []",
			},
		},
		{
			// The same machine is of a pool without a price: its hours count, and it has no money.
			name: "a price that is missing", close: 60,
			steps: []bill.Step{{Now: after(0), Fresh: true, Changes: []engine.Change{aNode("n", "q", 8, 1), aPod("x/1", "a", "n", 8, 2)}}},
			want: []string{
				"[a]: 8.000 h [], unpriced 8.000, idle 0.000, waits 0.000 by 0, lost 0.000 by 0, share []",
				"unused: 0.000 h [], unpriced 0.000, idle 0.000, waits 0.000 by 0, lost 0.000 by 0, share []",
				"paid: 8.000 h [], unpriced 8.000, idle 0.000, waits 0.000 by 0, lost 0.000 by 0, share []",
			},
		},
		{
			// A pod waits 30 minutes for 4 GPUs, runs 50 minutes and is preempted. It saves its work every 20 minutes, so 10 are lost: 40
			// GPU-minutes. For the last 15 minutes it was idle, which was found out after 10 of them: an hour of one GPU.
			name: "waits, idles, is preempted", o: bill.Options{Tariff: eight}, close: 80,
			steps: []bill.Step{
				{Now: after(0), Fresh: true, Changes: []engine.Change{aNode("n", "p", 8, 1), aPod("x/1", "a", "", 4, 2)}},
				{Now: after(30), Changes: []engine.Change{edited(aPod("x/1", "a", "n", 4, 3), saves)}},
				{Now: after(75), Changes: []engine.Change{edited(aPod("x/1", "a", "n", 4, 4), func(p *engine.Pod) { saves(p); p.Idle = after(65) })}},
				{Now: after(78), Evictions: []engine.Eviction{{Pod: "x/1", UID: "x/1", Cause: engine.Preempted}}},
				{Now: after(80), Changes: []engine.Change{gone(engine.KindPod, "x/1", 9)}},
			},
			want: []string{
				"[a]: 3.333 h [33.333333 USD], unpriced 0.000, idle 1.000, waits 2.000 by 1, lost 0.666 by 1, share [73.333333 USD]",
				"unused: 7.333 h [73.333333 USD], unpriced 0.000, idle 0.000, waits 0.000 by 0, lost 0.000 by 0, share []",
				"paid: 10.666 h [106.666666 USD], unpriced 0.000, idle 1.000, waits 2.000 by 1, lost 0.666 by 1, share []",
			},
		},
		{
			// Two machines are reserved from minute 30 to 90, at 60 each. One is a node all the time, and its pool has a price of its own: 80 for
			// the two half hours before and after, 60 for the hour. The other is never launched, and is paid for an hour: 60.
			name: "a reservation begins and ends", close: 120, by: bill.ByUser,
			o: bill.Options{Tariff: bill.Tariff{
				Pools:        map[string]bill.Pool{"p": {GPUs: 8, Reservations: []string{"r"}, Price: bill.Price{Known: true, Micro: 80_000_000, Currency: "USD"}}},
				Reservations: []bill.Reservation{{Name: "r", GPUs: 8, Instances: 2, Start: after(30), End: after(90), Price: bill.Price{Known: true, Micro: 60_000_000, Currency: "USD"}}},
			}},
			steps: []bill.Step{{Now: after(0), Fresh: true, Changes: []engine.Change{aNode("n", "p", 8, 1), edited(aPod("x/1", "a", "n", 8, 2), func(p *engine.Pod) { p.User = "ann" })}}},
			want: []string{
				"[ann]: 16.000 h [140.00 USD], unpriced 0.000, idle 0.000, waits 0.000 by 0, lost 0.000 by 0, share [60.00 USD]",
				"unused: 8.000 h [60.00 USD], unpriced 0.000, idle 0.000, waits 0.000 by 0, lost 0.000 by 0, share []",
				"paid: 24.000 h [200.00 USD], unpriced 0.000, idle 0.000, waits 0.000 by 0, lost 0.000 by 0, share []",
			},
		},
		{
			// Three sevenths of a GPU are 428 thousandths; the rest of the GPU is unused. 4 of 8 shares of another node's 2 GPUs are one GPU.
			name: "parts of GPUs", close: 60, by: bill.ByNamespace,
			steps: []bill.Step{{Now: after(0), Fresh: true, Changes: []engine.Change{
				{Node: &engine.Node{Name: "mig", Version: 1, Labels: map[string]string{"nvidia.com/gpu.count": "1"}}},
				{Node: &engine.Node{Name: "shared", Version: 2, Labels: map[string]string{"nvidia.com/gpu.count": "2", "nvidia.com/gpu.replicas": "4"}}},
				edited(aPod("x/1", "", "mig", 0, 3), func(p *engine.Pod) { p.Requests[0] = engine.Amount{Resource: "nvidia.com/mig-3g.40gb", Value: 1} }),
				aPod("y/1", "", "shared", 4, 4),
			}}},
			want: []string{
				"[x]: 0.428 h [], unpriced 0.428, idle 0.000, waits 0.000 by 0, lost 0.000 by 0, share []",
				"[y]: 1.000 h [], unpriced 1.000, idle 0.000, waits 0.000 by 0, lost 0.000 by 0, share []",
				"unused: 1.572 h [], unpriced 1.572, idle 0.000, waits 0.000 by 0, lost 0.000 by 0, share []",
				"paid: 3.000 h [], unpriced 3.000, idle 0.000, waits 0.000 by 0, lost 0.000 by 0, share []",
			},
		},
		{
			// Under MIG's strategy single GPU Feature Discovery counts instances: 14 of a seventh each are those of 2 GPUs.
			name: "instances that are offered as GPUs", close: 60, by: bill.ByNamespace,
			steps: []bill.Step{{Now: after(0), Fresh: true, Changes: []engine.Change{
				{Node: &engine.Node{
					Name: "single", Version: 1, Model: "A100-MIG-1g.5gb",
					Labels:      map[string]string{"nvidia.com/gpu.count": "14", "nvidia.com/gpu.replicas": "1", "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"},
					Allocatable: engine.Resources{{Resource: "nvidia.com/gpu", Value: 14}},
					Slices:      []engine.Slice{{Resource: "nvidia.com/gpu", Memory: 125, Compute: 142}},
				}},
				aPod("x/1", "", "single", 1, 2),
			}}},
			want: []string{
				"[x]: 0.142 h [], unpriced 0.142, idle 0.000, waits 0.000 by 0, lost 0.000 by 0, share []",
				"unused: 1.858 h [], unpriced 1.858, idle 0.000, waits 0.000 by 0, lost 0.000 by 0, share []",
				"paid: 2.000 h [], unpriced 2.000, idle 0.000, waits 0.000 by 0, lost 0.000 by 0, share []",
			},
		},
		{
			// The bill is of minutes 30 to 90 of 120. From 60 to 75 nobody watched: 45 minutes of 8 GPUs are 6 GPU-hours.
			name: "a span with a gap", close: 120, o: bill.Options{Tariff: eight, From: after(30), To: after(90)},
			steps: []bill.Step{
				{Now: after(0), Fresh: true, Changes: []engine.Change{aNode("n", "p", 8, 1), aPod("x/1", "a", "n", 8, 2)}},
				{Now: after(60)},
				{Now: after(75), Fresh: true, Unseen: true, Changes: []engine.Change{aNode("n", "p", 8, 1), aPod("x/1", "a", "n", 8, 2)}},
			},
			want: []string{
				"[a]: 6.000 h [60.00 USD], unpriced 0.000, idle 0.000, waits 0.000 by 0, lost 0.000 by 0, share []",
				"unused: 0.000 h [], unpriced 0.000, idle 0.000, waits 0.000 by 0, lost 0.000 by 0, share []",
				"paid: 6.000 h [60.00 USD], unpriced 0.000, idle 0.000, waits 0.000 by 0, lost 0.000 by 0, share []",
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := bill.New(c.o)
			for _, s := range c.steps {
				b.Add(s)
			}
			by := c.by
			if by == nil {
				by = bill.ByQueue
			}
			if diff := gocmp.Diff(c.want, printed(b.Close(after(c.close), by))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func saves(p *engine.Pod) { p.Terms.Checkpoint = 20 * time.Minute }

// TestGangsPay has members charged to the queue and user of their gang, and to the last that was known while they end.
func TestGangsPay(t *testing.T) {
	member := edited(aPod("x/1", "", "n", 2, 2), func(p *engine.Pod) {
		p.Gang, p.Labels = "x/g", map[string]string{v1alpha1.LabelExperiment: "e"}
	})
	b := bill.New(bill.Options{})
	b.Add(bill.Step{Now: after(0), Fresh: true, Changes: []engine.Change{member, aNode("n", "", 8, 1), {Gang: &engine.Gang{Key: "x/g", Version: 3, Queue: "q", User: "u"}}}})
	b.Add(bill.Step{Now: after(30), Changes: []engine.Change{gone(engine.KindGang, "x/g", 4)}})
	for by, want := range map[string]bill.By{"q": bill.ByQueue, "u": bill.ByUser, "e": bill.ByExperiment, "x": bill.ByNamespace} {
		r := b.Close(after(60), want)
		if len(r.Lines) != 1 || r.Lines[0].Name != by || r.Lines[0].Used != 2*bill.Hour {
			t.Errorf("%s: %v", by, printed(r))
		}
	}
}

// TestBillOfAReservedMachine has a node that offers six of the eight GPUs that its reservation pays for: all eight are paid, as `berth
// capacity` counts them. When the reservation has ended, the machine is what it shows.
func TestBillOfAReservedMachine(t *testing.T) {
	tariff := bill.Tariff{
		Pools:        map[string]bill.Pool{"p": {Reservations: []string{"block"}, Price: bill.Price{Known: true, Micro: 60_000_000, Currency: "USD"}}},
		Reservations: []bill.Reservation{{Name: "block", GPUs: 8, Instances: 1, End: after(60), Price: bill.Price{Known: true, Micro: 80_000_000, Currency: "USD"}}},
	}
	b := bill.New(bill.Options{Tariff: tariff})
	b.Add(bill.Step{Now: after(0), Changes: []engine.Change{aNode("n", "p", 6, 1), aPod("t/a", "q", "n", 4, 1)}})
	b.Add(bill.Step{Now: after(60)})
	r := b.Close(after(120), bill.ByQueue)
	want := []string{
		"[q]: 8.000 h [80.00 USD], unpriced 0.000, idle 0.000, waits 0.000 by 0, lost 0.000 by 0, share [60.00 USD]",
		"unused: 6.000 h [60.00 USD], unpriced 0.000, idle 0.000, waits 0.000 by 0, lost 0.000 by 0, share []",
		"paid: 14.000 h [140.00 USD], unpriced 0.000, idle 0.000, waits 0.000 by 0, lost 0.000 by 0, share []",
	}
	if diff := gocmp.Diff(want, printed(r)); diff != "" {
		t.Error(diff)
	}
}

// TestBillOfReservationsOfOneName charges a node by the reservation of its zone: Google's may have the same name in two.
func TestBillOfReservationsOfOneName(t *testing.T) {
	tariff := bill.Tariff{}
	for i, zone := range []string{"a", "b"} {
		tariff.Reservations = append(tariff.Reservations, bill.Reservation{Name: "h200." + zone, ID: "projects/lab/zones/" + zone + "/reservations/h200", Zone: zone, GPUs: 8, Instances: 1, Price: bill.Price{Known: true, Micro: capacity.Micro(i+1) * 80_000_000, Currency: "USD"}})
	}
	b := bill.New(bill.Options{Tariff: tariff})
	n := aNode("n", "", 8, 1)
	n.Node.Labels = map[string]string{"topology.kubernetes.io/zone": "b", "cloud.google.com/reservation-name": "h200"}
	b.Add(bill.Step{Now: after(0), Changes: []engine.Change{n, aPod("t/a", "q", "n", 8, 1)}})
	got := printed(b.Close(after(60), bill.ByQueue))[0]
	if want := "[q]: 8.000 h [160.00 USD], unpriced 0.000, idle 0.000, waits 0.000 by 0, lost 0.000 by 0, share [80.00 USD]"; got != want {
		t.Error(got)
	}
}

// TestBillOfWhatIsNotAdvertised: a machine on demand whose device plugin never came has 8 GPUs by its type, and they are paid for: 80 an hour.
// Another machine of its name that comes without the first having been seen to go, of a type with one GPU, costs what that costs.
func TestBillOfWhatIsNotAdvertised(t *testing.T) {
	tariff := bill.Tariff{Pools: map[string]bill.Pool{"gpu": {Selects: &v1alpha1.NodeSelection{NodePool: "gpu"}, Price: bill.Price{Known: true, Micro: 80_000_000, Currency: "USD"}}}}
	node := func(kind string, version uint64) engine.Change {
		return engine.Change{Node: &engine.Node{Name: "n", Version: version, Labels: map[string]string{"node.kubernetes.io/instance-type": kind, "karpenter.sh/nodepool": "gpu"}}}
	}
	b := bill.New(bill.Options{Tariff: tariff})
	b.Add(bill.Step{Now: after(0), Fresh: true, Changes: []engine.Change{node("p5en.48xlarge", 1)}})
	b.Add(bill.Step{Now: after(60), Changes: []engine.Change{node("g6.xlarge", 2)}})
	r := b.Close(after(120), bill.ByQueue)
	want := []string{
		"unused: 9.000 h [160.00 USD], unpriced 0.000, idle 0.000, waits 0.000 by 0, lost 0.000 by 0, share []",
		"paid: 9.000 h [160.00 USD], unpriced 0.000, idle 0.000, waits 0.000 by 0, lost 0.000 by 0, share []",
	}
	if diff := gocmp.Diff(want, printed(r)); diff != "" {
		t.Error(diff)
	}
}
