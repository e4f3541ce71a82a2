package l3

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/internal/queue"
	"github.com/berth-dev/berth/diagnose/internal/supply"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/convert"
)

var largerThanAnyNodeCheck = check.Check{
	Cause: why.LargerThanAnyNode, Layer: check.L3, Owner: check.User, Stage: check.Place, Rank: 14,
	Title:   "One pod asks for more than a whole node has",
	Meaning: "Even an empty node of the right kind is too small for one pod. Waiting will not help, and nor will evicting others.",
	Remedy:  "Ask for less per pod and run more pods, or ask for larger nodes.",
	Not:     "The cluster is full.",
	Find:    largerThanAnyNode,
}

func largerThanAnyNode(c *check.Case) []check.Finding {
	if supply.NewNodeWouldSuit(c) {
		return nil
	}
	if c.Fit == nil {
		return largerAsSaid(c)
	}
	if f := moreDevices(c); f != nil {
		return []check.Finding{*f}
	}
	cause, nodes := place.RoomCause(c)
	if cause != why.LargerThanAnyNode || len(nodes) == 0 {
		return nil
	}
	var out []check.Finding
	for _, name := range tooMuch(c, nodes) {
		ask, most, at := podspec.Requested(c.Pod, name), int64(0), ""
		for _, n := range nodes {
			if v := place.CouldHave(n.Node, name); v > most {
				most, at = v, n.Name
			}
		}
		f := check.Finding{Fit: true, Message: fmt.Sprintf("one pod asks for %s %s, and no node has any", why.Quantity(name, ask), name)}
		if at != "" {
			f.Message = fmt.Sprintf("one pod asks for %s %s, and the largest node that it may have, %s, has %s", why.Quantity(name, ask), name, at, why.Quantity(name, most))
			f.Evidence = []facts.Evidence{{Object: "node/" + at, Field: fmt.Sprintf("status.allocatable[%q]", name), Value: why.Quantity(name, most)}}
			f.Edits = smaller(c, name, ask, most)
		}
		if asks := asksOf(c, corev1.ResourceName(name)); len(asks) > 1 {
			f.Evidence = append(f.Evidence, asks...)
		}
		if extra, ok := c.Pod.Spec.Overhead[corev1.ResourceName(name)]; ok && !extra.IsZero() {
			f.Message += fmt.Sprintf("; %s of that is the overhead of its runtime class", &extra)
			f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(c.Pod).In(), Field: fmt.Sprintf("spec.overhead[%q]", name), Value: extra.String()})
		}
		place.ToldRewritten(c, &f, name)
		if l := place.GivenBy(c, name); l != nil {
			f.Owner = check.Policy
			f.Message += fmt.Sprintf("; the pod does not say how much it wants, and LimitRange %s gives it that", l.Name)
			f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(l).In(), Field: "spec.limits", Value: fmt.Sprintf("default %s", name)})
			f.Advice = fmt.Sprintf("State a request for %s in the pod, or lower the default of LimitRange %s.", name, l.Name)
		}
		if len(c.AutoscalerStatus()) > 0 || supply.Autoscaled(c) {
			f.Probe = edit.Nothing("a larger node may come") // why it does not is for others to say
		}
		out = append(out, f)
	}
	if len(out) == 0 && notBroken(c, nodes) && !nowhere(c) && !slices.ContainsFunc(facts.ExtendedOf(c.Pod), func(device string) bool { return place.Gap(c, device) }) {
		out = append(out, largerThanAnyCard(c, nodes))
	}
	return out
}

// asksOf shows what each container asks for of the resource.
func asksOf(c *check.Case, name corev1.ResourceName) (out []facts.Evidence) {
	for _, at := range life.ContainersOf(c.Pod) {
		if q := at.Resources.Requests[name]; !q.IsZero() {
			out = append(out, facts.Evidence{Object: facts.RefTo(c.Pod).In(), Field: fmt.Sprintf("requests[%q] of %s", name, at.Noun()), Value: q.String()})
		}
	}
	return out
}

// moreDevices is about claims that ask for more devices than any node has.
func moreDevices(c *check.Case) *check.Finding {
	if place.Stuck(c) == nil || len(c.Pod.Spec.ResourceClaims) == 0 {
		return nil
	}
	d, asks := place.OffersOf(c.Facts), place.OpenAsks(c.Facts, place.ClaimsOf(c.Facts, c.Pod))
	ask, most, at := d.TooMany(asks)
	if ask == nil {
		return nil
	}
	f := &check.Finding{
		Fit: true, Message: fmt.Sprintf("claim %s asks for %d devices of class %s, and node %s, which has most of them, has %d", ask.Claim.Name, ask.Count, ask.Class, at, most),
		Evidence: []facts.Evidence{ask.Evidence(".count", fmt.Sprint(ask.Count))},
		Edits:    place.Fewer(c, ask, most, at),
	}
	if any := d.Alternatives(asks, ask); any != nil {
		f.Message, f.Evidence, f.Edits = any.Text, any.Evidence(), any.Edits(c, d)
	}
	return f
}

