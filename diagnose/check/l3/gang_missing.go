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
	Title:   "The pod names a PodGroup that does not exist",
	Meaning: "A pod with a scheduling group is not looked at before its PodGroup exists. It gets no event and no condition.",
	Remedy:  "Create the PodGroup, or name the one that was meant.",
	Find:    gangMissing,
}

func gangMissing(c *check.Case) []check.Finding {
	s := c.Pod.Spec.SchedulingGroup
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
