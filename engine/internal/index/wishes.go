package index

import (
	"math"
	"math/bits"
	"slices"
	"sort"

	"github.com/berth-dev/berth/engine/internal/cluster"
)

// Preferences: which of the nodes that a pod fits on does it like best? They are weighed as Kubernetes weighs them: each
// plugin of its scheduler has a value for every node, stretches the values of the nodes that are left for the pod to 0 to 100,
// and has a weight. A node's points are the sum over the plugins, and are the highest bits of its score (room.go).
//
// Stretching compares a node with all others, so that one node that changes can change the points of all. A class whose
// preferences are of more than one kind therefore keeps the values of the nodes that it fits on, with the smallest and the
// largest of each kind: the ends. The points of a node depend on its own values and on the ends alone. A class that is brought
// up to date looks again at the nodes whose values changed, and weighs all its nodes anew where an end moved, which is a pass
// over numbers at hand and no look at a node. Preferences of one kind alone need no ends, since stretching keeps their order.
//
// For example, of three nodes n1 matches preferred terms of weight 80, n2 of 40 and n3 of none, and n1 has a taint that
// discourages the pod. The ends are 80 and 1. Beside what all nodes get, n1 has 2*100 - 3*100 = -100 points, n2 has 2*50 =
// 100 and n3 has 0: n2 is best. When n1 loses its taint, no node has one, the end moves to 0, and all three are weighed anew:
// n1 has 200.
//
// What each plugin of Kubernetes becomes here, where the ends of each kind are over the nodes that the class fits on:
//
//	NodeAffinity        2 * 100 * near/e.near                                       more matching weight is better
//	TaintToleration     3 * -100 * taints/e.taints                                  fewer discouraging taints are better
//	InterPodAffinity    2 * 100 * (pods-e.podsLow)/e.podsRange                      more weight of preferred rules
//	PodTopologySpread   2 * 100 * (e.spreadHigh+e.spreadLow-spread)/e.spreadHigh    fewer pods around are better
//	ImageLocality       1 * images                                                  already between 0 and 100
//	DynamicResources    2 * 100 * rank/e.rank                                       the better alternative of a claim
//
// Ends are exact up to 63, and of six significant bits above: with a range of thousands nearly every pod that is placed would
// move one. They depend on nothing but the state, so a class that was followed and one that was counted anew give the same
// scores (TestScoresFollowTheModel).

// The weights of Kubernetes' plugins in its default configuration, and the points that a plugin gives the best node.
const (
	affinityWeight = 2 // NodeAffinity
	taintWeight    = 3 // TaintToleration
	podsWeight     = 2 // InterPodAffinity
	spreadWeight   = 2 // PodTopologySpread
	imageWeight    = 1 // ImageLocality
	deviceWeight   = 2 // DynamicResources
	mostPoints     = 100
)

// wish is what a class finds of its preferences on a node, before that is compared with other nodes.
type wish struct {
	near   int32 // the weight of its preferred terms of node affinity that match
	taints int32 // how many taints discourage it
	pods   int64 // the weight of preferred rules between pods, in units of classRules.unit; below 0: it is kept away
	images int32 // 0 to 100 points for its images that are on the node (images.go)
	rank   int32 // of the alternatives that its claims are met with; more is better
	spread int64 // of constraints that are wishes: more is worse; unspread: the node does not have all of their labels
}

// unspread is the spread of a node that soft constraints do not count; it gets no points for them.
const unspread = -1

// rankBits is how far a rank is shifted where it is all that a class prefers: it is above points for images.
const rankBits = 9

// ends are the smallest and the largest of what a class finds on the nodes that it fits on, as coarse as comparing needs
// them. Nodes with equal wishes have equal points at equal ends.
type ends struct {
	near, taints, rank    int64 // the largest; the smallest counts as 0, as in Kubernetes
	podsLow, podsRange    int64 // the smallest, and the difference to the largest
	spreadLow, spreadHigh int64
}

// comparison is what a class keeps to weigh preferences of several kinds against each other: for each kind the values on the
// nodes that it fits on, and the ends that the scores in its cells were made with.
type comparison struct {
	near, taints, rank, pods, spread spectrum
	ends                             ends
}

// spectrum is how many nodes have each value, sorted by value. Its size is the number of different values, which are few even
// on many nodes: pods on a node, taints and terms are small numbers.
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

// low is the smallest value, 0 without any.
func (s spectrum) low() int64 {
	if len(s) == 0 {
		return 0
	}
	return s[0].value
}

// high is the largest value, 0 without any.
func (s spectrum) high() int64 {
	if len(s) == 0 {
		return 0
	}
	return s[len(s)-1].value
}

// enter counts a node that the class fits on or, with by = -1, takes it out again. It must be taken out with the same wish
// that it was entered with. It costs a binary search for each kind.
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
	// Preferred rules between pods may weigh against a node, so that both of their ends matter, and what is coarse is the
	// distance between them.
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

