package l3

import (
	"fmt"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/queue"
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
	g := c.PodGroup(c.Pod)
	if c.State != facts.Pending || g == nil || g.Spec.SchedulingPolicy.Gang == nil {
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
	if room == 0 || room >= int64(need) {
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
