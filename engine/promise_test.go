package engine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
)

func hours(n float64) time.Duration { return time.Duration(n * float64(time.Hour)) }

func expected(d time.Duration) engine.Terms { return engine.Terms{Expected: d} }

// full is n nodes of eight GPUs, each taken by one pod that says it runs for so long, and does.
func full(t rapid.TB, cfg engine.Config, runs ...time.Duration) *simulation {
	x := newSimulation(t, engine.Snapshot{Nodes: eights(len(runs))}, cfg)
	for i, d := range runs {
		x.submit(&job{key: fmt.Sprintf("old-%d", i), gpus: 8, terms: expected(d), true: d})
	}
	x.settle()
	return x
}

func (x *simulation) promises() (out []string) {
	for _, p := range x.plan.Promises {
		out = append(out, fmt.Sprintf("%s +%v since +%v on %v", p.Gang, p.Start.Sub(noon), p.Since.Sub(noon), p.Nodes))
	}
	return out
}

func (x *simulation) wantPromises(want ...string) {
	x.t.Helper()
	x.settle()
	if diff := cmp.Diff(want, x.promises()); diff != "" {
		x.t.Errorf("promises (-want +got):\n%s", diff)
	}
}

// Nobody is promised anything that nobody can know: the world says no first.
func TestNoPromise(t *testing.T) {
	for name, submit := range map[string]func(x *simulation){
		"what runs does not say when it ends": func(x *simulation) {
			x.gang("old-0").terms = engine.Terms{}
			x.remove(x.gang("old-0"))
			x.submit(x.gang("old-0"))
			x.settle()
			x.submit(&job{key: "big", size: 1, gpus: 8})
		},
		"a member is missing": func(x *simulation) {
			x.submit(&job{key: "big", size: 2, gpus: 4})
			x.apply(engine.Change{Gone: &engine.Ref{Kind: engine.KindPod, Key: "big-1"}})
		},
		"it is larger than the cluster": func(x *simulation) { x.submit(&job{key: "big", size: 2, gpus: 8}) },
		"its queue does not exist":      func(x *simulation) { x.submit(&job{key: "big", size: 1, gpus: 8, queue: "nowhere"}) },
		"its pods fit on no node":       func(x *simulation) { x.submit(&job{key: "big", size: 1, gpus: 9}) },
	} {
		t.Run(name, func(t *testing.T) {
			x := full(t, engine.Config{}, time.Hour)
			submit(x)
			x.wantPromises()
			if len(x.plan.Changes) > 0 {
				t.Errorf("memory is edited: %s", text(t, x.plan.Changes))
			}
		})
	}
}

// The promise is the first end of running work after which the whole gang has a place.
func TestPromise(t *testing.T) {
	x := full(t, engine.Config{}, hours(3), hours(1), hours(2), hours(4))
	x.submit(&job{key: "big", size: 2, gpus: 8})
	x.wantPromises("big +2h0m0s since +0s on [n1 n2]")
	if !x.plan.WakeAt.Equal(noon.Add(time.Hour)) { // when the first of the two is said to end, and may not have
		t.Errorf("wakes at %v", x.plan.WakeAt)
	}
	before := text(t, x.s.Dump())
	x.now = x.now.Add(time.Minute)
	x.wantPromises("big +2h0m0s since +0s on [n1 n2]")
	if len(x.plan.Changes) > 0 || before != text(t, x.s.Dump()) {
		t.Errorf("a promise that stands is made again: %s", text(t, x.plan.Changes))
	}
}

// A promise rests on all the ends up to its start. One that passes without its work having ended moves it at once, not
// only when it is due.
func TestPromiseMovesWithAnEnd(t *testing.T) {
	x := full(t, engine.Config{}, hours(1), hours(1)+30*time.Second)
	x.now = noon.Add(time.Minute)
	x.submit(&job{key: "big", size: 2, gpus: 8})
	x.wantPromises("big +1h0m30s since +1m0s on [n0 n1]")
	x.now = noon.Add(2 * time.Minute)
	x.wantPromises("big +1h0m30s since +1m0s on [n0 n1]")
	x.now = noon.Add(hours(1) + 10*time.Second) // the first is believed to go on for a minute
	x.wantPromises("big +1h1m0s since +1m0s on [n0 n1]")
}

