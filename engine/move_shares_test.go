package engine_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine"
)

// sharesCase is a few cards of which pods have shares through claims, by memory in tenths of a card, and a pod that needs more than is left
// on some. Each share is asked for by the selection "sN", where N is its tenths.
type sharesCase struct {
	engine.Snapshot
	left  map[string]int64 // by card
	wants int64
	now   time.Time
}

func shareClaim(tenths int64) (*engine.Claims, int64) {
	option := engine.DeviceOption{Selection: fmt.Sprint("s", tenths), Count: 1}
	return &engine.Claims{Requests: []engine.DeviceRequest{{Name: "c/r", Options: []engine.DeviceOption{option}}}}, tenths * 100
}

// tenthsOf is the card and the size of a share.
func tenthsOf(t *rapid.T, share string) (card string, tenths int64) {
	card, rest, _ := strings.Cut(share, "?memory=")
	if _, err := fmt.Sscanf(rest, "%d", &tenths); err != nil {
		t.Fatalf("%s is no share: %v", share, err)
	}
	return card, tenths
}

func anySharesCase(t *rapid.T) sharesCase {
	c := sharesCase{left: make(map[string]int64), now: time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC)}
	c.Version = engine.SnapshotVersion
	for n := range rapid.IntRange(1, 5).Draw(t, "nodes") {
		node := engine.Node{Name: fmt.Sprint("n", n), Version: 1, Allocatable: engine.Resources{{Resource: "pods", Value: 110}}}
		for g := range 2 {
			card := fmt.Sprintf("n%d-%d", n, g)
			c.left[card] = 10
			o := engine.Offer{ID: card, Shared: true, Capacity: []engine.Counter{{Name: "memory", Amount: 10}}}
			for s := range 10 {
				o.Selections = append(o.Selections, fmt.Sprint("s", s+1))
			}
			slices.Sort(o.Selections)
			for _, s := range o.Selections {
				var tenths int64
				_, _ = fmt.Sscanf(s, "s%d", &tenths)
				o.Uses = append(o.Uses, engine.Use{Selection: s, Draws: []engine.Draw{{Counter: "memory", Amount: tenths}}})
			}
			node.Offers = append(node.Offers, o)
			for k := range 3 {
				tenths := rapid.Int64Range(0, 6).Draw(t, "tenths")
				if tenths == 0 || tenths > c.left[card] {
					continue
				}
				c.left[card] -= tenths
				p := engine.Pod{Key: fmt.Sprintf("ns/%s-%d", card, k), UID: "u", Version: 1, Node: node.Name, Evictable: true}
				p.Devices = []string{fmt.Sprintf("%s?memory=%d#%s", card, tenths, p.Key)}
				p.Claims, p.Claimed = shareClaim(tenths)
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
	c.wants = rapid.Int64Range(4, 10).Draw(t, "wants")
	wants := engine.Pod{Key: "ns/wants", UID: "u", Version: 1}
	wants.Claims, wants.Claimed = shareClaim(c.wants)
	c.Pods = append(c.Pods, wants)
	return c
}

// loss is what moving the pod costs, in thousandths of GPU-seconds; too much where it may not be moved.
func (c *sharesCase) loss(p engine.Pod) int64 {
	if p.Owner == "" || p.Claims == nil {
		return 1 << 50
	}
	return p.Claimed * int64((time.Minute+min(time.Hour, c.now.Sub(p.Started)))/time.Second)
}

// packs says whether shares of these sizes have room at once.
func (c *sharesCase) packs(shares []int64) bool {
	if len(shares) == 0 {
		return true
	}
	for card, left := range c.left {
		if left < shares[0] {
			continue
		}
		c.left[card] = left - shares[0]
		ok := c.packs(shares[1:])
		if c.left[card] = left; ok {
			return true
		}
	}
	return false
}

// cheapestMove is what the cheapest set of pods of one card costs that may be moved so that the wanted pod and all of them have room.
func (c *sharesCase) cheapestMove(t *rapid.T) int64 {
	least := int64(math.MaxInt64)
	for card, was := range c.left {
		on := slices.DeleteFunc(slices.Clone(c.Pods), func(p engine.Pod) bool { return p.Node == "" || !strings.HasPrefix(p.Devices[0], card+"?") })
		for set := range uint(1) << len(on) {
			cost, shares := int64(0), []int64{c.wants}
			for i, p := range on {
				if set>>i&1 == 1 {
					_, tenths := tenthsOf(t, p.Devices[0])
					cost, shares, c.left[card] = cost+c.loss(p), append(shares, tenths), c.left[card]+tenths
				}
			}
			if cost < min(least, c.Pods[len(c.Pods)-1].Claimed*3600) && c.packs(shares) {
				least = cost
			}
			c.left[card] = was
		}
	}
	return least
}

// Shares of devices are moved for a pod that finds too little left on every one, where that helps: no dearer set than the cheapest of one
// card, and never in vain, for the shares that are held have room once the set is gone.
func TestMovesOfSharesAreTheCheapest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := anySharesCase(t)
		least := c.cheapestMove(t)
		plan := engine.Schedule(c.Snapshot, c.now, engine.Config{})
		cost, held := int64(0), 0
		for _, e := range plan.Evictions {
			p := c.Pods[slices.IndexFunc(c.Pods, func(p engine.Pod) bool { return p.Key == e.Pod })]
			card, tenths := tenthsOf(t, p.Devices[0])
			cost, c.left[card] = cost+c.loss(p), c.left[card]+tenths
		}
		for _, ch := range plan.Changes {
			if ch.Hold == nil {
				continue
			}
			for _, text := range ch.Hold.Devices {
				held++
				card, tenths := tenthsOf(t, text)
				if c.left[card] -= tenths; c.left[card] < 0 {
					t.Fatalf("%s has no room\n%s", text, engine.Describe(plan))
				}
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
