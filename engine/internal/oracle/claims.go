package oracle

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
)

// offers is every way to meet the pod's claims on the node with devices that are free, each as the devices that it would hold.
func (w *world) offers(p engine.Pod, n engine.Node) [][]string {
	mine := w.claimed(w.Holds, p.Gang)
	kept := filter(w.Holds, func(h engine.Hold) bool { return !mine[place(h)] && w.stands(h) })
	var held []string
	add := func(node string, ids []string) {
		for _, id := range ids {
			if node == n.Name || some(n.Offers, func(o engine.Offer) bool { return o.Reach != "" && o.ID == deviceOf(id) }) {
				held = append(held, id)
			}
		}
	}
	for _, h := range kept {
		add(h.Node, h.Devices)
	}
	for _, q := range w.Pods {
		add(w.at[q.Key].node, w.at[q.Key].devices)
	}
	for _, o := range n.Offers {
		if o.Taken {
			held = append(held, o.ID)
		}
		held = append(held, o.Held...)
	}
	return claimWays(p.Claims, n, held)
}

// deviceOf is the device that the text of a list is about.
func deviceOf(text string) string {
	device, _, _ := strings.Cut(text, "?")
	return device
}

// claimsOn is what the pod claims of the node's devices: nothing where it counts resources and the node counts all of these.
func claimsOn(p engine.Pod, n engine.Node) *engine.Claims {
	given := filter(p.Requests, func(a engine.Amount) bool { return a.Value > 0 && slices.Contains(n.ByClaims, a.Resource) })
	if p.Claims != nil && p.Claims.Counted && len(given) == 0 {
		return nil
	}
	return p.Claims
}

// claimed says whether the pod's GPUs are devices of its claims on the node.
func claimed(p engine.Pod, n engine.Node) bool {
	c := claimsOn(p, n)
	return c != nil && !c.GPUsByCount
}

// claimsOnly says whether the node gives its GPUs to claims alone.
func (w *world) claimsOnly(n engine.Node) bool { return slices.Contains(n.ByClaims, w.gpu) }

// closed says whether the pod counts GPUs that the node gives to claims alone.
func (w *world) closed(p engine.Pod, n engine.Node) bool {
	return w.hasGPU(p) && w.claimsOnly(n) && !claimed(p, n)
}

// use is a device that an option has.
type use struct {
	engine.Offer
	opt   engine.DeviceOption
	claim int
}

// text is how a plan lists it.
func (u use) text() string {
	if !u.Shared {
		return u.ID
	}
	text, sep := u.ID+"?", ""
	for _, x := range u.Uses {
		for _, d := range x.Draws {
			if x.Selection == u.opt.Selection {
				text, sep = text+sep+fmt.Sprint(d.Counter, "=", d.Amount), "&"
			}
		}
	}
	return text
}

