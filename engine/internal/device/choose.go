package device

import "slices"

// Choose appends the devices for one pod to dst, as ascending indices into devs, or returns nil when the pod does not
// fit.
//
// The idea: a good set is made of whole islands and a part of one more, an island being devices that agree in clique,
// in NUMA node, or in both. So Choose makes a few such sets, from each kind of island and with either attribute
// first, and takes the cheapest (cost). For example, a node has two cliques of four GPUs, and one GPU of the first is
// held:
//
//	clique a   0 1 2 -      clique b   4 5 6 7
//	a pod of 2 GPUs gets 0 1: one clique, and the tighter of the two; a pod of 4 still finds all of b
//	a pod of 4 GPUs gets 4 5 6 7
//	a pod of 6 GPUs gets 4 5 6 7 and 0 1: the largest clique whole, then the rest from the tightest that holds it
//
// All devices come from one island of what the pod requires. To take a pod's devices from an island that holds them
// costs no other pod its place: the room of the island falls by one pod and that of the others not at all. So Choose
// succeeds as often as Fits promised.
//
// Within that, the order of preference is: the fewest cliques and then the fewest NUMA nodes where preferred; the
// fewest cliques anyway, for links are free; the tightest of them; the fewest NUMA nodes; the tightest; the lowest
// indices. The first wish is always met as well as it can be, and so are all of them when one island of each can hold
// the pod. Among several cliques, the number of NUMA nodes is a good one but not always the smallest.
//
// For each island that is looked at, the free devices are compared pairwise a few times. Nothing is allocated for up
// to sixteen free devices.
func Choose(devs []Device, w Want, dst []int) []int {
	if w.Count <= 0 {
		if dst == nil {
			return []int{}
		}
		return dst
	}
	var room, chosen [few]int
	c := choice{devs: devs, want: w, free: room[:0]}
	for i := range devs {
		if w.takes(&devs[i]) {
			c.free = append(c.free, i)
		}
	}
	switch {
	// One device, or all that are free and nothing required: there is nothing to weigh.
	case w.Count == 1 && len(c.free) > 0:
		return append(dst, c.one())
	case w.Count == len(c.free) && w.where(Require) == 0:
		return append(dst, c.free...)
	}
	required := w.where(Require)
	best := pick{at: chosen[:0]}
	// Islands of less than what is required would break the requirement, so only those are looked at that divide at
	// least by it.
	for _, pool := range [...]by{0, byClique, byNUMA, byClique | byNUMA} {
		if pool&required == required {
			best = c.fromIslands(pool, best)
		}
	}
	if len(best.at) == 0 {
		return nil
	}
	return append(dst, best.at...)
}

// one is Choose for a single device, which is what most pods ask for: the device whose clique has fewest free
// devices, then whose NUMA node has, then the first.
func (c choice) one() int {
	best, tightest := -1, [2]int{}
	for _, i := range c.free {
		size := [2]int{c.size(c.free, i, byClique), c.size(c.free, i, byNUMA)}
		if best < 0 || size[0] < tightest[0] || size[0] == tightest[0] && size[1] < tightest[1] {
			best, tightest = i, size
		}
	}
	return best
}

// few is how many devices are searched without allocating; more spill to the heap.
const few = 16

// choice is the search for one pod's devices. It is passed by value, so that what it points to can stay
// on the stack.
type choice struct {
	devs []Device
	want Want
	free []int // the devices the pod could have, ascending
}

// pick is a set of devices for the pod, ascending; empty is none.
type pick struct {
	at   []int
	cost cost
}

// fromIslands improves on best with picks from within each island that can hold the pod. An island is visited at its
// first member, so each is visited once. Two sets are made of each island at the most, one for either attribute to go first: which of them
// is cheaper depends on what is free, and to price both costs less than to find out beforehand.
func (c choice) fromIslands(pool by, best pick) pick {
	var room, trial [few]int
	for _, i := range c.free {
		members := c.members(c.free, i, pool, room[:0])
		if members[0] != i || len(members) < c.want.Count {
			continue
		}
		// Within one clique there is nothing to divide by cliques, and so for NUMA nodes.
		if pool&byClique == 0 {
			best = c.better(best, c.take(members, byClique, byNUMA, trial[:0]))
		}
		if pool != byNUMA {
			best = c.better(best, c.take(members, byNUMA, byClique, trial[:0]))
		}
	}
	return best
}

