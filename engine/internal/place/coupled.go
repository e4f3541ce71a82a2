package place

import (
	"slices"

	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/index"
)

// Pods of one class can concern each other across nodes: by a rule between pods they must be apart
// in every domain of a label, near each other, or evenly spread. What nodes admit does not add up
// then. For example, four nodes in two racks have room for 8 pods each, and the pods must be in
// different racks: each node admits one, the sum is 4, and 2 can start.
//
// Such pods are placed one after the other, each where it may be by then. With one such rule this is
// complete: where it places fewer than all, there is no place. No order needs to be taken back,
// because any order that has come to its end places as many pods as any other does:
//
//   - Apart: each domain takes one pod, on any of its nodes that has room. Whichever node is taken,
//     the domain is closed and no other is.
//   - Near, and some such pods are there already: the domains that admit one pod admit all, and no
//     other domain opens.
//   - Near, and there are none: all pods go to the domains of the first. This one choice does
//     matter, so each choice of these domains is tried.
//   - Spread: a domain takes one more pod as long as it then exceeds the smallest domain by at most
//     maxSkew. The smallest only grows, so that placing a pod closes no other domain. Suppose that an
//     order A has ended and an order B places more pods. Then B is at some moment about to give a
//     domain d more pods than A gave it, for the first time. Until then no domain has more pods in B
//     than in A, so the smallest is no larger in B. If d may take the pod in B it may in A, which has
//     therefore not ended. Pods that are to come to a domain count as there for d and not for the
//     smallest, in both orders alike. With fewer domains than minDomains the smallest is 0 throughout.
//
// Several such rules at once are for the search: with two, a pod that keeps one may close a domain for
// the other, and the order matters.

// coupled says whether the order cannot be decided by adding up. A single pod always can: it is in
// no other's way but its own, and each node says by itself whether it takes the pod.
func (o Order) coupled() bool { return len(o.Pods) > 1 && o.Class.Coupled() }

// Searches says whether the order's members concern each other in more ways than one, so that only
// a search decides. Segments and wishes of the layout count as such ways, because a division by
// counts is what they would need.
func (o Order) Searches() bool {
	l := o.Layout
	return o.coupled() && (!o.Class.CoupledOnce() || l.Segment > 0 || l.Spread != "" || l.Preferred != "")
}

// placeCoupled places the pods of the order one after the other, in the first domain of the
// required level that takes all. It tries all domains in the end, and so says no only if none takes
// them. Where it could not, the model is as before.
//
// It costs a trial of all pods for each domain, and for each choice of the first pod where pods
// must be near each other.
func (p *Placer) placeCoupled(o Order) bool {
	for _, sc := range p.scopesOf(o) {
		if p.chain(o, sc) {
			p.deal(o.Pods)
			return true
		}
	}
	return false
}

// scopesOf lists where the order's pods may be: those first that suit it, by what nodes admit. What
// they admit is a guess here and nothing is left out by it: a domain whose nodes admit 3 pods now
// may take 6 if spread pods open nodes to each other, and 1 if they must be apart.
//
// The order is total but for equals, which stay as Parts lists them, by name: domains with room
// that is kept for the order, then as for orders that are counted (better).
func (s *Placer) scopesOf(o Order) []index.Scope {
	level := s.m.Level(o.Layout.Required)
	if level == cluster.AnyLevel {
		return []index.Scope{{}}
	}
	parts := s.ix.Parts(o.Class, index.Scope{}, level)
	// Nodes that admit no pod now may do so when another is placed; Parts would leave them out.
	if level == cluster.NodeLevel {
		parts = s.ix.EveryNode(o.Class, index.Scope{})
	}
	if home := s.Home(level, o.Running); home != nil {
		parts = slices.DeleteFunc(parts, func(p index.Part) bool { return !p.Scope.Same(home) })
	}
	keeps := func(p index.Part) bool { return s.firstOf(o.Kept, o.Class, p.Scope) != nil }
	slices.SortStableFunc(parts, func(a, b index.Part) int {
		if x, y := keeps(a), keeps(b); x != y {
			return cluster.Before(x)
		}
		if a.Fits == b.Fits {
			return 0
		}
		return cluster.Before(better(a.Fits, b.Fits, int64(o.Want)))
	})
	var out []index.Scope
	for _, p := range parts {
		out = append(out, p.Scope)
	}
	return out
}

