package maintenance

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var noon = time.Date(2026, 11, 18, 12, 0, 0, 0, time.UTC)

func at(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }

// A gang over two nodes is stopped once, right after it has saved its state; what is over in the window is waited for.
func TestPlan(t *testing.T) {
	got := Make(Window{at(0), at(120)}, []string{"n3", "n1", "n2", "n4"}, []Work{
		{Key: "gang", Nodes: []string{"n1", "n2"}, GPUs: 16, Started: at(-50), Checkpoint: time.Hour, Restart: 5 * time.Minute},
		{Key: "short", Nodes: []string{"n3"}, GPUs: 8, Started: at(-600), Ends: at(30), Restart: time.Minute},
		{Key: "elsewhere", Nodes: []string{"n9"}, GPUs: 8, Started: at(-600)},
	})
	want := Plan{Window: Window{at(0), at(120)}, Best: true, LostGPUSeconds: 16 * 300, NoEnd: []string{"gang"}, Steps: []Step{
		{At: at(0), Nodes: []string{"n4"}},
		{At: at(10), Nodes: []string{"n1", "n2"}, Stops: []Stop{{"gang", 16, 300}}},
		{At: at(30), Nodes: []string{"n3"}, Over: []string{"short"}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
}

// Work that never saves its state and does not end is stopped at once: it only loses more later.
func TestPlanWithoutCheckpoints(t *testing.T) {
	got := Make(Window{at(0), at(120)}, []string{"n1"}, []Work{{Key: "w", Nodes: []string{"n1"}, GPUs: 1, Started: at(-60), Ends: at(121)}})
	if want := (Step{At: at(0), Nodes: []string{"n1"}, Stops: []Stop{{"w", 1, 3600}}}); !cmp.Equal(got.Steps, []Step{want}) {
		t.Errorf("%+v", got)
	}
}

// What nothing is known of is said, for work that is stopped and for no other.
func TestPlanSaysWhatItAssumes(t *testing.T) {
	got := Make(Window{at(0), at(120)}, []string{"n1", "n2", "n3", "n4"}, []Work{
		{Key: "silent", Nodes: []string{"n1"}, GPUs: 1, Started: at(-60)},
		{Key: "saves", Nodes: []string{"n2"}, GPUs: 1, Started: at(-60), Checkpoint: time.Hour},
		{Key: "ends", Nodes: []string{"n3"}, GPUs: 1, Started: at(-60), Ends: at(300)},
		{Key: "over", Nodes: []string{"n4"}, GPUs: 1, Started: at(-60), Ends: at(30)},
		{Key: "elsewhere", Nodes: []string{"n9"}, GPUs: 1, Started: at(-60)},
	})
	if diff := cmp.Diff([][]string{{"saves", "silent"}, {"ends", "silent"}}, [][]string{got.NoEnd, got.NoCheckpoint}); diff != "" {
		t.Errorf("no end, no checkpoint (-want +got):\n%s", diff)
	}
}

func anyWorks(t *rapid.T, nodes, most, window int) (names []string, works []Work) {
	for i := range rapid.IntRange(1, nodes).Draw(t, "nodes") {
		names = append(names, fmt.Sprintf("n%d", i))
	}
	for i := range rapid.IntRange(0, most).Draw(t, "works") {
		w := Work{Key: fmt.Sprintf("w%d", i), GPUs: rapid.Int64Range(1, 16).Draw(t, "gpus"), Started: at(-rapid.IntRange(0, 300).Draw(t, "ran"))}
		w.Nodes = rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, min(3, len(names)), rapid.ID[string]).Draw(t, "on")
		if rapid.Bool().Draw(t, "ends") {
			w.Ends = at(rapid.IntRange(0, 2*window).Draw(t, "at"))
		}
		w.Checkpoint = time.Duration(rapid.SampledFrom([]int{0, 0, 7, 20, 60}).Draw(t, "checkpoint")) * time.Minute
		w.Restart = time.Duration(rapid.IntRange(0, 10).Draw(t, "restart")) * time.Minute
		works = append(works, w)
	}
	return names, works
}

// By brute force over every minute: what is said to be best is, and what is not so is no worse than one moment for all.
func TestPlansLoseTheLeast(t *testing.T) {
	const window = 12
	rapid.Check(t, func(t *rapid.T) {
		names, works := anyWorks(t, 3, 4, window)
		plan := Make(Window{at(0), at(window)}, names, works)
		counted := func(of func(node string) time.Time) (sum int64) {
			for _, w := range works {
				first := of(w.Nodes[0])
				for _, n := range w.Nodes[1:] {
					if x := of(n); x.Before(first) {
						first = x
					}
				}
				sum += int64(w.lost(first).Seconds()) * w.GPUs
			}
			return sum
		}
		planned := map[string]time.Time{}
		for _, s := range plan.Steps {
			for _, n := range s.Nodes {
				planned[n] = s.At
			}
		}
		if got := counted(func(n string) time.Time { return planned[n] }); got != plan.LostGPUSeconds {
			t.Fatalf("it says that %d are lost, and %d are: %+v", plan.LostGPUSeconds, got, plan)
		}
		minutes := make([]int, len(names))
		for more := true; more; more = next(minutes, window+1) {
			if other := counted(func(n string) time.Time { return at(minutes[slices.Index(names, n)]) }); other < plan.LostGPUSeconds {
				t.Fatalf("drained at minutes %v it loses %d, and this %d: %+v", minutes, other, plan.LostGPUSeconds, plan)
			}
		}
	})
}

// Of any works: each node is drained once and in the window, each workload stops or is over once, and one moment for all is no better.
func TestPlansOfMany(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const window = 480
		names, works := anyWorks(t, 12, 20, window)
		plan := Make(Window{at(0), at(window)}, names, works)
		var drained, met []string
		for _, s := range plan.Steps {
			if s.At.Before(at(0)) || s.At.After(at(window)) {
				t.Fatalf("outside of the window: %+v", s)
			}
			drained = append(drained, s.Nodes...)
			met = append(met, s.Over...)
			for _, stop := range s.Stops {
				met = append(met, stop.Workload)
			}
		}
		slices.Sort(drained)
		slices.Sort(met)
		var keys []string
		for _, w := range works {
			keys = append(keys, w.Key)
		}
		slices.Sort(names)
		slices.Sort(keys)
		if !slices.Equal(drained, names) || !slices.Equal(met, keys) {
			t.Fatalf("drains %v of %v, and meets %v of %v", drained, names, met, keys)
		}
		for m := range window + 1 {
			all := int64(0)
			for _, w := range works {
				all += int64(w.lost(at(m)).Seconds()) * w.GPUs
			}
			if all < plan.LostGPUSeconds {
				t.Fatalf("all at minute %d lose %d, and this %d", m, all, plan.LostGPUSeconds)
			}
		}
	})
}

// A thousand nodes of one gang and many others, all with checkpoints: what people would wait for.
func BenchmarkMake(b *testing.B) {
	var nodes []string
	var works []Work
	gang := Work{Key: "gang", GPUs: 8000, Started: at(-90), Checkpoint: 20 * time.Minute}
	for i := range 1000 {
		name := fmt.Sprintf("n%d", i)
		nodes = append(nodes, name)
		gang.Nodes = append(gang.Nodes, name)
		works = append(works, Work{Key: "w" + name, Nodes: []string{name}, GPUs: 1, Started: at(-i), Checkpoint: 30 * time.Minute})
	}
	works = append(works, gang)
	for b.Loop() {
		Make(Window{at(0), at(360)}, nodes, works)
	}
}