// members appends to out those of from that are in the island of i, in the order of from.
func (c choice) members(from []int, i int, by by, out []int) []int {
	for _, j := range from {
		if together(c.devs, i, j, by) {
			out = append(out, j)
		}
	}
	return out
}

// take appends to out the devices for the pod from pool, which has enough: from the fewest islands of the first
// attribute, and within the last of these from the fewest of the second.
//
// For example, 6 devices by clique and then by NUMA node, of cliques a with 4 free and b with 4 free, two on either NUMA node: all of a is taken
// first, then 2 are left to take from b. Both are on one NUMA node, and so the pod leaves 2 of b that are together, too.
func (c choice) take(pool []int, first, second by, out []int) []int {
	var room, inner [few]int
	left := append(room[:0], pool...)
	// Whole islands of the first attribute go first, until one of those that are left holds the rest.
	left, out = c.takeLargest(left, c.want.Count, first, out)
	n := c.want.Count - len(out)
	// That one is divided in the same way by the second attribute.
	within := c.members(left, c.tightest(left, n, first), first, inner[:0])
	within, out = c.takeLargest(within, n, second, out)
	n = c.want.Count - len(out)
	last := c.tightest(within, n, second)
	for _, j := range within {
		if n > 0 && together(c.devs, last, j, second) {
			out = append(out, j)
			n--
		}
	}
	return out
}

// takeLargest moves whole islands, the largest first, from pool to out until one island that is left holds the rest
// of n devices. To take the largest first makes the number of islands the smallest there is: no k islands hold more
// than the k largest do. It ends because pool has n devices.
func (c choice) takeLargest(pool []int, n int, by by, out []int) (left, taken []int) {
	for c.tightest(pool, n, by) < 0 {
		largest, size := -1, 0
		for _, i := range pool {
			if s := c.size(pool, i, by); s > size {
				largest, size = i, s
			}
		}
		out = c.members(pool, largest, by, out)
		pool = slices.DeleteFunc(pool, func(j int) bool { return together(c.devs, largest, j, by) })
		n -= size
	}
	return pool, out
}

// tightest finds a device of the smallest island in pool of at least n devices, or -1. Of equal ones it finds the
// first.
func (c choice) tightest(pool []int, n int, by by) int {
	best, least := -1, 0
	for _, i := range pool {
		if s := c.size(pool, i, by); s >= n && (best < 0 || s < least) {
			best, least = i, s
		}
	}
	return best
}

// size counts those of pool that are in the island of i.
func (c choice) size(pool []int, i int, by by) int {
	n := 0
	for _, j := range pool {
		if together(c.devs, i, j, by) {
			n++
		}
	}
	return n
}

// better is best, or trial where that costs less, or as much with lower indices. It sorts trial. best keeps its own
// memory, so that trial can be used again. Indices decide between sets that cost the same, so that equal states give equal choices.
func (c choice) better(best pick, trial []int) pick {
	slices.Sort(trial)
	cost := c.price(trial)
	order := slices.Compare(cost[:], best.cost[:])
	if len(best.at) > 0 && (order > 0 || order == 0 && slices.Compare(trial, best.at) >= 0) {
		return best
	}
	return pick{append(best.at[:0], trial...), cost}
}

// cost orders choices, the first difference deciding: preferred cliques, preferred NUMA nodes, cliques, free devices
// in these, NUMA nodes, free devices in these. Numbers of islands and of devices, the fewer the better; a wish that
// the pod does not have counts 0 for all choices. Free devices in the islands are counted because a set that fills a small island
// leaves a large one for a pod that needs it: 2 of a clique of 2 cost less than 2 of a clique of 4.
type cost [6]int

func (c choice) price(trial []int) cost {
	cliques, inCliques := c.touched(trial, byClique)
	numas, inNUMAs := c.touched(trial, byNUMA)
	p := cost{2: cliques, 3: inCliques, 4: numas, 5: inNUMAs}
	if c.want.Clique == Prefer {
		p[0] = cliques
	}
	if c.want.NUMA == Prefer {
		p[1] = numas
	}
	return p
}

// touched counts the islands that a choice draws from, and the free devices in them. An island counts at the first of
// its devices.
func (c choice) touched(trial []int, by by) (islands, free int) {
	for k, i := range trial {
		if c.size(trial[:k], i, by) == 0 {
			islands++
			free += c.size(c.free, i, by)
		}
	}
	return islands, free
}
