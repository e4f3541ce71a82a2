package diagnose

import (
	"fmt"

	"github.com/berth-dev/berth/engine/why"
)

var exceedsQueueMaximumCheck = Check{
	Cause: why.ExceedsQueueMaximum, Layer: L3, Owner: User, Stage: Admit, Rank: 22,
	Title:   "It asks for more than its queue may ever have",
	Meaning: "The work alone is larger than the queue's limit, so it would wait for ever, also in an empty cluster.",
	Remedy:  "Ask for less, use a queue with a higher limit, or have the limit raised.",
	Not:     "Wait until others end.",
	Find:    exceedsQueueMaximum,
}

func exceedsQueueMaximum(c *Case) []Finding {
	if g, ok := c.gate(why.ExceedsQueueMaximum); ok {
		return []Finding{c.berthLimit(g, fmt.Sprintf("the work needs %s of queue %s, whose limit is %s", why.Amount{Resource: g.Resource, Value: g.Need}.Text(), g.Object, why.Quantity(g.Resource, g.Limit)))}
	}
	if found := c.berthSaid(why.ExceedsQueueMaximum); found != nil {
		return found
	}
	if found := c.volcanoLimit(true); found != nil {
		return found
	}
	v := c.kueue()
	if v == nil || v.cause != why.ExceedsQueueMaximum {
		return nil
	}
	s := v.room.short
	if s == nil {
		return v.found(fmt.Sprintf("%s can never have as much as the work needs", v.name()), nil)
	}
	return v.found(fmt.Sprintf("the work needs %s %s, and %s can have at most %s in flavor %s", why.Quantity(s.resource, s.need), s.resource, v.name(), why.Quantity(s.resource, s.most), s.flavor), c.kueueRelief(v))
}
