package diagnose

import (
	"fmt"
	"slices"

	"github.com/berth-dev/berth/diagnose/facts"
)

var reservationUnusedByProvisionerCheck = Check{
	Cause: "reservation-unused-by-provisioner", Layer: L1, Owner: Capacity, Stage: Place, Rank: 54,
	Title:   "Capacity is reserved, and the provisioner does not use it",
	Meaning: "Karpenter uses a reservation only where the node class names it and the pool allows reserved capacity. Here one of the two is missing, so that machines that are paid for stay idle.",
	Remedy:  "Name the reservation in the node class, and allow reserved capacity in the pool.",
	Not:     "Buy more capacity.",
	Find:    reservationUnused,
}

func reservationUnused(c *Case) []Finding {
	var out []Finding
	for _, p := range c.karpenterReservedPools() {
		if p.selects {
			continue
		}
		out = append(out, Finding{
			Fit: true, Owner: Platform, Probe: c.autoscalerProbe(p.autoscalerSource), Edits: c.karpenterOnDemand(p.autoscalerSource),
			Message:  fmt.Sprintf("%s may only use reserved machines, and EC2NodeClass %s names no reservation", p, p.pool.class.GetName()),
			Evidence: []facts.Evidence{{Object: facts.RefTo(p.pool.class).In(), Field: "spec.capacityReservationSelectorTerms", Value: "none"}},
		})
	}
	if c.autoscalerStuck() == nil {
		return out
	}
	for _, s := range c.autoscalerSources() {
		if s.pool == nil || s.pool.class == nil || s.pool.permits(karpenterCapacityLabel, karpenterReserved) {
			continue
		}
		if x, failed := c.karpenterFailure(s.pool); failed && (x.fault == cloudNoCapacity || x.fault == cloudNoQuota) {
			out = append(out, idleReservations(c, s, x)...)
		}
	}
	return out
}

// idleReservations are those that a pool without machines could use, and that nobody in this cluster does.
func idleReservations(c *Case, s *autoscalerSource, x autoscalerFault) []Finding {
	active, _ := c.karpenterLasting(s.pool)
	var out []Finding
	for _, r := range s.pool.suitable(c, active) {
		if !s.pool.inReach(c, r) || karpenterBooked(c.Facts, r.id) > 0 {
			continue
		}
		f := Finding{
			Fit: true, Probe: c.autoscalerProbe(s),
			Message:  fmt.Sprintf("reservation %s is active, no node of this cluster uses it, and %s does not allow reserved capacity, while the provider gives it no other machine (%s)", r.text(), s, x.code),
			Evidence: slices.Concat([]facts.Evidence{karpenterReservationShown(s.pool, r.id+" "+r.state)}, x.evidence),
		}
		if e, ok := c.karpenterCapacity(s, karpenterReserved); ok {
			e.Assumes = "the reservation has machines left"
			e.Cost = 3
			f.Edits = append(f.Edits, e)
		}
		out = append(out, f)
	}
	return out
}
