package l1

import (
	"fmt"
	"slices"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/supply"
	"github.com/berth-dev/berth/kube/dialect/karpenter"
)

var reservationUnusedByProvisionerCheck = check.Check{
	Cause: "reservation-unused-by-provisioner", Layer: check.L1, Owner: check.Capacity, Stage: check.Place, Rank: 54,
	Title:   "Capacity is reserved, and the provisioner does not use it",
	Meaning: "Karpenter uses a reservation only where the node class names it and the pool allows reserved capacity. Here one of the two is missing, so that machines that are paid for stay idle.",
	Remedy:  "Name the reservation in the node class, and allow reserved capacity in the pool.",
	Not:     "Buy more capacity.",
	Find:    reservationUnused,
}

func reservationUnused(c *check.Case) []check.Finding {
	var out []check.Finding
	for _, p := range supply.KarpenterReservedPools(c) {
		if p.Selects {
			continue
		}
		out = append(out, check.Finding{
			Fit: true, Owner: check.Platform, Probe: supply.AutoscalerProbe(c, p.AutoscalerSource), Edits: supply.KarpenterOnDemand(c, p.AutoscalerSource),
			Message:  fmt.Sprintf("%s may only use reserved machines, and EC2NodeClass %s names no reservation", p, p.Pool.Class.GetName()),
			Evidence: []facts.Evidence{{Object: facts.RefTo(p.Pool.Class).In(), Field: "spec.capacityReservationSelectorTerms", Value: "none"}},
		})
	}
	if supply.AutoscalerStuck(c) == nil {
		return out
	}
	for _, s := range supply.AutoscalerSources(c) {
		if s.Pool == nil || s.Pool.Class == nil || s.Pool.Permits(karpenter.CapacityTypeLabel, karpenter.Reserved) {
			continue
		}
		if x, failed := supply.KarpenterFailure(c, s.Pool); failed && (x.Fault == supply.CloudNoCapacity || x.Fault == supply.CloudNoQuota) {
			out = append(out, idleReservations(c, s, x)...)
		}
	}
	return out
}

// idleReservations are those that a pool without machines could use, and that no pool of this cluster uses.
func idleReservations(c *check.Case, s *supply.AutoscalerSource, x supply.AutoscalerFault) []check.Finding {
	active, _ := supply.KarpenterLasting(c, s.Pool)
	var out []check.Finding
	for _, r := range supply.Suitable(s.Pool, c, active) {
		if !supply.InReach(s.Pool, c, r) || supply.KarpenterBooked(c.Facts, r.Id) > 0 {
			continue
		}
		f := check.Finding{
			Fit: true, Probe: supply.AutoscalerProbe(c, s),
			Message:  fmt.Sprintf("reservation %s is active, no node of this cluster uses it, and %s does not allow reserved capacity, while the provider gives it no other machine (%s)", r.Text(), s, x.Code),
			Evidence: slices.Concat([]facts.Evidence{supply.KarpenterReservationShown(s.Pool, r.Id+" "+r.State)}, x.Evidence),
		}
		if e, ok := supply.KarpenterCapacity(c, s, karpenter.Reserved); ok {
			e.Assumes = "the reservation has machines left"
			e.Cost = 3
			f.Edits = append(f.Edits, e)
		}
		out = append(out, f)
	}
	return out
}
