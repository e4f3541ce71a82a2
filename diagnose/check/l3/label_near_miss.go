package l3

import (
	"fmt"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/supply"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var labelNearMissCheck = check.Check{
	Cause: "label-near-miss", Layer: check.L3, Owner: check.User, Stage: check.Place, Rank: 10,
	Title:   "A label is asked for that is written a little differently on the nodes",
	Meaning: "The pod's node selector or affinity asks for a label that no node has, and one that is almost the same exists: a typing error, another spelling of a GPU's product name, or an old one.",
	Remedy:  "Ask for the label exactly as the nodes have it.",
	Not:     "There are no such nodes.",
	Find:    labelNearMiss,
}

func labelNearMiss(c *check.Case) []check.Finding {
	idle := unasked(c)
	if !idle && (place.Stuck(c) == nil || supply.NewNodeWouldSuit(c)) {
		return nil
	}
	var out []check.Finding
	for _, n := range place.Unmet(c) {
		key, value, ok := place.NearMiss(c, n)
		if !ok {
			continue
		}
		f := check.Finding{
			Fit:      !idle,
			Message:  fmt.Sprintf("no node has %s; %d %s %s=%s", n.Text(), place.ValuesOf(c.Facts, key)[value], wording.InNumber(place.ValuesOf(c.Facts, key)[value], "has", "have"), key, value),
			Evidence: []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: n.Field(), Value: n.Text()}},
		}
		for _, node := range c.Nodes {
			if node.Labels[key] == value {
				f.Evidence = append(f.Evidence, facts.Evidence{Object: "node/" + node.Name, Field: fmt.Sprintf("metadata.labels[%q]", key), Value: value})
				break
			}
		}
		if e, ok := place.Renames(c, n, key, value); ok {
			f.Edits = append(f.Edits, e)
		}
		if class := place.WrittenByClass(c, n); class != nil {
			f.Owner, f.Evidence = check.Platform, append([]facts.Evidence{place.ClassEvidence(class, n)}, f.Evidence...)
			f.Message += fmt.Sprintf("; RuntimeClass %s, which the pod names, asks for it", class.Name)
			if e, ok := place.RenamesInClass(c, class, n, value); ok && key == n.Key {
				f.Edits = []edit.Edit{e}
			}
		}
		out = append(out, f)
	}
	return out
}
