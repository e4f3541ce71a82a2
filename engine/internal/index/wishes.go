package index

import (
	"math"
	"math/bits"
	"slices"
	"sort"

	"github.com/berth-dev/berth/engine/internal/cluster"
)

// What a pod prefers is weighed as Kubernetes weighs it: each plugin of its scheduler has a value for every node, stretches the
// values of the nodes that are left for the pod to 0 to 100, and has a weight. A class whose preferences are of more than one
// kind keeps the values of the nodes that it fits on, with the smallest and the largest of each kind: the ends. The score of a
// node depends on its own values and on the ends, so a class that is brought up to date looks again at the nodes whose values
// changed, and weighs all its nodes anew where an end moved. That is a pass over numbers at hand, no look at a node.
//
// Ends are exact up to 63, and of six significant bits above: with a range of thousands nearly every pod that is placed would move
// one. They depend on nothing but the state, so a class that was followed and one that was counted anew give the same scores.
// Preferences of one kind alone need no ends, for stretching keeps their order.

// The weights of Kubernetes' plugins in its default configuration, and what a plugin gives the best node.
const (
	affinityWeight = 2 // NodeAffinity
	taintWeight    = 3 // TaintToleration
	podsWeight     = 2 // InterPodAffinity
	spreadWeight   = 2 // PodTopologySpread
	imageWeight    = 1 // ImageLocality
	deviceWeight   = 2 // DynamicResources
	mostPoints     = 100
)

// wish is what a class finds of its preferences on a node, before it is compared with other nodes.
type wish struct {
	near   int32 // the weight of its preferred terms of node affinity that match
	taints int32 // that discourage it
	pods   int64 // the weight of wishes between pods, in units
	images int32 // points for its images that are there
	rank   int32 // of the alternatives that its claims are met with; more is better
	spread int64 // of constraints that are wishes: more is worse; unspread: the node has not all of their labels
}

const unspread = -1

// rankBits are those by which a rank is raised where it is all that a class prefers.
const rankBits = 9

// ends are the smallest and largest of what a class finds, as coarse as comparing needs them. Two
// equal ends give every node the same points.
type ends struct {
	near, taints, rank    int64 // the largest
	podsLow, podsRange    int64
	spreadLow, spreadHigh int64
}

// comparison is what a class keeps to weigh preferences of several kinds against each other: for
// each kind the values on the nodes that it fits on, and the ends that scores were last made with.
type comparison struct {
	near, taints, rank, pods, spread spectrum
	ends                             ends
}

// spectrum is how many nodes have each value, by value. It costs the different values, which are few: of what differs from
// node to node, the pods on a node are a small number.
type spectrum []struct {
	value int64
	nodes int
}

// add counts one node more with the value or, with by = -1, one less. A value that no node has is
// dropped. It costs a binary search.
func (s *spectrum) add(value int64, by int) {
	at := sort.Search(len(*s), func(i int) bool { return (*s)[i].value >= value })
	if at == len(*s) || (*s)[at].value != value {
		*s = slices.Insert(*s, at, struct {
			value int64
			nodes int
		}{value, by})
		return
	}
	if (*s)[at].nodes += by; (*s)[at].nodes == 0 {
		*s = slices.Delete(*s, at, at+1)
	}
}

// low and high are the smallest and the largest value, 0 without any.
func (s spectrum) low() int64 {
	if len(s) == 0 {
		return 0
	}
	return s[0].value
}

func (s spectrum) high() int64 {
	if len(s) == 0 {
		return 0
	}
	return s[len(s)-1].value
}

// enter counts a node that the class fits on or, with by = -1, one that it fitted on. It must be
// taken out with the same wish that it was entered with.
func (p *comparison) enter(w wish, by int) {
	p.near.add(int64(w.near), by)
	p.taints.add(int64(w.taints), by)
	p.rank.add(int64(w.rank), by)
	p.pods.add(w.pods, by)
	if w.spread != unspread {
		p.spread.add(w.spread, by)
	}
}

// find works out the ends: a lookup of the first and last of each spectrum.
func (p *comparison) find() ends {
	e := ends{near: coarse(p.near.high()), taints: coarse(p.taints.high()), rank: p.rank.high()}
	low, high := p.pods.low(), p.pods.high()
	e.podsLow = floor(low, high-low)
	e.podsRange = coarse(high - e.podsLow)
	e.spreadHigh = coarse(p.spread.high())
	e.spreadLow = floor(p.spread.low(), p.spread.high())
	return e
}

// coarse is the number, rounded up to six significant bits: 63 is 63, 64 is 64, 65 is 66, and 1,000
// is 1,008. Rounding up, no value is above its end.
func coarse(v int64) int64 {
	k := spare(v)
	return (v + 1<<k - 1) >> k << k
}

// floor is the number, rounded down to what is told apart in the range: with a range of 1,000, in
// steps of 16. Rounding down, no value is below its end.
func floor(v, within int64) int64 {
	k := spare(within)
	return v >> k << k
}

