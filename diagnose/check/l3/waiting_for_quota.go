package l3

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/internal/queue"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/dialect/kueue"
)

var waitingForQuotaCheck = check.Check{
	Cause: "waiting-for-quota", Layer: check.L3, Owner: check.Scheduler, Stage: check.Admit, Rank: 24,
	Title:   "Its Kueue queue has too little quota left",
	Meaning: "Others hold the quota that the work needs. It fits into the queue when they end, and nodes may well be idle meanwhile.",
	Remedy:  "Wait until other work of the queue ends, use a queue that has room, ask for less, or raise the quota.",
	Not:     "The cluster is full: quotas count what was promised, not what nodes have.",
	Find:    waitingForQuota,
}

func waitingForQuota(c *check.Case) []check.Finding {
	if found := queue.Refused(c, "waiting-for-quota"); found != nil {
		return found
	}
	v := queue.Kueue(c)
	if v == nil || v.Cause != "waiting-for-quota" {
		return nil
	}
	s := v.Room.Short
	if s == nil {
		return v.Found(fmt.Sprintf("%s has too little quota left", v.Name()), nil)
	}
	message := fmt.Sprintf("%s has %s of %s %s left in flavor %s, and the work needs %s", v.Name(), why.Quantity(s.Resource, s.Free), why.Quantity(s.Resource, s.Nominal), s.Resource, s.Flavor, why.Quantity(s.Resource, s.Need))
	for _, o := range v.Room.Others {
		message += fmt.Sprintf("; of flavor %s it has %s of %s left", o.Flavor, why.Quantity(o.Resource, o.Free), why.Quantity(o.Resource, o.Nominal))
	}
	if who := kueueWho(c, v); who != "" {
		message += "; " + who
	}
	found := v.Found(message, queue.KueueRelief(c, v))
	found[0].Until, found[0].Because = kueueUntil(c, v)
	return found
}

// kueueUntil is when holders of the queue's quota that have time limits have given back enough, at the latest; zero
// where that is not known.
func kueueUntil(c *check.Case, v *queue.KueueView) (time.Time, string) {
	s := v.Room.Short
	type ending struct {
		at   time.Time
		name string
		queue.KueueHolder
	}
	var ends []ending
	for _, h := range queue.KueueHolders(c.Facts, v.Cluster.GetName(), s.Flavor, s.Resource) {
		if at := queue.KueueEnds(c.Facts, h.Unstructured); at.After(c.Now) {
			ends = append(ends, ending{at, h.GetNamespace() + "/" + h.GetName(), h})
		}
	}
	slices.SortFunc(ends, func(a, b ending) int { return cmp.Or(a.at.Compare(b.at), strings.Compare(a.name, b.name)) })
	free := s.Free
	for _, e := range ends {
		if free += e.Amount; free >= s.Need {
			return e.at, fmt.Sprintf("Workload %s has reached its time limit by then", e.name)
		}
	}
	return time.Time{}, ""
}

// kueueWho names the holders of the quota: of the queue itself and, where it has a cohort, of the others in it.
func kueueWho(c *check.Case, v *queue.KueueView) string {
	s := v.Room.Short
	var names []string
	for _, h := range queue.KueueHolders(c.Facts, v.Cluster.GetName(), s.Flavor, s.Resource) {
		names = append(names, fmt.Sprintf("%s/%s (%s)", h.GetNamespace(), h.GetName(), why.Quantity(s.Resource, h.Amount)))
	}
	if cohort := kueue.Cohort(v.Cluster); cohort != "" {
		for _, other := range c.ForeignNames(kueue.ClusterQueues, "") {
			u := c.ForeignNamed(kueue.ClusterQueues, "", other)
			if other == v.Cluster.GetName() || kueue.Cohort(u) != cohort {
				continue
			}
			if q := queue.KueueQuota(c.Facts, u, s.Flavor, s.Resource); q.Used > q.Nominal {
				names = append(names, fmt.Sprintf("ClusterQueue %s (borrows %s)", other, why.Quantity(s.Resource, q.Used-q.Nominal)))
			}
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "held by " + wording.AtMost(3, names)
}
