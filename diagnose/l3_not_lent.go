package diagnose

import "github.com/berth-dev/berth/engine/why"

var notLentCheck = Check{
	Cause: why.NotLent, Layer: L3, Owner: Scheduler, Stage: Admit, Rank: 25,
	Title:   "What is free belongs to queues that do not lend it",
	Meaning: "The queue's own quota is used, and the owners of what is free keep it for themselves.",
	Remedy:  "Wait until other work of the queue ends, or have the quota raised, or what others lend.",
	Not:     "The cluster is full.",
	Find:    notLent,
}

func notLent(c *Case) []Finding { return c.berthGate(why.NotLent) }