// Who should have started by now is believed to start a while later, and what is promised after it moves seldom: not with
// every moment.
func TestPromiseAfterOneThatIsDue(t *testing.T) {
	x := full(t, engine.Config{}, hours(1))
	x.submit(&job{key: "big", size: 1, gpus: 8, terms: engine.Terms{Expected: hours(2), Patient: true}})
	x.submit(&job{key: "next", size: 1, gpus: 8, terms: engine.Terms{Patient: true}})
	x.wantPromises("big +1h0m0s since +0s on [n0]", "next +3h0m0s since +0s on [n0]")
	for at, next := range map[time.Duration]string{10 * time.Second: "3h1m0s", 59 * time.Second: "3h1m0s", time.Minute: "3h2m0s"} {
		y := *x
		y.s = engine.Load(x.s.Dump(), engine.Config{})
		y.now = noon.Add(hours(1) + at)
		y.wantPromises("big +1h0m0s since +0s on [n0]", "next +"+next+" since +0s on [n0]")
	}
}

// A gang ends as one, and what is on its way out when it is said to.
func TestPromiseKnowsWhatEnds(t *testing.T) {
	x := newSimulation(t, engine.Snapshot{
		Nodes:            eights(3),
		RunTimeEstimates: []engine.RunTimeEstimate{{Like: "train", Version: 1, Count: 10, Short: time.Minute, Median: time.Hour, Long: hours(5)}},
	}, engine.Config{Policy: engine.FIFO}) // else room is made where work leaves
	x.submit(&job{key: "learned", gpus: 8, terms: engine.Terms{Like: "train"}, true: hours(9)})
	x.submit(&job{key: "capped", gpus: 8, terms: engine.Terms{Like: "train", Max: hours(4)}, true: hours(9)})
	x.submit(&job{key: "gang", size: 2, gpus: 4, terms: expected(hours(3)), true: hours(9)})
	x.settle()
	x.submit(&job{key: "one", size: 1, gpus: 8})
	x.submit(&job{key: "two", size: 1, gpus: 8})
	x.submit(&job{key: "three", size: 1, gpus: 8})
	x.wantPromises("one +3h0m0s since +0s on [n1]", "three +4h0m0s since +0s on [n0]", "two +5h0m0s since +0s on [n2]")

	leaving := x.pod(x.gang("learned"), 0)
	leaving.Node, leaving.Started, leaving.Terminating, leaving.ReleaseAt = "n2", noon, true, noon.Add(time.Minute)
	x.apply(engine.Change{Pod: leaving})
	x.wantPromises("one +3h0m0s since +0s on [n1]", "three +4h0m0s since +0s on [n0]", "two +1m0s since +0s on [n2]")
}

// Only the first Heads blocked gangs have promises; -1 gives one to all.
func TestHeads(t *testing.T) {
	for heads, want := range map[int]int{0: 4, 2: 2, -1: 6} {
		x := full(t, engine.Config{Heads: heads}, time.Hour)
		for i := range 6 {
			x.submit(&job{key: fmt.Sprint("wait-", i), gpus: 1, terms: expected(time.Hour)})
		}
		x.settle()
		if got := len(x.plan.Promises); got != want {
			t.Errorf("with %d heads %d promises, want %d", heads, got, want)
		}
	}
}

