package engine_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine"
)

// slotsOf is which of a card's four slots each of its partitions takes.
var slotsOf = map[string]uint8{"q0": 1, "q1": 2, "q2": 4, "q3": 8, "h0": 3, "h1": 12, "w0": 15}

// slotsCase is a few cards whose partitions pods have through claims, and a pod that needs slots side by side.
type slotsCase struct {
	engine.Snapshot
	taken map[string]uint8 // by card
	wants string
	now   time.Time
}

func claimOf(kind string) (*engine.Claims, int64) {
	c := &engine.Claims{Requests: []engine.DeviceRequest{{Name: "c/r", Options: []engine.DeviceOption{{Selection: kind, Count: 1}}}}}
	return c, map[string]int64{"q": 250, "h": 500, "w": 1000}[kind]
}

func anySlotsCase(t *rapid.T) slotsCase {
	c := slotsCase{taken: make(map[string]uint8), now: time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC)}
	c.Version = engine.SnapshotVersion
	parts := []string{"q0", "q1", "q2", "q3", "h0", "h1", "w0"}
	for n := range rapid.IntRange(1, 6).Draw(t, "nodes") {
		node := engine.Node{Name: fmt.Sprint("n", n), Version: 1, Allocatable: engine.Resources{{Resource: "pods", Value: 110}}}
		for g := range 2 {
			card := fmt.Sprintf("n%d-%d", n, g)
			c.taken[card] = 0
			for s := range 4 {
				node.Counters = append(node.Counters, engine.Counter{Name: fmt.Sprint(card, "/", s), Amount: 1})
			}
			for _, part := range parts {
				o := engine.Offer{ID: card + "-" + part, Selections: []string{part[:1]}}
				for s := range 4 {
					if slotsOf[part]>>s&1 == 1 {
						o.Draws = append(o.Draws, engine.Draw{Counter: fmt.Sprint(card, "/", s), Amount: 1})
					}
				}
				node.Offers = append(node.Offers, o)
			}
			for k := range 3 {
				part := pick(t, "", "", "q0", "q1", "q2", "q3", "h0", "h1")
				if part == "" || c.taken[card]&slotsOf[part] != 0 {
					continue
				}
				c.taken[card] |= slotsOf[part]
				p := engine.Pod{Key: fmt.Sprintf("ns/%s-%d", card, k), UID: "u", Version: 1, Node: node.Name, Devices: []string{card + "-" + part}, Evictable: true}
				p.Claims, p.Claimed = claimOf(part[:1])
				p.Started = c.now.Add(-time.Duration(rapid.IntRange(0, 90).Draw(t, "minutes")) * time.Minute)
				switch pick(t, "made again", "made again", "not made again", "not told") {
				case "made again":
					p.Owner = p.Key
				case "not told":
					p.Owner, p.Claims = p.Key, nil
				}
				c.Pods = append(c.Pods, p)
			}
		}
		c.Nodes = append(c.Nodes, node)
	}
	c.wants = pick(t, "h", "w")
	wants := engine.Pod{Key: "ns/wants", UID: "u", Version: 1}
	wants.Claims, wants.Claimed = claimOf(c.wants)
	c.Pods = append(c.Pods, wants)
	return c
}

// loss is what moving the pod costs, in thousandths of GPU-seconds; too much where it may not be moved.
func (c *slotsCase) loss(p engine.Pod) int64 {
	if p.Owner == "" || p.Claims == nil {
		return 1 << 50
	}
	return p.Claimed * int64((time.Minute+min(time.Hour, c.now.Sub(p.Started)))/time.Second)
}

// packs says whether partitions of these kinds have room at once.
func packs(taken map[string]uint8, kinds []string) bool {
	if len(kinds) == 0 {
		return true
	}
	for card, was := range taken {
		for part, slots := range slotsOf {
			if part[:1] != kinds[0] || was&slots != 0 {
				continue
			}
			taken[card] = was | slots
			ok := packs(taken, kinds[1:])
			if taken[card] = was; ok {
				return true
			}
		}
	}
	return false
}

// cheapestMove is what the cheapest set of pods of one card costs that may be moved so that the wanted pod and all of them have room.
func (c *slotsCase) cheapestMove() int64 {
	least := int64(math.MaxInt64)
	for card, was := range c.taken {
		on := slices.DeleteFunc(slices.Clone(c.Pods), func(p engine.Pod) bool { return p.Node == "" || p.Devices[0][:len(card)] != card })
		for set := range uint(1) << len(on) {
			cost, kinds := int64(0), []string{c.wants}
			for i, p := range on {
				if set>>i&1 == 1 {
					cost += c.loss(p)
					part := p.Devices[0][len(card)+1:]
					kinds = append(kinds, part[:1])
					c.taken[card] &^= slotsOf[part]
				}
			}
			if cost < min(least, c.Pods[len(c.Pods)-1].Claimed*3600) && packs(c.taken, kinds) {
				least = cost
			}
			c.taken[card] = was
		}
	}
	return least
}

// Partitions are moved for a pod that finds no slots side by side, where that helps: no dearer set than the cheapest of one card, and
// never in vain, for the devices that are held are free once the set is gone. Of whom nobody knows the claims nobody is moved.
func TestMovesOfPartitionsAreTheCheapest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := anySlotsCase(t)
		least := c.cheapestMove()
		plan := engine.Schedule(c.Snapshot, c.now, engine.Config{})
		cost, held := int64(0), 0
		for _, e := range plan.Evictions {
			p := c.Pods[slices.IndexFunc(c.Pods, func(p engine.Pod) bool { return p.Key == e.Pod })]
			cost += c.loss(p)
			card, part := p.Devices[0][:len(p.Devices[0])-3], p.Devices[0][len(p.Devices[0])-2:]
			c.taken[card] &^= slotsOf[part]
		}
		for _, ch := range plan.Changes {
			if ch.Hold == nil {
				continue
			}
			for _, id := range ch.Hold.Devices {
				held++
				card, part := id[:len(id)-3], id[len(id)-2:]
				if c.taken[card]&slotsOf[part] != 0 {
					t.Fatalf("%s is not free\n%s", id, engine.Describe(plan))
				}
				c.taken[card] |= slotsOf[part]
			}
		}
		switch {
		case len(plan.Evictions) == 0:
			if least > 0 && least < math.MaxInt64 {
				t.Fatalf("nothing is moved, and a set of one card costs %d\n%s", least, engine.Describe(plan))
			}
		case held != len(plan.Evictions)+1:
			t.Fatalf("%d places are held\n%s", held, engine.Describe(plan))
		case cost > least:
			t.Fatalf("moved for %d, the cheapest set of one card costs %d\n%s", cost, least, engine.Describe(plan))
		}
	})
}
