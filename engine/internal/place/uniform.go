package place

import (
	"fmt"
	"slices"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/divide"
	"github.com/berth-dev/berth/engine/internal/index"
)

// Placer finds places for pods of a cluster.
//
// It keeps nothing: every answer is read from the index, which follows the model. What it places,
// it places on the model, and the journal can take it back. Both are those of the cluster's State
// and outlive it.
type Placer struct {
	m  *cluster.Model
	ix *index.Index
}

func New(m *cluster.Model, ix *index.Index) *Placer { return &Placer{m: m, ix: ix} }

// Order is members of one class that are to be placed together, by counting. It is complete: where
// it finds no place there is none.
//
// Counting decides because like pods do not care which of them is where: n of them fit in a domain
// exactly if its count for the class is n or more. A node's count is how many pods of the class it
// would take if no other pod came, nodes are independent of each other, and so the count of a
// domain is the sum over its nodes. Where pods of the class are in each other's way on different
// nodes, by rules or by devices that several nodes reach, counts do not add up, and the order goes
// another way (coupled.go).
//
// For example, a gang of at least 8 that wants 16, in one rack. Racks a, b, c and d have room for
// 7, 12, 40 and 18. Rack a is out. Of the others c and d have room for all 16, and d has less to
// spare: d. With 10 in d instead of 18 it would be c.
type Order struct {
	// Class is the class of all pods of the order, up to date.
	Class *index.Class
	// Layout is of the gang or of the group. A zero layout asks for nothing.
	Layout api.Layout
	// Pods are to be placed now, by rank: what the minimum lacks. None of them has an allocation.
	Pods []*cluster.Pod
	// Want is how many there could be in all, Pods among them: a place that holds these too is
	// better, because the gang can grow there.
	Want int
	// Running are the members that have an allocation, in any order. nil: the gang is not bound to
	// any domain yet.
	Running []*cluster.Pod
	// Kept are nodes that are held for these pods, and are taken first. nil: none are.
	Kept []*cluster.Node
}

// Uniform places the pods of the order, ranks in order of domain and name, and says whether it
// could. Where it could not, the model is as before. It costs a comparison for each domain of the
// level, and for each pod one for each bucket and one update of its node.
func (p *Placer) Uniform(o Order) bool {
	if o.coupled() {
		// An order that needs a search is not placed here. That it is not says nothing about
		// whether it has a place.
		return !o.Searches() && p.placeCoupled(o)
	}
	// There are two steps: which domain of the required level takes the pods, and then which nodes
	// in it. The first decides whether they start. The second can no longer fail, because the
	// domain holds them all.
	sc, ok := p.ChooseScope(o)
	if !ok {
		return false
	}
	// Without further wishes the pods go one by one to the best node of the domain. With some, the
	// domain is divided first.
	if o.Layout.Segment == 0 && o.Layout.Spread == "" && o.Layout.Preferred == "" {
		p.fill(o, sc, o.Pods)
	} else {
		p.fillShares(o, p.divide(o, sc, len(o.Pods)))
	}
	// Neighbouring ranks communicate most. The nodes are chosen by how well they pack, in an order
	// that has nothing to do with ranks, so the ranks are dealt out over the chosen places
	// afterwards. fillShares has done this for segments, each by itself.
	if o.Layout.Segment == 0 {
		//mutate: topology-ranks
		p.deal(o.Pods)
	}
	return true
}

// fillShares places the pods share by share, which together are all pods; segments keep their
// members together. Shares of segments are whole segments, and so a cut of the ranks at their ends
// never cuts one.
func (p *Placer) fillShares(o Order, shares []share) {
	left := o.Pods
	for _, sh := range shares {
		p.fill(o, sh.Scope, left[:sh.pods])
		if o.Layout.Segment > 0 {
			//mutate: topology-segment-ranks
			p.deal(left[:sh.pods])
		}
		left = left[sh.pods:]
	}
}

// fill places the pods in the scope, which holds them, each on the node that is best by then. It
// cannot fail: the count of the scope is of pods that fit together, and each pod that is placed
// takes one off it, whichever node it goes to.
func (s *Placer) fill(o Order, sc index.Scope, pods []*cluster.Pod) {
	// A count that promises more than there is would be a fault of the index, and every answer
	// after it would be wrong. Audits look for it (Check); here it must not pass for a full
	// cluster.
	if n := s.place(o, sc, pods); n < len(pods) {
		panic(fmt.Sprintf("engine: %d pods were promised in a scope that holds %d", len(pods), n))
	}
}