// What starts after a promise was given must leave its place, or be over in time.
func TestBackfill(t *testing.T) {
	for _, c := range []struct {
		name  string
		job   job
		cause why.Cause // "": it starts
	}{
		{"over in time", job{gpus: 4, terms: expected(hours(2))}, ""},
		{"over a second late", job{gpus: 4, terms: expected(hours(2) + time.Second)}, why.KeptForPromise},
		{"nobody knows when", job{gpus: 1}, why.KeptForPromise},
		{"ended in time", job{gpus: 4, terms: engine.Terms{Max: hours(2)}}, ""},
		{"its like are over in time nine times in ten", job{gpus: 4, terms: engine.Terms{Like: "short"}}, ""},
		{"its like are over in time half of the time", job{gpus: 4, terms: engine.Terms{Like: "long"}}, why.KeptForPromise},
		{"does not fit at all", job{gpus: 8, terms: expected(time.Hour)}, why.ClusterFull},
		{"of higher priority, and so before it", job{gpus: 4, priority: 1}, ""},
		{"a gang", job{size: 4, gpus: 1, terms: expected(time.Hour)}, ""},
		{"a gang that stays", job{size: 4, gpus: 1, terms: expected(hours(3))}, why.KeptForPromise},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newSimulation(t, engine.Snapshot{Nodes: eights(1), RunTimeEstimates: []engine.RunTimeEstimate{
				{Like: "short", Version: 1, Median: time.Hour, Long: hours(2)}, {Like: "long", Version: 1, Median: time.Hour, Long: hours(3)},
			}}, engine.Config{})
			x.submit(&job{key: "old", gpus: 4, firm: true, terms: expected(hours(2)), true: hours(2)})
			x.settle()
			x.submit(&job{key: "big", size: 1, gpus: 8, firm: true})
			x.wantPromises("big +2h0m0s since +0s on [n0]")
			x.now = x.now.Add(0)
			j := c.job
			j.key, j.true = "small", time.Hour
			x.submit(&j)
			x.settle()
			w := x.waiting("small")
			if w.Cause != c.cause || j.waits() != (c.cause != "") {
				t.Fatalf("waits %v, because %q: %s", j.waits(), w.Cause, text(t, x.plan))
			}
			if c.cause == why.KeptForPromise && w.Gates[0].Object != "big" {
				t.Errorf("kept for %q", w.Gates[0].Object)
			}
		})
	}
}

// Room that the promised gang does not need is anybody's, for any time: on other nodes, and on its own.
func TestRoomBesideAPromise(t *testing.T) {
	x := newSimulation(t, engine.Snapshot{Nodes: eights(3)}, engine.Config{})
	x.submit(&job{key: "a", gpus: 6, terms: expected(hours(1)), true: hours(1)})
	x.submit(&job{key: "b", gpus: 8, terms: expected(hours(2)), true: hours(2)})
	x.submit(&job{key: "c", gpus: 7, true: hours(9)})
	x.settle()
	x.submit(&job{key: "big", size: 2, gpus: 6})
	x.wantPromises("big +2h0m0s since +0s on [n0 n1]")
	var small []*job
	for i := range 4 {
		small = append(small, &job{key: fmt.Sprint("small-", i), gpus: 1})
		x.submit(small[i])
	}
	x.settle()
	var got []string
	for _, j := range small {
		got = append(got, fmt.Sprint(j.nodes))
	}
	// Two on the node of a, whose six suffice for the gang, one beside c, and no more.
	slices.Sort(got)
	if diff := cmp.Diff([]string{"[]", "[n0]", "[n0]", "[n2]"}, got); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
	x.wantPromises("big +2h0m0s since +0s on [n0 n1]", "small-3 +2h0m0s since +0s on [n1]")
}

// A promise moves to a sooner time when work ends sooner where it is, keeps its Since, and is gone once it is kept.
func TestPromiseComesSooner(t *testing.T) {
	x := full(t, engine.Config{}, hours(3), hours(2))
	x.gang("old-0").true = time.Hour
	big := &job{key: "big", size: 2, gpus: 8, true: time.Hour}
	x.submit(big)
	x.wantPromises("big +3h0m0s since +0s on [n0 n1]")
	x.until(noon.Add(time.Hour))
	x.wantPromises("big +2h0m0s since +0s on [n0 n1]")
	x.until(noon.Add(2 * time.Hour))
	x.wantPromises()
	if !big.started.Equal(noon.Add(2 * time.Hour)) {
		t.Errorf("started at %v", big.started)
	}
	if n := len(x.s.Dump().Promises); n > 0 {
		t.Errorf("%d promises are remembered", n)
	}
}

