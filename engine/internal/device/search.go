package device

import (
	"cmp"
	"slices"

	"github.com/berth-dev/berth/engine/internal/api"
)

// Choose appends to dst the devices that one pod with these claims gets and holds, by id, and shares as api.Share
// writes them; ok is whether there are such. Devices that the pod only looks on (Admin) are looked for and not held.
func (o *Offers) Choose(c *api.Claims, dst []string) (ids []string, ok bool) {
	if o == nil {
		return dst, false
	}
	chosen, ok := o.choose(c)
	for _, h := range chosen {
		dst = append(dst, o.text(h))
	}
	return dst, ok
}

// choose returns what one pod holds; ok is false where there is nothing for it.
func (o *Offers) choose(c *api.Claims) (chosen []held, ok bool) {
	o.search(c, func(holds []held) bool {
		chosen, ok = slices.Clone(holds), true
		return true
	})
	return chosen, ok
}

// Rank is how far up in the lists of their requests the options are that a pod with these claims gets here: of each
// list 8 for the first one, 7 for the second and so on, as upstream's scheduler counts (pkg/scheduler v1.37.1,
// dynamicresources.go, computeScore). A request with a single option counts nothing.
//
// For example, a request lists an H100 and then an A100. The rank is 8 where an H100 is free, and 7 where only an A100
// is.
func (o *Offers) Rank(c *api.Claims) (rank int32) {
	if o == nil {
		return 0
	}
	chosen, _ := o.choose(c)
	for r := range c.Requests {
		options := c.Requests[r].Options
		for i := range options {
			if len(options) > 1 && slices.ContainsFunc(chosen, func(h held) bool { return h.opt == &options[i] }) {
				rank += int32(max(0, longestList-i))
			}
		}
	}
	return rank
}

// longestList is how many options a request of Kubernetes may have.
const longestList = 8

// Ways lists the different choices of devices that one pod would hold, alike devices being one: up to most, and
// whether these are all.
func (o *Offers) Ways(c *api.Claims, most int) (ways [][]string, all bool) {
	if o == nil {
		return nil, true
	}
	all = o.search(c, func(holds []held) bool {
		if len(ways) == most {
			return true
		}
		way := make([]string, len(holds))
		for k, h := range holds {
			way[k] = o.text(h)
		}
		ways = append(ways, way)
		return false
	})
	return ways, all
}

// held is a device that a pod gets, or a share of it for a selection. device is its position in Offers.told.
type held struct {
	device int
	opt    *api.DeviceOption
}

// text is the id of the device, or what tells the share from others of it.
func (o *Offers) text(h held) string {
	d := &o.told[h.device]
	if !d.Shared {
		return d.ID
	}
	s := api.Share{Device: d.ID, Draws: d.UseOf(h.opt.Selection)}
	return s.String()
}

// search shows found every choice in turn until found says that it has enough, and returns whether it came to the end
// of them. A result of true without a call of found proves that the pod has no devices here.
//
// The search is a plain backtracking one: request by request, option by option, device by device, and back where that
// ends nowhere. For example, a pod claims one GPU and one network adapter of the same PCIe root:
//
//	gpu-0  root A     gpu-1  root B     nic-0  root B
//	take gpu-0; no adapter has root A; put gpu-0 back
//	take gpu-1; take nic-0: a choice
//
// It is exact unless it is broken off after mostSteps devices: the first choice in the order of order is returned,
// and that there is none is proved by having tried all. Two things keep it short: of devices that no claim can tell
// apart one is tried, and a request for which too few devices are left is given up at once. The order is a function
// of the node as told and of who holds what, so that equal states give equal choices.
//
// Why one of like devices is enough: to swap two of them in a choice gives another choice that every request judges
// alike, so that what fails with the one fails with the other. That is true only at one place in the search, where the
// same devices have been taken before. So what has failed is remembered for one loop (some), and not for the whole
// search. With 8 like GPUs, of which a pod wants 4, one set is tried in place of 70.
//
// What it costs: at most mostSteps calls of add, each of which looks at the draws and agreements of one device, and at the
// other devices of its groups.
// A request is reached once for each of them at the most, and then puts the devices in order for each of its options,
// which costs a sort of the devices that match. On a node of like GPUs a pod that fits takes as many steps as it wants
// devices.
//
// Upstream's allocator tries devices in the order in which they are told. It gives the node up for good when it comes
// upon a device for which a selector fails, or when it wants all devices and one of them breaks a constraint
// (k8s.io/dynamic-resource-allocation v0.37.1, allocateOne, selectorsMatch and allocateDevice). Where that can
// happen, the search is made in that order first, and there is a choice here only if there is one there.
func (o *Offers) search(c *api.Claims, found func(holds []held) bool) (all bool) {
	if o.mayStop(c) {
		// This search answers one question, whether upstream finds anything. Its choice is thrown away: which devices
		// the pod gets is decided in our order below.
		first := o.newSearch(c, func([]held) bool { return true })
		first.asTold = true
		// Upstream finds nothing. That is certain unless the search was broken off.
		if first.evaluatesAll(); first.stopped || !first.request(0) {
			return first.steps > 0
		}
	}
	// Two ways to end early are told apart from the end: found had enough (request says true), or the steps ran out.
	s := o.newSearch(c, found)
	return !s.request(0) && s.steps > 0
}

