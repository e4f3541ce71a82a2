package diagnose

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/engine/why"
)

var invalidObjectCheck = Check{
	Cause: why.InvalidObject, Layer: L3, Owner: User, Stage: Create, Rank: 9,
	Title:   "What was written contradicts itself",
	Meaning: "The API server, or the scheduler, does not accept the pod, or the gang that it is in, as it is written.",
	Remedy:  "Change what the message names.",
	Find:    invalidObject,
}

func invalidObject(c *Case) []Finding {
	if r := c.deniedBy(byValidation); r != nil && c.wanted() && c.elseWrong(r) {
		return []Finding{{Message: fmt.Sprintf("the API server does not accept the pods of %s: %s", facts.RefTo(c.Owner()), wording.Shortened(wording.OneLine(r.Text), 400)), Evidence: []facts.Evidence{r.Evidence}}}
	}
	return c.shut(why.InvalidObject)
}

var wrongField = regexp.MustCompile(`\b(?:spec|metadata)\.[^:\s]+: `)

// elseWrong says whether the API server refused the pod for more than how it asks for GPUs, which is a cause of its own.
func (c *Case) elseWrong(r *refusal) bool {
	for _, f := range wrongField.FindAllString(r.Text, -1) {
		if !strings.Contains(f, ".resources") {
			return true
		}
	}
	return !wrongField.MatchString(r.Text) || !c.misasks() && !c.Edited()
}
