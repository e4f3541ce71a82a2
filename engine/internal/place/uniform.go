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
type Placer struct {
	m  *cluster.Model
	ix *index.Index
}

func New(m *cluster.Model, ix *index.Index) *Placer { return &Placer{m: m, ix: ix} }

// Order is members of one class that are to be placed together, by counting. It is complete: where it finds
// no place there is none.
type Order struct {
	Class   *index.Class
	Layout  api.Layout
	Pods    []*cluster.Pod  // to place now, by rank
	Want    int             // how many there could be in all: a place that holds these too is better
	Running []*cluster.Pod  // members that have an allocation
	Kept    []*cluster.Node // held for these pods: taken first
}

// Uniform places the pods of the order, ranks in order of domain and name, and says whether it could.
func (p *Placer) Uniform(o Order) bool {
	if o.coupled() {
		return !o.Searches() && p.placeCoupled(o)
	}
	sc, ok := p.ChooseScope(o)
	if !ok {
		return false
	}
	if o.Layout.Segment == 0 && o.Layout.Spread == "" && o.Layout.Preferred == "" {
		p.fill(o, sc, o.Pods)
	} else {
		p.fillShares(o, p.divide(o, sc, len(o.Pods)))
	}
	if o.Layout.Segment == 0 {
		//mutate: topology-ranks
		p.deal(o.Pods)
	}
	return true
}

// fillShares places the pods share by share; segments keep their members together.
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

// fill places the pods in the scope, which holds them, each on the node that is best by then.
func (s *Placer) fill(o Order, sc index.Scope, pods []*cluster.Pod) {
	if n := s.place(o, sc, pods); n < len(pods) {
		panic(fmt.Sprintf("engine: %d pods were promised in a scope that holds %d", len(pods), n))
	}
}

// deal lets pods of one class change allocations, so that ranks follow domains and names.
func (p *Placer) deal(pods []*cluster.Pod) {
	if slices.IsSortedFunc(pods, func(a, b *cluster.Pod) int { return cluster.ComparePlaces(a.Host, b.Host) }) {
		return
	}
	type seat struct {
		node    *cluster.Node
		devices []string
		place   int // among the node's occupants
	}
	seats := make([]seat, len(pods))
	for i, p := range pods {
		seats[i] = seat{p.Host, p.HostDevices, slices.Index(p.Host.Pods, p)}
	}
	slices.SortStableFunc(seats, func(a, b seat) int { return cluster.ComparePlaces(a.node, b.node) })
	p.m.Swap(pods, func() {
		for i, p := range pods {
			p.Host, p.HostDevices = seats[i].node, seats[i].devices
			p.Host.Pods[seats[i].place] = p
		}
	})
}

// ChooseScope returns the domain of the required level that takes the pods: one that holds all that are
// wanted before one that holds only these, then the one with the least room to spare.
func (s *Placer) ChooseScope(o Order) (index.Scope, bool) {
	if o.coupled() {
		return index.Scope{}, s.tryCoupled(o)
	}
	level := s.m.Level(o.Layout.Required)
	if level == cluster.AnyLevel && o.Layout.Segment == 0 {
		return index.Scope{}, o.Class.Total >= int64(len(o.Pods))
	}
	if level >= 0 && len(o.Running) == 0 && len(o.Kept) == 0 && o.Layout.Segment == 0 {
		return s.tightestDomain(o, level)
	}
	parts := s.ix.Parts(o.Class, index.Scope{}, level)
	if home := s.Home(level, o.Running); home != nil {
		//mutate: topology-home
		parts = slices.DeleteFunc(parts, func(p index.Part) bool { return !p.Scope.Same(home) })
	}
	if len(o.Kept) > 0 {
		kept := slices.DeleteFunc(slices.Clone(parts), func(p index.Part) bool { return s.firstOf(o.Kept, o.Class, p.Scope) == nil })
		if sc, ok := s.tightestPart(o, kept); ok {
			return sc, true
		}
	}
	return s.tightestPart(o, parts)
}

