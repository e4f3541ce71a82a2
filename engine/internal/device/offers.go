package device

import (
	"maps"
	"math"
	"slices"

	"github.com/berth-dev/berth/engine/internal/api"
)

// Offers are the devices of one node that resource claims are met with, and who holds them. What is free follows from
// the node as told and from how many pods hold each device; nothing else is kept.
//
// Devices can overlap. A GPU that can be divided is offered whole and in every partition that it can have, and each
// draws on counters of the node, such as the memory slices of the card: what is held takes its draws out, and a
// device is free only if its draws are left. For example, a card has 8 slices, the whole GPU draws 8, a half draws 4
// and an eighth draws 1. With one half held 4 slices are left: another half or four eighths are free, the whole GPU
// is not.
//
// A device that several may have at once is held in shares. Each draws on the capacity of the device, and while there
// is one, the device draws on the node's counters as any other. Capacity is kept as counters, after those of the
// node. For example, an adapter has 10 of rate and draws 1 on the slots of its root. Two shares of 4 leave 2 of the
// rate, and one slot is drawn: a third share of 4 has no room, and one of 2 has, however few slots are left.
//
// Invariant: left of each counter is what was told, less the draws of the devices in use, each once, and less the
// draws of all shares, each once. Every change of holders keeps it by the difference it makes (drawFor, share), and
// none of them looks at another device: so to hold a device costs its own draws, and the order in which pods come and
// go makes no difference. It holds also where others gave away more than there is, and left is negative.
type Offers struct {
	// told is the devices as the node tells them. Devices are known by their position in it. It is shared by all
	// copies and never changed.
	told []api.Offer
	// holders is, by device, how many pods hold it whole.
	holders []int32
	// left is, by counter, what is left of it; negative by others' doing.
	left []int64
	// draws is, by device, what it draws on which counter while it is in use.
	draws [][]drawn
	// like is, by device, the first device that no claim can tell from it. A device that draws on counters or is
	// shared is like itself alone.
	like []int32
	// at finds a device by its id.
	at map[string]int32
	// fails says that some device cannot be evaluated for some selection.
	fails bool

	// groups is, by device, which groups it is of in each set of counters.
	groups [][]setGroups
	// sets is, by set of counters, the devices that draw on it.
	sets [][]int32

	// sharers is, by device, how many shares of it are held.
	sharers []int32
	// capacity is, by device, the counter of its first capacity.
	capacity []int32
	// named is, by text of a share that has a name, how many pods hold it.
	named map[string]int32
}

// setGroups is which groups a device is of in a set of counters.
type setGroups struct {
	set    int
	groups []string
}

// drawn is an amount of one counter, by its position in left.
type drawn struct {
	counter int
	amount  int64
}

// NewOffers returns the node's devices, held by nobody but those that the node itself tells as taken; nil where it
// offers none. It costs the square of the devices where many are alike.
func NewOffers(n *api.Node) *Offers {
	if len(n.Offers) == 0 {
		return nil
	}
	o := &Offers{
		told: n.Offers, holders: make([]int32, len(n.Offers)), left: make([]int64, len(n.Counters)),
		draws: make([][]drawn, len(n.Offers)), like: make([]int32, len(n.Offers)), at: make(map[string]int32, len(n.Offers)),
	}
	counter := make(map[string]int, len(n.Counters))
	for i, c := range n.Counters {
		counter[c.Name], o.left[i] = i, c.Amount
	}
	o.group()
	// A device is entered before the next one is looked at. Its holders and shares count from the start, because the
	// node tells them: nobody calls Hold for holders that are not known as pods.
	for i := range o.told {
		d := &o.told[i]
		o.at[d.ID] = int32(i)
		for _, x := range d.Draws {
			o.draws[i] = append(o.draws[i], drawn{counter[x.Counter], x.Amount})
		}
		// What is left of a shared device depends on its shares, so that two which are told alike may differ. The list
		// that is searched ends with the device itself, so that one is always found.
		if o.like[i] = int32(i); len(d.Draws) == 0 && !d.Shared {
			o.like[i] = int32(slices.IndexFunc(o.told[:i+1], func(e api.Offer) bool { return d.Alike(&e) }))
		}
		o.fails = o.fails || len(d.Fails) > 0
		// The counters of its capacity must be there before a share draws on them. They are appended behind those of
		// the node, so that no number in draws changes.
		if d.Shared {
			o.shared(i)
		}
		if d.Taken {
			o.take(i, 1)
		}
		for _, text := range d.Held {
			_, s, _ := o.shareOf(text)
			o.share(i, text, s, 1)
		}
	}
	return o
}