// The doing of others: a node is lost, work goes on for longer than it said, a clock is set back.
func TestPromiseAndTheWorld(t *testing.T) {
	start := func(t *testing.T, cfg engine.Config) *simulation {
		x := full(t, cfg, hours(1), hours(2), hours(3))
		for _, key := range []string{"old-0", "old-1", "old-2"} {
			x.gang(key).true = hours(20)
		}
		x.submit(&job{key: "big", size: 1, gpus: 8, firm: true})
		x.wantPromises("big +1h0m0s since +0s on [n0]")
		return x
	}
	t.Run("its node is lost", func(t *testing.T) {
		x := start(t, engine.Config{})
		x.now = x.now.Add(time.Minute)
		x.apply(engine.Change{Gone: &engine.Ref{Kind: engine.KindNode, Key: "n0"}})
		x.wantPromises("big +2h0m0s since +0s on [n1]")
	})
	t.Run("all nodes are lost", func(t *testing.T) {
		x := start(t, engine.Config{})
		for i := range 3 {
			x.apply(engine.Change{Gone: &engine.Ref{Kind: engine.KindNode, Key: fmt.Sprint("n", i)}})
		}
		x.wantPromises()
		if n := len(x.s.Dump().Promises); n > 0 {
			t.Errorf("%d promises are remembered", n)
		}
	})
	t.Run("the gang is gone", func(t *testing.T) {
		x := start(t, engine.Config{})
		x.remove(x.gang("big"))
		x.wantPromises()
		if n := len(x.s.Dump().Promises); n > 0 {
			t.Errorf("%d promises are remembered", n)
		}
	})
	t.Run("the clock is set back", func(t *testing.T) {
		x := start(t, engine.Config{})
		x.now = noon.Add(-hours(5))
		x.wantPromises("big +1h0m0s since +0s on [n0]")
	})
	t.Run("work from before it goes on", func(t *testing.T) {
		x := start(t, engine.Config{})
		moves := 0
		for at := noon; at.Before(noon.Add(hours(10))); at = at.Add(time.Minute) {
			x.until(at)
			p := x.plan.Promises
			if len(p) != 1 || p[0].Start.Before(x.now) {
				t.Fatalf("at %v: %v", x.now.Sub(noon), x.promises())
			}
			moves = len(x.gang("big").promised)
		}
		if moves > 20 {
			t.Errorf("the promise moved %d times in ten hours", moves)
		}
	})
}

// Work that was let in beside a promise and is not over in time has to go, and the promise is kept. Where nobody is
// evicted for others it stays.
func TestOverrunIsEvicted(t *testing.T) {
	for policy, evicted := range map[engine.Policy][]engine.EvictionCause{engine.Default: {engine.Overran}, engine.FIFO: nil} {
		x := newSimulation(t, engine.Snapshot{Nodes: eights(1)}, engine.Config{Policy: policy})
		x.submit(&job{key: "old", gpus: 4, firm: true, terms: expected(hours(2)), true: hours(2)})
		x.settle()
		big := &job{key: "big", size: 1, gpus: 8, firm: true, true: time.Hour}
		x.submit(big)
		x.settle()
		liar := &job{key: "liar", gpus: 4, terms: expected(hours(1)), true: hours(5)}
		x.submit(liar)
		x.settle()
		if liar.waits() {
			t.Fatalf("%s: it did not pass: %s", policy, text(t, x.plan))
		}
		x.until(noon.Add(hours(2)))
		if kept := !big.waits(); kept != (evicted != nil) {
			t.Errorf("%s: the promise is kept: %v\n%s", policy, kept, text(t, x.plan))
		}
		if diff := cmp.Diff(evicted, liar.evicted); diff != "" {
			t.Errorf("%s: evictions (-want +got):\n%s", policy, diff)
		}
	}
}

