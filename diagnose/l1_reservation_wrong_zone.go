package diagnose

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
)

var reservationWrongZoneCheck = Check{
	Cause: "reservation-wrong-zone", Layer: L1, Owner: Capacity, Stage: Place, Rank: 53,
	Title:   "The reserved capacity is in another zone",
	Meaning: "The pool may only use reserved machines. The reservation is active, and the pod, its volumes, or the pool's subnets are tied to another zone.",
	Remedy:  "Let the pod run in the zone of the reservation, move the volume or add a subnet there, or reserve in the pod's zone.",
	Not:     "The reservation is used up.",
	Find:    reservationWrongZone,
}

func reservationWrongZone(c *Case) []Finding {
	var out []Finding
	for _, p := range c.karpenterReservedPools() {
		all := p.pool.suitable(c, p.active)
		near := false
		for _, r := range all {
			near = near || p.pool.inReach(c, r)
		}
		if len(all) == 0 || near {
			continue
		}
		r := all[0]
		zones, at := c.karpenterZones()
		f := Finding{Fit: true, Probe: c.autoscalerProbe(p.autoscalerSource), Evidence: []facts.Evidence{karpenterReservationShown(p.pool, r.id+" "+r.zone)}}
		switch {
		case !p.pool.permits(corev1.LabelTopologyZone, r.zone):
			f.Owner = Platform
			f.Message = fmt.Sprintf("%s may only use reserved machines, reservation %s is active, and the pool's rules and subnets do not reach that zone", p, r.text())
		case at != nil:
			f.Message = fmt.Sprintf("%s may only use reserved machines, reservation %s is active, and the pod asks for zone %s", p, r.text(), strings.Join(zones, ", "))
			f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(c.Pod).In(), Field: at.field(), Value: at.text()})
			if e, ok := c.renames(*at, at.key, r.zone); ok {
				e.Cost = edit.CostSmall
				like := p.like.DeepCopy()
				like.Labels = gpustack.WithLabel(like.Labels, corev1.LabelTopologyZone, r.zone)
				e.Set = c.autoscalerNodes(&autoscalerSource{pool: p.pool, like: like})
				e.Assumes = "the reservation has machines left"
				f.Edits = append(f.Edits, e)
			}
		default:
			f.Message = fmt.Sprintf("%s may only use reserved machines, reservation %s is active, and the pod's volume is in zone %s", p, r.text(), strings.Join(zones, ", "))
		}
		f.Edits = append(f.Edits, c.karpenterOnDemand(p.autoscalerSource)...)
		out = append(out, f)
	}
	return out
}
