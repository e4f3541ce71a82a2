package order

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/draft"
	"github.com/berth-dev/berth/engine/internal/queue"
)

var noon = time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)

func gpus(n int64) api.Resources { return api.Resources{{Resource: "nvidia.com/gpu", Value: n}} }

// waits is a pod that was created so many minutes before noon.
func waits(key, queue string, priority int32, minutes int) api.Pod {
	return api.Pod{Key: key, Queue: queue, Priority: priority, Created: noon.Add(-time.Duration(minutes) * time.Minute), Spec: api.Spec{Requests: gpus(1)}}
}

// turns is the order in which the pods have their turn, if nobody starts. owed are those who are owed a place.
func turns(config api.Config, queues []api.Queue, owed []string, pods ...api.Pod) string {
	config, _ = config.Normal()
	m := cluster.NewModel(config)
	for i := range pods {
		pods[i].Version = 1
	}
	for i := range queues {
		queues[i].Version = 1
	}
	m.LoadAll(&api.Snapshot{
		Version: api.SnapshotVersion, Queues: queues, Pods: pods,
		Nodes: []api.Node{{Name: "n", Version: 1, Allocatable: append(gpus(8), api.Amount{Resource: api.Pods, Value: 99})}},
	})
	l, d, ledger := NewLine(m), draft.New(noon, 0), queue.NewLedger(m)
	l.Follow(m.Freshen())
	c := l.Begin(&d, ledger, Questions{
		Owed: func(g *cluster.Gang) int {
			if slices.Contains(owed, g.Key) {
				return 1
			}
			return 0
		},
		OwesNothing: func(*cluster.Queue) bool { return false },
		Aged:        func(cluster.Turn) bool { return false }, WakeAged: func(cluster.Turn) {},
	})
	ledger.FairShares(noon)
	c.Fill(nil, nil)
	var out []string
	for q, ok := c.Next(); ok; q, ok = c.Next() {
		out = append(out, q.Gang.Key)
		c.Done(false)
	}
	return strings.Join(out, " ")
}

// Within a queue priority decides, then age; between queues who is owed a place, then priority, then the distance from the
// fair share. Under fifo age decides alone.
func TestTurns(t *testing.T) {
	two := []api.Queue{{Name: "a"}, {Name: "b"}}
	old, young, high := waits("old", "a", 0, 9), waits("young", "a", 0, 1), waits("high", "a", 5, 1)
	other := waits("other", "b", 0, 5)
	hog := waits("hog", "a", 0, 99)
	hog.Node = "n"
	for _, c := range []struct {
		name   string
		config api.Config
		queues []api.Queue
		owed   []string
		pods   []api.Pod
		want   string
	}{
		{"age", api.Config{}, two, nil, []api.Pod{young, old}, "old young"},
		{"priority", api.Config{}, two, nil, []api.Pod{young, old, high}, "high old young"},
		{"priority between queues", api.Config{}, two, nil, []api.Pod{other, high}, "high other"},
		{"owed before priority", api.Config{}, two, []string{"other"}, []api.Pod{other, high}, "other high"},
		{"share before age", api.Config{}, two, nil, []api.Pod{other, old, hog}, "other old"},
		{"fifo", api.Config{Policy: api.FIFO}, two, []string{"other"}, []api.Pod{other, high, old, young}, "old other high young"},
		{"promoted", api.Config{}, []api.Queue{{Name: "a", PromoteAfter: 5 * time.Minute}}, nil, []api.Pod{young, old, high}, "old high young"},
	} {
		if got := turns(c.config, c.queues, c.owed, c.pods...); got != c.want {
			t.Errorf("%s: %s, not %s", c.name, got, c.want)
		}
	}
}