// tightestPart returns the part that suits the order best.
func (s *Placer) tightestPart(o Order, parts []index.Part) (index.Scope, bool) {
	best := -1
	for i, p := range parts {
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

// tightestDomain is chooseScope where nothing but counts decides, which is most of the time.
func (p *Placer) tightestDomain(o Order, level int) (index.Scope, bool) {
	var best *cluster.Domain
	var holds int64
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

// better says whether a part that holds a suits a gang that wants so many better than one that holds b.
func better(a, b, want int64) bool {
	if x, y := min(a, want), min(b, want); x != y {
		return x > y
	}
	return a < b
}

func (p *Placer) segmentsFit(o Order, sc index.Scope) bool {
	parts := p.ix.Parts(o.Class, sc, p.m.Level(o.Layout.SegmentLevel))
	_, ok := divide.Segments(index.Counts(parts), len(o.Pods), o.Layout.Segment)
	return ok
}

// Home returns the domain of the level where most of the pods are, the first of equals by name; nil where
// none is in any.
func (s *Placer) Home(level int, running []*cluster.Pod) *index.Scope {
	if level == cluster.AnyLevel || len(running) == 0 {
		return nil
	}
	var best *index.Scope
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

// share is how many pods go to a scope.
type share struct {
	index.Scope
	pods int
}

// divide splits k pods over the scope, which holds them, as the layout asks.
func (p *Placer) divide(o Order, sc index.Scope, k int) []share {
	l := o.Layout
	switch {
	case l.Segment > 0:
		parts := p.ix.Parts(o.Class, sc, p.m.Level(l.SegmentLevel))
		shares, _ := divide.Segments(index.Counts(parts), k, l.Segment)
		return named(parts, shares)
	case l.Spread != "":
		level := p.m.Level(l.Spread)
		parts := p.ix.WithRest(o.Class, sc, level, p.ix.Parts(o.Class, sc, level))
		shares, _ := divide.Spread(index.Counts(parts), p.held(parts, o.Running), k)
		return named(parts, shares)
	case l.Preferred != "":
		return p.gather(o, sc, k)
	}
	return []share{{sc, k}}
}

func named(parts []index.Part, shares []divide.Share) []share {
	out := make([]share, len(shares))
	for i, sh := range shares {
		out[i] = share{parts[sh.ID].Scope, sh.Pods}
	}
	return out
}

// held counts the running members in each part.
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

// gather splits pods over as few domains of the preferred level as it can: one, or else few within one
// domain of the next wider level, and so on up. Where members run already comes first.
func (p *Placer) gather(o Order, sc index.Scope, k int) []share {
	level := p.m.Level(o.Layout.Preferred)
	inner := p.ix.Parts(o.Class, sc, level)
	if o.Layout.Balanced {
		if shares, ok := divide.Balance(index.Counts(inner), k); ok {
			return named(inner, shares)
		}
	}
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

// climb lists the level and the nested levels around it, the narrowest first.
func (p *Placer) climb(level int) []int {
	out := []int{level}
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

// tightest returns the part that holds k with the least to spare, home before all others; -1: none does.
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

// within says whether the part is the domain, or the node, that home is.
func (p *Placer) within(sc, home index.Scope) bool {
	if home.Node != nil {
		return sc.Node == home.Node
	}
	return slices.Contains(sc.Domains, home.Domains[0])
}

// few splits k pods over the fewest domains of the level in the scope, home first.
func (s *Placer) few(o Order, sc index.Scope, level, k int) []share {
	parts := s.ix.WithRest(o.Class, sc, level, s.ix.Parts(o.Class, sc, level))
	var out []share
	if home := s.Home(level, o.Running); home != nil {
		for i, p := range parts {
			if n := int(min(p.Fits, int64(k))); s.within(p.Scope, *home) && n > 0 {
				out = append(out, share{p.Scope, n})
				k -= n
				parts[i].Fits = 0
			}
		}
	}
	if k == 0 {
		return out
	}
	shares, ok := divide.Pack(index.Counts(parts), k)
	if !ok {
		panic(fmt.Sprintf("engine: a scope that holds %d pods has parts that do not", k))
	}
	return append(out, named(parts, shares)...)
}
