package l3

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/engine/why"
)

var fragmentedCheck = check.Check{
	Cause: why.Fragmented, Layer: check.L3, Owner: check.Scheduler, Stage: check.Place, Rank: 71,
	Title:   "Enough is free, but in pieces",
	Meaning: "All free GPUs together are enough for one pod, and no one node has enough of them.",
	Remedy:  "Move small pods together, so that a node becomes free, or ask for no more than one node has free.",
	Not:     "The cluster is full.",
	Find:    fragmented,
}

func fragmented(c *check.Case) []check.Finding {
	cause, reach := place.RoomCause(c)
	device, ask := podspec.Device(c.Pod)
	if cause != why.Fragmented || device == "" {
		return nil
	}
	f := c.Fit
	nodes := place.Shortest(c.Pod, reach)
	if len(nodes) == 0 {
		return nil
	}
	var free int64
	for _, n := range nodes {
		free += max(0, ask-n.ShortOf(device))
	}
	most := ask - nodes[0].ShortOf(device)
	out := check.Finding{
		Fit:      true,
		Message:  fmt.Sprintf("the pod asks for %d %s on one node; %d %s free on %s, and no more than %d on any one", ask, device, free, wording.InNumber(free, "is", "are"), wording.Number(len(nodes), "node")+wording.InNumber(len(nodes), " that matches", " that match"), most),
		Evidence: []facts.Evidence{{Object: "node/" + nodes[0].Name, Field: fmt.Sprintf("status.allocatable[%q], less what its pods request", device), Value: fmt.Sprint(most)}},
	}
	if e, ok := place.Moves(c, nodes, func(p *corev1.Pod) bool { return podspec.Requested(p, device) < ask }); ok {
		out.Edits = append(out.Edits, e)
	}
	if e, until, because, ok := place.Waits(c, nodes, f.PodsLacking()); ok {
		out.Edits, out.Until, out.Because = append(out.Edits, e), until, because
	}
	out.Edits = append(out.Edits, place.Elsewhere(c, f)...)
	if most*2 >= ask && len(nodes[0].Short) == 1 {
		if e, ok := place.AsksLess(c, map[string]int64{device: most}); ok {
			out.Edits = append(out.Edits, e)
		}
	}
	if e, ok := place.Evicts(c, nodes, f.PodsLacking()); ok {
		out.Edits = append(out.Edits, e)
	}
	return []check.Finding{out}
}
