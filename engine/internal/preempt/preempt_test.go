package preempt

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/draft"
	"github.com/berth-dev/berth/engine/internal/index"
	"github.com/berth-dev/berth/engine/internal/place"
	"github.com/berth-dev/berth/engine/why"
)

const gpu = "nvidia.com/gpu"

var noon = time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)

func gpus(n int64) api.Resources { return api.Resources{{Resource: gpu, Value: n}} }

// full are the gates of a claimant that has no place.
var full = []why.Gate{place.NoRoom}

// world is a cluster with the queues "owed", which has quota for everything, and "borrower", which has none.
type world struct {
	snap   api.Snapshot
	agrees func(gone func(key string) bool) bool // whether the claimant may have its place, by who has gone; nil: it may
}

func newWorld(nodes int, size int64) *world {
	w := &world{snap: api.Snapshot{Version: api.SnapshotVersion, Queues: []api.Queue{
		{Name: "owed", Version: 1, Quota: gpus(100_000)}, {Name: "borrower", Version: 1, Quota: gpus(0)}}}}
	for i := range nodes {
		w.snap.Nodes = append(w.snap.Nodes, api.Node{Name: fmt.Sprintf("n%02d", i), Version: 1,
			Allocatable: append(gpus(size), api.Amount{Resource: api.Pods, Value: 200})})
	}
	return w
}

// runs adds a gang of the borrower that has run for so many minutes: on each of the nodes a pod of so many GPUs.
func (w *world) runs(key string, minutes, from, to int, each int64) {
	g := api.Gang{Key: key, Version: 1, Queue: "borrower", Group: api.Group{Min: to - from}}
	for i := from; i < to; i++ {
		w.snap.Pods = append(w.snap.Pods, api.Pod{Key: fmt.Sprint(key, "-", i), UID: "u", Version: 1, Gang: key, Rank: i, Evictable: true,
			Spec: api.Spec{Requests: gpus(each)}, Node: fmt.Sprintf("n%02d", i), Started: noon.Add(-time.Duration(minutes) * time.Minute)})
	}
	w.snap.Gangs = append(w.snap.Gangs, g)
}

// claim makes room for a gang of so many pods in the queue with quota, and returns the workloads that are evicted for it.
func (w *world) claim(t *testing.T, pods int, each int64) (victims []string) {
	t.Helper()
	w.snap.Gangs = append(w.snap.Gangs, api.Gang{Key: "new", Version: 1, Queue: "owed", Created: noon, Group: api.Group{Min: pods}})
	for i := range pods {
		w.snap.Pods = append(w.snap.Pods, api.Pod{Key: fmt.Sprint("new-", i), Version: 1, Gang: "new", Rank: i, Evictable: true, Spec: api.Spec{Requests: gpus(each)}})
	}
	s, y := w.load()
	g := s.m.Gangs["new"]
	if got := y.MakeRoom(g, g.TurnNow(), full); got != Evicting && len(y.Plan.Evictions) > 0 {
		t.Errorf("the outcome is %d, with %d evictions", got, len(y.Plan.Evictions))
	}
	for _, e := range y.Plan.Evictions {
		victims = append(victims, s.m.Pods[e.Pod].WorkloadKey())
	}
	slices.Sort(victims)
	check := cluster.NewCheck(s.m)
	for _, q := range s.m.Queues {
		s.Check(check, q)
	}
	if len(check.Found) > 0 {
		t.Errorf("the check finds %v", check.Found)
	}
	return slices.Compact(victims)
}

