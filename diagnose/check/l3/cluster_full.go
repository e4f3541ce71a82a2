package l3

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/internal/queue"
	"github.com/berth-dev/berth/diagnose/internal/supply"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/engine/why"
)

var clusterFullCheck = check.Check{
	Cause: why.ClusterFull, Layer: check.L3, Owner: check.Scheduler, Stage: check.Place, Rank: 80,
	Title:   "Every node that matches is full",
	Meaning: "Nodes of the right kind exist and work, and other pods hold what is asked for.",
	Remedy:  "Wait until other work ends, ask for less, or add nodes.",
	Not:     "The request is too large: it would fit on an empty node.",
	Find:    clusterFull,
}

func clusterFull(c *check.Case) []check.Finding {
	if c.Fit == nil {
		return fullAsSaid(c)
	}
	cause, reach := place.RoomCause(c)
	if cause != why.ClusterFull {
		return nil
	}
	f := c.Fit
	nodes := place.Shortest(c.Pod, reach)
	if place.AskText(c.Pod) == "" && place.PartText(c.Pod) == "" && !slices.ContainsFunc(nodes, func(n *check.NodeFit) bool { return len(n.Short) > 0 }) {
		return nil // it asks for devices of claims alone, and who has those is said of the claims
	}
	out := check.Finding{Fit: true, Message: fullMessage(c, f, nodes)}
	// Where nodes are made as work asks for them, why none is made is the cause, and who makes them says so in events.
	out.Blind = !c.Sees("events", c.Pod.Namespace) && (supply.Autoscaled(c) || len(c.AutoscalerStatus()) > 0)
	if p := c.Pod.Spec.PreemptionPolicy; p != nil && *p == corev1.PreemptNever {
		out.Message += "; nothing is evicted for it, as its preemptionPolicy is Never"
		out.Evidence = append(out.Evidence, facts.Evidence{Object: facts.RefTo(c.Pod).In(), Field: "spec.preemptionPolicy", Value: string(corev1.PreemptNever)})
	}
	if s := sparedFor(f); s != (why.Share{}) {
		out.Message += "; " + s.Text()
		out.Evidence = append(out.Evidence, facts.Evidence{Object: "berthqueue/" + s.Queue, Field: "fair share of " + s.Resource, Value: why.Gate{Resource: s.Resource, Milli: s.Milli}.Quantity(s.Fair)})
		out.Advice = "Wait until other work ends or other queues ask for less, give the queue a larger quota or weight, or add nodes: a higher priority does not help."
	}
	for _, n := range nodes[:min(len(nodes), 3)] {
		out.Evidence = append(out.Evidence, freeEvidence(c, n)...)
	}
	r := rolloutOf(c, nodes)
	lacking := max(f.PodsLacking(), r.lacks(c))
	if e, until, because, ok := place.Waits(c, nodes, lacking); ok {
		out.Edits, out.Until, out.Because = append(out.Edits, e), until, because
	}
	out.Edits = append(out.Edits, place.Elsewhere(c, f)...)
	if device, ask := podspec.Device(c.Pod); device != "" && len(nodes) > 0 {
		if left := ask - nodes[0].ShortOf(device); left*2 >= ask && len(nodes[0].Short) == 1 {
			if e, ok := place.AsksLess(c, map[string]int64{device: left}); ok {
				out.Edits = append(out.Edits, e)
			}
		}
	}
	out.Edits = append(out.Edits, place.DivideAnew(c, gpustack.GPURequest(c.Pod, gpustack.WholeGPU), gpustack.MIGRequest(c.Pod), place.Attracted(c, f))...)
	out.Edits = append(out.Edits, idleHolders(c, nodes, &out)...)
	if e, ok := place.Evicts(c, nodes, lacking); ok {
		out.Edits = append(out.Edits, e)
	}
	device, _ := podspec.Device(c.Pod)
	if len(nodes) > 0 && !supply.NewNodeWouldSuit(c) && !supply.AutoscalerGaveUp(c) && gpustack.WillAdvertise(c.Facts, nodes[0].Node, device) { // else why none is made is for others to say
		out.Edits = append(out.Edits, place.AddsNodes(c, nodes[0].Node, nodesFor(c, lacking, nodes[0])))
	}
	if r != nil {
		r.told(c, &out, "room")
	}
	if place.ByDaemonSet(c.Pod) {
		out.Advice = "Give its pods a priority class with which they may evict others, or have other pods of the node ask for less: such a pod has one node alone."
	}
	return []check.Finding{out}
}