// group enters which devices go together by groups. Sets are numbered in the order in which devices name them.
func (o *Offers) group() {
	if !slices.ContainsFunc(o.told, func(d api.Offer) bool { return len(d.Groups) > 0 }) {
		return
	}
	o.groups = make([][]setGroups, len(o.told))
	number := make(map[string]int)
	for i := range o.told {
		for _, g := range o.told[i].Groups {
			set, known := number[g.Set]
			if !known {
				set = len(o.sets)
				number[g.Set], o.sets = set, append(o.sets, nil)
			}
			o.groups[i], o.sets[set] = append(o.groups[i], setGroups{set, g.Groups}), append(o.sets[set], int32(i))
		}
	}
}

// goesWith says whether the device may draw on its sets of counters beside all others that are in use: with a group
// that is common to all of them, or if none has any. Devices of groups are the ways to divide a card that exclude
// each other.
//
// For example, a card can be cut into halves (group h) or into thirds (group t), and its display engine goes with
// either (h and t). With the engine in use a half and a third are each allowed; once a half is in use no third is,
// whatever is left of the counters. One group has to be common to all of them, and not to each pair: three devices of
// {h, t}, {t, u} and {h, u} agree in pairs, and the third is refused. It costs a look at each device of the set.
func (o *Offers) goesWith(i int, inUse func(j int) bool) bool {
	if o.groups == nil {
		return true
	}
	for _, g := range o.groups[i] {
		// common is the groups that the device and all others in use so far have in common. It begins as the node's own
		// list, which DeleteFunc would overwrite without the Clone below.
		common := g.groups
		for _, j := range o.sets[g.set] {
			if int(j) == i || !inUse(int(j)) {
				continue
			}
			k := slices.IndexFunc(o.groups[j], func(h setGroups) bool { return h.set == g.set })
			its := o.groups[j][k].groups
			common = slices.DeleteFunc(slices.Clone(common), func(name string) bool { return !slices.Contains(its, name) })
			// A device without groups goes with others without groups only. Its common is empty from the start, so the
			// second test would refuse those too; hence two tests.
			if len(g.groups) == 0 && len(its) > 0 || len(g.groups) > 0 && len(common) == 0 {
				return false
			}
		}
	}
	return true
}

// shared enters the capacity of a device that several may have, as counters behind those that there are.
func (o *Offers) shared(i int) {
	if o.sharers == nil {
		o.sharers, o.capacity, o.named = make([]int32, len(o.told)), make([]int32, len(o.told)), make(map[string]int32)
	}
	o.capacity[i] = int32(len(o.left))
	for _, c := range o.told[i].Capacity {
		o.left = append(o.left, c.Amount)
	}
}

// Hold notes, or with by = -1 forgets, that a pod on the node holds the device, if it is one of these and of this
// node alone. Devices that are not told are passed over: a pod may hold what the node no longer offers.
//
// Of a device that several nodes reach each of them is told by HoldFar, also the one that the pod is on. Were it
// entered here too, that node alone would count its holder twice.
func (o *Offers) Hold(id string, by int32) {
	if o == nil {
		return
	}
	if i, ok := o.at[id]; ok {
		if o.told[i].Reach == "" {
			o.take(int(i), by)
		}
	} else if i, s, ok := o.shareOf(id); ok && o.told[i].Reach == "" {
		o.share(i, id, s, by)
	}
}

// shareOf is the device that the text is a share of, and the share.
func (o *Offers) shareOf(text string) (int, api.Share, bool) {
	s, ok := api.ParseShare(text)
	if !ok {
		return 0, s, false
	}
	i, ok := o.at[s.Device]
	return int(i), s, ok
}