// newSearch makes a search in which nothing is taken.
func (o *Offers) newSearch(c *api.Claims, found func(holds []held) bool) *search {
	return &search{
		Offers: o, claims: c, values: make([][]string, len(c.Match)), used: make([]uint32, len(o.told)), steps: mostSteps, found: found,
		spent: make([]int64, len(o.left)),
	}
}

// mayStop says whether upstream may give the node up for good. Most nodes have no device that fails, and need one
// search.
func (o *Offers) mayStop(c *api.Claims) bool {
	for r := range c.Requests {
		for k := range c.Requests[r].Options {
			opt := &c.Requests[r].Options[k]
			if opt.All && len(opt.Match) > 0 || o.fails && slices.ContainsFunc(o.told, func(d api.Offer) bool { return d.FailsFor(opt.Selection) }) {
				return true
			}
		}
	}
	return false
}

// mostSteps bounds the devices that are tried for one pod on one node. Requests that agree in an attribute and share
// partitions can make the search exponential. One that is broken off counts as no room: that may keep a pod from a
// node, and never gives away what is not there.
const mostSteps = 4096

// search looks for the devices of one pod. What it takes is kept here, beside the Offers, which stay as they are: so
// there is nothing to undo in the node when it ends. Whatever add does remove reverts, in the opposite order.
type search struct {
	*Offers
	claims *api.Claims
	// used is, by device that is not shared, the claims of the pod that have it, as bits.
	used []uint32
	// shares is, by device, the shares of it that were added; nil where no device is shared.
	shares []int32
	// spent is, by counter, what the devices draw that were added.
	spent []int64
	// values is, by agreement, a stack with an entry for each device that is under it so far: its value, or what it
	// has in common with those before it.
	values [][]string
	// of is how many devices each claim has so far. Kubernetes bounds it, and an allocation beyond would be refused.
	of [api.MaxClaims]int8
	// holds is what the pod would hold, in the order in which it was added.
	holds []held
	// steps is how many more devices may be tried.
	steps int
	// found is shown each choice; it must copy what it keeps.
	found func(holds []held) (enough bool)

	// asTold says that devices are tried in the order in which they are told, and that the search never goes on after
	// what stops upstream; stopped says that it came upon that.
	asTold  bool
	stopped bool
}

// evaluatesAll looks at every device that an option would want all of, as upstream does before anything else. Upstream
// does so for the options of all requests, also for one that would not be reached because an earlier option can be met.
func (s *search) evaluatesAll() {
	for r := range s.claims.Requests {
		for k := range s.claims.Requests[r].Options {
			opt := &s.claims.Requests[r].Options[k]
			if opt.All && slices.ContainsFunc(s.told, func(d api.Offer) bool { return d.FailsFor(opt.Selection) }) {
				s.stopped = true
			}
		}
	}
}

// over says whether the search has to end without a result.
func (s *search) over() bool { return s.steps <= 0 || s.stopped }

