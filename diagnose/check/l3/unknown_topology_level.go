package l3

import (
	"fmt"
	"slices"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/queue"
	"github.com/berth-dev/berth/diagnose/internal/supply"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/internal/spelling"
)

var unknownTopologyLevelCheck = check.Check{
	Cause: why.UnknownTopologyLevel, Layer: check.L3, Owner: check.User, Stage: check.Place, Rank: 16,
	Title:   "It wants to be together at a level that does not exist",
	Meaning: "The topology level, or the node label, that the pods must have in common is on no node.",
	Remedy:  "Name a level that nodes have.",
	Not:     "No part of the network has room.",
	Find:    unknownTopologyLevel,
}

func unknownTopologyLevel(c *check.Case) []check.Finding {
	if g, ok := queue.GateOf(c, why.UnknownTopologyLevel); ok {
		if supply.ShortOf(c) {
			return nil // the nodes that are to be launched are in one
		}
		found := check.Finding{Fit: true, Message: fmt.Sprintf("the pods must be in one %s, and no node is in any", g.Object)}
		var names []string
		for _, l := range queue.BerthLevels(c.Facts) {
			names = append(names, l.Name)
		}
		for _, name := range spelling.ByLikeness(g.Object, names) {
			at := slices.IndexFunc(queue.BerthLevels(c.Facts), func(l queue.BerthLevel) bool { return l.Name == name })
			if e, ok := queue.BerthRelevel(c, g.Object, queue.BerthLevels(c.Facts)[at]); ok {
				found.Edits = append(found.Edits, e)
			}
		}
		if e, ok := queue.BerthRelax(c, g.Object); ok && len(found.Edits) == 0 {
			found.Edits = append(found.Edits, e)
		}
		return []check.Finding{found}
	}
	if found := queue.BerthSaid(c, why.UnknownTopologyLevel); found != nil {
		return found
	}
	if wrong, what, near := queue.KaiLevel(c); wrong != nil && c.Waits() {
		found := check.Finding{Message: fmt.Sprintf("its group asks for %s, which does not exist", what), Evidence: []facts.Evidence{*wrong}}
		if near != "" {
			found.Message += fmt.Sprintf("; %s does", near)
			found.Edits = queue.KaiRename(c, wrong, near)
		}
		return []check.Finding{found}
	}
	v := queue.Kueue(c)
	if v == nil || v.Cause != why.UnknownTopologyLevel {
		return nil
	}
	level := queue.KueueTopology(c)
	found := check.Finding{Message: fmt.Sprintf("the pods must be in one domain of %s, and no topology of %s has that level", level, v.Name()), Evidence: v.Evidence()}
	if level == "" {
		found.Message = fmt.Sprintf("the pods must be in one domain of a level that no topology of %s has: %s", v.Name(), v.Message)
		return []check.Finding{found}
	}
	for _, other := range spelling.ByLikeness(level, queue.KueueLevels(c.Facts, v.Cluster)) {
		if queue.KueueMost(c.Facts, other, &c.Pod.Spec) >= queue.KueuePods(c, v) {
			found.Edits = append(found.Edits, queue.KueueOnly(c, queue.KueueRelevel(c, other))...)
		}
	}
	return []check.Finding{found}
}