// HoldFar notes, or with by < 0 forgets, that so many pods, on whichever nodes, hold the device, which several nodes
// reach. Each of these nodes has Offers of its own, and is told. A node that comes to reach the device hears of all
// holders at once, so that so many together must come to the same as one after the other.
func (o *Offers) HoldFar(id string, by int32) {
	if i, ok := o.at[id]; ok {
		if o.told[i].Reach != "" {
			o.take(int(i), by)
		}
	} else if i, s, ok := o.shareOf(id); ok && o.told[i].Reach != "" {
		o.share(i, id, s, by)
	}
}

// Far visits the devices that are not of this node alone.
func (o *Offers) Far(visit func(*api.Offer)) {
	if o == nil {
		return
	}
	for i := range o.told {
		if o.told[i].Reach != "" {
			visit(&o.told[i])
		}
	}
}

// Has says whether the device is one of these, or a share of one.
func (o *Offers) Has(id string) bool {
	if o == nil {
		return false
	}
	if _, ok := o.at[id]; ok {
		return true
	}
	_, _, ok := o.shareOf(id)
	return ok
}

// Free says whether none of the devices is held, and enough is left for all of them together. One that is listed
// twice is shared. The devices are taken on a copy, one after the other, and the counters are looked at in the end:
// what was short before is no fault of these devices.
func (o *Offers) Free(ids []string) bool {
	if len(ids) == 0 {
		return true
	}
	if o == nil {
		return false
	}
	trial := o.clone()
	// Three questions, in this order: is each device without a holder (asked of o, so that the devices of the list are
	// not in each other's way), do those in use exclude each other by their groups, and did a counter fall below zero.
	for k, id := range ids {
		i, ok := o.at[id]
		if !ok {
			// A share of a device conflicts only with a holder that has it whole. Whether its capacity suffices is
			// seen from the counters, like all the rest.
			at, share, ok := o.shareOf(id)
			if !ok || o.holders[at] > 0 {
				return false
			}
			trial.share(at, id, share, 1)
			continue
		}
		if o.used(int(i)) {
			return false
		}
		if !slices.Contains(ids[:k], id) {
			trial.take(int(i), 1)
		}
	}
	for i := range o.told {
		if trial.used(i) && !o.used(i) && !trial.goesWith(i, trial.used) {
			return false
		}
	}
	// Below zero alone proves nothing: others may have given away too much before. These devices are at fault only
	// where they made it less. For example, a counter at -2 that none of them draws on stays at -2, and passes.
	for c, left := range trial.left {
		if left < 0 && left < o.left[c] {
			return false
		}
	}
	return true
}

// Copy is the same devices, whose holders can be changed by themselves.
func (o *Offers) Copy() *Offers { return o.clone() }

// clone is a copy of who holds what. What the node told is shared.
func (o *Offers) clone() *Offers {
	c := *o
	c.holders, c.left = slices.Clone(o.holders), slices.Clone(o.left)
	c.sharers, c.named = slices.Clone(o.sharers), maps.Clone(o.named)
	return &c
}

// used says whether the device, or a share of it, is held.
func (o *Offers) used(i int) bool { return o.holders[i] > 0 || o.sharers != nil && o.sharers[i] > 0 }

// take counts holders of a device. Several pods that share a claim hold its devices together, and draw once: the first
// of them draws, the last gives back. With a half of 40 MiB out of 80, the holders and what is left go
//
//	holders   0   1   2   1   0
//	left     80  40  40  40  80
//
// was is asked before the count changes, because drawFor compares both.
func (o *Offers) take(i int, by int32) {
	was := o.used(i)
	o.holders[i] += by
	o.drawFor(i, was)
}

