package engine_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine"
)

const cardMiB = 8000

// partsCase is a few nodes of two cards whose parts are held by pods that may be evicted, and a pod that needs room on one card.
type partsCase struct {
	engine.Snapshot
	cards map[string][]engine.Pod // who has parts of a card
	made  map[string]bool         // by key of a pod: somebody makes it again
	wants engine.Pod
	now   time.Time
}

func anyPartsCase(t *rapid.T) partsCase {
	c := partsCase{cards: make(map[string][]engine.Pod), now: time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC)}
	c.Version = engine.SnapshotVersion
	for n := range rapid.IntRange(1, 4).Draw(t, "nodes") {
		node := engine.Node{Name: fmt.Sprint("n", n), Version: 1, Allocatable: engine.Resources{{Resource: "nvidia.com/gpu", Value: 2}, {Resource: "pods", Value: 110}}}
		for g := range 2 {
			d := engine.Device{ID: fmt.Sprintf("n%d-%d", n, g), Model: "A", Memory: cardMiB, Parts: 8}
			node.Devices = append(node.Devices, d)
			c.cards[d.ID] = nil
			for left := int64(cardMiB); len(c.cards[d.ID]) < 8; {
				p := engine.Pod{Key: fmt.Sprintf("ns/%s-%d", d.ID, len(c.cards[d.ID])), UID: "u", Version: 1, Node: node.Name, Devices: []string{d.ID}, Evictable: true}
				p.Part = &engine.Part{Cards: 1, Memory: rapid.Int64Range(1, 4).Draw(t, "memory") * 1000, Compute: pick[int64](t, 0, 0, 100)}
				p.Started = c.now.Add(-time.Duration(rapid.IntRange(0, 90).Draw(t, "minutes")) * time.Minute)
				if left -= p.Part.Memory; left < 0 {
					break
				}
				c.cards[d.ID] = append(c.cards[d.ID], p)
				c.Pods = append(c.Pods, p)
			}
		}
		c.Nodes = append(c.Nodes, node)
	}
	c.wants = engine.Pod{Key: "ns/wants", UID: "u", Version: 1, Priority: 10}
	if pick(t, false, false, true) {
		c.wants.Requests = engine.Resources{{Resource: "nvidia.com/gpu", Value: 1}}
	} else {
		c.wants.Part = &engine.Part{Cards: 1, Memory: rapid.Int64Range(1, 8).Draw(t, "wanted") * 1000, Compute: pick[int64](t, 0, 500, 950), Spread: pick(t, false, true)}
	}
	c.Pods = append(c.Pods, c.wants)
	return c
}

// loss is what evicting the pod costs, in thousandths of GPU-seconds, with a minute for the restart.
func (c *partsCase) loss(p engine.Pod) int64 {
	lost := time.Minute + min(time.Hour, c.now.Sub(p.Started))
	return max(p.Part.Memory*1000/cardMiB, p.Part.Compute) * int64(lost/time.Second)
}

// fits says whether the wanted pod fits on the card beside those of its pods that are in the set.
func (c *partsCase) fits(on []engine.Pod, stay uint) bool {
	memory, compute, pods := int64(cardMiB), int64(1000), 8
	for i, p := range on {
		if stay>>i&1 == 1 {
			memory, compute, pods = memory-p.Part.Memory, compute-p.Part.Compute, pods-1
		}
	}
	if c.wants.Part == nil {
		return pods == 8
	}
	return memory >= c.wants.Part.Memory && compute >= c.wants.Part.Compute && pods > 0
}

// least is what the cheapest set of victims on any one card costs: every subset of every card is tried.
func (c *partsCase) least() int64 {
	least := int64(math.MaxInt64)
	for _, on := range c.cards {
		for stay := range uint(1) << len(on) {
			if !c.fits(on, stay) {
				continue
			}
			cost := int64(0)
			for i, p := range on {
				if stay>>i&1 == 0 {
					cost += c.loss(p)
				}
			}
			least = min(least, cost)
		}
	}
	return least
}

// The cheapest set of parts on one card is evicted, and nobody where there is room.
func TestVictimsWithPartsAreTheCheapest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := anyPartsCase(t)
		plan := engine.Schedule(c.Snapshot, c.now, engine.Config{Restart: time.Minute})
		cost := int64(0)
		for _, e := range plan.Evictions {
			for _, p := range c.Pods {
				if p.Key == e.Pod {
					cost += c.loss(p)
				}
			}
		}
		if want := c.least(); cost != want {
			t.Fatalf("%d evictions cost %d, the cheapest set costs %d\n%s", len(plan.Evictions), cost, want, engine.Describe(plan))
		}
		if (cost == 0) != (len(plan.Starts) == 1) {
			t.Fatalf("%s", engine.Describe(plan))
		}
	})
}
