package diagnose

import (
	"fmt"
	"strings"
	"time"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/kube/dialect"
)

var reservationEndedCheck = Check{
	Cause: "reservation-ended", Layer: L1, Owner: Capacity, Stage: Place, Rank: 52,
	Title:   "The reserved capacity is over",
	Meaning: "The pool may only use reserved machines, and no reservation that it names is active any more.",
	Remedy:  "Extend the reservation or buy another one, or let the pool use machines on demand.",
	Not:     "The cluster has too few GPUs.",
	Find:    reservationEnded,
}

func reservationEnded(c *Case) []Finding {
	var out []Finding
	for _, p := range c.karpenterReservedPools() {
		if !p.selects || len(p.active) > 0 {
			continue
		}
		f := Finding{Fit: true, Probe: c.autoscalerProbe(p.autoscalerSource), Edits: c.karpenterOnDemand(p.autoscalerSource)}
		class := p.pool.class.GetName()
		switch {
		case len(p.over) > 0:
			r := p.over[0]
			how := "is " + r.state
			if end, err := time.Parse(time.RFC3339, r.end); err == nil && end.After(c.Now) {
				how = fmt.Sprintf("ends at %s, and gives no machines so shortly before", end.UTC().Format("15:04 MST"))
			} else if err == nil {
				how = "ended at " + end.UTC().Format("2006-01-02 15:04 MST")
			}
			f.Message = fmt.Sprintf("%s may only use reserved machines, and reservation %s of EC2NodeClass %s %s", p, r.text(), class, how)
			f.Evidence = []facts.Evidence{karpenterReservationShown(p.pool, strings.TrimSpace(r.id+" "+r.state+" "+r.end))}
		default:
			f.Message = fmt.Sprintf("%s may only use reserved machines, and none of the reservations that EC2NodeClass %s names (%s) is active: they have ended, or have not begun", p, class, reservationTerms(p.pool))
			f.Evidence = []facts.Evidence{karpenterReservationShown(p.pool, "none")}
		}
		if said := c.karpenterSaid(); said != nil && said.claim == "" {
			f.Evidence = append(f.Evidence, said.evidence(c)...)
		}
		out = append(out, f)
	}
	return out
}

// reservationTerms are the reservations that the pool's class names.
func reservationTerms(p *karpenterPool) string {
	var out []string
	for _, t := range dialect.Items(p.class.Object, "spec", "capacityReservationSelectorTerms") {
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
