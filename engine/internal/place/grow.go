package place

import (
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/index"
)

// Grow adds to the gang what there is room for, beyond the minimum that it has. It is greedy: a
// member that was added is not taken back for another. Members beyond the minimum are worth the
// same one by one, and which of them start proves nothing to anybody, so a search would cost more
// than it gains.
//
// What is added is in Placed. Blocked says who was the first without room.
func (x *Search) Grow() { x.growBranch(x.G.Tree, index.Scope{}) }

// growBranch adds to the branch what there is room for within the scope. It stops at the first
// domain that takes any: what the branch requires holds for all of its members, and those that were
// just added have settled in which domain it is.
func (x *Search) growBranch(b *cluster.Branch, sc index.Scope) {
	for _, sub := range x.scopes(b, sc) {
		had := len(x.Placed)
		x.growIn(b, sub)
		if len(x.Placed) > had {
			return
		}
	}
}

// growIn adds to the branch within one of its scopes: to a leaf pods, to groups that run what there
// is room for, and of groups that do not run those that can start whole.
func (x *Search) growIn(b *cluster.Branch, sc index.Scope) {
	if len(b.Children) == 0 {
		x.growLeaf(b, sc)
		return
	}
	for _, c := range b.Children {
		switch {
		case c.Satisfied():
			x.growBranch(c, sc)
		case c.Complete() && x.supported(c):
			x.begin(c, sc)
		}
	}
}

// begin starts a group that the minimum did not need. Its own minimum starts whole or not at all,
// like a gang's, and so it is searched for as a gang is: greedily, and if that fails over all
// nodes. The steps of all groups come out of the one budget.
func (x *Search) begin(b *cluster.Branch, sc index.Scope) {
	x.greedy = true
	// Beside what the queue affords, growth must delay nobody who was promised a start. The minimum
	// is held to the same by the caller.
	done := func() bool { return x.done() && x.spares(x.Placed) }
	if x.branch(b, sc, done) {
		return
	}
	x.greedy = false
	if !x.spent {
		x.branch(b, sc, done)
	}
	x.greedy = true
}

// growLeaf places the leaf's waiting pods one by one, each class until it finds no more room. full
// has the classes that found none: the next pod of the class would find none either. Pods of
// segments are an exception, since each segment has a domain of its own.
func (x *Search) growLeaf(b *cluster.Branch, sc index.Scope) {
	full := make(map[index.ClassKey]bool)
	for i, p := range b.Pods {
		if p.Host != nil || !x.Decides(p) {
			continue
		}
		c := x.Kin.Class(p)
		if full[c.ClassKey] {
			continue
		}
		if placed, room := x.placeOne(b, i, c, sc); !placed {
			full[c.ClassKey] = b.Group.Layout.Segment == 0
			if x.Blocked.Pod == nil && !room {
				x.Blocked.Pod, x.Blocked.Leaf, x.Blocked.Place = p, b, i
			}
		}
	}
}

// placeOne places the leaf's i-th pod where it may be and the queue can afford it. placed says that
// it did. room says whether there was a node for it: if so, and it was not placed, then it is a
// limit that the gang waits for and not a node.
func (x *Search) placeOne(b *cluster.Branch, i int, c *index.Class, sc index.Scope) (placed, room bool) {
	for _, sub := range x.segment(b, i, c, sc) {
		for _, n := range x.nodes(b, i, c, sub) {
			if x.on(b.Pods[i], n, c, func() bool { return x.affords(b.Pods[i:i+1]) && x.spares(b.Pods[i:i+1]) }) {
				return true, true
			}
			room = true
		}
	}
	return false, room
}

// supported says whether the engine decides everything that the branch's waiting pods ask for.
func (x *Search) supported(b *cluster.Branch) bool {
	ok := true
	b.Each(func(b *cluster.Branch) {
		for _, p := range b.Pods {
			ok = ok && (p.Host != nil || x.Decides(p))
		}
	})
	return ok
}

// spares says whether the pods, which have been placed, delay no promised start. The
// first who would be delayed is kept in Quota as the reason.
func (x *Search) spares(pods []*cluster.Pod) bool {
	gates := x.Delays(pods)
	if len(gates) > 0 && len(x.Quota) == 0 {
		x.Quota = gates
	}
	return len(gates) == 0
}
