package l3

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/internal/queue"
	"github.com/berth-dev/berth/diagnose/internal/supply"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/engine/why"
)

var gangUnplaceableCheck = check.Check{
	Cause: "gang-unplaceable", Layer: check.L3, Owner: check.Scheduler, Stage: check.Place, Rank: 69,
	Title:   "Some of the gang fit, but not enough of it at once",
	Meaning: "All members that the gang needs exist, and the cluster has room for some of them now, but not for as many as have to start together.",
	Remedy:  "Wait for room, or make room.",
	Not:     "There is no room at all.",
	Find:    gangUnplaceable,
}

func gangUnplaceable(c *check.Case) []check.Finding {
	g := c.GangGroup(c.Pod)
	if g == nil {
		return foreignGangUnplaceable(c)
	}
	if c.State != facts.Pending || g.Spec.SchedulingPolicy.Gang == nil {
		return nil
	}
	need := int(g.Spec.SchedulingPolicy.Gang.MinCount)
	there, _, _ := c.GangMembers(c.GangOf(c.Pod))
	if len(there) < need {
		return nil
	}
	f := check.Finding{Fit: true}
	fit := c.Fit
	switch said := meta.FindStatusCondition(g.Status.Conditions, schedulingv1beta1.PodGroupInitiallyScheduled); {
	case said != nil && said.Status == metav1.ConditionFalse && said.Reason == schedulingv1beta1.PodGroupReasonUnschedulable:
		f.Message = fmt.Sprintf("PodGroup %s cannot be placed as a whole: %s", g.Name, said.Message)
		f.Evidence = []facts.Evidence{{Object: facts.RefTo(g).In(), Field: "status.conditions[PodGroupInitiallyScheduled]", Value: said.Reason + ": " + said.Message}}
	case fit == nil:
		return nil
	}
	if fit == nil {
		f.Fit = false
		return []check.Finding{f}
	}
	if fit.Placed() || fit.Cause != why.ClusterFull && fit.Cause != why.Fragmented {
		return nil
	}
	running := 0
	for _, p := range there {
		if p.Spec.NodeName != "" {
			running++
		}
	}
	room := int64(running)
	for i := range fit.Nodes {
		room += fit.Nodes[i].Fits
	}
	if room == 0 || room >= int64(need) || len(c.Above(c.Pod)) > 0 {
		return nil
	}
	if f.Message == "" {
		f.Message = fmt.Sprintf("PodGroup %s needs %s at once, and there is room for %d", g.Name, wording.Pods(need), room)
	}
	e := edit.Edit{Side: edit.Workload, Cost: 5, Text: fmt.Sprintf("let PodGroup %s start with %s", g.Name, wording.Pods(int(room))), Assumes: "the work can do with fewer pods"}
	e.Set, e.Command = queue.WithMinCount(c, g, int32(room))
	f.Edits = []edit.Edit{e}
	return []check.Finding{f}
}

// foreignGangUnplaceable is about the groups of other schedulers, of which each pod fits alone and too few do at once. The engine, which is
// asked about the pods, knows nothing of them.
func foreignGangUnplaceable(c *check.Case) []check.Finding {
	group, need, members := queue.ForeignGroup(c)
	if f := wantsTooMuch(c, group, need, members); f != nil {
		return []check.Finding{*f}
	}
	fit := c.Fit
	if group == nil || c.State != facts.Pending || fit == nil || !fit.Placed() || int64(len(members)) < need {
		return nil
	}
	if own := group.GroupVersionKind().Group != "scheduling.x-k8s.io"; own && c.Pod.Spec.SchedulerName == corev1.DefaultSchedulerName {
		return nil // which knows no such groups
	}
	room, waiting, alike := foreignRoom(c, members)
	if room < 0 || int64(room) >= need || waiting == 0 {
		return nil
	}
	r := facts.RefTo(group)
	f := check.Finding{
		Message:  fmt.Sprintf("%s of %s starts with %s at once, and there is room for %d", r, group.GroupVersionKind().Group, wording.Pods(int(need)), room),
		Evidence: []facts.Evidence{{Object: r.In(), Field: "spec.minMember", Value: fmt.Sprint(need)}},
	}
	if !alike { // which of them find one depends on who comes first
		f.Message = fmt.Sprintf("%s of %s starts with %s at once, each of which would find a place alone, and too few do together", r, group.GroupVersionKind().Group, wording.Pods(int(need)))
	}
	for _, k := range facts.ConditionsOf(group) {
		if k.Bad() {
			f.Evidence = append(f.Evidence, facts.Evidence{Object: r.In(), Field: k.Field, Value: cmp.Or(k.Message, k.Reason, k.Status)})
			break
		}
	}
	var nodes []*check.NodeFit
	for i := range fit.Nodes {
		if n := &fit.Nodes[i]; n.Open() && n.Empty > 0 {
			nodes = append(nodes, n)
			if len(nodes) <= 3 {
				f.Evidence = append(f.Evidence, freeEvidence(c, n)...)
			}
		}
	}
	if len(nodes) == 0 {
		return []check.Finding{f}
	}
	lacking := int(need) - room
	if e, until, because, ok := place.Waits(c, nodes, lacking); ok {
		f.Edits, f.Until, f.Because = append(f.Edits, e), until, because
	}
	if e, ok := place.Evicts(c, nodes, lacking); ok {
		f.Edits = append(f.Edits, e)
	}
	if !supply.NewNodeWouldSuit(c) && !supply.AutoscalerGaveUp(c) { // else why none is made is for others to say
		f.Edits = append(f.Edits, place.AddsNodes(c, nodes[0].Node, (lacking+int(nodes[0].Empty)-1)/int(nodes[0].Empty)))
	}
	return []check.Finding{f}
}

