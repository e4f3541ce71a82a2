package diagnose

import (
	"fmt"

	"github.com/berth-dev/berth/engine/why"
)

var overQueueLimitCheck = Check{
	Cause: why.OverQueueLimit, Layer: L3, Owner: Scheduler, Stage: Admit, Rank: 24,
	Title:   "Its queue is at its limit",
	Meaning: "What other work of the queue holds, and this, would together pass the queue's limit. Nodes may well be idle.",
	Remedy:  "Wait until other work of the queue ends, use a queue that has room, or have the limit raised.",
	Not:     "The cluster is full.",
	Find:    overQueueLimit,
}

func overQueueLimit(c *Case) []Finding {
	if g, ok := c.gate(why.OverQueueLimit); ok {
		amount := why.Amount{Resource: g.Resource, Value: g.Need}.Text()
		return []Finding{c.berthLimit(g, fmt.Sprintf("the work needs %s of queue %s, which uses %s of %s", amount, g.Object, why.Quantity(g.Resource, g.Have), why.Quantity(g.Resource, g.Limit)))}
	}
	if found := c.berthSaid(why.OverQueueLimit); found != nil {
		return found
	}
	if found := c.kaiOverLimit(); found != nil {
		return found
	}
	return c.volcanoLimit(false)
}
