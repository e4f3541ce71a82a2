package engine

import (
	"fmt"
	"slices"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/index"
	"github.com/berth-dev/berth/engine/internal/place"
)

// order is members of one class that are to be placed together, by counting. It is complete: where it finds
// no place there is none.
type order struct {
	class   *index.Class
	layout  api.Layout
	pods    []*cluster.Pod  // to place now, by rank
	want    int             // how many there could be in all: a place that holds these too is better
	running []*cluster.Pod  // members that have a seat
	kept    []*cluster.Node // held for these pods: taken first
}

// placeUniform seats the pods of the order, ranks in order of domain and name, and says whether it could.
func (s *State) placeUniform(o order) bool {
	sc, ok := s.chooseScope(o)
	if !ok {
		return false
	}
	if o.layout.Segment == 0 && o.layout.Spread == "" && o.layout.Preferred == "" {
		s.fill(o, sc, o.pods)
	} else {
		s.fillShares(o, s.divide(o, sc, len(o.pods)))
	}
	if o.layout.Segment == 0 {
		//mutate: topology-ranks
		deal(o.pods)
	}
	return true
}

// fillShares seats the pods share by share; segments keep their members together.
func (s *State) fillShares(o order, shares []share) {
	left := o.pods
	for _, sh := range shares {
		s.fill(o, sh.Scope, left[:sh.pods])
		if o.layout.Segment > 0 {
			//mutate: topology-segment-ranks
			deal(left[:sh.pods])
		}
		left = left[sh.pods:]
	}
}

// fill seats the pods in the scope, which holds them, each on the node that is best by then.
func (s *State) fill(o order, sc index.Scope, pods []*cluster.Pod) {
	for i, p := range pods {
		s.ix.Sync(o.class)
		n := s.firstOf(o.kept, o.class, sc)
		if n == nil {
			n = s.ix.Best(o.class, sc)
		}
		if n == nil {
			panic(fmt.Sprintf("engine: %d pods were promised in a scope that holds %d", len(pods), i))
		}
		s.ix.Put(p, n, o.class)
	}
}

// deal lets pods of one class change seats, so that ranks follow domains and names.
func deal(pods []*cluster.Pod) {
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
	for i, p := range pods {
		p.Host, p.HostDevices = seats[i].node, seats[i].devices
		p.Host.Pods[seats[i].place] = p
	}
}

// chooseScope returns the domain of the required level that takes the pods: one that holds all that are
// wanted before one that holds only these, then the one with the least room to spare.
func (s *State) chooseScope(o order) (index.Scope, bool) {
	level := s.m.Level(o.layout.Required)
	if level == cluster.AnyLevel && o.layout.Segment == 0 {
		return index.Scope{}, o.class.Total >= int64(len(o.pods))
	}
	if level >= 0 && len(o.running) == 0 && len(o.kept) == 0 && o.layout.Segment == 0 {
		return s.tightestDomain(o, level)
	}
	parts := s.ix.Parts(o.class, index.Scope{}, level)
	if home := s.home(level, o.running); home != nil {
		//mutate: topology-home
		parts = slices.DeleteFunc(parts, func(p index.Part) bool { return !p.Scope.Same(home) })
	}
	if len(o.kept) > 0 {
		kept := slices.DeleteFunc(slices.Clone(parts), func(p index.Part) bool { return s.firstOf(o.kept, o.class, p.Scope) == nil })
		if sc, ok := s.tightestPart(o, kept); ok {
			return sc, true
		}
	}
	return s.tightestPart(o, parts)
}

