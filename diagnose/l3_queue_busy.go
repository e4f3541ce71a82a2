package diagnose

import "github.com/berth-dev/berth/engine/why"

var queueBusyCheck = Check{
	Cause: why.QueueBusy, Layer: L3, Owner: Scheduler, Stage: Admit, Rank: 25,
	Title:   "As many workloads of its queue run as may",
	Meaning: "The queue bounds how many workloads run at a time, whatever they hold, and that many run.",
	Remedy:  "Wait until one of them ends, use another queue, or have the bound raised.",
	Not:     "The cluster is full.",
	Find:    queueBusy,
}

func queueBusy(c *Case) []Finding { return c.berthGate(why.QueueBusy) }