// deal lets pods of one class change allocations, so that ranks follow domains and names. For
// example, the best nodes were b, a, a for ranks 0, 1 and 2; afterwards ranks 0 and 1 are on a, and
// rank 2 is on b.
func (p *Placer) deal(pods []*cluster.Pod) {
	// Most gangs are placed in order already, and then no change is written to the journal.
	if slices.IsSortedFunc(pods, func(a, b *cluster.Pod) int { return cluster.ComparePlaces(a.Host, b.Host) }) {
		return
	}
	// An allocation is a node and the devices on it. The pods are of one class, so any of them may
	// have any of the allocations, and what is free on the nodes stays as it is.
	type allocation struct {
		node    *cluster.Node
		devices []string
		// place is where on the node the pod is among its occupants. The pod that takes the
		// allocation over takes this place over too.
		place int
	}
	all := make([]allocation, len(pods))
	for i, p := range pods {
		all[i] = allocation{p.Host, p.HostDevices, slices.Index(p.Host.Pods, p)}
	}
	// The sort is stable, so that equal nodes keep the devices in the order in which they were
	// given.
	slices.SortStableFunc(all, func(a, b allocation) int { return cluster.ComparePlaces(a.node, b.node) })
	p.m.Swap(pods, func() {
		for i, p := range pods {
			p.Host, p.HostDevices = all[i].node, all[i].devices
			p.Host.Pods[all[i].place] = p
		}
	})
}

// ChooseScope returns the domain of the required level that takes the pods: one that holds all that
// are wanted before one that holds only these, then the one with the least room to spare, then the
// first by name. It reports false exactly if no domain takes them, and places nothing. Of a coupled
// order the scope means nothing, and that there is one is all that it says.
func (s *Placer) ChooseScope(o Order) (index.Scope, bool) {
	if o.coupled() {
		return index.Scope{}, s.tryCoupled(o)
	}
	level := s.m.Level(o.Layout.Required)
	// The whole cluster is one domain: one comparison.
	if level == cluster.AnyLevel && o.Layout.Segment == 0 {
		return index.Scope{}, o.Class.Total >= int64(len(o.Pods))
	}
	// Nothing binds the gang to a domain yet: one comparison for each domain of the level.
	if level >= 0 && len(o.Running) == 0 && len(o.Kept) == 0 && o.Layout.Segment == 0 {
		return s.tightestDomain(o, level)
	}
	parts := s.ix.Parts(o.Class, index.Scope{}, level)
	// Members that run have settled where the gang is. The required level is about all members, so
	// the others must join them there or wait.
	if home := s.Home(level, o.Running); home != nil {
		//mutate: topology-home
		parts = slices.DeleteFunc(parts, func(p index.Part) bool { return !p.Scope.Same(home) })
	}
	// Room that is held for the gang comes first where it is enough, because somebody was evicted
	// to make it. If the domains with such room are too small, any other will do.
	if len(o.Kept) > 0 {
		kept := slices.DeleteFunc(slices.Clone(parts), func(p index.Part) bool { return s.firstOf(o.Kept, o.Class, p.Scope) == nil })
		if sc, ok := s.tightestPart(o, kept); ok {
			return sc, true
		}
	}
	return s.tightestPart(o, parts)
}

// tightestPart returns the part that suits the order best, the first of equals. Invariant: best is
// the best part so far that takes the pods, with their segments, or -1.
func (s *Placer) tightestPart(o Order, parts []index.Part) (index.Scope, bool) {
	best := -1
	for i, p := range parts {
		// Segments are looked at last, since dividing a part is dearer than comparing two numbers.
		if p.Fits < int64(len(o.Pods)) || best >= 0 && !better(p.Fits, parts[best].Fits, int64(o.Want)) {
			continue
		}
		//mutate: topology-segments
		if o.Layout.Segment > 0 && !s.segmentsFit(o, p.Scope) {
			continue
		}
		best = i
	}
	if best < 0 {
		return index.Scope{}, false
	}
	return parts[best].Scope, true
}

// tightestDomain is ChooseScope where nothing but counts decides, which is most of the time. It
// allocates nothing, where a list of parts would be as long as the cluster has racks.
func (p *Placer) tightestDomain(o Order, level int) (index.Scope, bool) {
	var best *cluster.Domain
	var holds int64
	// The domains are in the order of their names, so that of equals the first by name is taken, in every run.
	for _, d := range p.m.Topology.Sorted(level) {
		fits := o.Class.Sums[d.ID]
		if fits >= int64(len(o.Pods)) && (best == nil || better(fits, holds, int64(o.Want))) {
			best, holds = d, fits
		}
	}
	if best == nil {
		return index.Scope{}, false
	}
	return index.Scope{Domains: best.Only}, true
}

