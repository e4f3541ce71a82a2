package device

import (
	"cmp"
	"slices"

	"github.com/berth-dev/berth/engine/internal/api"
)

// Offers are the devices of one node that resource claims are met with, and who holds them. What is free follows from the
// node as told and from how many pods hold each device; nothing else is kept.
type Offers struct {
	told    []api.Offer
	holders []int32   // by device: how many pods hold it
	left    []int64   // by counter: what is left of it; negative by others' doing
	draws   [][]drawn // by device
	like    []int32   // by device: the first device that no claim can tell from it
	at      map[string]int32
}

type drawn struct {
	counter int
	amount  int64
}

// NewOffers returns the node's devices, held by nobody; nil where it offers none.
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
	for i := range o.told {
		d := &o.told[i]
		o.at[d.ID] = int32(i)
		for _, x := range d.Draws {
			o.draws[i] = append(o.draws[i], drawn{counter[x.Counter], x.Amount})
		}
		if o.like[i] = int32(i); len(d.Draws) == 0 {
			o.like[i] = int32(slices.IndexFunc(o.told[:i+1], func(e api.Offer) bool { return d.Alike(&e) }))
		}
		if d.Taken {
			o.take(i, 1)
		}
	}
	return o
}

// Hold notes, or with by = -1 forgets, that a pod on the node holds the device, if it is one of these and of this node alone.
func (o *Offers) Hold(id string, by int32) {
	if o == nil {
		return
	}
	if i, ok := o.at[id]; ok && o.told[i].Reach == "" {
		o.take(int(i), by)
	}
}

