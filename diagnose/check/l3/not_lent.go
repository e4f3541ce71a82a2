package l3

import (
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/internal/queue"
	"github.com/berth-dev/berth/engine/why"
)

var notLentCheck = check.Check{
	Cause: why.NotLent, Layer: check.L3, Owner: check.Scheduler, Stage: check.Admit, Rank: 25,
	Title:   "What is free belongs to queues that do not lend it",
	Meaning: "The queue's own quota is used, and the owners of what is free keep it for themselves.",
	Remedy:  "Wait until other work of the queue ends, or have the quota raised, or what others lend.",
	Not:     "The cluster is full.",
	Find:    notLent,
}

func notLent(c *check.Case) []check.Finding { return queue.BerthGate(c, why.NotLent) }
