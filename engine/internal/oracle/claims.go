package oracle

import (
	"fmt"
	"slices"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
)

// offers is every way to meet the pod's claims on the node with devices that nobody has, each as the devices that it would hold.
func (w *world) offers(p engine.Pod, n engine.Node) [][]string {
	mine := w.claimed(w.Holds, p.Gang)
	kept := filter(w.Holds, func(h engine.Hold) bool { return !mine[place(h)] && w.stands(h) })
	return claimWays(p.Claims, n, func(o engine.Offer) bool {
		here := func(node string) bool { return node == n.Name || o.Reach != "" }
		return o.Taken || some(kept, func(h engine.Hold) bool { return here(h.Node) && slices.Contains(h.Devices, o.ID) }) || some(w.Pods, func(q engine.Pod) bool {
			return here(w.at[q.Key].node) && slices.Contains(w.at[q.Key].devices, o.ID)
		})
	})
}

// claimsOn is what the pod claims of the node's devices: nothing where it counts resources and the node offers none.
func claimsOn(p engine.Pod, n engine.Node) *engine.Claims {
	if p.Claims != nil && p.Claims.Counted && len(n.Offers) == 0 {
		return nil
	}
	return p.Claims
}

// use is a device that an option has.
type use struct {
	engine.Offer
	opt engine.DeviceOption
}

// claimWays tries every assignment of the node's devices to the requests.
func claimWays(c *engine.Claims, n engine.Node, held func(engine.Offer) bool) (ways [][]string) {
	var try func(r int, uses []use)
	try = func(r int, uses []use) {
		if r == len(c.Requests) {
			if lawfulUses(c, n, uses, held) {
				way := []string{}
				for _, u := range filter(uses, func(u use) bool { return !u.opt.Admin }) {
					way = append(way, u.ID)
				}
				ways = append(ways, way)
			}
			return
		}
		for _, opt := range c.Requests[r].Options {
			match := filter(n.Offers, func(o engine.Offer) bool { return slices.Contains(o.Selections, opt.Selection) })
			for set := 1; set < 1<<len(match); set++ {
				more := slices.Clone(uses)
				for i, o := range match {
					if set&(1<<i) != 0 {
						more = append(more, use{o, opt})
					}
				}
				if count := len(more) - len(uses); opt.All && count == len(match) || !opt.All && count == opt.Count {
					try(r+1, more)
				}
			}
		}
	}
	try(0, nil)
	return ways
}

// lawfulUses says whether nothing is used twice, nothing that others hold is taken, counters suffice and attributes agree.
func lawfulUses(c *engine.Claims, n engine.Node, uses []use, held func(engine.Offer) bool) bool {
	left, drawn, values := map[string]int64{}, map[string]bool{}, make([][]string, len(c.Match))
	for _, k := range n.Counters {
		left[k.Name] = k.Amount
	}
	for _, o := range filter(n.Offers, held) {
		for _, d := range o.Draws {
			left[d.Counter] -= d.Amount
		}
	}
	for i, u := range uses {
		if some(uses[:i], func(o use) bool { return o.ID == u.ID }) || !u.opt.Admin && held(u.Offer) {
			return false
		}
		for _, d := range u.Draws {
			if !u.opt.Admin {
				left[d.Counter] -= d.Amount
				drawn[d.Counter] = true
			}
		}
		for _, m := range u.opt.Match {
			v, ok := u.Attributes[c.Match[m].Attribute]
			if !ok || some(values[m], func(o string) bool { return (o == v) == c.Match[m].Distinct }) {
				return false
			}
			values[m] = append(values[m], v)
		}
	}
	for name, v := range left {
		if v < 0 && drawn[name] {
			return false
		}
	}
	return true
}

// claimClause is what of the node's devices for claims excludes it, "" for nothing.
func (a *audit) claimClause(n engine.Node) why.ClauseKind {
	c := claimsOn(a.pod, n)
	switch {
	case c == nil && len(n.Offers) > 0 && a.w.hasGPU(a.pod):
		return why.ByClaimsOnly
	case c == nil:
		return ""
	case len(claimWays(c, n, func(engine.Offer) bool { return false })) == 0:
		return why.ByDevices
	case len(a.w.offers(a.pod, n)) == 0:
		return why.ByHeld
	}
	return ""
}

// claimSets is how many pods with these claims the node's devices hold at once, beside what is held.
func claimSets(c *engine.Claims, n engine.Node, held []string) (most int64) {
	for _, way := range claimWays(c, n, func(o engine.Offer) bool { return slices.Contains(held, o.ID) }) {
		if len(way) > 0 {
			most = max(most, 1+claimSets(c, n, append(slices.Clone(held), way...)))
		}
	}
	return most
}

// offerKind is the same for devices that no claim can tell apart.
func offerKind(o engine.Offer) string {
	return fmt.Sprint(o.Selections, o.Attributes, o.Draws, o.Reach)
}