// share counts holders of a share. Several pods may hold one that has a name, and draw once. A share of a device that
// is not shared, or no longer so, is the whole of it.
//
// The name is what tells two shares from each other: pods p and q that use the same claim hold the same text, and one
// amount is drawn for both; two claims for the same amount have different names, and draw twice. A text without a name
// is a share of its own each time, which is how Pods enters shares that nobody has yet.
func (o *Offers) share(i int, text string, s api.Share, by int32) {
	if !o.told[i].Shared {
		o.take(i, by)
		return
	}
	if s.Name != "" {
		had := o.named[text] > 0
		if o.named[text] += by; o.named[text] == 0 {
			delete(o.named, text)
		}
		// Others hold the same share still, or did before: nothing is drawn.
		if had == (o.named[text] > 0) {
			return
		}
		by = min(max(by, -1), 1) // however many come or go together, it is one share
	}
	// There are two layers. Every share draws on the capacity of the device; only the first and the last change
	// whether the device is in use, and with that what it draws on the node's counters.
	was := o.used(i)
	o.sharers[i] += by
	for _, d := range s.Draws {
		// A capacity that the device no longer has is passed over, when it is drawn and when it is given back.
		if c := o.capacityOf(i, d.Counter); c >= 0 {
			o.left[c] -= int64(by) * d.Amount
		}
	}
	o.drawFor(i, was)
}

// capacityOf is the counter of a capacity of the device, -1 for none.
func (o *Offers) capacityOf(i int, name string) int {
	for k := range o.told[i].Capacity {
		if o.told[i].Capacity[k].Name == name {
			return int(o.capacity[i]) + k
		}
	}
	return -1
}

// drawFor has the device draw on counters, or give back, if it came into use or went out of it. was is whether it was
// in use.
func (o *Offers) drawFor(i int, was bool) {
	if is := o.used(i); is != was {
		for _, d := range o.draws[i] {
			if is {
				o.left[d.counter] -= d.amount
			} else {
				o.left[d.counter] += d.amount
			}
		}
	}
}

// Holders is how many pods hold the i-th device, and one more if the node tells it as taken.
func (o *Offers) Holders(i int) int32 { return o.holders[i] }

// Left is what is left of the i-th counter.
func (o *Offers) Left(i int) int64 { return o.left[i] }

// Sharers is how many shares of the i-th device are held.
func (o *Offers) Sharers(i int) int32 {
	if o.sharers == nil {
		return 0
	}
	return o.sharers[i]
}

// LeftOf is what is left of the capacity of the i-th device.
func (o *Offers) LeftOf(i int, capacity string) int64 { return o.left[o.capacityOf(i, capacity)] }

// Empty is the same devices, all free, and all counters full.
func (o *Offers) Empty() *Offers {
	// What the node's counters lost follows from the devices in use, each of which draws once. The devices' capacities
	// cannot be reckoned back like that: what a share draws is in its text, which is kept for shares with a name only.
	// They are set to what was told.
	e := *o
	e.holders, e.left = make([]int32, len(o.holders)), slices.Clone(o.left)
	for i := range o.told {
		if o.used(i) {
			for _, d := range o.draws[i] {
				e.left[d.counter] += d.amount
			}
		}
	}
	if o.sharers == nil {
		return &e
	}
	e.sharers, e.named = make([]int32, len(o.sharers)), make(map[string]int32)
	for i := range o.told {
		for k, c := range o.told[i].Capacity {
			e.left[int(o.capacity[i])+k] = c.Amount
		}
	}
	return &e
}

// Pods counts the pods with these claims that the node's devices hold at once, up to most: as many as Choose finds
// devices for, one pod after the other. For claims without partitions and agreements that is the most there could be.
// With them it may be less, but it is never 0 where one pod fits, unless the search was broken off.
//
// For example, in three cards of 8 slices of which 4, 2 and 2 are left, pods of 4 slices count 1, not 2: what is left
// of different cards does not add up.
//
// Callers that add up counts, over nodes and for gangs, rely on another property: placing a pod with Choose lowers the
// number by exactly one. It does, because the count is made by the same choices in the same order, so that after the
// first of them the count goes on with the second.
//
// It costs a search for each pod, on a copy. One request for like devices, which is what most claims are, costs a
// division.
func (o *Offers) Pods(c *api.Claims, most int64) int64 {
	if o == nil {
		return 0
	}
	if one := c.Requests[0].Options[0]; len(c.Requests) == 1 && len(c.Requests[0].Options) == 1 && len(c.Match) == 0 && !one.All && !one.Admin && one.Count <= api.MaxOfOneClaim {
		if free, plain := o.plain(one.Selection); plain {
			return min(most, free/int64(one.Count))
		}
	}
	// Whether there is room at all is the most frequent question, and needs no copy.
	if most == 1 {
		if _, ok := o.choose(c); ok {
			return 1
		}
		return 0
	}
	trial := o.clone()
	pods := int64(0)
	for ; pods < most; pods++ {
		chosen, ok := trial.choose(c)
		if !ok {
			break
		}
		if len(chosen) == 0 {
			return most // requests with admin access alone take nothing away, so that the loop would not end before most
		}
		for _, h := range chosen {
			if d := &trial.told[h.device]; d.Shared {
				trial.share(h.device, "", api.Share{Draws: d.UseOf(h.opt.Selection)}, 1)
			} else {
				trial.take(h.device, 1)
			}
		}
	}
	return pods
}

