package diagnose

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/engine/why"
)

var cpuOrMemoryStrandedCheck = Check{
	Cause: why.Stranded, Layer: L3, Owner: User, Stage: Place, Rank: 70,
	Title:   "GPUs are free where CPU or memory is not",
	Meaning: "Nodes that match have enough free GPUs, and too little CPU, memory or another resource to go with them.",
	Remedy:  "Ask for less CPU or memory per GPU, or move work that needs no GPUs off these nodes.",
	Not:     "There are no free GPUs.",
	Find:    stranded,
}

func stranded(c *Case) []Finding {
	if c.Fit == nil {
		return strandedAsSaid(c)
	}
	cause, reach := c.roomCause()
	device, ask := podspec.Device(c.Pod)
	if cause != why.Stranded || device == "" {
		return nil
	}
	nodes := slices.DeleteFunc(shortest(c.Pod, reach), func(n *NodeFit) bool { return n.shortOf(device) > 0 || len(n.Short) == 0 })
	if len(nodes) == 0 {
		return nil
	}
	n := nodes[0]
	first := n.Short[0]
	out := Finding{Fit: true}
	out.Message = fmt.Sprintf("node %s has %d %s free, and %s short by %s", n.Name, max(ask, podspec.Amount(device, freeOn(c.Facts, n.Node)[corev1.ResourceName(device)])), device, first.Resource, why.Quantity(first.Resource, first.By))
	if len(nodes) > 1 {
		out.Message = fmt.Sprintf("%s %s enough %s free and too little of something else: %s, which is nearest, is short of %s by %s", wording.Number(len(nodes), "node"), wording.InNumber(len(nodes), "has", "have"), device, n.Name, first.Resource, why.Quantity(first.Resource, first.By))
	}
	for _, s := range n.Short {
		out.Evidence = append(out.Evidence, facts.Evidence{Object: "node/" + n.Name, Field: fmt.Sprintf("status.allocatable[%q], less what its pods request", s.Resource), Value: why.Quantity(s.Resource, podspec.Requested(c.Pod, s.Resource)-s.By)})
	}
	for _, n := range nodes[:min(len(nodes), 3)] {
		if e, ok := c.asksLess(leftOn(c, n)); ok {
			e.Cost = edit.CostSmall
			out.Edits = append(out.Edits, e)
			break
		}
	}
	if e, ok := c.moves(nodes, func(p *corev1.Pod) bool { return podspec.Requested(p, device) == 0 }); ok {
		out.Edits = append(out.Edits, e)
	}
	if e, ok := c.evicts(nodes, 1); ok {
		out.Edits = append(out.Edits, e)
	}
	out.Edits = append(out.Edits, c.elsewhere(c.Fit)...)
	return []Finding{out}
}

// leftOn is what the pod may ask for on the node of what is short there, in round numbers.
func leftOn(c *Case, n *NodeFit) map[string]int64 {
	out := make(map[string]int64)
	for _, s := range n.Short {
		left := podspec.Requested(c.Pod, s.Resource) - s.By
		switch {
		case s.Resource == string(corev1.ResourceCPU) && left > 1000:
			left -= left % 1000
		case s.Resource == string(corev1.ResourceMemory) && left > 1<<30:
			left -= left % (1 << 30)
		}
		out[s.Resource] = left
	}
	return out
}

// strandedAsSaid goes by the scheduler's words: it lists everything that a node is short of.
func strandedAsSaid(c *Case) []Finding {
	s, ok := c.Said()
	device, _ := podspec.Device(c.Pod)
	if !ok || c.State != facts.Pending || device == "" || !s.strands(device) || s.Evicting.Known && s.Evicting.Nobody == 0 && tellsSize(c.Facts) {
		return nil
	}
	for _, name := range s.Lacks() {
		if name != device && s.Short(name) > s.Short(device) {
			return []Finding{{
				Message:  fmt.Sprintf("%s %s short of %s and not of %s; the pod asks for %s %s", wording.Number(s.Short(name)-s.Short(device), "node"), wording.InNumber(s.Short(name)-s.Short(device), "is", "are"), name, device, why.Quantity(name, podspec.Requested(c.Pod, name)), name),
				Evidence: c.saidEvidence(),
			}}
		}
	}
	return nil
}