// load makes the candidates of the world, and a cycle that places gangs of like members by counting and has no promises.
func (w *world) load() (*Candidates, *Cycle) {
	config, _ := api.Config{}.Normal()
	m := cluster.NewModel(config)
	m.LoadAll(&w.snap)
	m.Freshen()
	ix := index.New(m)
	ix.Refresh()
	placer := place.New(m, ix)
	s := New(m, ix, placer)
	kin := func(g *cluster.Gang, t cluster.Turn) place.Kin { return placer.NewKin(g, t, "", false, nil, nil) }
	order := func(g *cluster.Gang, c *index.Class) place.Order {
		return place.Order{Class: c, Layout: g.Layout(), Pods: g.Tree.Pods[:g.Tree.Min()], Want: len(g.Tree.Pods)}
	}
	fits := func(g *cluster.Gang, t cluster.Turn) bool {
		first, _ := g.Alike()
		return placer.Uniform(order(g, kin(g, t).Class(first)))
	}
	gone := func(key string) bool {
		return !slices.ContainsFunc(m.Gangs[key].Members, func(p *cluster.Pod) bool { return p.Host != nil })
	}
	d := draft.New(noon, m.Latest)
	return s, s.Begin(&d, Placing{
		Gates:  func(*cluster.Gang) []why.Gate { return nil },
		Afford: func(*cluster.Gang, []*cluster.Pod) []why.Gate { return nil },
		Kins:   func(g *cluster.Gang, t cluster.Turn) ([]place.Kin, bool) { return []place.Kin{kin(g, t)}, false },
		Order:  order,
		Question: func(g *cluster.Gang, t cluster.Turn) (index.Question, bool) {
			first, alike := g.Alike()
			return index.Question{Class: kin(g, t).Class(first).ClassKey, Need: g.Tree.Min(), Level: m.Level("")}, alike
		},
		Place: fits,
		Trial: func(g *cluster.Gang, try func([]*cluster.Hold)) {
			mark := m.Mark()
			try(nil)
			m.Rollback(mark)
		},
		Retally:   m.Tally,
		Waiting:   func(func(*cluster.Gang) bool) {},
		LeastRate: func() int64 { return 1 },
	}, Promises{
		StartsBeside: func(g *cluster.Gang, t cluster.Turn) bool { return fits(g, t) && (w.agrees == nil || w.agrees(gone)) },
		Delays:       func(*cluster.Gang, []*cluster.Pod) bool { return false },
		Promised:     func(*cluster.Gang) bool { return false },
		Stay:         func(*cluster.Gang) cluster.Stay { return cluster.Stay{} },
	})
}

// Each of these has a set that is found greedily, by cost for each pod that gets room, and one that is cheaper.
func TestSearchBeatsTheFirstSet(t *testing.T) {
	for name, c := range map[string]struct {
		pods int
		each int64
		want string
	}{
		"counted":                       {9, 8, "wide"},
		"more pods than can be counted": {72, 1, "wide"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(20, 8)
			w.runs("cheap", 40, 0, 8, 8)  // 64 GPUs at 41 minutes
			w.runs("small", 42, 8, 11, 8) // 24 GPUs at 43 minutes
			w.runs("wide", 44, 11, 20, 8) // 72 GPUs at 45 minutes
			got := strings.Join(w.claim(t, c.pods, c.each), " ")
			if got != c.want {
				t.Errorf("evicts %q, want %q", got, c.want)
			}
		})
	}
}

// A set that makes room by counting and that is refused is extended by what costs least. Greedily it would be two small ones,
// which are the cheapest each, and not the one that does as well.
func TestSearchExtendsWhatIsRefused(t *testing.T) {
	w := newWorld(5, 8)
	w.runs("large", 50, 0, 1, 8)
	w.runs("first", 10, 1, 2, 1)
	w.runs("second", 11, 2, 3, 1)
	w.runs("third", 15, 3, 4, 1)
	w.runs("fourth", 16, 4, 5, 1)
	for i := 1; i < 5; i++ { // the rest of their nodes is taken
		w.snap.Pods = append(w.snap.Pods, api.Pod{Key: fmt.Sprint("firm-", i), UID: "u", Version: 1, Queue: "owed", Node: fmt.Sprintf("n%02d", i), Spec: api.Spec{Requests: gpus(7)}})
	}
	w.agrees = func(gone func(string) bool) bool { return gone("first") && gone("second") || gone("third") }
	if diff := cmp.Diff([]string{"large", "third"}, w.claim(t, 1, 8)); diff != "" {
		t.Errorf("evicts (-want +got):\n%s", diff)
	}
}

