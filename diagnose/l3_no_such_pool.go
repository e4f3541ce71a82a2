package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var noSuchPoolCheck = Check{
	Cause: "no-such-pool", Layer: L3, Owner: User, Stage: Place, Rank: 11,
	Title:   "The nodes that are asked for do not exist",
	Meaning: "The pod's node selector or affinity asks for a label, such as a GPU model or a pool, that no node of this cluster has.",
	Remedy:  "Ask for nodes that exist, or have such nodes added.",
	Not:     "The cluster is full.",
	Find:    noSuchPool,
}

func noSuchPool(c *Case) []Finding {
	if c.stuck() == nil || c.autoscaled() { // whether one could be made is another question
		return nil
	}
	var out []Finding
	for _, n := range c.unmet() {
		if _, _, ok := c.near(n); ok || c.onlyPartitioned(n) {
			continue
		}
		have := valuesOf(c.Facts, n.key)
		f := Finding{
			Fit:      true,
			Message:  fmt.Sprintf("the pod asks for %s, and no node has the label %s", n.text(), n.key),
			Evidence: []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: n.field(), Value: n.text()}},
		}
		if len(have) > 0 {
			f.Message = fmt.Sprintf("the pod asks for %s, and no node has it; %s", n.text(), counts(n.key, have))
			for _, v := range byDistance(strings.Join(n.values, ","), have)[:min(len(have), 3)] {
				if e, ok := c.renames(n, n.key, v); ok {
					e.Cost = edit.CostSmall
					f.Edits = append(f.Edits, e)
				}
			}
		}
		if e, ok := c.drops(n); ok {
			f.Edits = append(f.Edits, e)
		}
		out = append(out, f)
	}
	return out
}

// counts are the values of a label and their nodes, in words.
func counts(key string, have map[string]int) string {
	var out []string
	for v, n := range have {
		out = append(out, fmt.Sprintf("%d %s %s=%s", n, wording.InNumber(n, "has", "have"), key, v))
	}
	slices.Sort(out)
	return wording.AtMost(5, out)
}