// request meets the requests from this one on, and says whether enough was found. A request takes the first of its
// options with which the rest can be met; the other options are tried only if it says no. Where found never has
// enough, as for Ways, all options are gone through.
//
// request, some and all call each other: a request takes its devices one by one (some) or all at once (all), and the
// last of them goes on to the next request. So the stack of calls is the choice in the making, a frame for each device,
// and to go back is to return. A request is thereby met in view of all that come after it. For example, of requests for
// one GPU and for one GPU with a display engine, the first may not keep the only GPU with such an engine.
func (s *search) request(r int) bool {
	if r == len(s.claims.Requests) {
		return s.found(s.holds)
	}
	for i := range s.claims.Requests[r].Options {
		opt := &s.claims.Requests[r].Options[i]
		if opt.All {
			if s.all(r, opt) {
				return true
			}
		} else if s.some(r, opt, opt.Count, s.order(r, opt), -1) {
			return true
		}
		// Upstream would have given the node up: the options that are left are not tried.
		if s.stopped {
			return false
		}
	}
	return false
}

// some takes so many more devices out of the order, those after the one at from, and then meets the rest of the
// requests. Devices are taken by increasing position in the order, so that each set of them is tried once.
//
// For example, a pod wants two of a1, a2 and b, of which a1 and a2 are alike, and the next request can never be met.
// Tried are {a1, a2} and {a1, b}. Then a2 is passed over, because a1 led nowhere at this place, and b alone is too few:
// 2 of the 3 sets.
//
// Invariant: when some returns false, everything that it added has been removed.
func (s *search) some(r int, opt *api.DeviceOption, count int, order []int, from int) bool {
	if count == 0 {
		return s.request(r + 1)
	}
	// fails is the kinds of devices that led nowhere in this loop. It begins empty in each call: a call further down has
	// taken one device more, and there the same kind may still do.
	var failed [8]int32
	fails := failed[:0]
	// Fewer devices left than are wanted end the loop, but not where upstream would still evaluate a selector for the
	// others.
	for at := from + 1; s.asTold && at < len(order) || at+count <= len(order); at++ {
		i := order[at]
		if s.asTold && s.told[i].FailsFor(opt.Selection) && s.looksAt(r, opt, i) {
			s.stopped = true
			return false
		}
		// A device like one that led nowhere at this place leads nowhere either.
		if slices.Contains(fails, s.alike(i)) || !s.add(r, opt, i) {
			continue
		}
		if s.some(r, opt, count-1, order, at) {
			return true
		}
		s.remove(r, opt, i)
		if s.over() {
			return false
		}
		// Upstream tries each of the like devices. So does the search in its order, which must come upon what upstream
		// comes upon.
		if !s.asTold {
			fails = append(fails, s.alike(i))
		}
	}
	return false
}

// looksAt says whether the device is one that a selector is evaluated for: no holder keeps the request from
// it. A request with admin access minds no holder but its own claim.
func (s *search) looksAt(r int, opt *api.DeviceOption, i int) bool {
	if opt.Admin {
		return s.used[i]&s.bit(r) == 0
	}
	return s.holders[i] == 0 && s.used[i] == 0
}

// bit stands for the claim of the request in used.
func (s *search) bit(r int) uint32 { return 1 << s.claims.Requests[r].Claim }

// alike is the same number for devices of which any will do as well as the other. A request that only looks on can
// have one that is held, which is not the same as a free one to the requests that come later.
func (s *search) alike(i int) int32 {
	if s.holders[i] > 0 {
		return -1 - s.like[i]
	}
	return s.like[i]
}

// all takes every device that matches, and then meets the rest of the requests. One that cannot be had makes the
// option impossible, and so does having none: a pod that claims all GPUs of a node on which one is held waits for that
// one. There is nothing to choose here, so that it costs one walk over the devices.
func (s *search) all(r int, opt *api.DeviceOption) bool {
	// taken is what this call has added. Only that is removed when it fails half-way.
	var taken []int
	ok := true
	for i := range s.told {
		ok = ok && !s.told[i].BlocksFor(opt.Selection)
		if ok && s.told[i].Matches(opt.Selection) {
			if ok = s.add(r, opt, i); ok {
				taken = append(taken, i)
			} else if s.asTold && s.can(r, opt, i) {
				s.stopped = true // it is an agreement that keeps it
			}
		}
	}
	if ok && len(taken) > 0 && s.request(r+1) {
		return true
	}
	for _, i := range slices.Backward(taken) {
		s.remove(r, opt, i)
	}
	return false
}