// tightestPart returns the part that suits the order best.
func (s *State) tightestPart(o order, parts []index.Part) (index.Scope, bool) {
	best := -1
	for i, p := range parts {
		if p.Fits < int64(len(o.pods)) || best >= 0 && !better(p.Fits, parts[best].Fits, int64(o.want)) {
			continue
		}
		//mutate: topology-segments
		if o.layout.Segment > 0 && !s.segmentsFit(o, p.Scope) {
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
func (s *State) tightestDomain(o order, level int) (index.Scope, bool) {
	var best *cluster.Domain
	var holds int64
	for _, d := range s.m.Topology.Sorted(level) {
		fits := o.class.Sums[d.ID]
		if fits >= int64(len(o.pods)) && (best == nil || better(fits, holds, int64(o.want))) {
			best, holds = d, fits
		}
	}
	if best == nil {
		return index.Scope{}, false
	}
	return index.Scope{Domains: best.Only}, true
}

// firstOf returns the first of the nodes in the scope that has room for the class; nil: none.
func (s *State) firstOf(nodes []*cluster.Node, c *index.Class, sc index.Scope) *cluster.Node {
	for _, n := range nodes {
		if n.Bucket != nil && (sc.Node == nil || sc.Node == n) && s.ix.Fits(c, sc.On(n)) > 0 {
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

func (s *State) segmentsFit(o order, sc index.Scope) bool {
	parts := s.ix.Parts(o.class, sc, s.m.Level(o.layout.SegmentLevel))
	_, ok := place.Segments(index.Counts(parts), len(o.pods), o.layout.Segment)
	return ok
}

// home returns the domain of the level where most of the pods are, the first of equals by name; nil where
// none is in any.
func (s *State) home(level int, running []*cluster.Pod) *index.Scope {
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
func (s *State) scopeOf(n *cluster.Node, level int) (*index.Scope, string) {
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
func (s *State) divide(o order, sc index.Scope, k int) []share {
	l := o.layout
	switch {
	case l.Segment > 0:
		parts := s.ix.Parts(o.class, sc, s.m.Level(l.SegmentLevel))
		shares, _ := place.Segments(index.Counts(parts), k, l.Segment)
		return named(parts, shares)
	case l.Spread != "":
		level := s.m.Level(l.Spread)
		parts := s.ix.WithRest(o.class, sc, level, s.ix.Parts(o.class, sc, level))
		shares, _ := place.Spread(index.Counts(parts), s.held(parts, o.running), k)
		return named(parts, shares)
	case l.Preferred != "":
		return s.gather(o, sc, k)
	}
	return []share{{sc, k}}
}

func named(parts []index.Part, shares []place.Share) []share {
	out := make([]share, len(shares))
	for i, sh := range shares {
		out[i] = share{parts[sh.ID].Scope, sh.Pods}
	}
	return out
}

// held counts the running members in each part.
func (s *State) held(parts []index.Part, running []*cluster.Pod) []int {
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
func (s *State) gather(o order, sc index.Scope, k int) []share {
	level := s.m.Level(o.layout.Preferred)
	inner := s.ix.Parts(o.class, sc, level)
	if o.layout.Balanced {
		if shares, ok := place.Balance(index.Counts(inner), k); ok {
			return named(inner, shares)
		}
	}
	for _, l := range s.climb(level) {
		parts := s.ix.Parts(o.class, sc, l)
		i := s.tightest(o, l, parts, k)
		if i < 0 {
			continue
		}
		if l == level {
			return []share{{parts[i].Scope, k}}
		}
		return s.few(o, parts[i].Scope, level, k)
	}
	return s.few(o, sc, level, k)
}

// climb lists the level and the nested levels around it, the narrowest first.
func (s *State) climb(level int) []int {
	out := []int{level}
	up := level - 1
	if level == cluster.NodeLevel {
		up = len(s.m.Topology.Levels) - 1
	}
	for ; up >= 0; up-- {
		if s.m.Topology.Levels[up].Nested && (level == cluster.NodeLevel || s.m.Topology.Levels[level].Nested) {
			out = append(out, up)
		}
	}
	return out
}

// tightest returns the part that holds k with the least to spare, home before all others; -1: none does.
func (s *State) tightest(o order, level int, parts []index.Part, k int) int {
	if home := s.home(level, o.running); home != nil {
		for i, p := range parts {
			if p.Fits >= int64(k) && s.within(p.Scope, *home) {
				return i
			}
		}
	}
	i, ok := place.Tightest(index.Counts(parts), k)
	if !ok {
		return -1
	}
	return i
}

// within says whether the part is the domain, or the node, that home is.
func (s *State) within(sc, home index.Scope) bool {
	if home.Node != nil {
		return sc.Node == home.Node
	}
	return slices.Contains(sc.Domains, home.Domains[0])
}

// few splits k pods over the fewest domains of the level in the scope, home first.
func (s *State) few(o order, sc index.Scope, level, k int) []share {
	parts := s.ix.WithRest(o.class, sc, level, s.ix.Parts(o.class, sc, level))
	var out []share
	if home := s.home(level, o.running); home != nil {
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
	shares, ok := place.Pack(index.Counts(parts), k)
	if !ok {
		panic(fmt.Sprintf("engine: a scope that holds %d pods has parts that do not", k))
	}
	return append(out, named(parts, shares)...)
}
