package l1

import (
	"fmt"
	"strings"
	"time"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/supply"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/kube/dialect"
	"github.com/berth-dev/berth/kube/dialect/karpenter"
)

var reservationEndedCheck = check.Check{
	Cause: "reservation-ended", Layer: check.L1, Owner: check.Capacity, Stage: check.Place, Rank: 52,
	Title:   "The reserved capacity is over",
	Meaning: "The pool may only use reserved machines, and no reservation that it names is active any more.",
	Remedy:  "Extend the reservation or buy another one, or let the pool use machines on demand.",
	Not:     "The cluster has too few GPUs.",
	Find:    reservationEnded,
}

func reservationEnded(c *check.Case) []check.Finding {
	out := reserved(c, "reservation-ended")
	for _, p := range supply.KarpenterReservedPools(c) {
		if !p.Selects || len(p.Active) > 0 {
			continue
		}
		f := check.Finding{Fit: true, Probe: supply.AutoscalerProbe(c, p.AutoscalerSource), Edits: supply.KarpenterOnDemand(c, p.AutoscalerSource)}
		class := p.Pool.Class.GetName()
		switch {
		case len(p.Over) > 0:
			r := p.Over[0]
			how := "is " + r.State
			if end, err := time.Parse(time.RFC3339, r.End); err == nil && end.After(c.Now) {
				how = fmt.Sprintf("ends at %s, and gives no machines so shortly before", end.UTC().Format("15:04 MST"))
			} else if err == nil {
				how = "ended at " + end.UTC().Format("2006-01-02 15:04 MST")
			}
			f.Message = fmt.Sprintf("%s may only use reserved machines, and reservation %s of EC2NodeClass %s %s", p, r.Text(), class, how)
			f.Evidence = []facts.Evidence{supply.KarpenterReservationShown(p.Pool, strings.TrimSpace(r.Id+" "+r.State+" "+r.End))}
		default:
			f.Message = fmt.Sprintf("%s may only use reserved machines, and none of the reservations that EC2NodeClass %s names (%s) is active: they have ended, or have not begun", p, class, reservationTerms(p.Pool))
			f.Evidence = []facts.Evidence{supply.KarpenterReservationShown(p.Pool, "none")}
		}
		if said := supply.KarpenterSaid(c); said != nil && said.Claim == "" {
			f.Evidence = append(f.Evidence, supply.KarpenterEvidence(said, c)...)
		}
		out = append(out, f)
	}
	if len(out) == 0 {
		return supply.Told(c, supply.CloudReservedOver)
	}
	return out
}

// reservationTerms are the reservations that the pool's class names.
func reservationTerms(p *karpenter.Pool) string {
	var out []string
	for _, t := range dialect.Items(p.Class.Object, "spec", "capacityReservationSelectorTerms") {
		if id := dialect.Text(t, "id"); id != "" {
			out = append(out, id)
			continue
		}
		tags := "by tags"
		for k, v := range dialect.StringMap(t, "tags") {
			tags = "tag " + k + "=" + v
			break
		}
		out = append(out, tags)
	}
	return wording.AtMost(3, out)
}