// A gang that waits for its queue's limit is promised a start too, and what would use the limit up waits.
func TestPromiseOfALimit(t *testing.T) {
	x := newSimulation(t, engine.Snapshot{
		Nodes:  eights(4),
		Queues: []engine.Queue{{Name: "q", Version: 1, Limits: engine.Resources{{Resource: gpu, Value: 16}}}, {Name: "p", Version: 1}},
	}, engine.Config{})
	x.submit(&job{key: "old", queue: "q", gpus: 8, terms: expected(hours(1)), true: hours(1)})
	x.settle()
	big := &job{key: "big", queue: "q", size: 2, gpus: 8, true: hours(1)}
	x.submit(big)
	x.settle()
	if len(x.plan.Promises) != 1 || !x.plan.Promises[0].Start.Equal(noon.Add(time.Hour)) {
		t.Fatalf("promises %v", x.promises())
	}
	long := &job{key: "long", queue: "q", gpus: 1, terms: expected(hours(2))}
	short := &job{key: "short", queue: "q", gpus: 1, terms: expected(hours(0.5)), true: hours(0.5)}
	other := &job{key: "other", queue: "p", gpus: 1}
	for _, j := range []*job{long, short, other} {
		x.submit(j)
	}
	x.settle()
	if w := x.waiting("long"); w.Cause != why.KeptForPromise || short.waits() || other.waits() {
		t.Errorf("long waits because %q, short waits: %v, other waits: %v", w.Cause, short.waits(), other.waits())
	}
	x.until(noon.Add(time.Hour))
	if !big.started.Equal(noon.Add(time.Hour)) {
		t.Errorf("started at %v", big.started)
	}
}

// Members above a minimum do not take what is promised either.
func TestGrowthKeepsPromises(t *testing.T) {
	x := newSimulation(t, engine.Snapshot{Nodes: eights(1)}, engine.Config{})
	x.submit(&job{key: "crew", size: 1, gpus: 1, true: hours(9)})
	x.submit(&job{key: "old", gpus: 4, terms: expected(hours(1)), true: hours(1)})
	x.settle()
	x.submit(&job{key: "big", size: 1, gpus: 7})
	x.wantPromises("big +1h0m0s since +0s on [n0]")
	more := x.pod(x.gang("crew"), 1)
	x.apply(engine.Change{Pod: more})
	x.settle()
	if w := x.waiting("crew"); w.Cause != why.KeptForPromise {
		t.Errorf("the crew waits because %q\n%s", w.Cause, text(t, x.plan))
	}
}

// Policy strict: behind a blocked gang nothing of its queue starts, and everything of others may.
func TestStrict(t *testing.T) {
	x := newSimulation(t, engine.Snapshot{Nodes: eights(1), Queues: []engine.Queue{{Name: "q", Version: 1}, {Name: "p", Version: 1}}}, engine.Config{Policy: engine.Strict})
	x.submit(&job{key: "old", queue: "q", gpus: 4, terms: expected(hours(2)), true: hours(2)})
	x.submit(&job{key: "odd", queue: "p", size: 2, gpus: 8})
	x.apply(engine.Change{Gone: &engine.Ref{Kind: engine.KindPod, Key: "odd-1"}})
	x.settle()
	big, short, other := &job{key: "big", queue: "q", size: 1, gpus: 8}, &job{key: "short", queue: "q", gpus: 1, terms: expected(time.Minute)}, &job{key: "other", queue: "p", gpus: 1, terms: expected(time.Minute)}
	for _, j := range []*job{big, short, other} {
		x.now = x.now.Add(time.Second)
		x.submit(j)
	}
	x.settle()
	w := x.waiting("short")
	if w.Cause != why.BehindTheHead || w.Gates[0].Object != "big" || w.Verdict != why.Blocked {
		t.Errorf("short waits because %s", text(t, w))
	}
	if other.waits() {
		t.Errorf("other waits because %s: what lacks members blocks nobody", text(t, x.waiting("other")))
	}
}