// idleHolders tells of pods on the nodes whose program has ended well and which another container keeps there, with what they hold, and has
// them complete.
func idleHolders(c *check.Case, nodes []*check.NodeFit, f *check.Finding) (out []edit.Edit) {
	device, _ := podspec.Device(c.Pod)
	if device == "" {
		return nil
	}
	for _, n := range nodes {
		for _, p := range c.PodsOn(n.Name) {
			held := podspec.TotalRequests(p)[corev1.ResourceName(device)]
			if held.IsZero() || p.DeletionTimestamp != nil {
				continue
			}
			program, other := life.Lingering(&check.Case{Facts: c.Facts, Now: c.Now, Pod: p, State: facts.StateOf(p)})
			if other == nil {
				continue
			}
			at := program.Status.State.Terminated.FinishedAt.Time
			who := fmt.Sprintf("pod %s of namespace %s", p.Name, p.Namespace)
			if len(out) == 0 {
				f.Message += fmt.Sprintf("; %s holds %s of them, and its program has ended %s ago", who, &held, wording.Minutes(c.Now.Sub(at)))
			}
			f.Evidence = append(f.Evidence, program.Said(p, "terminated, exit code 0, at "+at.UTC().Format(time.RFC3339)))
			done := p.DeepCopy()
			done.Status.Phase = corev1.PodSucceeded
			out = append(out, edit.Edit{Side: edit.Cluster, Cost: edit.CostConsent, Set: []facts.Object{done},
				Text:    fmt.Sprintf("have container %s of %s end, whose program has ended: it keeps the pod from completing", other.Name, who),
				Assumes: fmt.Sprintf("the owner of %s agrees", who)})
		}
	}
	return out
}

// sparedFor is the fair share for whose sake the scheduler evicts nothing for the pod, where it has found victims; the zero value where
// that is not why.
func sparedFor(f *check.Fit) why.Share {
	for _, g := range f.Gates {
		if g.Share != (why.Share{}) {
			return g.Share
		}
	}
	return why.Share{}
}

// nodesFor is how many nodes more hold all pods that lack a place.
func nodesFor(c *check.Case, lacking int, n *check.NodeFit) int {
	pods := max(lacking, c.Like)
	return (pods + int(n.Empty) - 1) / int(n.Empty)
}

func fullMessage(c *check.Case, f *check.Fit, nodes []*check.NodeFit) string {
	device, ask := podspec.Device(c.Pod)
	pods := 0
	var all, free int64
	for _, n := range nodes {
		pods += len(c.PodsOn(n.Name))
		all += podspec.Amount(device, n.Status.Allocatable[corev1.ResourceName(device)])
		free += max(0, leftFor(c, n, device))
	}
	match := fmt.Sprintf("the %d nodes that match", len(nodes))
	if len(nodes) == 1 {
		match = "node " + nodes[0].Name + ", the only one that matches,"
	}
	who, rest := "the pod asks for", ""
	switch need, lack := f.PodsNeeded(), f.PodsLacking(); {
	case need > lack:
		who, rest = fmt.Sprintf("each of %d pods that start together asks for", need), fmt.Sprintf(": not enough for %d of them", lack)
	case lack > 1:
		who = fmt.Sprintf("%d pods find no place, and each asks for", lack)
	}
	if part := place.PartText(c.Pod); part != "" && len(nodes) > 0 && !slices.ContainsFunc(nodes, func(n *check.NodeFit) bool { return len(n.Short) > 0 }) {
		return fmt.Sprintf("%s %s, and no GPU on %s has so much left%s", who, part, match, rest)
	}
	if device == "" {
		return fmt.Sprintf("%s %s, and the %s on %s %s too little%s", who, place.AskText(c.Pod), wording.Number(pods, "pod"), match, wording.InNumber(pods, "leaves", "leave"), rest)
	}
	return fmt.Sprintf("%s %d %s, and of %d on %s %d %s free%s", who, ask, device, all, match, free, wording.InNumber(free, "is", "are"), rest)
}

// fullAsSaid goes by the scheduler's words where nodes cannot be seen.
func fullAsSaid(c *check.Case) []check.Finding {
	s, ok := place.SaidOf(c)
	if !ok {
		return queue.BerthSaid(c, why.ClusterFull)
	}
	if c.State != facts.Pending || s.Evicting.Known && s.Evicting.Nobody == 0 || len(s.Lacks()) == 0 {
		return nil
	}
	device, ask := podspec.Device(c.Pod)
	if device == "" {
		device = s.Lacks()[0]
		ask = podspec.Requested(c.Pod, device)
	}
	if s.Short(device) == 0 || s.Strands(device) {
		return nil
	}
	out := check.Finding{
		Message:  fmt.Sprintf("the pod asks for %s %s, and %d of %s %s too little free", why.Quantity(device, ask), device, s.Short(device), wording.Number(s.Nodes, "node"), wording.InNumber(s.Short(device), "has", "have")),
		Evidence: place.SaidEvidence(c),
	}
	if place.TellsSize(c.Facts) && s.Evicting.Known {
		out.Message = fmt.Sprintf("the pod asks for %s %s, and the %s large enough %s too little free", why.Quantity(device, ask), device, wording.Number(s.Evicting.Nobody, "node")+wording.InNumber(s.Evicting.Nobody, " that is", " that are"), wording.InNumber(s.Evicting.Nobody, "has", "have"))
	} else {
		out.Advice = "Wait, ask for less, or ask somebody who may see nodes whether one is that large: the scheduler's words do not tell."
	}
	return []check.Finding{out}
}