// spare is how many low bits of a number are beyond six significant ones, and are rounded.
func spare(v int64) int { return max(0, bits.Len64(uint64(v))-6) }

// points is what the class makes of the wish; more is better. Of a class that compares it is the sum of what Kubernetes'
// plugins give the node, and in eight more bits the weight of node affinity, of which whole points hide small parts.
//
// For example, on the nodes that the class fits on its preferred terms add up to at most 80, and
// this node has 40: 100 * 40/80 = 50 points, twice. At most 3 taints discourage it, and this node
// has 1: 33 points, three times, are taken off. Together it is 100 - 99 = 1, to which images add up
// to 100 of their own.
//
// Of a class whose preferences are of one kind no other node is needed: a larger value is better, by how much does not
// matter. The result is cut to maxWish where it becomes a score (joined).
func (c *Class) points(w wish) int64 {
	// One kind at most: whichever it is, its value alone orders the nodes. The others are 0.
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
	// Of soft constraints less is better: the node with the fewest pods around gets most points. Where no node has any, all
	// get the most.
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

// compares says whether preferences of the class are of several kinds, or depend on other nodes, as soft rules between pods
// do. It depends on the cluster too: on whether any node has a taint that discourages pods, and any an image of the class.
func (x *Index) compares(c *Class) bool {
	kinds := 0
	for _, is := range [...]bool{len(c.Shape.Spec.Preferred) > 0, x.m.Presence.Discouraging > 0, c.images != nil, c.Shape.Spec.Claims.Alternatives()} {
		if is {
			kinds++
		}
	}
	return c.rules != nil && c.rules.soft || kinds > 1
}

// recompare begins anew where preferences of the class have become, or are no longer, of several kinds: scores of the two
// ways cannot be compared. All nodes are measured again, which is rare, since it takes the first taint or image of its kind
// to come or the last to go. Sync calls it before it follows any node.
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

// never is a number that Topology.Shape never has: a class whose seen it is takes up all buckets anew.
const never = math.MaxUint64

// weigh scores all nodes of the class anew where what their wishes are compared with has changed. Wishes are at hand, so that
// it is a pass over numbers: joined puts the new points in the place of the old, and the packing below them stays. Sync calls
// it last, when the wishes of all nodes are up to date.
func (x *Index) weigh(c *Class) {
	if c.compared == nil {
		return
	}
	// With another number of domains each pod counts for another amount in soft constraints, and so all wishes are others.
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

// eachFit visits every node that the class fits on, in the order of the topology; i is its slot in the bucket.
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

// addWishes adds the preferred rules that concern the class: its own, and those that pods which run have about it. unit is the
// greatest number that divides all their weights, so that values stay small and few.
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

// worth is what a preferred rule counts in the domain: the weight of the wish for each pod, or the number of pods of a soft
// constraint. It is kept in rule.allow, and cut to be below unlimited.
func (u *rule) worth(d int32) int32 {
	if u.kind == wishesSpread {
		return u.pods[d]
	}
	return int32(max(-math.MaxInt32, min(int64(u.weight)*int64(u.pods[d]), math.MaxInt32-1)))
}

// wish sets pods and spread of the node's wish. As in Kubernetes a pod counts for more the more domains there are (perPod),
// and a constraint's maxSkew less 1 is added everywhere, which makes differences matter less. It costs a lookup for each rule.
func (r *classRules) wish(n *cluster.Node, w *wish) {
	var pods int64
	var spread float64
	lacks := false
	for i := range r.list {
		u := &r.list[i]
		if u.kind.hard() {
			continue
		}
		// allow has what the domain is worth, as settle worked it out.
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

// noteFit notes whether the class fits on the node: what a pod counts for in a soft constraint depends on how many domains
// have such nodes (resize).
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

// lacksLabel says whether the node lacks the label of some soft constraint, Kubernetes' default constraints aside.
func (r *classRules) lacksLabel(n *cluster.Node) bool {
	return slices.ContainsFunc(r.list, func(u rule) bool { return u.kind == wishesSpread && !u.spread.Default && u.view.domain(n) == noDomain })
}

// noFit stands in rule.fitsIn for a node that the class does not fit on. Nodes that it fits on and that lack the label are
// one domain together (noDomain), as in Kubernetes.
const noFit = noDomain - 1

// noteFit moves the node from the domain that it was noted in to another; noFit: out of all. fits counts nodes by domain, at
// the domain's number plus 1 because noDomain is -1, and open how many of these counts are not zero.
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

// resize works out what a pod counts for in each soft constraint, and says whether that has changed. As in Kubernetes it is
// the logarithm of the number of domains plus 2: with more domains each has fewer pods, and one pod is a larger difference.
// The number of domains is coarse, for the same reason as ends are.
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
