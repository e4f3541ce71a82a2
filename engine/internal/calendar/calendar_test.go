package calendar

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/draft"
	"github.com/berth-dev/berth/engine/internal/index"
	"github.com/berth-dev/berth/engine/internal/place"
	"github.com/berth-dev/berth/engine/why"
)

const gpu = "nvidia.com/gpu"

var noon = time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)

func at(hours float64) time.Time { return noon.Add(time.Duration(hours * float64(time.Hour))) }

func gpus(n int64) api.Resources { return api.Resources{{Resource: gpu, Value: n}} }

// lone is a pod by itself that runs for so many hours; 0: nobody knows.
func lone(key string, n int64, hours float64) api.Pod {
	return api.Pod{Key: key, UID: key, Version: 1, Owner: "job/" + key, Spec: api.Spec{Requests: gpus(n)}, Terms: api.Terms{Expected: time.Duration(hours * float64(time.Hour))}}
}

// running is the pod on the node, since noon.
func running(p api.Pod, node string) api.Pod {
	p.Node, p.Started = node, noon
	return p
}

// world is a cluster at noon, the plan that is made of it and its calendar.
type world struct {
	m      *cluster.Model
	placer *place.Placer
	ix     *index.Index
	draft  draft.Draft
	*Calendar
}

// newWorld makes nodes n0, n1 and so on, of eight GPUs each.
func newWorld(nodes int, config api.Config, snap api.Snapshot) *world {
	config, _ = config.Normal()
	snap.Version = api.SnapshotVersion
	for i := range nodes {
		snap.Nodes = append(snap.Nodes, api.Node{Name: fmt.Sprintf("n%d", i), Version: 1, Allocatable: append(gpus(8), api.Amount{Resource: api.Pods, Value: 99})})
	}
	w := &world{m: cluster.NewModel(config), draft: draft.New(noon, snap.Latest)}
	w.m.LoadAll(&snap)
	w.m.Freshen()
	ix := index.New(w.m)
	ix.Refresh()
	w.placer, w.ix = place.New(w.m, ix), ix
	w.Calendar = New(w.m, &w.draft, Questions{
		Claim: func(*cluster.Gang) {},
		Gates: func(*cluster.Gang) []why.Gate { return nil },
		Fits: func(g *cluster.Gang, t cluster.Turn) bool {
			_, ok := w.placer.ChooseScope(w.order(g, t))
			return ok
		},
		Could: func(g *cluster.Gang, t cluster.Turn, freed func(func(*cluster.Node, int, int64))) bool {
			o := w.order(g, t)
			return ix.CouldHold(o.Class, w.m.Level(o.Layout.Required), freed) >= int64(len(o.Pods))
		},
		CouldEver: func(*cluster.Gang, cluster.Turn) bool { return true },
		Begins:    func(*cluster.Gang, []*cluster.Node) (time.Time, time.Duration) { return noon, 0 },
		Place:     func(g *cluster.Gang, t cluster.Turn, _ []*cluster.Node) bool { return w.placer.Uniform(w.order(g, t)) },
	})
	w.Expire()
	return w
}

// order is what a pod by itself asks for.
func (w *world) order(g *cluster.Gang, t cluster.Turn) place.Order {
	return place.Order{Class: w.placer.NewKin(g, t, "", false, nil, nil).Class(g.Lone), Pods: g.Tree.Pods, Want: 1}
}

func (w *world) gang(key string) *cluster.Gang { return w.m.WorkloadNamed(key) }

// promise promises the pod a start, and returns the promises of the plan.
func (w *world) promise(key string) []api.Promise {
	g := w.gang(key)
	w.Promise(g, g.TurnNow(), []why.Gate{{Cause: why.ClusterFull, Certificate: -1}}, true)
	return w.draft.Plan.Promises
}

