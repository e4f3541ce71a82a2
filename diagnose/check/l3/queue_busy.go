package l3

import (
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/internal/queue"
	"github.com/berth-dev/berth/engine/why"
)

var queueBusyCheck = check.Check{
	Cause: why.QueueBusy, Layer: check.L3, Owner: check.Scheduler, Stage: check.Admit, Rank: 25,
	Title:   "As many workloads of its queue run as may",
	Meaning: "The queue bounds how many workloads run at a time, whatever they hold, and that many run.",
	Remedy:  "Wait until one of them ends, use another queue, or have the bound raised.",
	Not:     "The cluster is full.",
	Find:    queueBusy,
}

func queueBusy(c *check.Case) []check.Finding { return queue.BerthGate(c, why.QueueBusy) }