// claimWays tries every assignment of the node's devices to the requests, beside what is held.
func claimWays(c *engine.Claims, n engine.Node, held []string) (ways [][]string) {
	var try func(r int, uses []use)
	try = func(r int, uses []use) {
		if r == len(c.Requests) {
			if lawfulUses(c, n, uses, held) {
				way := []string{}
				for _, u := range filter(uses, func(u use) bool { return !u.opt.Admin }) {
					way = append(way, u.text())
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
						more = append(more, use{o, opt, c.Requests[r].Claim})
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

// lawfulUses says whether nothing is used twice, nothing that others hold is taken, counters and capacity suffice and attributes agree.
func lawfulUses(c *engine.Claims, n engine.Node, uses []use, held []string) bool {
	left, drawn, values := map[string]int64{}, map[string]bool{}, make([][]string, len(c.Match))
	for _, k := range n.Counters {
		left[k.Name] = k.Amount
	}
	inUse := map[string]bool{}
	for _, o := range n.Offers {
		for _, k := range o.Capacity {
			left[o.ID+"?"+k.Name] = k.Amount
		}
		named := map[string]bool{}
		for _, text := range filter(held, func(text string) bool { return deviceOf(text) == o.ID }) {
			if inUse[o.ID] = true; o.Shared && !named[text] {
				_, name, _ := strings.Cut(text, "#")
				named[text] = name != ""
				for _, d := range drawsOf(text) {
					left[o.ID+"?"+d.Counter] -= d.Amount
				}
			}
		}
		for _, d := range o.Draws {
			if inUse[o.ID] {
				left[d.Counter] -= d.Amount
			}
		}
	}
	for i, u := range uses {
		whole := some(held, func(text string) bool { return text == u.ID || !u.Shared && deviceOf(text) == u.ID })
		twice := !u.Shared && some(uses[:i], func(o use) bool { return o.ID == u.ID && (!u.opt.Admin || o.claim == u.claim) })
		if twice || !u.opt.Admin && whole {
			return false
		}
		for _, d := range drawsOf(u.text()) {
			left[u.ID+"?"+d.Counter] -= d.Amount
			drawn[u.ID+"?"+d.Counter] = true
		}
		for _, d := range u.Draws {
			if !u.Shared || !inUse[u.ID] {
				left[d.Counter] -= d.Amount
				drawn[d.Counter] = true
			}
		}
		inUse[u.ID] = inUse[u.ID] || u.Shared
		for k, m := range u.opt.Match {
			name := c.Match[m].Attribute
			if u.opt.As != nil && u.opt.As[k] != "" {
				name = u.opt.As[k]
			}
			v, ok := u.Attributes[name]
			if !ok {
				return false
			}
			values[m] = append(values[m], v)
		}
	}
	for m := range c.Match {
		if !agree(values[m], c.Match[m].Distinct) {
			return false
		}
	}
	if !groupsAgree(n, uses, inUse, held) {
		return false
	}
	for name, v := range left {
		if v < 0 && drawn[name] {
			return false
		}
	}
	return true
}

// agree says whether the values, each of which may be several, have one in common or, if they must differ, no two have.
func agree(values []string, distinct bool) bool {
	count, most := map[string]int{}, 0
	for _, v := range values {
		for _, one := range strings.Split(v, "\x1f") {
			count[one]++
			most = max(most, count[one])
		}
	}
	if distinct {
		return most <= 1
	}
	return most == len(values)
}

// groupsAgree says whether in every set of counters that a device is newly used of, all devices in use have a group in common, or none has any.
func groupsAgree(n engine.Node, uses []use, inUse map[string]bool, held []string) bool {
	fresh := map[string]bool{} // sets
	on := map[string]bool{}    // devices
	for _, u := range uses {
		before := some(held, func(text string) bool { return deviceOf(text) == u.ID })
		for _, g := range u.Groups {
			fresh[g.Set] = fresh[g.Set] || !u.Shared || !before
		}
		on[u.ID] = true
	}
	members, of := map[string]int{}, map[string]map[string]int{}
	for _, o := range n.Offers {
		if !on[o.ID] && !inUse[o.ID] {
			continue
		}
		for _, g := range o.Groups {
			if of[g.Set] == nil {
				of[g.Set] = map[string]int{}
			}
			members[g.Set]++
			for _, name := range g.Groups {
				of[g.Set][name]++
			}
		}
	}
	for set := range fresh {
		common := len(of[set]) == 0
		for _, count := range of[set] {
			common = common || count == members[set]
		}
		if fresh[set] && !common {
			return false
		}
	}
	return true
}

// drawsOf is what the share draws; nothing where the text is of a whole device.
func drawsOf(text string) (out []engine.Draw) {
	_, text, _ = strings.Cut(text, "?")
	text, _, _ = strings.Cut(text, "#")
	for _, one := range strings.Split(text, "&") {
		if name, amount, ok := strings.Cut(one, "="); ok {
			v, err := strconv.ParseInt(amount, 10, 64)
			if err != nil {
				panic(err)
			}
			out = append(out, engine.Draw{Counter: name, Amount: v})
		}
	}
	return out
}

// claimClause is what of the node's devices for claims excludes it, "" for nothing.
func (a *audit) claimClause(n engine.Node) why.ClauseKind {
	c := claimsOn(a.pod, n)
	switch {
	case c == nil:
		return ""
	case len(claimWays(c, n, nil)) == 0:
		return why.ByDevices
	case len(a.w.offers(a.pod, n)) == 0:
		return why.ByHeld
	}
	return ""
}

// claimSets is how many pods with these claims the node's devices hold at once, beside what is held.
func claimSets(c *engine.Claims, n engine.Node, held []string) (most int64) {
	for _, way := range claimWays(c, n, held) {
		if len(way) > 0 {
			most = max(most, 1+claimSets(c, n, append(slices.Clone(held), way...)))
		}
	}
	return most
}

// offerKind is the same for devices that no claim can tell apart.
func offerKind(o engine.Offer) string {
	return fmt.Sprint(o.Selections, o.Attributes, o.Draws, o.Reach, o.Shared, o.Capacity, o.Uses, o.Groups)
}
