package l3

import (
	"fmt"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
)

var priorityClassMissingCheck = check.Check{
	Cause: "priority-class-missing", Layer: check.L3, Owner: check.User, Stage: check.Create, Rank: 3,
	Title:   "The pod names a PriorityClass that does not exist",
	Meaning: "The API server refuses to create a pod whose priorityClassName is not the name of a PriorityClass.",
	Remedy:  "Name a PriorityClass that exists, or none.",
	Find:    priorityClassMissing,
}

func priorityClassMissing(c *check.Case) []check.Finding {
	name := c.Pod.Spec.PriorityClassName
	if !life.Wanted(c) || name == "" {
		return nil
	}
	var have []string
	for _, p := range c.PriorityClasses {
		if p.Name == name {
			return nil
		}
		have = append(have, p.Name)
	}
	f := check.Finding{Message: fmt.Sprintf("there is no PriorityClass %s, which the pod names", name)}
	r := life.DeniedBy(c, life.ByPriorityClass)
	if r != nil {
		f.Evidence = []facts.Evidence{r.Evidence}
	}
	if !c.Sees("priorityclasses.scheduling.k8s.io", "") {
		if r == nil || r.Name != name {
			return nil
		}
		return []check.Finding{f}
	}
	if name == "system-node-critical" || name == "system-cluster-critical" {
		return nil // always there
	}
	f.Edits = rename(c, "priorityClassName", "PriorityClass", name, have)
	return []check.Finding{f}
}
