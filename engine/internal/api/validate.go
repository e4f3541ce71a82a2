package api

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Each check returns why the object makes no sense by itself, "" when it does.

func (n *Node) Check() string {
	if n.Name == "" {
		return "a node without a name"
	}
	if reason := n.Allocatable.Check(); reason != "" {
		return "allocatable: " + reason
	}
	if !n.Packing.known() {
		return n.Packing.unknown()
	}
	for i, d := range n.Devices {
		if d.ID == "" {
			return "a device without an id"
		}
		if slices.ContainsFunc(n.Devices[:i], func(o Device) bool { return o.ID == d.ID }) {
			return fmt.Sprintf("device %s is listed twice", d.ID)
		}
		if d.NUMA < -1 {
			return fmt.Sprintf("device %s is on NUMA node %d: want a number from 0, or -1 where it is not known", d.ID, d.NUMA)
		}
		if d.Memory < 0 || d.Memory > MaxCardMemory || d.Parts < 0 || d.Parts > 0 && d.Memory == 0 {
			return fmt.Sprintf("device %s has %d MiB and %d parts: want a memory of at most %d MiB, known where there are parts", d.ID, d.Memory, d.Parts, int64(MaxCardMemory))
		}
	}
	for i, im := range n.Images {
		if im.Name == "" || im.Bytes < 0 || im.Bytes > MaxAmount {
			return fmt.Sprintf("image %q of %d bytes", im.Name, im.Bytes)
		}
		if i > 0 && n.Images[i-1].Name >= im.Name {
			return fmt.Sprintf("image %q: images are sorted by name, each once", im.Name)
		}
	}
	if reason := n.checkSlices(); reason != "" {
		return reason
	}
	return n.checkOffers()
}

func (p *Pod) Check() string {
	if p.Key == "" {
		return "a pod without a key"
	}
	if reason := p.Terms.Check(); reason != "" {
		return reason
	}
	return p.Spec.Check()
}

func (s *Spec) Check() string {
	if reason := s.Requests.Check(); reason != "" {
		return "requests: " + reason
	}
	if s.Requests.Get(Pods) != 0 {
		return "requests: pods is not asked for; every pod takes one"
	}
	for i := range s.Affinity {
		if err := s.Affinity[i].Check(); err != nil {
			return "affinity: " + err.Error()
		}
	}
	for i := range s.Preferred { // in place: a pod is checked with every change of it
		p := &s.Preferred[i]
		if p.Weight < 0 || p.Weight > 100 {
			return fmt.Sprintf("preferred: weight %d is not in 0 to 100", p.Weight)
		}
		if err := p.Term.Check(); err != nil {
			return "preferred: " + err.Error()
		}
	}
	for i := range s.Tolerations {
		if err := s.Tolerations[i].Check(); err != nil {
			return "tolerations: " + err.Error()
		}
	}
	for _, p := range s.Ports {
		if err := p.Check(); err != nil {
			return "ports: " + err.Error()
		}
	}
	if reason := s.checkBetween(); reason != "" {
		return reason
	}
	if reason := s.Claims.check(); reason != "" {
		return reason
	}
	if s.Claimed < 0 || s.Claimed > MaxClaimDevices*Whole {
		return fmt.Sprintf("claimed: %d thousandths of a GPU: want 0 to %d", s.Claimed, MaxClaimDevices*Whole)
	}
	if reason := s.Part.check(&s.GPU); reason != "" {
		return reason
	}
	return s.GPU.check()
}

// checkBetween is about the rules between pods.
func (s *Spec) checkBetween() string {
	for _, t := range s.Rules().PodAffinity {
		if err := t.Check(); err != nil {
			return "podAffinity: " + err.Error()
		}
	}
	for _, t := range s.Rules().PodAntiAffinity {
		if err := t.Check(); err != nil {
			return "podAntiAffinity: " + err.Error()
		}
	}
	for _, p := range s.Rules().PodPreferred {
		if err := p.Check(); err != nil {
			return "podPreferred: " + err.Error()
		}
	}
	for _, c := range s.Rules().Spread {
		if err := c.Check(); err != nil {
			return "spread: " + err.Error()
		}
	}
	return ""
}