// plain counts the free devices of a selection, and says whether their number is all that matters: none of them draws
// on counters, is shared, or fails. Then any device is as good as another, and 8 free GPUs hold 2 pods of 3 each. One
// device that draws is enough to spoil that, since taking it may take others with it.
func (o *Offers) plain(selection string) (free int64, ok bool) {
	if o.fails {
		return 0, false
	}
	for i := range o.told {
		if o.holders[i] > 0 || !o.told[i].Matches(selection) {
			continue
		}
		if len(o.draws[i]) > 0 || o.told[i].Shared {
			return 0, false
		}
		free++
	}
	return free, true
}

// drawsOf is what a pod that asks by the selection draws with the device: of a shared one on its capacity, since the device draws on the
// node's counters once, however many have a share.
func (o *Offers) drawsOf(i int, selection string) []drawn {
	if !o.told[i].Shared {
		return o.draws[i]
	}
	var out []drawn
	for _, d := range o.told[i].UseOf(selection) {
		if c := o.capacityOf(i, d.Counter); c >= 0 {
			out = append(out, drawn{c, d.Amount})
		}
	}
	return out
}

// Pieces is the number of pods with these claims, in thousandths, for which what is left on the node would be enough if
// it were in one piece. It adds up what is left of the counters that matching devices draw on, each as a share of the
// whole counter, and of the capacity of devices that several may have. A device that draws on neither counts by itself.
//
// For example, two cards of 8 slices have 5 slices left each. A pod that needs 8 fits on neither, and yet 5/8 + 5/8 =
// 1.25 pods would fit if what is left lay on one card. It is a hint that moving work may help, and proves nothing.
func (o *Offers) Pieces(c *api.Claims) int64 {
	if o == nil {
		return 0
	}
	all := o.Empty().left
	// Counters have units of their own, MiB beside slices. As a share of the whole counter, in thousandths, amounts of
	// different counters can be added.
	share := func(counter int, amount int64) int64 { return amount * api.Whole / max(1, all[counter]) }
	counted := make([]bool, len(o.left))
	var left, need int64
	up := func(n, by int64) int64 { return (n + by - 1) / by }
	// left counts each counter once, whoever draws on it, and is rounded up. need adds, for each request, the device that takes
	// least, rounded down: the result errs on the side of trying.
	for _, r := range c.Requests {
		least := int64(math.MaxInt64)
		for i := range o.told {
			at := slices.IndexFunc(r.Options, func(opt api.DeviceOption) bool { return o.told[i].Matches(opt.Selection) })
			if at < 0 {
				continue
			}
			each, draws := int64(0), o.drawsOf(i, r.Options[at].Selection)
			for _, d := range draws {
				each += share(d.counter, d.amount)
				// A shared device that somebody has whole has its capacity, and gives none.
				if !counted[d.counter] && (!o.told[i].Shared || o.holders[i] == 0) {
					counted[d.counter] = true
					left += up(max(0, o.left[d.counter])*api.Whole, max(1, all[d.counter]))
				}
			}
			if len(draws) == 0 {
				if each = api.Whole; !o.used(i) {
					left += api.Whole
				}
			}
			least = min(least, each*int64(max(1, r.Options[at].Count)))
		}
		if least == math.MaxInt64 {
			return 0 // nothing matches
		}
		need += least
	}
	return up(left*api.Whole, max(1, need))
}