// add takes the device, if the option can have it, and says whether it did. Each call is a step, also one that is
// refused: the budget bounds the work, and a refusal costs as much. A call that says no has changed nothing else.
func (s *search) add(r int, opt *api.DeviceOption, i int) bool {
	s.steps--
	if s.steps <= 0 || !s.can(r, opt, i) || !s.agrees(opt, i) {
		return false
	}
	for k, m := range opt.Match {
		v, _ := s.agreed(opt, k, i)
		s.values[m] = append(s.values[m], v)
	}
	s.of[s.claims.Requests[r].Claim]++
	// How much a share takes depends on the selection that the device is had by: a request for half of the bandwidth
	// draws another amount than one for all of it.
	if s.told[i].Shared {
		s.draw(i, s.told[i].UseOf(opt.Selection), 1)
	} else {
		s.used[i] |= s.bit(r)
		s.drawCounters(i, 1)
	}
	if !opt.Admin {
		s.holds = append(s.holds, held{i, opt})
	}
	return true
}

// can says whether the option can have the device, agreements aside: its claim may have one more device, nobody has
// it who keeps the option from it, and its counters and capacity are there. A request that only looks on takes
// nothing away in the end, and yet wants counters and capacity to be there, as upstream has it.
func (s *search) can(r int, opt *api.DeviceOption, i int) bool {
	if s.of[s.claims.Requests[r].Claim] >= api.MaxOfOneClaim || !s.looksAt(r, opt, i) {
		return false
	}
	// What the node has left (left) and what this pod takes in the choice so far (spent) are kept apart, and every test
	// is on the difference.
	if !s.told[i].Shared {
		return s.afford(i)
	}
	for _, d := range s.told[i].UseOf(opt.Selection) {
		if c := s.capacityOf(i, d.Counter); s.left[c]-s.spent[c] < d.Amount {
			return false
		}
	}
	// The device draws on the node's counters once, with the first share: further shares need not afford them
	// again.
	return s.sharers[i] > 0 || s.shares != nil && s.shares[i] > 0 || s.afford(i)
}

// draw notes, or with by = -1 forgets, a share. The first share of a device draws on the counters of the node, as the
// device would if it were held whole.
func (s *search) draw(i int, draws []api.Draw, by int32) {
	if s.shares == nil {
		s.shares = make([]int32, len(s.told))
	}
	for _, d := range draws {
		s.spent[s.capacityOf(i, d.Counter)] += int64(by) * d.Amount
	}
	was := s.sharers[i]+s.shares[i] > 0
	if s.shares[i] += by; was != (s.sharers[i]+s.shares[i] > 0) {
		s.drawCounters(i, by)
	}
}

// drawCounters notes, or with by = -1 forgets, what the device draws on the counters of the node.
func (s *search) drawCounters(i int, by int32) {
	for _, d := range s.draws[i] {
		s.spent[d.counter] += int64(by) * d.amount
	}
}

// remove undoes the last add. Stacks lose their last entry, which is why devices must be removed in the opposite order.
func (s *search) remove(r int, opt *api.DeviceOption, i int) {
	for _, m := range opt.Match {
		s.values[m] = s.values[m][:len(s.values[m])-1]
	}
	s.of[s.claims.Requests[r].Claim]--
	if s.told[i].Shared {
		s.draw(i, s.told[i].UseOf(opt.Selection), -1)
	} else {
		s.used[i] &^= s.bit(r)
		s.drawCounters(i, -1)
	}
	if !opt.Admin {
		s.holds = s.holds[:len(s.holds)-1]
	}
}

// afford says whether the counters have what the device draws, and whether the devices in use that draw on the same
// sets go with it.
func (s *search) afford(i int) bool {
	if s.groups != nil && !s.goesWith(i, s.inUse) {
		return false
	}
	for _, d := range s.draws[i] {
		if s.left[d.counter]-s.spent[d.counter] < d.amount {
			return false
		}
	}
	return true
}

// inUse says whether a pod has the device, or this pod is to have it.
func (s *search) inUse(i int) bool {
	return s.Offers.used(i) || s.used[i] != 0 || s.shares != nil && s.shares[i] > 0
}