// chain places all pods in the scope, or none. Each pod goes to the node that is best by then, and
// the argument at the top says why another choice would come no further. The exception is the first
// of pods that must be near each other: it settles where all of them go.
func (p *Placer) chain(o Order, sc index.Scope) bool {
	p.ix.Sync(o.Class)
	if !o.Class.StartsAlone() {
		return p.follow(o, sc, o.Pods)
	}
	// Where the first pod goes, the domains of its affinity around it admit the others and no
	// domain else does. So the room in these is a bound: with less than all need, the start leads
	// nowhere and is not tried.
	starts := slices.DeleteFunc(p.ix.Starts(o.Class, sc), func(s index.Start) bool { return s.Fits < int64(len(o.Pods)) })
	slices.SortStableFunc(starts, func(a, b index.Start) int {
		if x, y := p.firstOf(o.Kept, o.Class, sc.On(a.Node)) != nil, p.firstOf(o.Kept, o.Class, sc.On(b.Node)) != nil; x != y {
			return cluster.Before(x)
		}
		if a.Fits == b.Fits {
			return 0
		}
		return cluster.Before(better(a.Fits, b.Fits, int64(o.Want)))
	})
	for _, s := range starts {
		// One node for each choice of domains is enough: the pods that follow may be on any node of
		// the same domains, and the first node is taken either way or left for one of them.
		m := p.m.Mark()
		p.ix.Put(o.Pods[0], s.Node, o.Class)
		if p.follow(o, sc, o.Pods[1:]) {
			return true
		}
		p.m.Rollback(m)
	}
	return false
}

// follow places the pods, each on the best node that admits it by then, or none of them. The empty
// list is placed.
func (s *Placer) follow(o Order, sc index.Scope, pods []*cluster.Pod) bool {
	m := s.m.Mark()
	if s.place(o, sc, pods) == len(pods) {
		return true
	}
	//mutate: rollback-coupled
	s.m.Rollback(m)
	return false
}

// place places the pods until one has no node, and returns how many it placed. What it placed
// stays, also if it was not all. The class is brought up to date before each pod, because the last
// one has changed what nodes admit.
func (s *Placer) place(o Order, sc index.Scope, pods []*cluster.Pod) int {
	for i, p := range pods {
		s.ix.Sync(o.Class)
		n := s.firstOf(o.Kept, o.Class, sc)
		if n == nil {
			n = s.ix.Best(o.Class, sc)
		}
		if n == nil {
			return i
		}
		s.ix.Put(p, n, o.Class)
	}
	return len(pods)
}

// Together is how many of the order's pods could be placed one after the other, in the best domain.
// It is for the sentence that says why the gang waits, and a lower bound: of pods that must be near
// each other and are nowhere yet the first goes to its best node, and other starts are not tried.
// The model is the same before and after, and so is the class.
func (p *Placer) Together(o Order) (most int) {
	for _, sc := range p.scopesOf(o) {
		m := p.m.Mark()
		most = max(most, p.place(o, sc, o.Pods))
		p.m.Rollback(m)
		p.ix.Sync(o.Class)
	}
	return most
}

// TooFew says whether the order has no place although what its nodes admit adds up to one, because
// its pods concern each other, and how many of them could be placed. It is asked of an order that
// was not placed. Where what nodes admit adds up to too little, the sums are the better proof and
// TooFew says no. Sums prove nothing either where pods are spread: each that starts opens nodes to
// others.
func (p *Placer) TooFew(o Order) (placed int, short bool) {
	if !o.coupled() {
		return 0, false
	}
	if o.Class.Total == 0 || !o.Class.Spreads() && !slices.ContainsFunc(p.scopesOf(o), func(sc index.Scope) bool { return p.ix.Fits(o.Class, sc) >= int64(len(o.Pods)) }) {
		return 0, false
	}
	return p.Together(o), true
}

// tryCoupled says whether the order can be placed, and leaves everything as it is. There is no
// cheaper way to know than to do it and take it back.
func (p *Placer) tryCoupled(o Order) bool {
	if o.Searches() {
		return true // as far as can be said without a search
	}
	m := p.m.Mark()
	ok := p.placeCoupled(o)
	p.m.Rollback(m)
	p.ix.Sync(o.Class)
	return ok
}