// The launcher of a gang is on the node too, and frees no GPUs there: that must not make the others look as if they freed less.
func TestLaunchersDoNotCountInTheBound(t *testing.T) {
	for _, launcher := range []bool{false, true} {
		w := newWorld(2, 15)
		w.runs("a", 38, 0, 1, 7)
		w.runs("b", 42, 0, 1, 4)
		w.runs("c", 42, 0, 1, 4)
		w.runs("wide", 59, 1, 2, 2)
		if launcher {
			g := &w.snap.Gangs[len(w.snap.Gangs)-1]
			g.Min++
			w.snap.Pods = append(w.snap.Pods, api.Pod{Key: "wide-launcher", UID: "u", Version: 1, Gang: g.Key, Evictable: true, Node: "n00", Started: noon.Add(-59 * time.Minute)})
		}
		w.snap.Pods = append(w.snap.Pods, api.Pod{Key: "firm", UID: "u", Version: 1, Queue: "owed", Node: "n01", Spec: api.Spec{Requests: gpus(13)}})
		if diff := cmp.Diff([]string{"b", "c"}, w.claim(t, 1, 8)); diff != "" {
			t.Errorf("launcher %v: evicts (-want +got):\n%s", launcher, diff)
		}
	}
}

// Claims of few units may try thousands of sets that the model refuses. They share a budget, so that a cycle with many of them ends.
func TestManyClaimsOfFewUnitsShareABudget(t *testing.T) {
	w := newWorld(14, 8)
	for i := range 14 {
		w.runs(fmt.Sprint("w", i), 90+i, i, i+1, 8)
	}
	asked := 0
	w.agrees = func(func(string) bool) bool { asked++; return false }
	pending := func(key string, priority int32) {
		w.snap.Gangs = append(w.snap.Gangs, api.Gang{Key: key, Version: 1, Queue: "owed", Priority: priority, Group: api.Group{Min: 1}})
		w.snap.Pods = append(w.snap.Pods, api.Pod{Key: key + "-0", Version: 1, Gang: key, Evictable: true, Spec: api.Spec{Requests: gpus(8)}})
	}
	for i := range 6 {
		pending(fmt.Sprint("new", i), int32(i))
	}
	s, y := w.load()
	var each []int
	for i := range 6 {
		g := s.m.Gangs[fmt.Sprint("new", i)]
		before := asked
		if y.MakeRoom(g, g.TurnNow(), full) != Nothing {
			t.Errorf("somebody is evicted for %s", g.Key)
		}
		each = append(each, asked-before)
	}
	// A claim is searched for twice: the second time with lower priorities of its own queue among the units.
	if each[0] < fewTests {
		t.Errorf("the first asks %d times, of a budget of %d", each[0], fewTests)
	}
	for i, n := range each[1:] {
		if n > 2*(searchTests+10) {
			t.Errorf("claim %d asks %d times, though the budget of the cycle is spent", i+1, n)
		}
	}
}

// Work is moved for a gang before anybody has looked for leavers: who then does finds what is moved, once.
func TestLeaversAreNotedOnce(t *testing.T) {
	w := newWorld(2, 8)
	w.runs("first", 30, 0, 1, 8)
	w.runs("second", 20, 1, 2, 8)
	w.snap.Pods = append(w.snap.Pods, api.Pod{Key: "new", Version: 1, Queue: "owed", Evictable: true, Spec: api.Spec{Requests: gpus(8)}})
	s, y := w.load()
	g := s.m.Pods["new"].In
	c := y.newClaim(g, g.TurnNow())
	c.find()
	y.evict(c, c.units[:1], nil, nil)
	y.findLeavers()
	y.evict(c, c.units[1:], nil, nil)
	var noted []string
	for _, p := range slices.Concat(y.leavers.free, y.leavers.spoken) {
		noted = append(noted, p.Key)
	}
	slices.Sort(noted)
	if diff := cmp.Diff([]string{"first-0", "second-1"}, noted); diff != "" {
		t.Errorf("leavers (-want +got):\n%s", diff)
	}
}