// After its longest run time a workload is ended, whole, after the warning of its queue, and once.
func TestMaxRun(t *testing.T) {
	x := newSimulation(t, engine.Snapshot{Nodes: eights(2), Queues: []engine.Queue{{Name: "q", Version: 1, Warning: time.Minute}}}, engine.Config{})
	x.submit(&job{key: "gang", queue: "q", size: 2, gpus: 4, firm: true, terms: engine.Terms{Max: hours(1)}, true: hours(9)})
	x.submit(&job{key: "free", queue: "q", gpus: 1, true: hours(9)})
	x.settle()
	if x.plan.WakeAt.IsZero() || x.plan.WakeAt.After(noon.Add(time.Hour)) {
		t.Errorf("wakes at %v", x.plan.WakeAt)
	}
	if p := x.s.Plan(noon.Add(time.Hour - time.Second)); len(p.Evictions) > 0 {
		t.Errorf("a second too early: %v", p.Evictions)
	}
	x.now = noon.Add(time.Hour)
	plan := x.s.Plan(x.now)
	var got []string
	for _, e := range plan.Evictions {
		got = append(got, fmt.Sprintf("%s %s for %q at +%v", e.Pod, e.Cause, e.For, e.At.Sub(noon)))
	}
	want := []string{`gang-0 max-run for "" at +1h1m0s`, `gang-1 max-run for "" at +1h1m0s`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("evictions (-want +got):\n%s", diff)
	}
	x.s.Apply(plan.Changes...)
	if again := x.s.Plan(x.now.Add(time.Second)); len(again.Evictions) > 0 {
		t.Errorf("evicted twice: %v", again.Evictions)
	}
	// It could not be evicted: not again at once.
	for _, e := range plan.Evictions {
		e.Version, e.Refused, e.Until = e.Version+100, true, x.now.Add(time.Hour)
		x.s.Apply(engine.Change{Eviction: &e})
	}
	if again := x.s.Plan(x.now.Add(time.Minute)); len(again.Evictions) > 0 {
		t.Errorf("evicted though refused: %v", again.Evictions)
	}
}

// Whatever the stream, a large gang at the head starts by the first promise that it is given, as long as what ran
// before it is no longer than it said; what came after and lied is evicted. And nothing that passed it and told the
// truth is still there then.
func TestAgeBoundsTheWait(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := 2 + upTo(t, 2)
		x := newSimulation(t, engine.Snapshot{Nodes: eights(nodes)}, engine.Config{Heads: pick(t, 0, 1, -1)})
		run := func() time.Duration { return time.Duration(1+upTo(t, 90)) * time.Minute }
		n := 0
		small := func(honest bool) *job {
			d := run()
			j := &job{key: fmt.Sprintf("small-%03d", n), size: pick(t, 0, 0, 2), gpus: pick[int64](t, 1, 2, 4), terms: expected(d), true: d}
			if seldom(t, 1) {
				j.true = max(time.Second, j.true/2)
			}
			if !honest && seldom(t, 2) {
				j.true *= 3
			}
			n++
			return j
		}
		for range 4 * nodes {
			x.submit(small(true))
		}
		x.until(noon.Add(time.Minute))
		for _, j := range x.jobs {
			if j.waits() { // the gang is to be the head
				x.remove(j)
				j.started, j.ended = x.now, x.now
			}
		}
		big := &job{key: "big", size: 1 + upTo(t, nodes-1), gpus: 8, firm: true, true: time.Hour}
		x.submit(big)
		x.until(noon.Add(2 * time.Minute))
		for i := range 60 {
			x.until(x.now.Add(time.Duration(upTo(t, 9)) * time.Minute))
			x.submit(small(false))
			x.settle()
			if !big.waits() {
				break
			}
			if i == 0 && len(big.promised) == 0 {
				t.Fatalf("no promise\n%s\n%s", x.story(), engine.Describe(x.plan))
			}
		}
		x.until(noon.Add(hours(12)))
		if big.waits() || len(big.promised) > 0 && big.started.After(big.promised[0].Start) {
			t.Fatalf("started %v, promised %v\n%s\n%s", big.started.Sub(noon), big.promised, x.story(), engine.Describe(x.plan))
		}
		for i := 1; i < len(big.promised); i++ {
			if big.promised[i].Start.After(big.promised[i-1].Start) || !big.promised[i].Since.Equal(big.promised[0].Since) {
				t.Fatalf("the promise moved: %v\n%s", big.promised, x.story())
			}
		}
	})
}