// A promise is the first end after which there is a place, not the first end and not the last.
func TestAPromiseIsForTheFirstEndThatSuffices(t *testing.T) {
	for _, c := range []struct {
		asks int64
		at   time.Time // zero: none
	}{{2, at(1)}, {4, at(2)}, {8, at(3)}, {9, time.Time{}}} {
		w := newWorld(1, api.Config{}, api.Snapshot{Pods: []api.Pod{
			running(lone("one", 2, 1), "n0"), running(lone("two", 2, 2), "n0"), running(lone("three", 4, 3), "n0"), lone("waits", c.asks, 1),
		}})
		got := w.promise("waits")
		if c.at.IsZero() && len(got) > 0 || !c.at.IsZero() && (len(got) != 1 || !got[0].Start.Equal(c.at)) {
			t.Errorf("a pod of %d GPUs is promised %v, not %v", c.asks, got, c.at)
		}
		if found := w.Check(); len(found) > 0 {
			t.Error(found)
		}
	}
}

// A workload that may be passed wakes when it comes of age, if it is the head of its queue then: not in a queue that has one,
// where it would be behind that one, and not where nobody is passed.
func TestWakesForWhoBecomesTheHead(t *testing.T) {
	for _, c := range []struct {
		name   string
		config api.Config
		led    bool
		want   time.Time
	}{
		{"no head yet", api.Config{Overtake: time.Hour}, false, at(1)},
		{"behind a head", api.Config{Overtake: time.Hour}, true, time.Time{}},
		{"nobody is passed", api.Config{Overtake: time.Hour, Policy: api.Strict}, false, time.Time{}},
	} {
		pods := []api.Pod{lone("waits", 1, 0), lone("other", 1, 0)}
		pods[0].Created, pods[1].Created = noon, noon
		w := newWorld(1, c.config, api.Snapshot{Pods: pods})
		if c.led {
			w.Lead(w.gang("other"), 0, true)
		}
		w.WakeOpen("", w.gang("waits").TurnNow(), 0)
		if got := w.draft.Plan.WakeAt; !got.Equal(c.want) {
			t.Errorf("%s: wakes at %v, not %v", c.name, got, c.want)
		}
	}
}

// Nanoseconds of Unix time end in the year 2262. Work that is told to run beyond that does not end now for it.
func TestAPromiseBehindWorkOfLifetimes(t *testing.T) {
	w := newWorld(1, api.Config{}, api.Snapshot{Pods: []api.Pod{
		running(lone("runs", 8, 285*365*24), "n0"), lone("waits", 8, 1),
	}})
	for range 2 { // given, and kept
		if got := w.promise("waits"); len(got) == 0 || got[len(got)-1].Start.Before(at(200*365*24)) {
			t.Errorf("promised %v", got)
		}
		w = newWorld(1, api.Config{}, api.Snapshot{Pods: []api.Pod{
			running(lone("runs", 8, 285*365*24), "n0"), lone("waits", 8, 1),
		}, Promises: w.draft.Plan.Promises})
	}
	w.allReleases()
	if found := w.Check(); len(found) > 0 {
		t.Error(found)
	}
}

// Wherever the search for the first end begins, it finds the same one, and leaves the model after it.
func TestTheFirstEndIsFoundFromAnywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		snap := api.Snapshot{Pods: []api.Pod{lone("waits", rapid.Int64Range(1, 9).Draw(t, "asks"), 1)}}
		n := rapid.IntRange(0, 8).Draw(t, "ends")
		for i := range n {
			snap.Pods = append(snap.Pods, running(lone(fmt.Sprint("p", i), 1, float64(rapid.IntRange(1, 5).Draw(t, "hours"))), "n0"))
		}
		w := newWorld(1, api.Config{}, snap)
		g, releases := w.gang("waits"), w.allReleases()
		find := func(near int) (at time.Time, ok bool, done int) {
			m := w.m.Mark()
			defer w.m.Rollback(m)
			x := &future{c: w.Calendar, g: g, turn: g.TurnNow(), releases: releases}
			at, ok = x.firstFit(near)
			return at, ok, len(x.marks)
		}
		first, fits, after := find(0)
		for near := 1; near <= len(releases); near++ {
			if at, ok, done := find(near); !at.Equal(first) || ok != fits || ok && done != after {
				t.Fatalf("from %d: %v %v after %d, and from the beginning %v %v after %d", near, at, ok, done, first, fits, after)
			}
		}
	})
}

