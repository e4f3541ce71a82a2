package l3

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/queue"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/engine/why"
)

var invalidObjectCheck = check.Check{
	Cause: why.InvalidObject, Layer: check.L3, Owner: check.User, Stage: check.Create, Rank: 9,
	Title:   "What was written contradicts itself",
	Meaning: "The API server, or the scheduler, does not accept the pod, or the gang that it is in, as it is written.",
	Remedy:  "Change what the message names.",
	Find:    invalidObject,
}

func invalidObject(c *check.Case) []check.Finding {
	if r := life.DeniedBy(c, life.ByValidation); r != nil && life.Wanted(c) && elseWrong(c, r) {
		return []check.Finding{{Message: fmt.Sprintf("the API server does not accept the pods of %s: %s", facts.RefTo(c.Owner()), wording.Shortened(wording.OneLine(r.Text), 400)), Evidence: []facts.Evidence{r.Evidence}}}
	}
	return queue.Shut(c, why.InvalidObject)
}

var wrongField = regexp.MustCompile(`\b(?:spec|metadata)\.[^:\s]+: `)

// elseWrong says whether the API server refused the pod for more than how it asks for GPUs, which is a cause of its own.
func elseWrong(c *check.Case, r *life.Refusal) bool {
	for _, f := range wrongField.FindAllString(r.Text, -1) {
		if !strings.Contains(f, ".resources") {
			return true
		}
	}
	return !wrongField.MatchString(r.Text) || !misasks(c) && len(limitedBelowRequest(c)) == 0 && !c.Edited()
}