// spare is how many bits of a number are rounded.
func spare(v int64) int { return max(0, bits.Len64(uint64(v))-6) }

// points is what the class makes of the wish: what Kubernetes' plugins give the node together, and
// between equals the weight of node affinity, of which whole points hide small parts.
//
// For example, on the nodes that the class fits on its preferred terms add up to at most 80, and
// this node has 40: 100 * 40/80 = 50 points, twice. At most 3 taints discourage it, and this node
// has 1: 33 points, three times, are taken off. Together it is 100 - 99 = 1, to which images add up
// to 100 of their own.
//
// Where preferences are of one kind, no other node is needed: a larger value is better, by how much
// does not matter.
func (c *Class) points(w wish) int64 {
	p := c.compared
	if p == nil {
		return maxWish*int64(w.near)/c.mostNear - int64(w.taints)<<12 + int64(w.rank)<<rankBits + int64(w.images)
	}
	//mutate: score-images -> &p.ends, int64(0), int64(0)
	e, sum, fine := &p.ends, imageWeight*int64(w.images), int64(0)
	if e.near > 0 {
		//mutate: score-node-affinity
		sum += affinityWeight * (mostPoints * int64(w.near) / e.near)
		fine = 255 * int64(w.near) / e.near
	}
	if e.taints > 0 {
		//mutate: score-taints
		sum -= taintWeight * (mostPoints * int64(w.taints) / e.taints)
	}
	if e.rank > 0 {
		//mutate: score-alternatives
		sum += deviceWeight * (mostPoints * int64(w.rank) / e.rank)
	}
	if e.podsRange > 0 {
		//mutate: rules-wish
		sum += podsWeight * int64(mostPoints*(float64(w.pods-e.podsLow)/float64(e.podsRange)))
	}
	switch {
	case w.spread == unspread:
	case e.spreadHigh == 0:
		sum += spreadWeight * mostPoints
	default:
		//mutate: rules-wish-spread
		sum += spreadWeight * (mostPoints * (e.spreadHigh + e.spreadLow - w.spread) / e.spreadHigh)
	}
	return sum<<8 + fine
}

// compares says whether preferences of the class are of several kinds. It depends on the cluster,
// too: on whether any node has a taint that discourages, and any an image of the class.
func (x *Index) compares(c *Class) bool {
	kinds := 0
	for _, is := range [...]bool{len(c.Shape.Spec.Preferred) > 0, x.m.Presence.Discouraging > 0, c.images != nil, c.Shape.Spec.Claims.Alternatives()} {
		if is {
			kinds++
		}
	}
	return c.rules != nil && c.rules.soft || kinds > 1
}

// recompare begins anew where preferences of the class have become, or are no more, of several
// kinds. All nodes are looked at again, which happens as seldom as the first such taint or image
// comes.
func (x *Index) recompare(c *Class) {
	if is := x.compares(c); is != (c.compared != nil) {
		c.compared = nil
		if is {
			c.compared = &comparison{}
		}
		x.forgetBuckets(c)
		c.seen = never
	}
}

// never is a number that Topology.Shape has never had.
const never = math.MaxUint64

// weigh scores all nodes of the class anew where what their wishes are compared with has changed.
// Wishes are at hand, so that it is a pass over numbers: joined puts the new points in the place of
// the old, and the packing below them stays.
func (x *Index) weigh(c *Class) {
	if c.compared == nil {
		return
	}
	resized := c.rules != nil && c.rules.resize()
	if resized {
		x.eachFit(c, func(f *bucketFit, i int, n *cluster.Node) {
			c.compared.enter(f.wishes[i], -1)
			c.rules.wish(n, &f.wishes[i])
			c.compared.enter(f.wishes[i], 1)
		})
	}
	//mutate: score-ends
	if is := c.compared.find(); resized || is != c.compared.ends {
		c.compared.ends = is
		x.eachFit(c, func(f *bucketFit, i int, _ *cluster.Node) {
			at := &f.Cells[i]
			at.score = joined(c.points(f.wishes[i]), at.score)
		})
		for _, b := range x.m.Topology.Buckets {
			f := &c.ByBucket[b.ID]
			f.findBest()
			f.stale = false
			c.tops[b.ID] = f.top()
		}
	}
}

// eachFit calls with every node that the class fits on, in the order of the topology.
func (x *Index) eachFit(c *Class, with func(f *bucketFit, i int, n *cluster.Node)) {
	for _, b := range x.m.Topology.Buckets {
		f := &c.ByBucket[b.ID]
		for i := range f.Cells {
			if f.Cells[i].Fits > 0 {
				with(f, i, b.Nodes[i])
			}
		}
	}
}

