package l3

import (
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/internal/queue"
	"github.com/berth-dev/berth/engine/why"
)

var overBudgetCheck = check.Check{
	Cause: why.OverBudget, Layer: check.L3, Owner: check.Scheduler, Stage: check.Admit, Rank: 24,
	Title:   "Its queue's budget for the period is used up",
	Meaning: "The queue may use so many hours of a resource in a period, and its work has used them. What runs goes on; nothing more starts until the next period.",
	Remedy:  "Wait for the next period, use another queue, or have the budget raised.",
	Not:     "The cluster is full.",
	Find:    overBudget,
}

func overBudget(c *check.Case) []check.Finding { return queue.BerthWrote(c, why.OverBudget) }
