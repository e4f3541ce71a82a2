package diagnose

import (
	"fmt"

	"github.com/berth-dev/berth/diagnose/facts"
)

var priorityClassMissingCheck = Check{
	Cause: "priority-class-missing", Layer: L3, Owner: User, Stage: Create, Rank: 3,
	Title:   "The pod names a PriorityClass that does not exist",
	Meaning: "The API server refuses to create a pod whose priorityClassName is not the name of a PriorityClass.",
	Remedy:  "Name a PriorityClass that exists, or none.",
	Find:    priorityClassMissing,
}

func priorityClassMissing(c *Case) []Finding {
	name := c.Pod.Spec.PriorityClassName
	if !c.wanted() || name == "" {
		return nil
	}
	var have []string
	for _, p := range c.PriorityClasses {
		if p.Name == name {
			return nil
		}
		have = append(have, p.Name)
	}
	f := Finding{Message: fmt.Sprintf("there is no PriorityClass %s, which the pod names", name)}
	r := c.deniedBy(byPriorityClass)
	if r != nil {
		f.Evidence = []facts.Evidence{r.Evidence}
	}
	if !c.Sees("priorityclasses.scheduling.k8s.io", "") {
		if r == nil || r.Name != name {
			return nil
		}
		return []Finding{f}
	}
	if name == "system-node-critical" || name == "system-cluster-critical" {
		return nil // always there
	}
	f.Edits = c.rename("priorityClassName", "PriorityClass", name, have)
	return []Finding{f}
}