func (g GPU) check() string {
	for _, w := range []Wish{g.Clique, g.NUMA} {
		if w != "" && w != Prefer && w != Require {
			return fmt.Sprintf("gpu: unknown wish %q: want prefer or require", w)
		}
	}
	for _, m := range g.Models {
		if m == "" {
			return "gpu: a model without a name"
		}
	}
	return ""
}

func (q *Queue) Check() string {
	if q.Name == "" {
		return "a queue without a name"
	}
	for _, part := range []struct {
		name    string
		amounts Resources
	}{{"quota", q.Quota}, {"limits", q.Limits}, {"lend", q.Lend}, {"userLimits", q.UserLimits}} {
		if reason := part.amounts.checkParts(); reason != "" {
			return part.name + ": " + reason
		}
	}
	for _, limit := range q.Limits {
		for _, a := range q.Quota {
			if a.Resource == limit.Resource && (a.Value > limit.Value || a.Value == limit.Value && a.Milli > limit.Milli) {
				return fmt.Sprintf("quota: %s of %s is above the limit of %s", NumberOf(a), limit.Resource, NumberOf(limit))
			}
		}
	}
	switch {
	case q.Weight < 0 || q.Weight > maxWeight:
		return fmt.Sprintf("weight: %d is not in 1 to %d", q.Weight, maxWeight)
	case q.MaxRunning < 0:
		return fmt.Sprintf("maxRunning: %d is negative", q.MaxRunning)
	case !q.Packing.known():
		return q.Packing.unknown()
	case q.Stop != "" && q.Stop != StopHold && q.Stop != StopDrain:
		return fmt.Sprintf("stop: unknown policy %q: want hold or drain", string(q.Stop))
	case !q.PartsBy.known():
		return fmt.Sprintf("partsBy: unknown measure %q: want larger, compute or memory", string(q.PartsBy))
	case min(q.MinRun, q.Warning, q.PromoteAfter, q.ReclaimIdle) < 0:
		return "a time is negative"
	}
	for _, b := range q.Budgets {
		if b.Resource == "" || b.Seconds < 0 || b.Period < time.Second {
			return fmt.Sprintf("budgets: %d seconds of %q in %s: want a resource, no negative amount and a period of a second or more", b.Seconds, b.Resource, b.Period)
		}
	}
	return q.checkFlavors()
}

func (d *Disruption) Check() string {
	if d.Key == "" {
		return "a disruption budget without a key"
	}
	return ""
}

func (b *Booking) Check() string {
	switch {
	case b.Name == "":
		return "a booking without a name"
	case !b.From.Before(b.To) && !b.Leaves():
		return "to: it ends before it begins"
	}
	return ""
}

func (e *Eviction) Check() string {
	if e.Pod == "" {
		return "an eviction without a pod"
	}
	return ""
}

func (p *Promise) Check() string {
	if p.Gang == "" {
		return "a promise to nobody"
	}
	return ""
}

func (u *QueueUsage) Check() string {
	if u.Queue == "" {
		return "usage of no queue"
	}
	if u.Decayed < 0 || u.Total < 0 {
		return "usage is negative"
	}
	for i, v := range u.Users {
		if v.Decayed < 0 {
			return "usage is negative"
		}
		if i > 0 && u.Users[i-1].User >= v.User {
			return "its users are not in order"
		}
	}
	return ""
}

func (l *RunTimeEstimate) Check() string {
	if l.Like == "" {
		return "a run-time estimate about nothing"
	}
	if l.Short < 0 || l.Median < l.Short || l.Long < l.Median {
		return "its run times are not in order"
	}
	return ""
}

func (l *Degradation) Check() string {
	if l.Gang == "" {
		return "a degradation of no gang"
	}
	return ""
}

func (t *Terms) Check() string {
	if min(t.Expected, t.Max, t.Checkpoint, t.Restart, t.Grace, t.Delay) < 0 {
		return "terms: a time is negative"
	}
	return ""
}

func (g *Gang) Check() string {
	if g.Key == "" {
		return "a gang without a key"
	}
	//mutate: gang-invalid-by-its-author
	if g.Invalid != "" {
		return g.Invalid
	}
	if reason := g.Terms.Check(); reason != "" {
		return reason
	}
	if g.Name != "" || g.Parent != "" {
		return "the gang's own group has a name or a parent"
	}
	if len(g.Groups) > 0 && (g.Min != 0 || g.Size != 0) {
		return "a gang with groups has a minimum or a size of its own; those are the groups'"
	}
	if reason := g.Group.check(); reason != "" {
		return reason
	}
	return checkTree(g)
}

