package index

import (
	"math"
	"math/bits"

	"github.com/berth-dev/berth/engine/internal/cluster"
)

// Wishes between pods are part of how good a place is to a class: preferred affinity and anti-affinity, its own and that of
// pods that are there, required affinity of those pods with weight 1, and spread constraints that are wishes. They weigh as
// Kubernetes weighs its plugins against node affinity and taints. Kubernetes stretches what a plugin finds to 0 to 100 over the nodes
// that are left for a pod, which would have every node looked at for every pod. Node affinity is stretched by the weights that
// the pod gives out, which is the same wherever a node has all that the pod prefers. Of wishes between pods the sums stay as they are while
// they are small, and are halved until they are in that range where they are large: the scale is of the largest sums that the domains
// could make together, and every node is looked at again only when it changes by a factor of two.

// The weights of Kubernetes' plugins in its default configuration.
const (
	affinityWeight = 2 // NodeAffinity
	taintWeight    = 3 // TaintToleration
	podsWeight     = 2 // InterPodAffinity
	spreadWeight   = 2 // PodTopologySpread
)

// fullWish is what a plugin gives the best node, 100 in Kubernetes, in sixteenths, so that preferences that differ in weight by
// little do not come out the same.
const fullWish = 100 * 16

// scale is by how many bits the sums of wishes are shifted down.
type scale struct {
	pods, spread int
}

// addWishes adds the wishes that concern the class.
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
}

// worth is what the wish makes of the domain: its weight for each pod, or of a constraint less the more pods there are, and the
// more so the more domains there are to choose from.
func (u *rule) worth(d int32) int32 {
	//mutate: rules-wish -> int64(0)
	sum := int64(u.weight) * int64(u.pods[d])
	if u.kind == wishesSpread {
		sum = -int64(u.pods[d]) * u.perPod()
	}
	return int32(max(-math.MaxInt32, min(sum, math.MaxInt32-1)))
}

// perPod is what a pod counts for in a constraint's domain: about 10 ln(n+2) for n domains.
func (u *rule) perPod() int64 { return int64(7 * bits.Len(uint(u.least.domains+2))) }

// findScale works out by how much the sums must be shifted down to be in the range of 100.
func (r *classRules) findScale() scale {
	var pods, spread int64
	for i := range r.list {
		u, most := &r.list[i], int64(0)
		if u.kind.hard() {
			continue
		}
		for _, worth := range u.allow {
			most = max(most, int64(worth), -int64(worth))
		}
		if u.kind == wishes {
			pods += most
		} else {
			spread += most
		}
	}
	return scale{pods: shift(pods), spread: shift(spread)}
}

// shift is how often the sum is halved to be 127 at most.
func shift(sum int64) int { return max(0, bits.Len64(uint64(sum))-7) }

// rescale looks again at all nodes where the scale is another.
func (x *Index) rescale(c *Class) {
	r := c.rules
	if !r.soft {
		return
	}
	is := r.findScale()
	if is == r.scale {
		return
	}
	r.scale = is
	for _, b := range x.m.Topology.Buckets {
		if f := &c.ByBucket[b.ID]; f.bucket == b && f.epoch == b.Epoch {
			for i, n := range b.Nodes {
				if f.Cells[i].Fits > 0 {
					x.refit(c, n)
				}
			}
		}
	}
}

// wish is what the wishes between pods make of the node.
func (r *classRules) wish(n *cluster.Node) int64 {
	var pods, spread int64
	for i := range r.list {
		u := &r.list[i]
		d := u.view.domain(n)
		switch {
		case u.kind.hard():
		case u.kind == wishes && d != noDomain:
			pods += int64(u.allow[d])
		case u.kind == wishesSpread && d != noDomain:
			spread += int64(u.allow[d])
		case u.kind == wishesSpread:
			spread -= 127 << r.scale.spread
		}
	}
	return fullWish / 100 * (podsWeight*(pods>>r.scale.pods) + spreadWeight*(spread>>r.scale.spread))
}
