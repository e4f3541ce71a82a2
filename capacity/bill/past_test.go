package bill_test

import (
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/capacity/bill"
	"github.com/berth-dev/berth/engine"
)

func member(key, node string, version uint64) engine.Change {
	return edited(aPod(key, "q", node, 4, version), func(p *engine.Pod) { p.Gang = "x/gang/g" })
}

// TestPast follows a gang of two that waits for ten minutes, runs for twenty and is preempted.
func TestPast(t *testing.T) {
	f := bill.Follow(after(0), after(60), 6)
	f.Add(bill.Step{Now: after(0), Fresh: true, Changes: []engine.Change{aNode("n", "", 8, 1), member("x/1", "", 2), member("x/2", "", 2)}})
	f.Add(bill.Step{Now: after(10), Changes: []engine.Change{member("x/1", "n", 3), member("x/2", "n", 3)}})
	f.Add(bill.Step{Now: after(25), Evictions: []engine.Eviction{{Pod: "x/1", Cause: engine.Preempted}}})
	f.Add(bill.Step{Now: after(30), Changes: []engine.Change{gone(engine.KindPod, "x/1", 4)}})
	f.Add(bill.Step{Now: after(52), Unseen: true, Fresh: true, Changes: []engine.Change{aNode("n", "", 8, 9)}})
	p := f.Close(after(55))
	tens := func(n int64) int64 { return n * bill.Hour / 6 } // GPUs for ten minutes
	want := []bill.Point{
		{At: after(10), Seen: 600_000, Unused: tens(8), Waiting: tens(8)},
		{At: after(20), Seen: 600_000, Used: tens(8)},
		{At: after(30), Seen: 600_000, Used: tens(8), Lost: tens(8), Preempted: 1},
		{At: after(40)},
		{At: after(50)},
		{At: after(55), Seen: 180_000, Unused: 8 * bill.Hour / 20},
	}
	if diff := gocmp.Diff(want, p.Points); diff != "" {
		t.Error(diff)
	}
	if diff := gocmp.Diff([]int64{600_000}, p.Waits); diff != "" {
		t.Error("a gang waits once:", diff)
	}
}

// TestDifference is between two moments of one history.
// TestPastOfNoTime asks for parts of a span that is too short for them.
func TestPastOfNoTime(t *testing.T) {
	for _, span := range []time.Duration{-time.Hour, 0, 3} {
		f := bill.Follow(noon, noon.Add(span), 12)
		f.Add(bill.Step{Now: noon, Fresh: true})
		points := f.Close(noon.Add(time.Hour)).Points
		if want := int(max(1, span)); len(points) != want {
			t.Errorf("%v: %d parts, want %d", span, len(points), want)
		}
	}
}

func TestDifference(t *testing.T) {
	b := bill.New(bill.Options{})
	b.Add(bill.Step{Now: after(0), Fresh: true, Changes: []engine.Change{
		aNode("n", "", 8, 1), aNode("m", "", 8, 1), member("x/1", "", 2), member("x/2", "", 2),
		aPod("x/ends", "q", "m", 2, 1), aPod("x/stays", "q", "m", 1, 1), aPod("x/leaves", "q", "", 1, 1), aPod("x/back", "q", "m", 1, 1),
	}})
	before := b.Moment()
	b.Add(bill.Step{Now: after(5), Changes: []engine.Change{
		member("x/1", "n", 3), member("x/2", "n", 3), gone(engine.KindPod, "x/ends", 2), gone(engine.KindPod, "x/leaves", 2), aPod("x/comes", "p", "", 1, 1),
		gone(engine.KindPod, "x/back", 2), edited(aPod("x/back", "q", "", 1, 3), func(p *engine.Pod) { p.UID = "again" }),
	}})
	after := b.Moment()
	got := map[string]string{}
	for _, c := range bill.Difference(&before, &after) {
		got[c.Key] = c.What
	}
	want := map[string]string{"x/gang/g": "starts", "x/ends": "ends", "x/leaves": "leaves", "x/comes": "is queued", "x/back": "waits again"}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := gocmp.Diff(bill.Sum{At: before.At, Nodes: 2, GPUs: 16, Held: 4000, Waiting: 9000, Running: 3, WaitingWork: 2}, before.Sum()); diff != "" {
		t.Error(diff)
	}
	if len(after.Nodes) != 2 || len(after.Nodes[1].Holds) != 2 || after.Nodes[1].Holds[0].Work != "x/gang/g" {
		t.Errorf("%+v", after.Nodes)
	}
	if len(bill.Difference(&after, &after)) != 0 {
		t.Error("a moment differs from itself")
	}
}
