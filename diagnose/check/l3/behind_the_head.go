package l3

import (
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/internal/queue"
	"github.com/berth-dev/berth/engine/why"
)

var behindTheHeadCheck = check.Check{
	Cause: why.BehindTheHead, Layer: check.L3, Owner: check.Scheduler, Stage: check.Admit, Rank: 26,
	Title:   "One before it in its queue is blocked",
	Meaning: "Work before it in its queue cannot start, and may not be passed: because it has waited for so long already and nobody can tell when there will be room for it, or because the queue is StrictFIFO or Berth's policy strict.",
	Remedy:  "Wait, find out with berth why what blocks the one before it, or have work say how long it runs: then it can be told who is over in time. Of a queue that is StrictFIFO, have its strategy changed to BestEffortFIFO, use another queue, or have the one before it give way.",
	Not:     "There is no room for it.",
	Find:    behindTheHead,
}

func behindTheHead(c *check.Case) []check.Finding { return queue.BerthBehind(c) }
