package diagnose

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/engine/why"
)

var clusterFullCheck = Check{
	Cause: why.ClusterFull, Layer: L3, Owner: Scheduler, Stage: Place, Rank: 80,
	Title:   "Every node that matches is full",
	Meaning: "Nodes of the right kind exist and work, and other pods hold what is asked for.",
	Remedy:  "Wait until other work ends, ask for less, or add nodes.",
	Not:     "The request is too large: it would fit on an empty node.",
	Find:    clusterFull,
}

func clusterFull(c *Case) []Finding {
	if c.Fit == nil {
		return fullAsSaid(c)
	}
	cause, reach := c.roomCause()
	if cause != why.ClusterFull {
		return nil
	}
	f := c.Fit
	nodes := shortest(c.Pod, reach)
	out := Finding{Fit: true, Message: fullMessage(c, f, nodes)}
	for _, n := range nodes[:min(len(nodes), 3)] {
		out.Evidence = append(out.Evidence, c.freeEvidence(n)...)
	}
	if e, until, because, ok := c.waits(nodes, f.lack()); ok {
		out.Edits, out.Until, out.Because = append(out.Edits, e), until, because
	}
	out.Edits = append(out.Edits, c.elsewhere(f)...)
	if device, ask := podspec.Device(c.Pod); device != "" && len(nodes) > 0 {
		if left := ask - nodes[0].shortOf(device); left*2 >= ask && len(nodes[0].Short) == 1 {
			if e, ok := c.asksLess(map[string]int64{device: left}); ok {
				out.Edits = append(out.Edits, e)
			}
		}
	}
	if e, ok := c.evicts(nodes, f.lack()); ok {
		out.Edits = append(out.Edits, e)
	}
	device, _ := podspec.Device(c.Pod)
	if len(nodes) > 0 && !c.newNodeWouldSuit() && gpustack.WillAdvertise(c.Facts, nodes[0].Node, device) { // else why none is made is for others to say
		out.Edits = append(out.Edits, c.addsNodes(nodes[0].Node, nodesFor(c, f, nodes[0])))
	}
	return []Finding{out}
}

// freeEvidence is what the node has too little free of; where one pod more would fit, what it has of the device.
func (c *Case) freeEvidence(n *NodeFit) []facts.Evidence {
	short := n.Short[:min(len(n.Short), 2)]
	if device, _ := podspec.Device(c.Pod); len(short) == 0 && device != "" {
		short = []why.Short{{Resource: device}}
	}
	var out []facts.Evidence
	for _, s := range short {
		out = append(out, facts.Evidence{
			Object: "node/" + n.Name, Field: fmt.Sprintf("status.allocatable[%q], less what its pods request", s.Resource),
			Value: why.Quantity(s.Resource, c.leftOn(n, s.Resource)),
		})
	}
	return out
}

// leftOn is how much of the resource the node has free.
func (c *Case) leftOn(n *NodeFit, resource string) int64 {
	if by := n.shortOf(resource); by > 0 {
		return podspec.Requested(c.Pod, resource) - by
	}
	return podspec.Amount(resource, freeOn(c.Facts, n.Node)[corev1.ResourceName(resource)])
}

// nodesFor is how many nodes more hold all pods that lack a place.
func nodesFor(c *Case, f *Fit, n *NodeFit) int {
	pods := max(f.lack(), c.Like)
	return (pods + int(n.Empty) - 1) / int(n.Empty)
}

func fullMessage(c *Case, f *Fit, nodes []*NodeFit) string {
	device, ask := podspec.Device(c.Pod)
	pods := 0
	var all, free int64
	for _, n := range nodes {
		pods += len(c.PodsOn(n.Name))
		all += podspec.Amount(device, n.Status.Allocatable[corev1.ResourceName(device)])
		free += max(0, c.leftOn(n, device))
	}
	match := fmt.Sprintf("the %d nodes that match", len(nodes))
	if len(nodes) == 1 {
		match = "node " + nodes[0].Name + ", the only one that matches,"
	}
	who, rest := "the pod asks for", ""
	switch need, lack := f.need(), f.lack(); {
	case need > lack:
		who, rest = fmt.Sprintf("each of %d pods that start together asks for", need), fmt.Sprintf(": not enough for %d of them", lack)
	case lack > 1:
		who = fmt.Sprintf("%d pods find no place, and each asks for", lack)
	}
	if device == "" {
		return fmt.Sprintf("%s %s, and the %s on %s %s too little%s", who, askText(c.Pod), wording.Number(pods, "pod"), match, wording.InNumber(pods, "leaves", "leave"), rest)
	}
	return fmt.Sprintf("%s %d %s, and of %d on %s %d %s free%s", who, ask, device, all, match, free, wording.InNumber(free, "is", "are"), rest)
}

// fullAsSaid goes by the scheduler's words where nodes cannot be seen.
func fullAsSaid(c *Case) []Finding {
	s, ok := c.Said()
	if !ok {
		return c.berthSaid(why.ClusterFull)
	}
	if c.State != facts.Pending || s.Evicting.Known && s.Evicting.Nobody == 0 || len(s.Lacks()) == 0 {
		return nil
	}
	device, ask := podspec.Device(c.Pod)
	if device == "" {
		device = s.Lacks()[0]
		ask = podspec.Requested(c.Pod, device)
	}
	if s.Short(device) == 0 || s.strands(device) {
		return nil
	}
	out := Finding{
		Message:  fmt.Sprintf("the pod asks for %s %s, and %d of %s %s too little free", why.Quantity(device, ask), device, s.Short(device), wording.Number(s.Nodes, "node"), wording.InNumber(s.Short(device), "has", "have")),
		Evidence: c.saidEvidence(),
	}
	if tellsSize(c.Facts) && s.Evicting.Known {
		out.Message = fmt.Sprintf("the pod asks for %s %s, and the %s large enough %s too little free", why.Quantity(device, ask), device, wording.Number(s.Evicting.Nobody, "node")+wording.InNumber(s.Evicting.Nobody, " that is", " that are"), wording.InNumber(s.Evicting.Nobody, "has", "have"))
	} else {
		out.Advice = "Wait, ask for less, or ask somebody who may see nodes whether one is that large: the scheduler's words do not tell."
	}
	return []Finding{out}
}
