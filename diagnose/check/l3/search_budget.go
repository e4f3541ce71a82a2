package l3

import (
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/queue"
	"github.com/berth-dev/berth/engine/why"
)

var searchBudgetCheck = check.Check{
	Cause: why.SearchBudget, Layer: check.L3, Owner: check.Scheduler, Stage: check.Place, Rank: 96,
	Title:   "No place was found in the time given to the search",
	Meaning: "The engine tried many ways to place the pods together and stopped before it had tried all. A place may exist.",
	Remedy:  "Wait: each pass searches again. Asking for less closeness makes the search shorter.",
	Find:    searchBudget,
}

func searchBudget(c *check.Case) []check.Finding {
	out := queue.Shut(c, why.SearchBudget)
	for i := range out {
		out[i].Fit = true
	}
	if len(out) > 0 || c.Fit != nil || c.State != facts.Pending {
		return out
	}
	s, _, ok := place.BerthSaid(c, why.SearchBudget)
	if !ok {
		return nil
	}
	return []check.Finding{{Message: s.Message, Evidence: []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: "status.conditions[PodScheduled]", Value: s.Message}}}}
}
