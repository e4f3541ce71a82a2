package l3

import (
	"fmt"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/queue"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/internal/spelling"
)

var gangMissingCheck = check.Check{
	Cause: why.GangMissing, Layer: check.L3, Owner: check.User, Stage: check.Admit, Rank: 13,
	Title:   "The pod names a PodGroup that does not exist, or whose parent does not",
	Meaning: "A pod with a scheduling group is not looked at before its PodGroup exists, and every CompositePodGroup above that. The stock scheduler writes no event and no condition.",
	Remedy:  "Create the PodGroup, or the CompositePodGroup above it, or name the one that was meant.",
	Find:    gangMissing,
}

func gangMissing(c *check.Case) []check.Finding {
	s := c.Pod.Spec.SchedulingGroup
	if parent, by := c.Missing(c.Pod); by != nil && c.Waits() && c.Sees("compositepodgroups.scheduling.k8s.io", c.Pod.Namespace) {
		return parentMissing(c, parent, by)
	}
	if !c.Waits() || s == nil || s.PodGroupName == nil || c.PodGroup(c.Pod) != nil || !queue.ReadsPodGroups(c) {
		return nil
	}
	name := *s.PodGroupName
	f := check.Finding{
		Message:  fmt.Sprintf("there is no PodGroup %s in namespace %s, which pod %s names", name, c.Pod.Namespace, c.Pod.Name),
		Evidence: []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: "spec.schedulingGroup.podGroupName", Value: name}},
	}
	var have []string
	for _, g := range c.PodGroups {
		if g.Namespace == c.Pod.Namespace {
			have = append(have, g.Name)
		}
	}
	if near, ok := spelling.Closest(name, have); ok {
		f.Edits = []edit.Edit{{
			Side: edit.Workload, Cost: 1, Text: fmt.Sprintf("name PodGroup %s instead of %s", near, name),
			Ops: []edit.Op{{Op: "replace", Path: "/spec/schedulingGroup/podGroupName", Value: near}},
		}}
	}
	return []check.Finding{f}
}

// parentMissing is about a CompositePodGroup that a group names as its parent.
func parentMissing(c *check.Case, parent string, by facts.Object) []check.Finding {
	r := facts.RefTo(by)
	f := check.Finding{
		Message:  fmt.Sprintf("there is no CompositePodGroup %s in namespace %s, which %s %s names", parent, c.Pod.Namespace, r.Kind, r.Name),
		Evidence: []facts.Evidence{{Object: r.In(), Field: "spec.parentCompositePodGroupName", Value: parent}},
		Advice:   "Create it, or make the group anew with the parent that was meant: the field is immutable.",
	}
	var have []string
	for _, o := range c.CompositePodGroups {
		if o.Namespace == c.Pod.Namespace && o.Name != by.GetName() {
			have = append(have, o.Name)
		}
	}
	if near, ok := spelling.Closest(parent, have); ok {
		f.Advice = fmt.Sprintf("CompositePodGroup %s may be meant: make the group anew with it, the field is immutable.", near)
	}
	return []check.Finding{f}
}
