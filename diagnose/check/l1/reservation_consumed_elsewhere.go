package l1

import (
	"fmt"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/internal/supply"
	"github.com/berth-dev/berth/kube/dialect/karpenter"
)

var reservationConsumedElsewhereCheck = check.Check{
	Cause: "reservation-consumed-elsewhere", Layer: check.L1, Owner: check.Capacity, Stage: check.Place, Rank: 55,
	Title:   "Others use the reserved capacity",
	Meaning: "The reservation is active, the provider says that nothing of it is left, and no machine of it is in this cluster: another cluster or account has them.",
	Remedy:  "Find out who uses the reservation, and have them give machines back.",
	Not:     "Buy more capacity.",
	Find:    reservationConsumedElsewhere,
}

func reservationConsumedElsewhere(c *check.Case) []check.Finding {
	out := reserved(c, "reservation-consumed-elsewhere")
	for _, p := range supply.KarpenterReservedPools(c) {
		x, failed := supply.KarpenterFailure(c, p.Pool)
		if said := supply.KarpenterSaid(c); !failed && said.About(p.Pool.GetName(), karpenter.NoOffering) { // it knows how many are left, and asks the provider for none
			x, failed = supply.AutoscalerFault{Fault: supply.CloudReserved, Code: "Karpenter finds no machine of it: " + said.Unoffered(p.Pool.GetName()), Evidence: supply.KarpenterEvidence(said, c)}, true
		}
		if !failed || x.Fault != supply.CloudReserved {
			continue
		}
		for _, r := range supply.Suitable(p.Pool, c, p.Active) {
			if !supply.InReach(p.Pool, c, r) || !supply.MayBeOf(c, r) || supply.KarpenterBooked(c.Facts, r.Id) > 0 {
				continue
			}
			out = append(out, check.Finding{
				Fit: true, Probe: supply.AutoscalerProbe(c, p.AutoscalerSource), Edits: supply.KarpenterOnDemand(c, p.AutoscalerSource),
				Message:  fmt.Sprintf("reservation %s is active and used up (%s), and no machine of it is in this cluster", r.Text(), x.Code),
				Evidence: append(x.Evidence, supply.KarpenterReservationShown(p.Pool, r.Id+" "+r.State)),
			})
		}
	}
	if len(out) == 0 {
		return supply.Told(c, supply.CloudReserved)
	}
	return out
}