// firstOf returns the first of the nodes in the scope that has room for the class; nil: none.
func (p *Placer) firstOf(nodes []*cluster.Node, c *index.Class, sc index.Scope) *cluster.Node {
	for _, n := range nodes {
		if n.Bucket != nil && (sc.Node == nil || sc.Node == n) && p.ix.Fits(c, sc.On(n)) > 0 {
			return n
		}
	}
	return nil
}

// better says whether a part that holds a suits a gang that wants so many better than one that
// holds b. Both hold what the gang needs. It is a strict order: of equals neither is better.
func better(a, b, want int64) bool {
	// A gang of at least 8 that wants 16 goes to a domain for 16 before one for 12, and there to
	// the one with the least room beyond 16: large domains stay whole for large gangs.
	if x, y := min(a, want), min(b, want); x != y {
		return x > y
	}
	return a < b
}

// segmentsFit says whether the order's pods divide into its segments within the scope. That the
// scope has room for them all is not enough: three nodes with room for 7 hold 21 pods and no
// segment of 8.
func (p *Placer) segmentsFit(o Order, sc index.Scope) bool {
	parts := p.ix.Parts(o.Class, sc, p.m.Level(o.Layout.SegmentLevel))
	_, ok := divide.Segments(index.Counts(parts), len(o.Pods), o.Layout.Segment)
	return ok
}

// Home returns the domain of the level where most of the pods are, the first of equals by name; nil
// where none is in any. All of running have a host. They can be in several: labels of nodes change,
// and others bind pods too.
func (s *Placer) Home(level int, running []*cluster.Pod) *index.Scope {
	if level == cluster.AnyLevel || len(running) == 0 {
		return nil
	}
	var best *index.Scope
	// One pass with running counts: the best so far is replaced when another domain overtakes it or, at the same count, comes
	// before it by name. The result does not depend on the order of the pods.
	bestName, most := "", 0
	count := make(map[string]int)
	for _, p := range running {
		sc, name := s.scopeOf(p.Host, level)
		if sc == nil {
			continue
		}
		count[name]++
		if n := count[name]; n > most || n == most && name < bestName {
			best, bestName, most = sc, name, n
		}
	}
	return best
}

// scopeOf returns the node's domain of the level and its name, nil if it is in none.
func (p *Placer) scopeOf(n *cluster.Node, level int) (*index.Scope, string) {
	if n.Bucket == nil {
		return nil, ""
	}
	if level == cluster.NodeLevel {
		return &index.Scope{Node: n}, n.Name
	}
	d := n.Bucket.Domains[level]
	if d == nil {
		return nil, ""
	}
	return &index.Scope{Domains: []*cluster.Domain{d}}, d.Name
}

// share is how many pods go to a scope, at least one. Unlike divide.Share it names the domain
// itself.
type share struct {
	index.Scope
	pods int
}

// divide splits k pods over the scope, which holds them, as the layout asks. The shares sum to k
// and each scope holds its share. They are in the order of the parts by name, but for the last
// segment, if it is smaller, and for home, which comes first.
func (p *Placer) divide(o Order, sc index.Scope, k int) []share {
	l := o.Layout
	switch {
	// Segments are required and were checked by ChooseScope; spread and preferred levels are wishes
	// and always have an answer.
	case l.Segment > 0:
		parts := p.ix.Parts(o.Class, sc, p.m.Level(l.SegmentLevel))
		shares, _ := divide.Segments(index.Counts(parts), k, l.Segment)
		return named(parts, shares)
	case l.Spread != "":
		level := p.m.Level(l.Spread)
		// Nodes in no domain of the level count as one more part: a wish must not make room disappear.
		parts := p.ix.WithRest(o.Class, sc, level, p.ix.Parts(o.Class, sc, level))
		shares, _ := divide.Spread(index.Counts(parts), p.held(parts, o.Running), k)
		return named(parts, shares)
	case l.Preferred != "":
		return p.gather(o, sc, k)
	}
	return []share{{sc, k}}
}

// named puts the parts back in the place of their numbers, which index.Counts gave them.
func named(parts []index.Part, shares []divide.Share) []share {
	out := make([]share, len(shares))
	for i, sh := range shares {
		out[i] = share{parts[sh.ID].Scope, sh.Pods}
	}
	return out
}

