package diagnose

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/engine/why"
)

var fragmentedCheck = Check{
	Cause: why.Fragmented, Layer: L3, Owner: Scheduler, Stage: Place, Rank: 71,
	Title:   "Enough is free, but in pieces",
	Meaning: "All free GPUs together are enough for one pod, and no one node has enough of them.",
	Remedy:  "Move small pods together, so that a node becomes free, or ask for no more than one node has free.",
	Not:     "The cluster is full.",
	Find:    fragmented,
}

func fragmented(c *Case) []Finding {
	cause, reach := c.roomCause()
	device, ask := podspec.Device(c.Pod)
	if cause != why.Fragmented || device == "" {
		return nil
	}
	f := c.Fit
	nodes := shortest(c.Pod, reach)
	if len(nodes) == 0 {
		return nil
	}
	var free int64
	for _, n := range nodes {
		free += max(0, ask-n.shortOf(device))
	}
	most := ask - nodes[0].shortOf(device)
	out := Finding{
		Fit:      true,
		Message:  fmt.Sprintf("the pod asks for %d %s on one node; %d %s free on %s, and no more than %d on any one", ask, device, free, wording.InNumber(free, "is", "are"), wording.Number(len(nodes), "node")+wording.InNumber(len(nodes), " that matches", " that match"), most),
		Evidence: []facts.Evidence{{Object: "node/" + nodes[0].Name, Field: fmt.Sprintf("status.allocatable[%q], less what its pods request", device), Value: fmt.Sprint(most)}},
	}
	if e, ok := c.moves(nodes, func(p *corev1.Pod) bool { return podspec.Requested(p, device) < ask }); ok {
		out.Edits = append(out.Edits, e)
	}
	if e, until, because, ok := c.waits(nodes, f.lack()); ok {
		out.Edits, out.Until, out.Because = append(out.Edits, e), until, because
	}
	out.Edits = append(out.Edits, c.elsewhere(f)...)
	if most*2 >= ask && len(nodes[0].Short) == 1 {
		if e, ok := c.asksLess(map[string]int64{device: most}); ok {
			out.Edits = append(out.Edits, e)
		}
	}
	if e, ok := c.evicts(nodes, f.lack()); ok {
		out.Edits = append(out.Edits, e)
	}
	return []Finding{out}
}