// Where all sets cost the same, workloads that started last are evicted, and then those whose names come last.
func TestTiesOfVictims(t *testing.T) {
	w := newWorld(6, 8)
	for i := range 6 {
		w.runs(fmt.Sprint("w", i), 90, i, i+1, 8)
	}
	if diff := cmp.Diff([]string{"w4", "w5"}, w.claim(t, 2, 8)); diff != "" {
		t.Errorf("evicts (-want +got):\n%s", diff)
	}
}

// Nobody is evicted where all that may be evicted would not be enough.
func TestNobodyIsEvictedInVain(t *testing.T) {
	w := newWorld(4, 8)
	w.runs("some", 30, 0, 3, 8)
	if got := w.claim(t, 5, 8); len(got) > 0 {
		t.Errorf("evicts %q, which cannot be enough", got)
	}
}

// A claim that fails is not made again for others like it, until something is evicted: what the victims leave over may be
// enough for them.
func TestFailureIsForgottenAtAnEviction(t *testing.T) {
	w := newWorld(2, 8)
	w.runs("whole", 30, 0, 1, 8)
	w.snap.Queues = append(w.snap.Queues, api.Queue{Name: "small", Version: 1, Quota: gpus(4)})
	w.snap.Pods = append(w.snap.Pods,
		api.Pod{Key: "firm", UID: "u", Version: 1, Queue: "owed", Node: "n01", Spec: api.Spec{Requests: gpus(6)}},
		api.Pod{Key: "low", UID: "u", Version: 1, Queue: "small", Node: "n01", Evictable: true, Priority: -1, Started: noon.Add(-time.Hour), Spec: api.Spec{Requests: gpus(2)}})
	pending := func(key, queue string) {
		w.snap.Pods = append(w.snap.Pods, api.Pod{Key: key, Version: 1, Queue: queue, Evictable: true, Spec: api.Spec{Requests: gpus(4)}})
	}
	pending("first", "small")
	pending("second", "owed")
	pending("third", "small")
	s, y := w.load()
	var got []Outcome
	for _, key := range []string{"first", "second", "third"} {
		g := s.m.Pods[key].In
		got = append(got, y.MakeRoom(g, g.TurnNow(), full))
	}
	if diff := cmp.Diff([]Outcome{Nothing, Evicting, Evicting}, got); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
	if len(y.Plan.Evictions) != 1 || y.Plan.Evictions[0].Pod != "whole-0" {
		t.Errorf("evicts %v, and what whole-0 leaves is enough for both", y.Plan.Evictions)
	}
}

// The check sees a list of candidates that has lost one, and one whose cut is out of date.
func TestCheckSeesStaleCandidates(t *testing.T) {
	for name, spoil := range map[string]func(*Candidates, *cluster.Queue){
		"a candidate is missing": func(s *Candidates, q *cluster.Queue) { s.lists[q].all = s.lists[q].all[1:] },
		"its pods differ":        func(s *Candidates, q *cluster.Queue) { s.lists[q].all[0].pods = nil },
		"its size is another's":  func(s *Candidates, q *cluster.Queue) { s.lists[q].all[0].size = nil },
		"the cut is short":       func(s *Candidates, q *cluster.Queue) { s.lists[q].cut.units = nil },
		"its GPUs are too many":  func(s *Candidates, q *cluster.Queue) { s.lists[q].cut.gpus++ },
	} {
		w := newWorld(4, 8)
		w.runs("one", 30, 0, 2, 8)
		w.runs("two", 40, 2, 4, 8)
		s, y := w.load()
		q := s.m.Queues["borrower"]
		s.runningBelow(q)
		y.cutOf(q, []int{s.m.Dims.ID(gpu)}, s.m.Quota, false)
		check := cluster.NewCheck(s.m)
		if s.Check(check, q); len(check.Found) > 0 {
			t.Fatalf("before it is spoiled the check finds %v", check.Found)
		}
		spoil(s, q)
		if s.Check(check, q); len(check.Found) == 0 {
			t.Errorf("%s: the check finds nothing", name)
		}
	}
}

