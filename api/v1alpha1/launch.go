package v1alpha1

import (
	"maps"
	"slices"
)

// InZone is a copy of the pool whose nodes are in the zone, and carry how they are paid for. The pool went through Default.
func (p *Pool) InZone(zone string, paid CapacityType) *Pool {
	out := p.DeepCopy()
	if zone != "" {
		out.Spec.Topology.Zone = zone
	}
	out.Spec.Labels = maps.Clone(out.Spec.Labels)
	if out.Spec.Labels == nil {
		out.Spec.Labels = make(map[string]string)
	}
	out.Spec.Labels[LabelCapacityType] = string(paid)
	return out
}

// nodePoolLabel is on nodes and NodeClaims that Karpenter makes: karpenter.sh/nodepool, in pkg/apis/v1/labels.go of Karpenter v1.6.
const nodePoolLabel = "karpenter.sh/nodepool"

// Matches says whether a node, or a NodeClaim, with the labels is one of the pool's.
func (s *NodeSelection) Matches(labels map[string]string) bool {
	if s == nil {
		return false
	}
	if s.NodePool != "" {
		return labels[nodePoolLabel] == s.NodePool
	}
	for key, value := range s.Labels { //archtest:any-order one that differs is enough
		if have, ok := labels[key]; !ok || have != value {
			return false
		}
	}
	return len(s.Labels) > 0
}

// PriceOf is what a node of the pool costs that no reservation pays for; nil: it is unknown.
func (s *PoolSpec) PriceOf(paid CapacityType) *Price {
	if paid == CapacitySpot && s.SpotPrice != nil {
		return s.SpotPrice
	}
	return s.Price
}

// Within says whether the reservation's machines can be of the pool, as far as their zone is known: in one of those that
// the pool launches in, or in its own.
func (s *ReservationSpec) Within(p *Pool) bool {
	if l := p.Spec.Launch; l != nil && len(l.Zones) > 0 {
		return slices.ContainsFunc(l.Zones, s.InZone)
	}
	return s.InZone(p.Spec.Topology.Zone)
}

// Suits says whether the reservation's machines can be of the pool, as far as their type is known: nodes that others make tell themselves
// what they have.
func (s *ReservationSpec) Suits(p *Pool) bool {
	return p.Spec.Selects != nil && len(p.Spec.GPUs) == 0 || s.LikePool(p)
}
