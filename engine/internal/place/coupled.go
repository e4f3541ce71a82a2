package place

import (
	"slices"

	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/index"
)

// Members of one class that concern each other by rules between pods, on different nodes: they must be apart in every domain of
// a label, near each other, or evenly spread. What nodes admit does not add up then, so they are placed one after the other,
// each where it may be by then. By one such rule that is complete: where it places fewer than all there is no place.
//
//   - Apart: each domain takes one, on any of its nodes that have room. Whichever node is taken, the domain is closed and no
//     other is.
//   - Near, and some such pods are there already: the domains that admit one admit all, and no other opens.
//   - Near, and there are none: all go to the domains of the first. Each choice of these is tried.
//   - Spread: a domain is open to one more pod while it has less than the fewest of the other domains, plus maxSkew, less the pods that
//     are to come there. Placing a pod never closes another domain. Take an order that ended, and any other one: say that the
//     other is the first to give a domain more pods than the order that ended did. Until then it gave no domain more, so
//     its fewest are no more, and where it may place that pod the order that ended may too. So any order places as many pods as
//     can be placed. With fewer domains than minDomains the fewest are 0 from the beginning.
//
// Several such rules at once are for the search.

// coupled says whether the order cannot be decided by adding up.
func (o Order) coupled() bool { return len(o.Pods) > 1 && o.Class.Coupled() }

// Searches says whether the order's members concern each other in more ways than one, so that only a search decides.
func (o Order) Searches() bool {
	l := o.Layout
	return o.coupled() && (!o.Class.CoupledOnce() || l.Segment > 0 || l.Spread != "" || l.Preferred != "")
}

// placeCoupled places the pods of the order one after the other, in the first domain of the required level that takes all.
func (p *Placer) placeCoupled(o Order) bool {
	for _, sc := range p.scopesOf(o) {
		if p.chain(o, sc) {
			p.deal(o.Pods)
			return true
		}
	}
	return false
}

// scopesOf lists where the order's pods may be: those first that suit it, by what nodes admit.
func (s *Placer) scopesOf(o Order) []index.Scope {
	level := s.m.Level(o.Layout.Required)
	if level == cluster.AnyLevel {
		return []index.Scope{{}}
	}
	parts := s.ix.Parts(o.Class, index.Scope{}, level)
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

// chain places all pods in the scope, or none.
func (p *Placer) chain(o Order, sc index.Scope) bool {
	p.ix.Sync(o.Class)
	if !o.Class.StartsAlone() {
		return p.follow(o, sc, o.Pods)
	}
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
		m := p.m.Mark()
		p.ix.Put(o.Pods[0], s.Node, o.Class)
		if p.follow(o, sc, o.Pods[1:]) {
			return true
		}
		p.m.Rollback(m)
	}
	return false
}

// follow places the pods, each on the best node that admits it by then, or none of them.
func (s *Placer) follow(o Order, sc index.Scope, pods []*cluster.Pod) bool {
	m := s.m.Mark()
	if s.place(o, sc, pods) == len(pods) {
		return true
	}
	//mutate: rollback-coupled
	s.m.Rollback(m)
	return false
}

// place places the pods until one has no node, and returns how many it placed.
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
func (p *Placer) Together(o Order) (most int) {
	for _, sc := range p.scopesOf(o) {
		m := p.m.Mark()
		most = max(most, p.place(o, sc, o.Pods))
		p.m.Rollback(m)
		p.ix.Sync(o.Class)
	}
	return most
}

// TooFew says whether the order has no place although what its nodes admit adds up to one, because its pods concern each other,
// and how many of them could be placed. Sums prove nothing either where pods are spread: each that starts opens nodes to others.
func (p *Placer) TooFew(o Order) (placed int, short bool) {
	if !o.coupled() {
		return 0, false
	}
	if o.Class.Total == 0 || !o.Class.Spreads() && !slices.ContainsFunc(p.scopesOf(o), func(sc index.Scope) bool { return p.ix.Fits(o.Class, sc) >= int64(len(o.Pods)) }) {
		return 0, false
	}
	return p.Together(o), true
}

// tryCoupled says whether the order can be placed, and leaves everything as it is.
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
