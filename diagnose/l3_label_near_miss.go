package diagnose

import (
	"fmt"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var labelNearMissCheck = Check{
	Cause: "label-near-miss", Layer: L3, Owner: User, Stage: Place, Rank: 10,
	Title:   "A label is asked for that is written a little differently on the nodes",
	Meaning: "The pod's node selector or affinity asks for a label that no node has, and one that is almost the same exists: a typing error, another spelling of a GPU's product name, or an old one.",
	Remedy:  "Ask for the label exactly as the nodes have it.",
	Not:     "There are no such nodes.",
	Find:    labelNearMiss,
}

func labelNearMiss(c *Case) []Finding {
	if c.stuck() == nil || c.newNodeWouldSuit() {
		return nil
	}
	var out []Finding
	for _, n := range c.unmet() {
		key, value, ok := c.near(n)
		if !ok {
			continue
		}
		f := Finding{
			Fit:      true,
			Message:  fmt.Sprintf("no node has %s; %d %s %s=%s", n.text(), valuesOf(c.Facts, key)[value], wording.InNumber(valuesOf(c.Facts, key)[value], "has", "have"), key, value),
			Evidence: []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: n.field(), Value: n.text()}},
		}
		for _, node := range c.Nodes {
			if node.Labels[key] == value {
				f.Evidence = append(f.Evidence, facts.Evidence{Object: "node/" + node.Name, Field: fmt.Sprintf("metadata.labels[%q]", key), Value: value})
				break
			}
		}
		if e, ok := c.renames(n, key, value); ok {
			f.Edits = append(f.Edits, e)
		}
		out = append(out, f)
	}
	return out
}
