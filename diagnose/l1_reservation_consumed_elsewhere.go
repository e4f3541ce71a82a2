package diagnose

import "fmt"

var reservationConsumedElsewhereCheck = Check{
	Cause: "reservation-consumed-elsewhere", Layer: L1, Owner: Capacity, Stage: Place, Rank: 55,
	Title:   "Others use the reserved capacity",
	Meaning: "The reservation is active, the provider says that nothing of it is left, and no machine of it is in this cluster: another cluster or account has them.",
	Remedy:  "Find out who uses the reservation, and have them give machines back.",
	Not:     "Buy more capacity.",
	Find:    reservationConsumedElsewhere,
}

func reservationConsumedElsewhere(c *Case) []Finding {
	var out []Finding
	for _, p := range c.karpenterReservedPools() {
		x, failed := c.karpenterFailure(p.pool)
		if !failed || x.fault != cloudReserved {
			continue
		}
		for _, r := range p.pool.suitable(c, p.active) {
			if !p.pool.inReach(c, r) || karpenterBooked(c.Facts, r.id) > 0 {
				continue
			}
			out = append(out, Finding{
				Fit: true, Probe: c.autoscalerProbe(p.autoscalerSource), Edits: c.karpenterOnDemand(p.autoscalerSource),
				Message:  fmt.Sprintf("reservation %s is active and used up (%s), and no machine of it is in this cluster", r.text(), x.code),
				Evidence: append(x.evidence, karpenterReservationShown(p.pool, r.id+" "+r.state)),
			})
		}
	}
	return out
}
