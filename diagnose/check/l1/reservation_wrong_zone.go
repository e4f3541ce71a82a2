package l1

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/supply"
)

var reservationWrongZoneCheck = check.Check{
	Cause: "reservation-wrong-zone", Layer: check.L1, Owner: check.Capacity, Stage: check.Place, Rank: 53,
	Title:   "The reserved capacity is in another zone",
	Meaning: "The pool may only use reserved machines. The reservation is active, and the pod, its volumes, or the pool's subnets are tied to another zone.",
	Remedy:  "Let the pod run in the zone of the reservation, move the volume or add a subnet there, or reserve in the pod's zone.",
	Not:     "The reservation is used up.",
	Find:    reservationWrongZone,
}

func reservationWrongZone(c *check.Case) []check.Finding {
	out := reserved(c, "reservation-wrong-zone")
	for _, p := range supply.KarpenterReservedPools(c) {
		all := supply.Suitable(p.Pool, c, p.Active)
		near := false
		for _, r := range all {
			near = near || supply.InReach(p.Pool, c, r)
		}
		if len(all) == 0 || near {
			continue
		}
		r := all[0]
		zones, at := supply.KarpenterZones(c)
		f := check.Finding{Fit: true, Probe: supply.AutoscalerProbe(c, p.AutoscalerSource), Evidence: []facts.Evidence{supply.KarpenterReservationShown(p.Pool, r.Id+" "+r.Zone)}}
		switch {
		case !p.Pool.Permits(corev1.LabelTopologyZone, r.Zone):
			f.Owner = check.Platform
			f.Message = fmt.Sprintf("%s may only use reserved machines, reservation %s is active, and the pool's rules and subnets do not reach that zone", p, r.Text())
		case at != nil:
			f.Message = fmt.Sprintf("%s may only use reserved machines, reservation %s is active, and the pod asks for zone %s", p, r.Text(), strings.Join(zones, ", "))
			f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(c.Pod).In(), Field: at.Field(), Value: at.Text()})
			if e, ok := place.Renames(c, *at, at.Key, r.Zone); ok {
				e.Cost = edit.CostSmall
				like := p.Like.DeepCopy()
				like.Labels = gpustack.WithLabel(like.Labels, corev1.LabelTopologyZone, r.Zone)
				e.Set = supply.AutoscalerNodes(c, &supply.AutoscalerSource{Pool: p.Pool, Like: like})
				e.Assumes = "the reservation has machines left"
				f.Edits = append(f.Edits, e)
			}
		default:
			f.Message = fmt.Sprintf("%s may only use reserved machines, reservation %s is active, and the pod's volume is in zone %s", p, r.Text(), strings.Join(zones, ", "))
		}
		f.Edits = append(f.Edits, supply.KarpenterOnDemand(c, p.AutoscalerSource)...)
		out = append(out, f)
	}
	if len(out) == 0 {
		return supply.Told(c, supply.CloudReservedZone)
	}
	return out
}