// largerThanAnyCard names the largest card for a pod that asks for more of its memory. Else no single resource is too much.
func largerThanAnyCard(c *check.Case, nodes []*check.NodeFit) check.Finding {
	most, at := int64(0), ""
	for _, n := range nodes {
		for _, d := range convert.Node(n.Node, convert.Options{}).Devices {
			if d.Parts > 0 && d.Memory > most {
				most, at = d.Memory, n.Name
			}
		}
	}
	if part := convert.PartOf(c.Pod); part != nil && part.Memory > most && most > 0 {
		return check.Finding{Fit: true, Message: fmt.Sprintf("one pod asks for %s, and the largest card that it may have, on node %s, has %d MiB", place.PartText(c.Pod), at, most)}
	}
	return check.Finding{Fit: true, Message: "no node has everything that one pod asks for, even when empty: " + place.AskText(c.Pod)}
}

// nowhere says whether the pod asks for a resource of which no node has any.
func nowhere(c *check.Case) bool {
	return slices.ContainsFunc(podspec.Names(podspec.TotalRequests(c.Pod)), func(name corev1.ResourceName) bool { return place.Nowhere(c, string(name)) })
}

// tooMuch are the resources of which the pod asks for more than any of the nodes could have.
func tooMuch(c *check.Case, nodes []*check.NodeFit) []string {
	var out []string
	requests := podspec.TotalRequests(c.Pod)
	for _, name := range podspec.Names(requests) {
		ask := podspec.Amount(string(name), requests[name])
		fits := ask == 0 || place.Gap(c, string(name)) || place.Nowhere(c, string(name)) // not its size, but what nodes advertise, is the matter
		for _, n := range nodes {
			fits = fits || place.CouldHave(n.Node, string(name)) >= ask
		}
		if !fits {
			out = append(out, string(name))
		}
	}
	return out
}

// notBroken says whether the nodes have what they should have: else it is not their size that is wrong.
func notBroken(c *check.Case, nodes []*check.NodeFit) bool {
	device, _ := podspec.Device(c.Pod)
	for _, n := range nodes {
		if device != "" && place.CouldHave(n.Node, device) > podspec.Amount(device, n.Status.Allocatable[corev1.ResourceName(device)]) {
			return false
		}
	}
	return true
}

// smaller are ways to ask for no more than the largest node has.
func smaller(c *check.Case, name string, ask, most int64) []edit.Edit {
	var out []edit.Edit
	if podspec.Extended(corev1.ResourceName(name)) {
		if e, ok := place.Splits(c, name, ask, most); ok {
			out = append(out, e)
		}
	}
	if e, ok := place.AsksLess(c, map[string]int64{name: most}); ok && podspec.Extended(corev1.ResourceName(name)) {
		out = append(out, e)
	} else if ok, e := fitsEmpty(c, name, most); ok {
		out = append(out, e)
	}
	return out
}

// fitsEmpty asks for nine tenths of the largest node: what runs on every node needs some of it.
func fitsEmpty(c *check.Case, name string, most int64) (bool, edit.Edit) {
	part := most / 10 * 9
	if name == string(corev1.ResourceCPU) && part > 1000 {
		part -= part % 1000
	}
	if name == string(corev1.ResourceMemory) && part > 1<<30 {
		part -= part % (1 << 30)
	}
	e, ok := place.AsksLess(c, map[string]int64{name: part})
	return ok, e
}

// largerAsSaid goes by the scheduler's words: from 1.34 on it tells a node that is too small from one that is full.
func largerAsSaid(c *check.Case) []check.Finding {
	s, ok := place.SaidOf(c)
	if !ok {
		if place.SaidOfNone(c) {
			return nil
		}
		return queue.BerthSaid(c, why.LargerThanAnyNode)
	}
	if c.State != facts.Pending || !place.TellsSize(c.Facts) || !s.Evicting.Known || s.Evicting.Nobody > 0 || len(s.Lacks()) == 0 {
		return nil
	}
	device, ask := podspec.Device(c.Pod)
	if device != "" && s.Short(device) == 0 {
		return nil
	}
	for _, name := range facts.ExtendedOf(c.Pod) {
		if podspec.Requested(c.Pod, name) == 1 && s.Short(name) == s.Nodes {
			return nil // a node that cannot have one has none
		}
	}
	name := device
	if name == "" {
		name, ask = s.Lacks()[0], podspec.Requested(c.Pod, s.Lacks()[0])
	}
	return []check.Finding{{
		Message:  fmt.Sprintf("one pod asks for %s %s, and on %s with too little the scheduler found that it would not fit even if empty", why.Quantity(name, ask), name, wording.InNumber(s.Short(name), "the 1 node", fmt.Sprintf("each of the %d nodes", s.Short(name)))),
		Evidence: place.SaidEvidence(c),
	}}
}