// wantsTooMuch is about a group that says that it needs more of a resource than all nodes have, and whose members need less: its scheduler
// goes by what it says, and looks for no place.
func wantsTooMuch(c *check.Case, group *unstructured.Unstructured, need int64, members []*corev1.Pod) *check.Finding {
	if group == nil || c.Fit == nil || c.State != facts.Pending || int64(len(members)) < need || need < 1 {
		return nil
	}
	all := make(corev1.ResourceList)
	for _, n := range c.Nodes {
		podspec.Add(all, n.Status.Allocatable)
	}
	asks := make(corev1.ResourceList)
	for _, p := range members[:need] {
		podspec.Add(asks, podspec.TotalRequests(p))
	}
	says, _, _ := unstructured.NestedMap(group.Object, "spec", "minResources")
	for _, name := range slices.Sorted(maps.Keys(says)) {
		said, ok := podspec.AmountAt(name, group.Object, "spec", "minResources", name)
		has, ask := podspec.Amount(name, all[corev1.ResourceName(name)]), podspec.Amount(name, asks[corev1.ResourceName(name)])
		if !ok || said <= has || ask > has {
			continue
		}
		r, to := facts.RefTo(group), why.Quantity(name, ask)
		f := &check.Finding{
			Owner: check.User, Stage: check.Admit,
			Message:  fmt.Sprintf("%s says that it needs %s %s, and all nodes together have %s; %s of it, which start together, ask for %s", r, why.Quantity(name, said), name, why.Quantity(name, has), wording.Pods(int(need)), to),
			Evidence: []facts.Evidence{{Object: r.In(), Field: fmt.Sprintf("spec.minResources[%q]", name), Value: why.Quantity(name, said)}},
			Advice:   "Have the group say what its members ask for.",
		}
		f.Edits = []edit.Edit{{
			Side: edit.Workload, Cost: edit.CostWord, Text: fmt.Sprintf("lower minResources of %s from %s to %s %s, as its members ask for", r, why.Quantity(name, said), to, name),
			Set:     []facts.Object{edit.WithValues(group, map[string]any{edit.Pointer("spec", "minResources", name): to})},
			Command: edit.PatchLine(group, "merge", map[string]any{"spec": map[string]any{"minResources": map[string]any{name: to}}}),
		}}
		return f
	}
	return nil
}

// foreignRoom is how many of the members have a place or find one at once, -1 where that is not known, how many have none yet, and whether
// those ask for the same.
func foreignRoom(c *check.Case, members []*corev1.Pod) (room, waiting int, alike bool) {
	own := 0
	alike = true
	for _, p := range members {
		switch {
		case p.Spec.NodeName != "":
			room++
			continue
		case place.OfTarget(c, p):
			own++
		}
		waiting++
		alike = alike && maps.EqualFunc(podspec.Requests(p), podspec.Requests(c.Pod), func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 })
	}
	if own == waiting && c.Fit.Together > 0 {
		return room + c.Fit.Together, waiting, alike
	}
	if !alike {
		return -1, waiting, alike
	}
	var free int64
	for i := range c.Fit.Nodes {
		if n := &c.Fit.Nodes[i]; n.Open() {
			free = min(free+n.Fits, int64(waiting))
		}
	}
	return room + int(free), waiting, alike
}
