package l3

import (
	"fmt"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/internal/queue"
	"github.com/berth-dev/berth/engine/why"
)

var overQueueLimitCheck = check.Check{
	Cause: why.OverQueueLimit, Layer: check.L3, Owner: check.Scheduler, Stage: check.Admit, Rank: 24,
	Title:   "Its queue is at its limit",
	Meaning: "What other work of the queue holds, and this, would together pass the queue's limit. Nodes may well be idle.",
	Remedy:  "Wait until other work of the queue ends, use a queue that has room, or have the limit raised.",
	Not:     "The cluster is full.",
	Find:    overQueueLimit,
}

func overQueueLimit(c *check.Case) []check.Finding {
	if g, ok := queue.GateOf(c, why.OverQueueLimit); ok {
		amount := g.Needs()
		return []check.Finding{queue.BerthLimit(c, g, fmt.Sprintf("the work needs %s of queue %s, which uses %s of %s", amount, g.Object, g.Quantity(g.Have), g.Quantity(g.Limit)))}
	}
	if found := queue.BerthSaid(c, why.OverQueueLimit); found != nil {
		return found
	}
	if found := queue.Refused(c, why.OverQueueLimit); found != nil {
		return found
	}
	if found := queue.KaiOverLimit(c); found != nil {
		return found
	}
	return queue.VolcanoLimit(c, false)
}