// agrees says whether the device has the attributes that it must have, with values that go with those of the others.
func (s *search) agrees(opt *api.DeviceOption, i int) bool {
	for k := range opt.Match {
		if _, ok := s.agreed(opt, k, i); !ok {
			return false
		}
	}
	return true
}

// agreed is what the option's k-th agreement comes to with the device: what all have in common or, where they must
// differ, its own value. To keep the common part on a stack makes each test one comparison, however many devices
// there are.
//
// For example, adapters list the PCIe roots that they are near, and all devices must have one in common. After a GPU
// at root A the stack is [A]; an adapter near A and B is allowed and adds A; one near B alone is not.
func (s *search) agreed(opt *api.DeviceOption, k, i int) (value string, ok bool) {
	m := opt.Match[k]
	v, has := s.told[i].Attributes[opt.Attribute(s.claims, k)]
	have := s.values[m]
	switch {
	// A device without the attribute agrees with no other, and not even alone: Kubernetes requires a constrained device to
	// have it.
	case !has:
		return "", false
	// Where values must differ the stack has the values themselves, and each is compared with all of them: two devices
	// that both differ from a third need not differ from each other.
	case s.claims.Match[m].Distinct:
		return v, !slices.ContainsFunc(have, func(h string) bool {
			_, both := api.CommonValues(h, v)
			return both
		})
	case len(have) == 0:
		return v, true
	}
	return api.CommonValues(have[len(have)-1], v)
}

// order lists the devices that the option could have, those first whose loss costs others least: those of this node
// alone, from the smallest set of equal values that holds the option, off cards that are in use already and have
// least left, asked for by the fewest selections. Then they are in the order in which they are told.
//
// For example, two cards are offered in partitions, and one partition of card 0 is in use. A pod that asks for one
// partition gets it of card 0, where less is left, so that card 1 stays whole for a pod that asks for all of a card.
func (s *search) order(r int, opt *api.DeviceOption) []int {
	if s.asTold {
		var out []int
		for i := range s.told {
			if s.told[i].Matches(opt.Selection) || s.told[i].FailsFor(opt.Selection) {
				out = append(out, i)
			}
		}
		return out
	}
	// The order is made anew whenever the search comes to the request. What was taken before changes both the devices
	// that can be had and what is left of their cards.
	//
	// i is the device; group the size of its set of equal values; far 1 if several nodes reach it; left what is left
	// of its card; asked how many selections match it. The smaller the better.
	type rank struct {
		i, group, far, left, asked int
	}
	var list []rank
	for i := range s.told {
		if s.told[i].Matches(opt.Selection) && s.can(r, opt, i) {
			e := rank{i: i, asked: len(s.told[i].Selections)}
			if s.told[i].Reach != "" {
				e.far = 1
			}
			list = append(list, e)
		}
	}
	// The first agreement on equal values decides where the pod goes. For example, a pod wants 2 GPUs of one NVLink
	// domain, and domains a, b and c have 4, 1 and 2 free. group is 2 for those of c, 4 for those of a, and more than
	// there are devices for the one of b: the pod gets both of c, and a stays whole.
	if at := slices.IndexFunc(opt.Match, func(m int) bool { return !s.claims.Match[m].Distinct }); at >= 0 {
		key := opt.Attribute(s.claims, at)
		size := make(map[string]int)
		for _, e := range list {
			size[s.told[e.i].Attributes[key]]++
		}
		for k := range list {
			// Values of which there are too few come last: they can only be part of a choice where other devices were
			// chosen before.
			if n := size[s.told[list[k].i].Attributes[key]]; n >= opt.Count {
				list[k].group = n
			} else {
				list[k].group = len(s.told) + 1
			}
		}
	}
	for k := range list {
		list[k].left = s.leftOf(list[k].i)
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

// leftOf is the most that is left of a counter that the device draws on, or of its capacity: of a partition, what is
// left of its card.
func (s *search) leftOf(i int) (most int) {
	for _, d := range s.draws[i] {
		most = max(most, int(min(s.left[d.counter]-s.spent[d.counter], 1<<40)))
	}
	for k := range s.told[i].Capacity {
		c := int(s.capacity[i]) + k
		most = max(most, int(min(s.left[c]-s.spent[c], 1<<40)))
	}
	return most
}