// What sums show to fit after no end fits after none, and one pod that asks for no more than resources allow is never turned
// down by them. The room of places that are held comes free too.
func TestSumsTurnDownWhatFitsAfterNoEnd(t *testing.T) {
	turnedDown := 0
	rapid.Check(t, func(t *rapid.T) {
		var snap api.Snapshot
		nodes := rapid.IntRange(1, 3).Draw(t, "nodes")
		for i := range rapid.IntRange(0, 8).Draw(t, "run") {
			p := lone(fmt.Sprint("p", i), rapid.Int64Range(1, 4).Draw(t, "gpus"), float64(rapid.IntRange(0, 3).Draw(t, "hours")))
			node := fmt.Sprint("n", rapid.IntRange(0, nodes-1).Draw(t, "node"))
			if rapid.IntRange(0, 4).Draw(t, "held") == 0 {
				snap.Holds = append(snap.Holds, api.Hold{Gang: p.Key, Version: 1, Node: node, Requests: p.Requests, Until: at(1)})
				snap.Pods = append(snap.Pods, p)
				continue
			}
			snap.Pods = append(snap.Pods, running(p, node))
		}
		snap.Pods = append(snap.Pods, lone("waits", rapid.Int64Range(1, 9).Draw(t, "asks"), 1))
		w := newWorld(nodes, api.Config{}, snap)
		g, standing := w.gang("waits"), w.m.Standing()
		x := &future{c: w.Calendar, g: g, turn: g.TurnNow(), releases: w.allReleases()}
		beyond := x.beyondAll()
		if w.m.Standing() != standing {
			t.Fatal("to add up changes the model")
		}
		m := w.m.Mark()
		_, fits := x.firstFit(0)
		w.m.Rollback(m)
		if beyond == fits {
			t.Fatalf("beyond all that ends %v, and it fits %v", beyond, fits)
		}
		if beyond {
			turnedDown++
		}
	})
	if turnedDown == 0 && !testing.Short() { // a handful of cases may have nobody who asks for too much
		t.Error("nobody was turned down")
	}
}

// The room of another scheduler's pod that is on its way out is promised too, from when it is released.
func TestAPromiseCountsOthersThatLeave(t *testing.T) {
	other := running(lone("other", 8, 0), "n0")
	other.Foreign, other.Terminating, other.ReleaseAt = true, true, at(1)
	w := newWorld(1, api.Config{}, api.Snapshot{Pods: []api.Pod{other, lone("waits", 8, 1)}})
	if got := w.promise("waits"); len(got) != 1 || !got[0].Start.Equal(at(1)) {
		t.Errorf("promised %v", got)
	}
}

// Work that is over before the promised start may use the place until then, and other work may not.
func TestBackfillEndsBeforeThePromise(t *testing.T) {
	for _, c := range []struct {
		hours float64
		may   bool
	}{{1, true}, {3, true}, {3.1, false}, {0, false}} {
		w := newWorld(1, api.Config{}, api.Snapshot{Pods: []api.Pod{
			running(lone("large", 4, 3), "n0"), lone("waits", 8, 1), lone("small", 4, c.hours),
		}})
		w.promise("waits")
		g, m := w.gang("small"), w.m.Mark()
		if !w.placer.Uniform(w.order(g, g.TurnNow())) {
			t.Fatal("there is room for the small pod")
		}
		if gates := w.Breaks(g, w.m.AllocatedSince(m)); (len(gates) == 0) != c.may {
			t.Errorf("a pod of %v hours before a promise in 3: %v", c.hours, gates)
		}
	}
}

// A booking keeps its nodes for its queue: from others who cannot be evicted and are not over when it begins, and from all
// others once it has.
func TestBookingsKeepTheirNodes(t *testing.T) {
	for _, c := range []struct {
		from  float64
		hours float64
		firm  bool
		queue string
		may   bool
	}{
		{2, 1, true, "other", true}, {2, 3, true, "other", false}, {2, 3, false, "other", true}, {2, 3, true, "own", true},
		{-1, 1, false, "other", false}, {-1, 1, true, "own", true},
	} {
		p := lone("p", 1, c.hours)
		p.Queue, p.Evictable = c.queue, !c.firm
		w := newWorld(1, api.Config{}, api.Snapshot{
			Pods:     []api.Pod{p},
			Queues:   []api.Queue{{Name: "own", Version: 1, Quota: gpus(8)}, {Name: "other", Version: 1, Quota: gpus(8)}},
			Bookings: []api.Booking{{Name: "b", Version: 1, Queue: "own", Nodes: []string{"n0"}, From: at(c.from), To: at(9)}},
		})
		if begun := w.KeepBookings(); len(begun) != 0 != (c.from < 0) {
			t.Errorf("%+v: %d have begun", c, len(begun))
		}
		g, m := w.gang("p"), w.m.Mark()
		if !w.placer.Uniform(w.order(g, g.TurnNow())) {
			t.Fatal("there is room")
		}
		if gates := w.Breaks(g, w.m.AllocatedSince(m)); (len(gates) == 0) != c.may {
			t.Errorf("%+v: %v", c, gates)
		}
	}
}