// HoldFar notes, or with by < 0 forgets, that so many pods, on whichever nodes, hold the device, which several nodes reach.
func (o *Offers) HoldFar(id string, by int32) {
	if i, ok := o.at[id]; ok && o.told[i].Reach != "" {
		o.take(int(i), by)
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

// Has says whether the device is one of these.
func (o *Offers) Has(id string) bool {
	if o == nil {
		return false
	}
	_, ok := o.at[id]
	return ok
}

// Free says whether nobody holds any of the devices, and enough is left for all of them together. One that is listed twice is shared.
func (o *Offers) Free(ids []string) bool {
	if len(ids) == 0 {
		return true
	}
	if o == nil {
		return false
	}
	left := slices.Clone(o.left)
	for k, id := range ids {
		i, ok := o.at[id]
		if !ok || o.holders[i] > 0 {
			return false
		}
		if slices.Contains(ids[:k], id) {
			continue
		}
		for _, d := range o.draws[i] {
			if left[d.counter] -= d.amount; left[d.counter] < 0 {
				return false
			}
		}
	}
	return true
}

// take counts holders of a device. Several pods that share a claim hold its devices together, and draw once.
func (o *Offers) take(i int, by int32) {
	was := o.holders[i] > 0
	o.holders[i] += by
	if is := o.holders[i] > 0; is != was {
		for _, d := range o.draws[i] {
			if is {
				o.left[d.counter] -= d.amount
			} else {
				o.left[d.counter] += d.amount
			}
		}
	}
}

// Holders is how many pods hold the i-th device, one more if it is taken by nobody who is known.
func (o *Offers) Holders(i int) int32 { return o.holders[i] }

// Left is what is left of the i-th counter.
func (o *Offers) Left(i int) int64 { return o.left[i] }

// Empty is the same devices, all free.
func (o *Offers) Empty() *Offers {
	e := *o
	e.holders, e.left = make([]int32, len(o.holders)), slices.Clone(o.left)
	for i := range o.told {
		if o.holders[i] > 0 {
			for _, d := range o.draws[i] {
				e.left[d.counter] += d.amount
			}
		}
	}
	return &e
}

// Pods counts the pods with these claims that the node's devices hold at once, up to most: as many as Choose finds devices for,
// one pod after the other. For claims without partitions and agreements that is the most there could be. With them it may be
// less, but it is never 0 where one pod fits, unless the search was broken off.
func (o *Offers) Pods(c *api.Claims, most int64) int64 {
	if o == nil {
		return 0
	}
	if one := c.Requests[0].Options[0]; len(c.Requests) == 1 && len(c.Requests[0].Options) == 1 && len(c.Match) == 0 && !one.All && !one.Admin {
		if free, plain := o.plain(one.Selection); plain {
			return min(most, free/int64(one.Count))
		}
	}
	trial := *o
	trial.holders, trial.left = slices.Clone(o.holders), slices.Clone(o.left)
	pods := int64(0)
	for ; pods < most; pods++ {
		chosen, held := trial.choose(c)
		if chosen == nil {
			break
		}
		if held == 0 {
			return most // who only looks on takes nothing away
		}
		for _, i := range chosen[:held] {
			trial.take(i, 1)
		}
	}
	return pods
}

// plain counts the free devices of a selection, and says whether their number is all that matters.
func (o *Offers) plain(selection string) (free int64, ok bool) {
	for i := range o.told {
		if o.holders[i] > 0 || !o.told[i].Matches(selection) {
			continue
		}
		if len(o.draws[i]) > 0 {
			return 0, false
		}
		free++
	}
	return free, true
}

// Choose appends to dst the devices that one pod with these claims gets and holds, by id; ok is whether there are such.
func (o *Offers) Choose(c *api.Claims, dst []string) (ids []string, ok bool) {
	if o == nil {
		return dst, false
	}
	chosen, held := o.choose(c)
	for _, i := range chosen[:held] {
		dst = append(dst, o.told[i].ID)
	}
	return dst, chosen != nil
}

// choose returns the devices for one pod, those first that it holds; nil where there are none.
func (o *Offers) choose(c *api.Claims) (chosen []int, held int) {
	o.search(c, func(holds, looks []int) bool {
		chosen, held = slices.Concat(holds, looks), len(holds)
		return true
	})
	return chosen, held
}

// Ways lists the different choices of devices that one pod would hold, alike devices being one: up to most, and whether these are
// all.
func (o *Offers) Ways(c *api.Claims, most int) (ways [][]string, all bool) {
	if o == nil {
		return nil, true
	}
	all = o.search(c, func(holds, _ []int) bool {
		if len(ways) == most {
			return true
		}
		way := make([]string, len(holds))
		for k, i := range holds {
			way[k] = o.told[i].ID
		}
		ways = append(ways, way)
		return false
	})
	return ways, all
}

// search shows found every choice in turn until it says that it has enough. It returns whether it came to the end.
func (o *Offers) search(c *api.Claims, found func(holds, looks []int) bool) (all bool) {
	s := search{Offers: o, claims: c, values: make([][]string, len(c.Match)), used: make([]bool, len(o.told)), steps: mostSteps, found: found}
	s.spent = make([]int64, len(o.left))
	return !s.request(0) && s.steps > 0
}

// mostSteps bounds the devices that are tried for one pod on one node. Requests that agree in an attribute and share
// partitions can make the search exponential; one that is broken off counts as no room.
const mostSteps = 4096

// search looks for the devices of one pod: request by request, option by option, device by device, and back where that ends
// nowhere. Of devices that no claim can tell apart it tries one.
type search struct {
	*Offers
	claims *api.Claims
	used   []bool
	spent  []int64    // by counter
	values [][]string // by agreement: the values of the devices that are under it so far
	holds  []int
	looks  []int
	steps  int
	found  func(holds, looks []int) (enough bool)
}

// request meets the requests from this one on, and says whether enough was found.
func (s *search) request(r int) bool {
	if r == len(s.claims.Requests) {
		return s.found(s.holds, s.looks)
	}
	for i := range s.claims.Requests[r].Options {
		opt := &s.claims.Requests[r].Options[i]
		if opt.All {
			if s.all(r, opt) {
				return true
			}
		} else if s.some(r, opt, opt.Count, s.order(opt), -1) {
			return true
		}
	}
	return false
}

// some takes so many more devices out of the order, those after the one at from, and then the rest of the requests.
func (s *search) some(r int, opt *api.DeviceOption, count int, order []int, from int) bool {
	if count == 0 {
		return s.request(r + 1)
	}
	var failed [8]int32
	fails := failed[:0]
	for at := from + 1; at+count <= len(order); at++ {
		i := order[at]
		if slices.Contains(fails, s.alike(i)) || !s.add(opt, i) {
			continue
		}
		if s.some(r, opt, count-1, order, at) {
			return true
		}
		s.remove(opt, i)
		if s.steps <= 0 {
			return false
		}
		fails = append(fails, s.alike(i))
	}
	return false
}

// alike is the same number for devices of which any will do as well as the other. Who only looks on can have one that is held.
func (s *search) alike(i int) int32 {
	if s.holders[i] > 0 {
		return -1 - s.like[i]
	}
	return s.like[i]
}

// all takes every device that matches, and then the rest of the requests.
func (s *search) all(r int, opt *api.DeviceOption) bool {
	var taken []int
	ok := true
	for i := range s.told {
		if ok && s.told[i].Matches(opt.Selection) {
			if ok = s.add(opt, i); ok {
				taken = append(taken, i)
			}
		}
	}
	if ok && len(taken) > 0 && s.request(r+1) {
		return true
	}
	for _, i := range slices.Backward(taken) {
		s.remove(opt, i)
	}
	return false
}

// add takes the device, if the option can have it.
func (s *search) add(opt *api.DeviceOption, i int) bool {
	s.steps--
	if s.steps <= 0 || s.used[i] || !opt.Admin && (s.holders[i] > 0 || !s.afford(i)) || !s.agrees(opt, i) {
		return false
	}
	s.used[i] = true
	for _, m := range opt.Match {
		s.values[m] = append(s.values[m], s.told[i].Attributes[s.claims.Match[m].Attribute])
	}
	if opt.Admin {
		s.looks = append(s.looks, i)
		return true
	}
	s.holds = append(s.holds, i)
	for _, d := range s.draws[i] {
		s.spent[d.counter] += d.amount
	}
	return true
}

// remove undoes the last add.
func (s *search) remove(opt *api.DeviceOption, i int) {
	s.used[i] = false
	for _, m := range opt.Match {
		s.values[m] = s.values[m][:len(s.values[m])-1]
	}
	if opt.Admin {
		s.looks = s.looks[:len(s.looks)-1]
		return
	}
	s.holds = s.holds[:len(s.holds)-1]
	for _, d := range s.draws[i] {
		s.spent[d.counter] -= d.amount
	}
}

// afford says whether the counters have what the device draws.
func (s *search) afford(i int) bool {
	for _, d := range s.draws[i] {
		if s.left[d.counter]-s.spent[d.counter] < d.amount {
			return false
		}
	}
	return true
}

// agrees says whether the device has the attributes that it must have, with values that go with those of the others.
func (s *search) agrees(opt *api.DeviceOption, i int) bool {
	for _, m := range opt.Match {
		v, ok := s.told[i].Attributes[s.claims.Match[m].Attribute]
		if !ok {
			return false
		}
		if have := s.values[m]; s.claims.Match[m].Distinct && slices.Contains(have, v) || !s.claims.Match[m].Distinct && len(have) > 0 && have[0] != v {
			return false
		}
	}
	return true
}

// order lists the devices that the option could have, the ones first whose loss costs others least: those of this node alone, from the
// smallest set of equal values that holds the option, off cards that are in use already and have least left, asked for by fewest selections.
func (s *search) order(opt *api.DeviceOption) []int {
	type rank struct {
		i, group, far, left, asked int
	}
	var list []rank
	for i := range s.told {
		if !s.used[i] && s.told[i].Matches(opt.Selection) && (opt.Admin || s.holders[i] == 0 && s.afford(i)) {
			e := rank{i: i, asked: len(s.told[i].Selections)}
			if s.told[i].Reach != "" {
				e.far = 1
			}
			list = append(list, e)
		}
	}
	if at := slices.IndexFunc(opt.Match, func(m int) bool { return !s.claims.Match[m].Distinct }); at >= 0 {
		key := s.claims.Match[opt.Match[at]].Attribute
		size := make(map[string]int)
		for _, e := range list {
			size[s.told[e.i].Attributes[key]]++
		}
		for k := range list {
			// Values of which there are too few come last: they can only be part of it where others were chosen before.
			if n := size[s.told[list[k].i].Attributes[key]]; n >= opt.Count {
				list[k].group = n
			} else {
				list[k].group = len(s.told) + 1
			}
		}
	}
	for k := range list {
		for _, d := range s.draws[list[k].i] {
			list[k].left = max(list[k].left, int(min(s.left[d.counter]-s.spent[d.counter], 1<<40)))
		}
	}
	slices.SortFunc(list, func(a, b rank) int {
		return cmp.Or(cmp.Compare(a.far, b.far), cmp.Compare(a.group, b.group), cmp.Compare(a.left, b.left), cmp.Compare(a.asked, b.asked), cmp.Compare(a.i, b.i))
	})
	out := make([]int, len(list))
	for k, e := range list {
		out[k] = e.i
	}
	return out
}