// addWishes adds the wishes that concern the class: its own, and those of pods that run. unit is
// the greatest number that divides all their weights, so that values stay small and few.
func (x *Index) addWishes(r *classRules, key ClassKey) {
	if own, spec := r.own, key.Shape.Spec; own != nil {
		for i := range spec.Rules().PodPreferred {
			p := &spec.Rules().PodPreferred[i]
			r.list = append(r.list, rule{kind: wishes, view: x.viewOfKey(p.Topology), tally: x.m.Counted(own.Wishes[i]), term: &p.PodTerm, weight: p.Weight})
		}
		for i := range spec.Rules().Spread {
			if c := &spec.Rules().Spread[i]; c.Soft {
				r.list = append(r.list, rule{kind: wishesSpread, view: x.viewOfKey(c.Topology), tally: x.m.Counted(own.Spread[i]), spread: c})
			}
		}
	}
	for _, c := range key.Stance.Wished {
		r.list = append(r.list, rule{kind: wishes, view: x.viewOfKey(c.Term.Topology), carrier: c, term: &c.Term, weight: c.Weight})
	}
	var common int64
	for i := range r.list {
		if u := &r.list[i]; u.kind == wishes {
			common = divisor(common, int64(u.weight))
		}
	}
	r.unit = max(1, common)
}

// divisor is the greatest number that divides both: Euclid's algorithm. With 0 it is the other.
func divisor(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return max(a, -a)
}

// worth is what the rule counts in the domain: the weight of a wish for each pod, or the pods of a
// constraint. It is cut to fit, one below unlimited.
func (u *rule) worth(d int32) int32 {
	if u.kind == wishesSpread {
		return u.pods[d]
	}
	return int32(max(-math.MaxInt32, min(int64(u.weight)*int64(u.pods[d]), math.MaxInt32-1)))
}

// wish finds what the wishes between pods make of the node. As in Kubernetes a pod counts for more the more domains there are, and
// a constraint's skew, less 1, is added everywhere, which makes differences matter less.
func (r *classRules) wish(n *cluster.Node, w *wish) {
	var pods int64
	var spread float64
	lacks := false
	for i := range r.list {
		u := &r.list[i]
		if u.kind.hard() {
			continue
		}
		d := u.view.domain(n)
		switch {
		case u.kind == wishesSpread && d == noDomain:
			lacks = lacks || !u.spread.Default
		case u.kind == wishesSpread:
			spread += float64(u.allow[d])*u.perPod + float64(u.spread.MaxSkew-1)
		case d != noDomain:
			pods += int64(u.allow[d])
		}
	}
	w.pods, w.spread = pods/r.unit, int64(math.Round(spread))
	//mutate: rules-wish-without-label
	if lacks {
		w.spread = unspread
	}
}

// noteFit notes whether the class fits on the node: a constraint that is a wish goes by how many
// domains there are with such nodes.
func (r *classRules) noteFit(n *cluster.Node, fits bool) {
	for i := range r.list {
		if u := &r.list[i]; u.kind == wishesSpread {
			is := int32(noFit)
			//mutate: rules-wish-domains
			if fits && !r.lacksLabel(n) {
				is = u.view.domain(n)
			}
			u.noteFit(n, is)
		}
	}
}

// lacksLabel says whether the node has not all labels of the constraints that are wishes.
func (r *classRules) lacksLabel(n *cluster.Node) bool {
	return slices.ContainsFunc(r.list, func(u rule) bool { return u.kind == wishesSpread && !u.spread.Default && u.view.domain(n) == noDomain })
}

// noFit is of a node that the class does not fit on. One that it fits on without the label counts as in a domain of its own,
// as in Kubernetes: the first of fits.
const noFit = noDomain - 1

// noteFit moves the node from the domain that it was noted in to another. fits counts by domain, one
// place up, and open how many of these are not zero.
func (u *rule) noteFit(n *cluster.Node, is int32) {
	for int(n.Index) >= len(u.fitsIn) {
		u.fitsIn = append(u.fitsIn, noFit)
	}
	was := u.fitsIn[n.Index]
	if was == is {
		return
	}
	u.fitsIn[n.Index] = is
	for len(u.fits) <= len(u.view.values) {
		u.fits = append(u.fits, 0)
	}
	if was != noFit {
		if u.fits[was+1]--; u.fits[was+1] == 0 {
			u.open--
		}
	}
	if is != noFit {
		if u.fits[is+1]++; u.fits[is+1] == 1 {
			u.open++
		}
	}
}

// resize works out what a pod counts for in each constraint that is a wish, and says whether that
// has changed. As in Kubernetes it is the logarithm of the number of domains and 2: with more
// domains each has fewer pods, and one pod is a larger difference.
func (r *classRules) resize() (changed bool) {
	for i := range r.list {
		u := &r.list[i]
		if u.kind != wishesSpread {
			continue
		}
		if is := math.Log(float64(coarse(int64(u.open)) + 2)); is != u.perPod {
			u.perPod, changed = is, true
		}
	}
	return changed
}