// What an author says counts, then for promises the limit, and for guesses what others like it did.
func TestRunTimes(t *testing.T) {
	const h = time.Hour
	w := newWorld(1, api.Config{}, api.Snapshot{RunTimeEstimates: []api.RunTimeEstimate{{Like: "a", Version: 1, Count: 9, Short: h, Median: 2 * h, Long: 4 * h}}})
	for _, c := range []struct {
		terms api.Terms
		want  [3]time.Duration // safely, likely, soonest
	}{
		{api.Terms{}, [3]time.Duration{}},
		{api.Terms{Expected: 3 * h}, [3]time.Duration{3 * h, 3 * h, 3 * h}},
		{api.Terms{Expected: 9 * h, Max: 5 * h}, [3]time.Duration{5 * h, 5 * h, 5 * h}},
		{api.Terms{Like: "a"}, [3]time.Duration{4 * h, 2 * h, h}},
		{api.Terms{Like: "a", Max: 9 * h}, [3]time.Duration{9 * h, 2 * h, h}},
		{api.Terms{Like: "a", Max: 90 * time.Minute}, [3]time.Duration{90 * time.Minute, 90 * time.Minute, h}},
		{api.Terms{Like: "b", Max: 9 * h}, [3]time.Duration{9 * h, 9 * h, 9 * h}},
	} {
		for by, want := range c.want {
			if got := w.runTime(&c.terms, Guess(by)); got != want {
				t.Errorf("%+v guessed by %d is %v, not %v", c.terms, by, got, want)
			}
		}
	}
}

// Overdue work is believed to end after one, two, four minutes and so on: always later than now, and at a time that stays
// while the clock goes on to it.
func TestOverdueDoubles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		late := time.Duration(rapid.Int64Range(0, int64(1000*time.Hour)).Draw(t, "late"))
		end := overdue(noon, noon.Add(late))
		if !end.After(noon.Add(late)) || end.Sub(noon) > 2*max(late, patience) {
			t.Fatalf("after %v it is believed to take %v", late, end.Sub(noon))
		}
		if again := overdue(noon, end.Add(-1)); !again.Equal(end) {
			t.Fatalf("just before %v it is %v", end, again)
		}
	})
}

// Whatever is promised, reserved, taken back and started, what is derived is what a recount says, and the model is as before.
func TestCheckHoldsInACycle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		snap := api.Snapshot{}
		n := rapid.IntRange(1, 3).Draw(t, "nodes")
		for i := range n {
			for j, free := 0, int64(8); free > 0 && j < 4; j++ {
				k := rapid.Int64Range(1, free).Draw(t, "gpus")
				snap.Pods = append(snap.Pods, running(lone(fmt.Sprintf("r%d-%d", i, j), k, float64(rapid.IntRange(0, 5).Draw(t, "hours"))), fmt.Sprintf("n%d", i)))
				free -= k
			}
		}
		for i := range 5 {
			snap.Pods = append(snap.Pods, lone(fmt.Sprintf("w%d", i), rapid.Int64Range(1, 8).Draw(t, "asks"), float64(rapid.IntRange(0, 4).Draw(t, "for"))))
		}
		w := newWorld(n, api.Config{}, snap)
		standing := w.m.Standing()
		for _, i := range rapid.Permutation([]int{0, 1, 2, 3, 4}).Draw(t, "line") {
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				w.unreserve(rapid.IntRange(0, len(w.reservations)).Draw(t, "keep"))
			default:
				w.promise(fmt.Sprintf("w%d", i))
			}
			if found := w.Check(); len(found) > 0 {
				t.Fatal(found)
			}
			if w.m.Standing() != standing {
				t.Fatal("the model was left changed")
			}
		}
		for _, p := range w.draft.Plan.Promises {
			if p.Start.Before(noon) || len(p.Nodes) == 0 || !slices.IsSorted(p.Nodes) {
				t.Fatalf("%+v", p)
			}
		}
	})
}