// held counts the running members in each part, in the order of the parts. It costs a comparison
// for each pair of a part and a member.
func (s *Placer) held(parts []index.Part, running []*cluster.Pod) []int {
	out := make([]int, len(parts))
	for _, p := range running {
		for i := range parts {
			if sc := parts[i].Scope; p.Host.Bucket != nil && sc.Holds(p.Host.Bucket) && (sc.Node == nil || sc.Node == p.Host) {
				out[i]++
			}
		}
	}
	return out
}

// gather splits pods over as few domains of the preferred level as it can: one, or else few within
// one domain of the next wider level, and so on up. Where members run already comes first.
//
// For example, 20 pods prefer a rack. No rack holds 20. Block 1 has racks for 12 and 6, block 2 has
// racks for 10, 9 and 8: block 1 holds 18, block 2 holds 27. So it is block 2, and there the two
// racks for 10 and 9 are too small together: 10 + 9 pods and the last 1 in the rack for 8. Blocks
// come before racks: racks of two blocks for 12 and 10 would be one rack fewer, and a longer way
// between them.
//
// A preference always has an answer, since the scope holds all k.
func (p *Placer) gather(o Order, sc index.Scope, k int) []share {
	level := p.m.Level(o.Layout.Preferred)
	inner := p.ix.Parts(o.Class, sc, level)
	// Balanced asks for the same number in each domain, as collectives over rails do. Where the
	// counts do not allow it the members are gathered as usual.
	if o.Layout.Balanced {
		if shares, ok := divide.Balance(index.Counts(inner), k); ok {
			return named(inner, shares)
		}
	}
	// The loop goes from the narrowest level outwards: one rack if one holds them all, else the
	// fewest racks of one block, else the fewest racks of one zone, and so on. It ends at the first
	// level of which a single domain is large enough, and within that domain few divides.
	for _, l := range p.climb(level) {
		parts := p.ix.Parts(o.Class, sc, l)
		i := p.tightest(o, l, parts, k)
		if i < 0 {
			continue
		}
		if l == level {
			return []share{{parts[i].Scope, k}}
		}
		return p.few(o, parts[i].Scope, level, k)
	}
	return p.few(o, sc, level, k)
}

// climb lists the level and the nested levels around it, the narrowest first: for rack, in a
// topology of zone, block and rack, it is rack, block, zone.
func (p *Placer) climb(level int) []int {
	out := []int{level}
	// Only levels that are known to lie within each other can be climbed; a label that a gang named by itself lies in none of
	// them.
	// Levels are numbered from the widest. A node lies within all of them.
	up := level - 1
	if level == cluster.NodeLevel {
		up = len(p.m.Topology.Levels) - 1
	}
	for ; up >= 0; up-- {
		if p.m.Topology.Levels[up].Nested && (level == cluster.NodeLevel || p.m.Topology.Levels[level].Nested) {
			out = append(out, up)
		}
	}
	return out
}

// tightest returns the part that holds k with the least to spare, home before all others; -1: none
// does. Home comes first even if it has more to spare, since it is where the others of the gang
// are.
func (s *Placer) tightest(o Order, level int, parts []index.Part, k int) int {
	if home := s.Home(level, o.Running); home != nil {
		for i, p := range parts {
			if p.Fits >= int64(k) && s.within(p.Scope, *home) {
				return i
			}
		}
	}
	i, ok := divide.Tightest(index.Counts(parts), k)
	if !ok {
		return -1
	}
	return i
}

// within says whether the part is the domain, or the node, that home is, or lies within it.
func (p *Placer) within(sc, home index.Scope) bool {
	if home.Node != nil {
		return sc.Node == home.Node
	}
	return slices.Contains(sc.Domains, home.Domains[0])
}

// few splits k pods over the fewest domains of the level in the scope, home first. Nodes in no
// domain of the level are one more part, so that the parts hold what the scope does. It overwrites
// the fits of parts, which are its own.
func (s *Placer) few(o Order, sc index.Scope, level, k int) []share {
	parts := s.ix.WithRest(o.Class, sc, level, s.ix.Parts(o.Class, sc, level))
	var out []share
	if home := s.Home(level, o.Running); home != nil {
		for i, p := range parts {
			if n := int(min(p.Fits, int64(k))); s.within(p.Scope, *home) && n > 0 {
				out = append(out, share{p.Scope, n})
				k -= n
				// Home has given all that it has, or all that is wanted.
				parts[i].Fits = 0
			}
		}
	}
	if k == 0 {
		return out
	}
	// The parts of a scope hold together what the scope holds, so this cannot fail; if it does, the index is wrong.
	shares, ok := divide.Pack(index.Counts(parts), k)
	if !ok {
		panic(fmt.Sprintf("engine: a scope that holds %d pods has parts that do not", k))
	}
	return append(out, named(parts, shares)...)
}
