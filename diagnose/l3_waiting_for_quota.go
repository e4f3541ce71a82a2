package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/engine/why"
)

var waitingForQuotaCheck = Check{
	Cause: "waiting-for-quota", Layer: L3, Owner: Scheduler, Stage: Admit, Rank: 24,
	Title:   "Its Kueue queue has too little quota left",
	Meaning: "Others hold the quota that the work needs. It fits into the queue when they end, and nodes may well be idle meanwhile.",
	Remedy:  "Wait until other work of the queue ends, use a queue that has room, ask for less, or raise the quota.",
	Not:     "The cluster is full: quotas count what was promised, not what nodes have.",
	Find:    waitingForQuota,
}

func waitingForQuota(c *Case) []Finding {
	v := c.kueue()
	if v == nil || v.cause != "waiting-for-quota" {
		return nil
	}
	s := v.room.short
	if s == nil {
		return v.found(fmt.Sprintf("%s has too little quota left", v.name()), nil)
	}
	message := fmt.Sprintf("%s has %s of %s %s left in flavor %s, and the work needs %s", v.name(), why.Quantity(s.resource, s.free), why.Quantity(s.resource, s.nominal), s.resource, s.flavor, why.Quantity(s.resource, s.need))
	if who := c.kueueWho(v); who != "" {
		message += "; " + who
	}
	found := v.found(message, c.kueueRelief(v))
	found[0].Until, found[0].Because = c.kueueUntil(v)
	return found
}

// kueueUntil is when holders of the queue's quota that have time limits have given back enough, at the latest; zero
// where that is not known.
func (c *Case) kueueUntil(v *kueueView) (time.Time, string) {
	s := v.room.short
	type ending struct {
		at   time.Time
		name string
		kueueHolder
	}
	var ends []ending
	for _, h := range kueueHolders(c.Facts, v.cluster.GetName(), s.flavor, s.resource) {
		if at := kueueEnds(c.Facts, h.Unstructured); at.After(c.Now) {
			ends = append(ends, ending{at, h.GetNamespace() + "/" + h.GetName(), h})
		}
	}
	slices.SortFunc(ends, func(a, b ending) int { return cmp.Or(a.at.Compare(b.at), strings.Compare(a.name, b.name)) })
	free := s.free
	for _, e := range ends {
		if free += e.amount; free >= s.need {
			return e.at, fmt.Sprintf("Workload %s has reached its time limit by then", e.name)
		}
	}
	return time.Time{}, ""
}

// kueueWho says who holds the quota: of the queue itself and, where it has a cohort, of the others in it.
func (c *Case) kueueWho(v *kueueView) string {
	s := v.room.short
	var names []string
	for _, h := range kueueHolders(c.Facts, v.cluster.GetName(), s.flavor, s.resource) {
		names = append(names, fmt.Sprintf("%s/%s (%s)", h.GetNamespace(), h.GetName(), why.Quantity(s.resource, h.amount)))
	}
	if cohort := kueueCohort(v.cluster); cohort != "" {
		for _, other := range c.ForeignNames(kueueClusterQueues, "") {
			u := c.ForeignNamed(kueueClusterQueues, "", other)
			if other == v.cluster.GetName() || kueueCohort(u) != cohort {
				continue
			}
			if q := kueueQuota(c.Facts, u, s.flavor, s.resource); q.used > q.nominal {
				names = append(names, fmt.Sprintf("ClusterQueue %s (borrows %s)", other, why.Quantity(s.resource, q.used-q.nominal)))
			}
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "held by " + wording.AtMost(3, names)
}
