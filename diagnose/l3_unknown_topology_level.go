package diagnose

import (
	"fmt"
	"slices"

	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/internal/spelling"
)

var unknownTopologyLevelCheck = Check{
	Cause: why.UnknownTopologyLevel, Layer: L3, Owner: User, Stage: Place, Rank: 16,
	Title:   "It wants to be together at a level that does not exist",
	Meaning: "The topology level, or the node label, that the pods must have in common is on no node.",
	Remedy:  "Name a level that nodes have.",
	Not:     "No part of the network has room.",
	Find:    unknownTopologyLevel,
}

func unknownTopologyLevel(c *Case) []Finding {
	if g, ok := c.gate(why.UnknownTopologyLevel); ok {
		found := Finding{Fit: true, Message: fmt.Sprintf("the pods must be in one %s, and no node is in any", g.Object)}
		var names []string
		for _, l := range berthLevels(c.Facts) {
			names = append(names, l.name)
		}
		for _, name := range spelling.ByLikeness(g.Object, names) {
			at := slices.IndexFunc(berthLevels(c.Facts), func(l berthLevel) bool { return l.name == name })
			if e, ok := c.berthRelevel(g.Object, berthLevels(c.Facts)[at]); ok {
				found.Edits = append(found.Edits, e)
			}
		}
		if e, ok := c.berthRelax(g.Object); ok && len(found.Edits) == 0 {
			found.Edits = append(found.Edits, e)
		}
		return []Finding{found}
	}
	if found := c.berthSaid(why.UnknownTopologyLevel); found != nil {
		return found
	}
	v := c.kueue()
	if v == nil || v.cause != why.UnknownTopologyLevel {
		return nil
	}
	level := c.kueueTopology()
	found := Finding{Message: fmt.Sprintf("the pods must be in one domain of %s, and no topology of %s has that level", level, v.name()), Evidence: v.evidence()}
	if level == "" {
		found.Message = fmt.Sprintf("the pods must be in one domain of a level that no topology of %s has: %s", v.name(), v.message)
		return []Finding{found}
	}
	for _, other := range spelling.ByLikeness(level, kueueLevels(c.Facts, v.cluster)) {
		if kueueMost(c.Facts, other, &c.Pod.Spec) >= c.kueuePods(v) {
			found.Edits = append(found.Edits, c.kueueOnly(c.kueueRelevel(other))...)
		}
	}
	return []Finding{found}
}