// A pod by itself is charged by what its node says a slice is of a GPU. It is the same object when the node says otherwise, and another
// charge.
func TestCandidatesFollowTheSlicesOfTheirNodes(t *testing.T) {
	w := newWorld(4, 8)
	sliced := func(n int, version uint64, memory int64) *api.Node {
		node := w.snap.Nodes[n]
		node.Version = version
		node.Slices = []api.Slice{{Resource: gpu, Memory: memory, Compute: memory}}
		return &node
	}
	for n, memory := range []int64{250, 500, 250, 500} {
		w.snap.Nodes[n] = *sliced(n, 1, memory)
	}
	w.snap.Pods = append(w.snap.Pods, api.Pod{Key: "alone", UID: "u", Version: 1, Queue: "borrower", Evictable: true, Spec: api.Spec{Requests: gpus(4)}, Node: "n00", Started: noon.Add(-time.Hour)})
	w.runs("beside", 30, 1, 2, 4)
	s, _ := w.load()
	q := s.m.Queues["borrower"]
	size := func() (out []int64) {
		for _, r := range s.runningOf(q) {
			out = append(out, r.size.At(s.m.Dims.ID(gpu)))
		}
		slices.Sort(out)
		return out
	}
	if diff := cmp.Diff([]int64{1000, 2000}, size()); diff != "" {
		t.Error("as told:", diff)
	}
	// The other nodes keep the kinds of slices the same, so that no account is made anew for them.
	s.m.Apply(&api.Change{Node: sliced(0, 2, 500)})
	s.m.Apply(&api.Change{Node: sliced(1, 2, 250)})
	s.m.Freshen()
	if diff := cmp.Diff([]int64{1000, 2000}, size()); diff != "" {
		t.Error("after they changed:", diff)
	}
	check := cluster.NewCheck(s.m)
	if s.Check(check, q); len(check.Found) > 0 {
		t.Errorf("the check finds %v", check.Found)
	}
}

// Work since the last checkpoint is lost, an hour at the most where none is known.
func TestUnsavedWork(t *testing.T) {
	for _, c := range []struct {
		ran, checkpoint, want time.Duration
	}{
		{20 * time.Minute, 0, 20 * time.Minute},
		{5 * time.Hour, 0, time.Hour},
		{65 * time.Minute, 20 * time.Minute, 5 * time.Minute},
		{10 * time.Minute, 20 * time.Minute, 10 * time.Minute},
		{5 * time.Hour, 10 * time.Hour, time.Hour},
	} {
		if got := unsaved(noon.Add(-c.ran), c.checkpoint, noon); got != c.want {
			t.Errorf("after %v with checkpoints every %v, %v is lost, want %v", c.ran, c.checkpoint, got, c.want)
		}
	}
	if got := unsaved(time.Time{}, 20*time.Minute, noon); got != 20*time.Minute {
		t.Errorf("where nobody knows since when it runs, %v is lost", got)
	}
}

// A place on a node that somebody is leaving, a victim or one who was told to go before, is not free as things are: what is
// moved there does not stay until the next one runs.
func TestPlacesAreFreeNow(t *testing.T) {
	here, there := &cluster.Node{}, &cluster.Node{}
	stays := &cluster.Pod{Pod: &api.Pod{Key: "stays"}, Host: here}
	goes := &cluster.Pod{Pod: &api.Pod{Key: "goes", Terminating: true}, Host: there}
	here.Pods, there.Pods = []*cluster.Pod{stays}, []*cluster.Pod{goes}
	moved := []*unit{{pods: []*cluster.Pod{{Pod: &api.Pod{Key: "moved"}, Host: here}}}}
	for _, c := range []struct {
		name    string
		victims []*unit
		node    *cluster.Node
		want    bool
	}{
		{"nobody leaves", nil, here, false},
		{"a victim leaves", moved, here, true},
		{"a victim leaves another node, and a pod that is ending this one", moved, there, true},
		{"a pod that is ending leaves", nil, there, true},
	} {
		if got := leaves(c.victims, c.node); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
