package order

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/draft"
	"github.com/berth-dev/berth/engine/internal/quantity"
	"github.com/berth-dev/berth/engine/internal/queue"
)

// drawTree draws queues of three levels at most, and work that waits or runs in any of them.
func drawTree(t *rapid.T) *api.Snapshot {
	snap := &api.Snapshot{Version: api.SnapshotVersion, Nodes: []api.Node{{Name: "n", Version: 1, Allocatable: append(gpus(99), api.Amount{Resource: api.Pods, Value: 999})}}}
	for i := range rapid.IntRange(1, 7).Draw(t, "queues") {
		q := api.Queue{Name: fmt.Sprint("q", i), Version: 1, Quota: gpus(rapid.Int64Range(0, 4).Draw(t, "quota")), FairUsers: rapid.IntRange(0, 3).Draw(t, "fair") == 0}
		if up := rapid.IntRange(-1, i-1).Draw(t, "parent"); up >= 0 && snap.Queues[up].Parent != "q0" {
			q.Parent = snap.Queues[up].Name
		}
		snap.Queues = append(snap.Queues, q)
	}
	for i := range rapid.IntRange(1, 12).Draw(t, "pods") {
		p := waits(fmt.Sprint("p", i), rapid.SampledFrom(snap.Queues).Draw(t, "queue").Name, int32(rapid.IntRange(0, 2).Draw(t, "priority")), rapid.IntRange(0, 9).Draw(t, "age"))
		p.Version, p.User, p.Evictable = 1, rapid.SampledFrom([]string{"ann", "bob"}).Draw(t, "user"), true
		p.Requests = gpus(rapid.Int64Range(1, 3).Draw(t, "gpus"))
		switch rapid.IntRange(0, 7).Draw(t, "place") {
		case 0, 1:
			p.Node = "n"
		case 2:
			snap.Holds = append(snap.Holds, api.Hold{Gang: p.Key, Version: 1, Node: "n", Requests: gpus(1), Until: noon.Add(time.Hour)})
		}
		snap.Pods = append(snap.Pods, p)
	}
	return snap
}

// Whoever has started by then, is on the way out or has lost a place, the turns go on as if the selection had just been made of those that are left.
func TestTurnsAreAsOfNow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		config, _ := api.Config{}.Normal()
		m := cluster.NewModel(config)
		m.LoadAll(drawTree(t))
		ledger, d := queue.NewLedger(m), draft.New(noon, 0)
		l := NewLine(m)
		l.Follow(m.Freshen())
		ledger.FairShares(noon)
		ask := Questions{
			Owed: func(g *cluster.Gang) (reach int) {
				need := cluster.GPUs(g.Lone.Amount(quantity.DimGPU))
				for q := g.Payer; q != nil && q.Committed(quantity.DimGPU)+need <= q.Quota.At(quantity.DimGPU); q = q.Parent {
					reach++
				}
				return reach
			},
			OwesNothing: func(q *cluster.Queue) bool {
				return q.Committed(quantity.DimGPU) >= q.Quota.At(quantity.DimGPU)
			},
			Aged: func(cluster.Turn) bool { return false }, WakeAged: func(cluster.Turn) {},
		}
		c := l.Begin(&d, ledger, ask)
		c.Fill(nil, nil)
		left := slices.Clone(l.gangs)
		for {
			again := l.Begin(&d, ledger, ask)
			var line []Queued
			for _, g := range left {
				line = append(line, l.Entry(g).queuedAs(g, l.Entry(g).Turn))
			}
			again.start(line, false)
			want, _ := again.Next()
			got, ok := c.Next()
			if !ok {
				break
			}
			if got.Gang != want.Gang {
				t.Fatalf("%s has its turn before %s", got.Key, want.Key)
			}
			left = slices.DeleteFunc(left, func(g *cluster.Gang) bool { return g == got.Gang })
			starts := rapid.Bool().Draw(t, "starts")
			if starts {
				m.PutOn(got.Gang.Lone, m.Nodes["n"], nil)
			}
			var gave []*cluster.Queue
			for _, key := range cluster.SortedKeys(m.Pods) {
				if p := m.Pods[key]; p.Node != "" && !p.Leaving() && rapid.IntRange(0, 9).Draw(t, "evicted") == 0 {
					m.MarkEvicting(p)
					gave = append(gave, p.Payer)
				}
			}
			for _, key := range cluster.SortedKeys(m.Holds) {
				if h := m.Holds[key]; h.Stands() && rapid.IntRange(0, 9).Draw(t, "given up") == 0 {
					m.IgnoreHold(h)
					gave = append(gave, h.Payer)
				}
			}
			c.Done(starts, gave...)
		}
		if len(left) > 0 {
			t.Fatalf("%d had no turn", len(left))
		}
	})
}