func (g *Group) check() string {
	switch {
	case g.Min < 0 || g.Size < 0 || g.MinGroups < 0:
		return g.say("a minimum or size is negative")
	case g.Size > 0 && g.Min > g.Size:
		return g.say(fmt.Sprintf("the minimum (%d) is above the size (%d)", g.Min, g.Size))
	case g.Layout.Segment < 0:
		return g.say("the segment is negative")
	case g.Each && g.Layout.Segment > 0:
		return g.say("each member is wanted: that does not go with segments")
	case (g.Layout.Segment > 0) != (g.Layout.SegmentLevel != ""):
		return g.say("a segment needs both a size and a level")
	case g.Layout.Balanced && g.Layout.Preferred == "":
		return g.say("balanced needs a preferred level")
	case g.Layout.Spread != "" && (g.Layout.Preferred != "" || g.Layout.Segment > 0):
		return g.say("spread goes neither with a preferred level nor with segments")
	}
	return ""
}

func (g *Group) say(reason string) string {
	if g.Name == "" {
		return reason
	}
	return fmt.Sprintf("group %s: %s", g.Name, reason)
}

// checkTree makes sure that the groups form a tree below the gang, and that what only makes sense for
// leaves, or only above them, is there alone.
func checkTree(g *Gang) string {
	byName := make(map[string]*Group, len(g.Groups))
	children := make(map[string]int, len(g.Groups))
	for i := range g.Groups {
		group := &g.Groups[i]
		if group.Name == "" {
			return "a group without a name"
		}
		if byName[group.Name] != nil {
			return fmt.Sprintf("two groups are named %s", group.Name)
		}
		byName[group.Name] = group
		children[group.Parent]++
		if reason := group.check(); reason != "" {
			return reason
		}
	}
	for i := range g.Groups {
		if reason := checkInTree(&g.Groups[i], byName, children); reason != "" {
			return reason
		}
	}
	if len(g.Groups) > 0 && (g.Layout.Segment > 0 || g.Layout.Spread != "" || g.Layout.Balanced || g.Layout.Preferred != "") {
		return "of a gang with groups only required and wholeNodes hold for all; the rest is for groups with pods"
	}
	return ""
}

func checkInTree(g *Group, byName map[string]*Group, children map[string]int) string {
	seen := []string{g.Name}
	for parent := g.Parent; parent != ""; {
		up := byName[parent]
		if up == nil {
			return g.say("unknown parent " + parent)
		}
		if seen = append(seen, parent); len(seen) > len(byName) {
			return g.say("its parents form a circle: " + strings.Join(seen, ", "))
		}
		parent = up.Parent
	}
	n := children[g.Name]
	if n == 0 && g.MinGroups > 0 {
		return g.say("a minimum of groups, but no groups below it")
	}
	if n > 0 && (g.Min > 0 || g.Size > 0) {
		return g.say("it has groups below it, so members are counted there")
	}
	l := g.Layout
	if n > 0 && (l.Segment > 0 || l.Spread != "" || l.Balanced || l.Preferred != "") {
		return g.say("it has groups below it, so of its layout only required holds")
	}
	if l.WholeNodes {
		return g.say("wholeNodes is for the gang as a whole")
	}
	return ""
}

func (a *Assumption) Check() string {
	if a.Pod == "" || a.Node == "" {
		return "an assumption without a pod or a node"
	}
	return ""
}

func (r *Refusal) Check() string {
	if r.Pod == "" || r.Node == "" {
		return "a refusal without a pod or a node"
	}
	return ""
}

func (h *Hold) Check() string {
	if h.Gang == "" || h.Node == "" {
		return "a hold without a gang or a node"
	}
	if reason := h.Requests.Check(); reason != "" {
		return "requests: " + reason
	}
	if slices.Contains(h.Devices, "") {
		return "a device without an id"
	}
	if h.Claimed < 0 || h.Claimed > MaxGPUs*Whole {
		return fmt.Sprintf("claimed: %d thousandths of a GPU: want 0 to %d", h.Claimed, int64(MaxGPUs*Whole))
	}
	for i := range h.Cards {
		if c := &h.Cards[i]; c.ID == "" {
			return "a card without an id"
		} else if reason := c.Part.check(&GPU{}); reason != "" {
			return reason
		}
	}
	return ""
}
