package share

import (
	"slices"
	"strings"
)

// Node is one that gets a share: a queue, or a user of one. Amounts are by resource, in the order
// of the total and in its units; a list that is too short has zeros for the rest. The caller writes
// nodes, and nothing here changes them.
type Node struct {
	Name     string  // unique among those with the same parent; ties are decided by it
	Parent   int     // its index; -1: it is at the top
	Priority int32   // what is over goes to higher ones of the same parent first
	Weight   int64   // of its part of what is over; less than 1: 1
	Quota    []int64 // what it is promised; nil: nothing
	Limit    []int64 // the most that it may have, -1 for any amount; nil: any amount of everything
	Request  []int64 // what it holds and waits for; of a node with others below it: the sum of theirs
	Used     int64   // what it used in the past: the more it is, compared to the others, the less its weight counts
}

// Fair divides the total over the tree. The share of node i is at i, by resource. It does not
// depend on the order of the nodes, because each group is sorted by name before anything is
// divided, and every tie ends in that order. Nodes that hang below no top have no share.
//
// It costs one sort of each group, and for each priority in a group at most as many rounds of the
// race as there are resources, and one more. README.md has what was measured.
func Fair(nodes []Node, total []int64) [][]int64 {
	d := &divider{nodes: nodes, total: total, dims: len(total)}
	d.want = make([]int64, len(nodes)*d.dims)
	d.share = make([]int64, len(nodes)*d.dims)
	// Requests are added up from the leaves, because what a parent may ask for depends on the
	// limits below it. Shares are divided from the top, because what a child can have depends on
	// what its parent has.
	d.grow()
	d.ask()
	have := make([]int64, d.dims)
	for r, t := range total {
		have[r] = max(0, t)
	}
	d.divide(have, d.below(-1))
	// Parents come before children in order, so that the share of i is final when it is divided.
	for _, i := range d.order {
		if kids := d.below(int(i)); len(kids) > 0 {
			d.divide(d.row(d.share, i), kids)
		}
	}
	out := make([][]int64, len(nodes))
	for i := range nodes {
		out[i] = d.row(d.share, int32(i))
	}
	return out
}

// Equal divides what there is over members of equal standing, such as the users of one queue.
// requests are by member, in the order of the names.
func Equal(names []string, requests [][]int64, have []int64) [][]int64 {
	nodes := make([]Node, len(names))
	for i, name := range names {
		nodes[i] = Node{Name: name, Parent: -1, Request: requests[i]}
	}
	return Fair(nodes, have)
}

// divider is one division in the making. It is used for one call of Fair. Lists by node and
// resource are flat, with node i at i*dims, so that a division allocates a handful of times
// whatever the size of the tree.
type divider struct {
	nodes []Node
	// total is by resource; less than zero counts as nothing.
	total []int64
	// dims is how many resources there are.
	dims int

	// kids are the nodes, grouped by parent, the top first; in a group by name.
	kids []int32
	// first has, at p+1, where the group of parent p starts in kids. Parent -1 is the top.
	first []int32
	// order is the nodes that hang below a top, parents before children.
	order []int32

	// want and share are by node and resource: the most it would take, and what it gets.
	want, share []int64
	// left is by resource: what the group that is being divided to has not been given yet.
	left []int64
	// race is the working memory of deal, kept from round to round.
	race race
}

// row is the part of a flat list that is about the node. It cannot grow into the next one.
func (d *divider) row(of []int64, i int32) []int64 {
	at := int(i) * d.dims
	return of[at : at+d.dims : at+d.dims]
}

// below lists the children of the node, or with -1 the top, by name.
func (d *divider) below(i int) []int32 { return d.kids[d.first[i+1]:d.first[i+2]] }

// grow finds which queue is below which: a counting sort by parent, then a sort of each group by name, then
// a walk from the top that puts parents before children. Nodes in a circle of parents hang below no
// top, are not reached by the walk, and get nothing. A parent that is no index is the nearest one
// that is.
func (d *divider) grow() {
	n := len(d.nodes)
	d.first = make([]int32, n+2)
	d.kids = make([]int32, n)
	parent := func(i int) int { return min(max(d.nodes[i].Parent, -1), n-1) }
	for i := range d.nodes {
		// The counts are two places up: adding them up then gives, at p+1, where the group of p
		// starts, and at p+2 where it ends.
		d.first[parent(i)+2]++
	}
	for i := range n + 1 {
		d.first[i+1] += d.first[i]
	}
	at := slices.Clone(d.first)
	for i := range d.nodes {
		p := parent(i) + 1
		d.kids[at[p]] = int32(i)
		at[p]++
	}
	byName := func(a, b int32) int { return strings.Compare(d.nodes[a].Name, d.nodes[b].Name) }
	for i := range n + 1 {
		if group := d.below(i - 1); !slices.IsSortedFunc(group, byName) {
			slices.SortFunc(group, byName)
		}
	}
	d.order = append(make([]int32, 0, n), d.below(-1)...)
	for i := 0; i < len(d.order); i++ {
		d.order = append(d.order, d.below(int(d.order[i]))...)
	}
}

// most bounds requests and their sums, in units of a resource. Two sums can so be added without an
// overflow.
const most = 1 << 60

