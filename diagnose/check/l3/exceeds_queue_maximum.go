package l3

import (
	"fmt"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/internal/queue"
	"github.com/berth-dev/berth/engine/why"
)

var exceedsQueueMaximumCheck = check.Check{
	Cause: why.ExceedsQueueMaximum, Layer: check.L3, Owner: check.User, Stage: check.Admit, Rank: 22,
	Title:   "It asks for more than its queue may ever have",
	Meaning: "The work alone is larger than the queue's limit, so it would wait for ever, also in an empty cluster.",
	Remedy:  "Ask for less, use a queue with a higher limit, or have the limit raised.",
	Not:     "Wait until others end.",
	Find:    exceedsQueueMaximum,
}

func exceedsQueueMaximum(c *check.Case) []check.Finding {
	if g, ok := queue.GateOf(c, why.ExceedsQueueMaximum); ok {
		return []check.Finding{queue.BerthLimit(c, g, fmt.Sprintf("the work needs %s of queue %s, whose limit is %s", g.Needs(), g.Object, g.Quantity(g.Limit)))}
	}
	if found := queue.BerthSaid(c, why.ExceedsQueueMaximum); found != nil {
		return found
	}
	if found := queue.Refused(c, why.ExceedsQueueMaximum); found != nil {
		return found
	}
	if found := queue.VolcanoLimit(c, true); found != nil {
		return found
	}
	v := queue.Kueue(c)
	if v == nil || v.Cause != why.ExceedsQueueMaximum {
		return nil
	}
	s := v.Room.Short
	if s == nil {
		return v.Found(fmt.Sprintf("%s can never have as much as the work needs", v.Name()), nil)
	}
	return v.Found(fmt.Sprintf("the work needs %s %s, and %s can have at most %s in flavor %s", why.Quantity(s.Resource, s.Need), s.Resource, v.Name(), why.Quantity(s.Resource, s.Most), s.Flavor), queue.KueueRelief(c, v))
}
