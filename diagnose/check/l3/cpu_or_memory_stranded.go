package l3

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/engine/why"
)

var cpuOrMemoryStrandedCheck = check.Check{
	Cause: why.Stranded, Layer: check.L3, Owner: check.User, Stage: check.Place, Rank: 70,
	Title:   "GPUs are free where CPU or memory is not",
	Meaning: "Nodes that match have enough free GPUs, and too little CPU, memory or another resource to go with them.",
	Remedy:  "Ask for less CPU or memory per GPU, or move work that needs no GPUs off these nodes.",
	Not:     "There are no free GPUs.",
	Find:    stranded,
}

func stranded(c *check.Case) []check.Finding {
	if c.Fit == nil {
		return strandedAsSaid(c)
	}
	cause, reach := place.RoomCause(c)
	device, ask := podspec.Device(c.Pod)
	if cause != why.Stranded || device == "" {
		return nil
	}
	nodes := slices.DeleteFunc(place.Shortest(c.Pod, reach), func(n *check.NodeFit) bool { return n.ShortOf(device) > 0 || len(n.Short) == 0 })
	if len(nodes) == 0 {
		return nil
	}
	n := nodes[0]
	first := n.Short[0]
	out := check.Finding{Fit: true}
	out.Message = fmt.Sprintf("node %s has %d %s free, and %s short by %s", n.Name, max(ask, podspec.Amount(device, place.FreeOn(c.Facts, n.Node)[corev1.ResourceName(device)])), device, first.Resource, why.Quantity(first.Resource, first.By))
	if len(nodes) > 1 {
		out.Message = fmt.Sprintf("%s %s enough %s free and too little of something else: %s, which is nearest, is short of %s by %s", wording.Number(len(nodes), "node"), wording.InNumber(len(nodes), "has", "have"), device, n.Name, first.Resource, why.Quantity(first.Resource, first.By))
	}
	if len(n.Short) == 1 && first.Resource == string(corev1.ResourcePods) {
		out.Owner = check.Platform
		out.Message = fmt.Sprintf("node %s has GPUs free, and as many pods as it may have: %s", n.Name, n.Status.Allocatable.Pods().String())
		out.Advice = "Move pods that need no GPUs off the node, or have its kubelet take more pods (maxPods)."
	}
	for _, s := range n.Short {
		out.Evidence = append(out.Evidence, facts.Evidence{Object: "node/" + n.Name, Field: fmt.Sprintf("status.allocatable[%q], less what its pods request", s.Resource), Value: why.Quantity(s.Resource, podspec.Requested(c.Pod, s.Resource)-s.By)})
	}
	place.ToldRewritten(c, &out, first.Resource)
	for _, n := range nodes[:min(len(nodes), 3)] {
		if e, ok := place.AsksLess(c, leftOn(c, n)); ok {
			e.Cost = edit.CostSmall
			out.Edits = append(out.Edits, e)
			break
		}
	}
	if e, ok := place.Moves(c, nodes, func(p *corev1.Pod) bool { return podspec.Requested(p, device) == 0 }); ok {
		out.Edits = append(out.Edits, e)
	}
	if e, ok := place.Evicts(c, nodes, 1); ok {
		out.Edits = append(out.Edits, e)
	}
	out.Edits = append(out.Edits, place.Elsewhere(c, c.Fit)...)
	return []check.Finding{out}
}

// leftOn is what the pod may ask for on the node of what is short there, in round numbers.
func leftOn(c *check.Case, n *check.NodeFit) map[string]int64 {
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
func strandedAsSaid(c *check.Case) []check.Finding {
	s, ok := place.SaidOf(c)
	device, _ := podspec.Device(c.Pod)
	if !ok || c.State != facts.Pending || device == "" || !s.Strands(device) || s.Evicting.Known && s.Evicting.Nobody == 0 && place.TellsSize(c.Facts) {
		return nil
	}
	for _, name := range s.Lacks() {
		if name != device && s.Short(name) > s.Short(device) {
			return []check.Finding{{
				Message:  fmt.Sprintf("%s %s short of %s and not of %s; the pod asks for %s %s", wording.Number(s.Short(name)-s.Short(device), "node"), wording.InNumber(s.Short(name)-s.Short(device), "is", "are"), name, device, why.Quantity(name, podspec.Requested(c.Pod, name)), name),
				Evidence: place.SaidEvidence(c),
				Blind:    podspec.Extended(corev1.ResourceName(name)), // of a device, the words do not tell whether others have it or its plugin is gone
			}}
		}
	}
	return nil
}