// team is two members of a gang for four hours, of which the first has run for two hours and the second for one.
func team() api.Snapshot {
	snap := api.Snapshot{Gangs: []api.Gang{{Key: "team", Version: 1, Terms: api.Terms{Expected: 4 * time.Hour}}}}
	for i, since := range []float64{-2, -1} {
		snap.Pods = append(snap.Pods, api.Pod{Key: fmt.Sprintf("m%d", i), UID: "u", Version: 1, Gang: "team", Rank: i, Node: "n0", Started: at(since), Spec: api.Spec{Requests: gpus(1)}})
	}
	return snap
}

// What is worked out of a gang while some of it is taken away on trial is not believed once the trial is over.
func TestEndsDoNotOutliveATrial(t *testing.T) {
	w := newWorld(1, api.Config{}, team())
	m := w.m.Mark()
	w.m.Remove(w.m.Pods["m0"])
	if end := w.endOf(w.m.Pods["m1"]); !end.Equal(at(3)) {
		t.Errorf("without the first member the second ends at %v", end)
	}
	w.m.Rollback(m)
	if end := w.endOf(w.m.Pods["m1"]); !end.Equal(at(2)) {
		t.Errorf("after the trial the second member ends at %v, and the first at %v", end, w.endOf(w.m.Pods["m0"]))
	}
	if found := w.Check(); len(found) > 0 {
		t.Error(found)
	}
}

// The same is so of places that are held on trial, and of the ends that follow from them.
func TestReleasesDoNotOutliveATrial(t *testing.T) {
	w := newWorld(1, api.Config{}, api.Snapshot{Pods: []api.Pod{running(lone("r", 4, 2), "n0"), lone("w", 8, 1)}})
	m := w.m.Mark()
	w.m.PutHold(&cluster.Hold{Hold: &api.Hold{Gang: "w", Node: "n0", Requests: gpus(1), Until: at(1)}}, w.m.Nodes["n0"])
	if n := len(w.allReleases()); n != 2 {
		t.Errorf("with a place that is held there are %d releases", n)
	}
	w.m.Rollback(m)
	if n := len(w.allReleases()); n != 1 {
		t.Errorf("after the trial there are %d releases", n)
	}
}

// A promise of before late work sees it over, whatever others were shown before it; one of after sees what anybody does.
func TestPromisesSeeReleasesAsOfTheirTime(t *testing.T) {
	early, late, due := lone("early", 1, 1), lone("late", 1, 1), lone("due", 1, 3)
	for p, started := range map[*api.Pod]float64{&early: -4, &late: -2, &due: -1} {
		p.Node, p.Started, p.Evictable = "n0", at(started), true
	}
	for _, since := range []float64{-5, -3, -1} {
		w := newWorld(1, api.Config{}, api.Snapshot{Pods: []api.Pod{early, late, due}})
		w.allReleases()
		w.lookFrom(at(since), at(1))
		seen := make(map[string]time.Time)
		for _, r := range w.allReleases() {
			for _, p := range r.pods {
				seen[p.Key] = r.at
			}
		}
		for _, p := range w.m.Pods {
			if end := w.endOf(p); !seen[p.Key].Equal(end) {
				t.Errorf("a promise of hour %v sees %s end at %s, not at %s", since, p.Key, seen[p.Key], end)
			}
		}
	}
}

// A recount notices what does not follow its source.
func TestCheckNotices(t *testing.T) {
	w := newWorld(1, api.Config{}, api.Snapshot{Pods: []api.Pod{running(lone("r", 8, 2), "n0"), lone("w", 8, 1)}})
	w.promise("w")
	w.releases[0].at = at(1)
	w.reserved[w.m.Nodes["n0"]] = nil
	if found := w.Check(); len(found) != 3 {
		t.Error(found)
	}
}