// ask works out what each node would take at most, from the leaves up: a leaf its request, and a
// node with others below it what they would take together, each at most its limit. A limit below
// therefore binds above, too: a parent is not given what no child may have.
func (d *divider) ask() {
	for k := len(d.order) - 1; k >= 0; k-- {
		i := d.order[k]
		want, kids := d.row(d.want, i), d.below(int(i))
		for r := range want {
			if len(kids) == 0 {
				want[r] = min(most, max(0, at(d.nodes[i].Request, r)))
			}
			for _, c := range kids {
				want[r] = min(most, want[r]+d.want[int(c)*d.dims+r])
			}
			if limit := d.nodes[i].Limit; r < len(limit) && limit[r] >= 0 {
				want[r] = min(want[r], limit[r])
			}
		}
	}
}

// at is the r-th of the amounts, 0 where there are fewer.
func at(v []int64, r int) int64 {
	if r < len(v) {
		return v[r]
	}
	return 0
}

// divide gives the group, which has one parent, what the parent has: quotas first, the rest by
// priority. Quotas come before priorities, so that a quota is had whatever others ask for.
func (d *divider) divide(have []int64, group []int32) {
	d.left = append(d.left[:0], have...)
	for r := range have {
		d.promised(r, group)
	}
	// The sort is stable and the group sorted by name, so that a group of equal priority is by
	// name, too.
	byPriority := func(a, b int32) int {
		switch x, y := d.nodes[a].Priority, d.nodes[b].Priority; {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	}
	if !slices.IsSortedFunc(group, byPriority) {
		group = slices.Clone(group)
		slices.SortStableFunc(group, byPriority)
	}
	for len(group) > 0 {
		n := 1
		for n < len(group) && byPriority(group[0], group[n]) == 0 {
			n++
		}
		d.deal(group[:n])
		group = group[n:]
	}
}

// promised gives everybody its quota of the resource as far as it is wanted, cut in proportion to
// the quotas where there is less. Each resource is by itself: a quota is a promise of each of its
// amounts, whatever the others come to.
func (d *divider) promised(r int, group []int32) {
	left, enough := d.left[r], true
	for _, i := range group {
		q := d.claim(i, r)
		d.share[int(i)*d.dims+r] = q
		if enough = enough && q <= left; enough {
			left -= q
		}
	}
	if enough {
		d.left[r] = left
		return
	}
	d.cut(r, group)
}

// claim is the quota of the node as far as it is wanted, in units of the resource.
func (d *divider) claim(i int32, r int) int64 {
	return min(max(0, at(d.nodes[i].Quota, r)), d.want[int(i)*d.dims+r])
}

// cut divides what is left of the resource in proportion to quotas, none getting more than its
// claim. It is called where the claims are more than what is left, and so all of it is given away.
//
// For example, 6 GPUs, quotas of 10 and 10, and claims of 1 and 10. In proportion it would be 3
// each, but the first wants 1. So it gets 1, and what remains is divided anew: 5 for the second.
// The queue that claims the smallest part of its quota is settled first. Once one cannot be given its
// whole claim, none after it can either, since all of them claim a larger part of their quotas
// and get the same part.
func (d *divider) cut(r int, group []int32) {
	// Quotas are bounded so that their sum stays below most; such large ones count as equal.
	quota := func(i int32) int64 { return min(most/int64(len(group)), d.nodes[i].Quota[r]) }
	var open []int32
	var quotas int64
	for _, i := range group {
		if d.claim(i, r) > 0 {
			open = append(open, i)
			quotas += quota(i)
		}
	}
	// By claim/quota, compared as cross products: the queue that claims least of its quota is the first to
	// have all of it.
	slices.SortStableFunc(open, func(a, b int32) int {
		return compareProducts(d.claim(a, r), quota(b), d.claim(b, r), quota(a))
	})
	// Invariant: those taken off open have their whole claim, which promised has written; left and
	// quotas are of those still in open.
	left := d.left[r]
	for len(open) > 0 && compareProducts(d.claim(open[0], r), quotas, left, quota(open[0])) <= 0 {
		left -= d.claim(open[0], r)
		quotas -= quota(open[0])
		open = open[1:]
	}
	slices.SortFunc(open, func(a, b int32) int { return strings.Compare(d.nodes[a].Name, d.nodes[b].Name) })
	// Rounded down, the parts leave less than one unit for each in open. Each part is below its
	// claim before it is rounded, so that one unit more exceeds no claim.
	rest, parts := left, make([]part, len(open))
	for k, i := range open {
		whole, over := mulDivMod(left, quota(i), quotas)
		d.share[int(i)*d.dims+r] = whole
		rest -= whole
		parts[k] = part{i, over}
	}
	d.handOut(r, parts, rest)
	d.left[r] = 0
}

// part is what was cut off when a node's share was rounded down to whole units. over is comparable
// only between the parts of one list: they have one denominator.
type part struct {
	node int32
	over int64
}

// handOut gives one unit more to as many nodes as there are units, the largest parts first, then in
// the order given, which is by name: the largest remainder method. More units than parts are not
// handed out.
func (d *divider) handOut(r int, parts []part, units int64) {
	if units <= 0 {
		return
	}
	slices.SortStableFunc(parts, func(a, b part) int {
		switch {
		case a.over > b.over:
			return -1
		case a.over < b.over:
			return 1
		}
		return 0
	})
	for _, p := range parts[:min(units, int64(len(parts)))] {
		d.share[int(p.node)*d.dims+r]++
	}
}
