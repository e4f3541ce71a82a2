package v1alpha1

import "maps"

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
