package l3

import (
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/internal/queue"
	"github.com/berth-dev/berth/engine/why"
)

var overQuotaCheck = check.Check{
	Cause: why.OverQuota, Layer: check.L3, Owner: check.Scheduler, Stage: check.Admit, Rank: 23,
	Title:   "It may not be evicted, and its queue's quota is used",
	Meaning: "Work beyond a queue's quota borrows what others may want back. Work that may not be evicted could not give it back, so it has to fit into the quota.",
	Remedy:  "Say that the work may be evicted, wait until other work of the queue ends, or have the quota raised.",
	Not:     "The cluster is full.",
	Find:    overQuota,
}

func overQuota(c *check.Case) []check.Finding {
	out := queue.BerthGate(c, why.OverQuota)
	for i := range out {
		if c.Fit != nil {
			out[i].Edits = append(out[i].Edits, queue.BerthRekey(c, v1alpha1.KeyPreemptible, v1alpha1.KeyPreemptible, "true", "say that the work may be evicted: "+v1alpha1.KeyPreemptible+"=true"))
		}
	}
	return out
}
