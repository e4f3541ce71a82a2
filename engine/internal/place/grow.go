package place

import (
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/index"
)

// Grow adds to the gang what there is room for.
func (x *Search) Grow() { x.growBranch(x.G.Tree, index.Scope{}) }

// growBranch adds to the branch what there is room for within the scope.
func (x *Search) growBranch(b *cluster.Branch, sc index.Scope) {
	for _, sub := range x.scopes(b, sc) {
		had := len(x.Placed)
		x.growIn(b, sub)
		if len(x.Placed) > had {
			return
		}
	}
}

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

// begin starts a group that the minimum did not need.
func (x *Search) begin(b *cluster.Branch, sc index.Scope) {
	x.greedy = true
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

// growLeaf places the leaf's waiting pods one by one, each class until it finds no more room.
func (x *Search) growLeaf(b *cluster.Branch, sc index.Scope) {
	full := make(map[*index.Class]bool)
	for i, p := range b.Pods {
		if p.Host != nil || !x.Decides(p) {
			continue
		}
		c := x.Kin.Class(p)
		if full[c] {
			continue
		}
		if seated, room := x.placeOne(b, i, c, sc); !seated {
			full[c] = b.Group.Layout.Segment == 0
			if x.Blocked.Pod == nil && !room {
				x.Blocked.Pod, x.Blocked.Leaf, x.Blocked.Place = p, b, i
			}
		}
	}
}

// placeOne places the leaf's i-th pod where it may be and the queue can afford it. room says whether there was a
// node for it.
func (x *Search) placeOne(b *cluster.Branch, i int, c *index.Class, sc index.Scope) (seated, room bool) {
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

// spares says whether the pods, which have been placed, delay nobody who was promised a start.
func (x *Search) spares(pods []*cluster.Pod) bool {
	gates := x.Delays(pods)
	if len(gates) > 0 && len(x.Quota) == 0 {
		x.Quota = gates
	}
	return len(gates) == 0
}
