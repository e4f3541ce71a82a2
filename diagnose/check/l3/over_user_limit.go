package l3

import (
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/internal/queue"
	"github.com/berth-dev/berth/engine/why"
)

var overUserLimitCheck = check.Check{
	Cause: why.OverUserLimit, Layer: check.L3, Owner: check.Scheduler, Stage: check.Admit, Rank: 24,
	Title:   "Its user is at a limit of the queue",
	Meaning: "What other work of the same user holds in the queue, and this, would together pass what one user may hold there. Nodes and quota may well be free.",
	Remedy:  "Wait until other work of the user ends, or have the queue's limit per user raised.",
	Not:     "The cluster is full.",
	Find:    overUserLimit,
}

func overUserLimit(c *check.Case) []check.Finding {
	if found := queue.Refused(c, why.OverUserLimit); found != nil {
		return found
	}
	return queue.BerthGate(c, why.OverUserLimit)
}