// Whatever comes, changes and goes, the line and the orders of queues are what a recount says.
func TestLineFollowsTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		config, _ := api.Config{}.Normal()
		m := cluster.NewModel(config)
		l, ledger := NewLine(m), queue.NewLedger(m)
		version := uint64(0)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			for range rapid.IntRange(1, 4).Draw(t, "changes") {
				version++
				name := fmt.Sprint("q", rapid.IntRange(0, 2).Draw(t, "queue"))
				change := api.Change{Queue: &api.Queue{Name: name, Version: version, FairUsers: rapid.Bool().Draw(t, "fair")}}
				if pod := fmt.Sprint("p", rapid.IntRange(0, 5).Draw(t, "pod")); rapid.IntRange(0, 4).Draw(t, "kind") > 0 {
					p := waits(pod, name, int32(rapid.IntRange(0, 2).Draw(t, "priority")), rapid.IntRange(0, 9).Draw(t, "age"))
					p.Version, p.User = version, rapid.SampledFrom([]string{"ann", "bob"}).Draw(t, "user")
					change = api.Change{Pod: &p}
					if rapid.IntRange(0, 4).Draw(t, "gone") == 0 {
						change = api.Change{Gone: &api.Ref{Kind: api.KindPod, Key: pod, Version: version}}
					}
				}
				m.Apply(&change)
			}
			l.Follow(m.Freshen())
			if rapid.Bool().Draw(t, "cycle") {
				d := draft.New(noon, version)
				c := l.Begin(&d, ledger, Questions{Owed: func(*cluster.Gang) int { return 0 }, OwesNothing: func(*cluster.Queue) bool { return true }, Aged: func(cluster.Turn) bool { return false }, WakeAged: func(cluster.Turn) {}})
				c.Repeat()
				c.Fill(nil, nil)
				n := 0
				for _, ok := c.Next(); ok; _, ok = c.Next() {
					n++
					c.Done(false)
				}
				if n != l.Len() {
					t.Fatalf("%d of %d had a turn", n, l.Len())
				}
			}
			check := cluster.NewCheck(m)
			l.Check(check)
			if len(check.Found) > 0 {
				t.Fatal(check.Found)
			}
		}
	})
}

// So many changes come one by one that the orders of queues are not worth keeping, whichever change is the one too many:
// one that moves a gang from one queue to another is two of them.
func TestOrdersAreGivenUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		config, _ := api.Config{}.Normal()
		m := cluster.NewModel(config)
		l, ledger := NewLine(m), queue.NewLedger(m)
		tell := func(change api.Change) {
			m.Apply(&change)
			l.Follow(m.Freshen())
			check := cluster.NewCheck(m)
			if l.Check(check); len(check.Found) > 0 {
				t.Fatal(check.Found)
			}
		}
		version := uint64(0)
		for _, name := range []string{"a", "b"} {
			version++
			tell(api.Change{Queue: &api.Queue{Name: name, Version: version}})
		}
		for i := range 6 {
			version++
			p := waits(fmt.Sprint("p", i), "", 0, 0)
			p.Version, p.Gang = version, fmt.Sprint("g", i)
			tell(api.Change{Pod: &p})
		}
		gang := func() api.Change {
			version++
			return api.Change{Gang: &api.Gang{
				Key: fmt.Sprint("g", rapid.IntRange(0, 5).Draw(t, "gang")), Version: version, Group: api.Group{Size: 1},
				Queue: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "queue"), Created: noon.Add(-time.Duration(rapid.IntRange(0, 1).Draw(t, "age")) * time.Minute),
			}}
		}
		tell(gang())
		d := draft.New(noon, version)
		c := l.Begin(&d, ledger, Questions{Owed: func(*cluster.Gang) int { return 0 }, OwesNothing: func(*cluster.Queue) bool { return true }, Aged: func(cluster.Turn) bool { return false }, WakeAged: func(cluster.Turn) {}})
		c.Fill(nil, nil)
		for range 100 {
			tell(gang())
		}
	})
}

// Many that change at once are put in line, and taken out of it, together. The line is the one that they make one by one.
func TestManyAtOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		config, _ := api.Config{}.Normal()
		m := cluster.NewModel(config)
		one, all := NewLine(m), NewLine(m)
		for version := range uint64(rapid.IntRange(1, 3).Draw(t, "steps")) {
			for i := range manyStale + rapid.IntRange(-9, 99).Draw(t, "pods") {
				key := fmt.Sprint("p", i)
				p := waits(key, fmt.Sprint("q", i%3), int32(rapid.IntRange(0, 2).Draw(t, "priority")), i%7)
				p.Version = version + 1
				change := api.Change{Pod: &p}
				if rapid.IntRange(0, 3).Draw(t, "gone") == 0 {
					change = api.Change{Gone: &api.Ref{Kind: api.KindPod, Key: key, Version: version + 1}}
				}
				m.Apply(&change)
			}
			changed := m.Freshen()
			all.Follow(changed)
			for g := range slices.Chunk(changed, 99) {
				one.Follow(g)
			}
			if !slices.Equal(one.gangs, all.gangs) {
				t.Fatalf("%d and %d in line, or in another order", len(one.gangs), len(all.gangs))
			}
			for _, l := range []*Line{one, all} {
				l.makeOrders()
				check := cluster.NewCheck(m)
				l.Check(check)
				if len(check.Found) > 0 {
					t.Fatal(check.Found)
				}
			}
		}
	})
}
