package diagnose

import (
	"fmt"

	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/facts"
)

var runtimeClassMissingCheck = Check{
	Cause: "runtime-class-missing", Layer: L3, Owner: User, Stage: Create, Rank: 4,
	Title:   "The pod names a RuntimeClass that does not exist",
	Meaning: "The API server refuses to create a pod whose runtimeClassName is not the name of a RuntimeClass. On GPU clusters it is often \"nvidia\", which the GPU Operator makes.",
	Remedy:  "Name a RuntimeClass that exists, or none; or install what makes it.",
	Not:     "The container runtime of a node lacks the handler: the pod never got to a node.",
	Find:    runtimeClassMissing,
}

func runtimeClassMissing(c *Case) []Finding {
	name := ptr.Deref(c.Pod.Spec.RuntimeClassName, "")
	if !c.wanted() || name == "" {
		return nil
	}
	var have []string
	for _, r := range c.RuntimeClasses {
		if r.Name == name {
			return nil
		}
		have = append(have, r.Name)
	}
	f := Finding{Message: fmt.Sprintf("there is no RuntimeClass %s, which the pod names", name)}
	r := c.deniedBy(byRuntimeClass)
	if r != nil {
		f.Evidence = []facts.Evidence{r.Evidence}
	}
	if !c.Sees("runtimeclasses.node.k8s.io", "") {
		if r == nil || r.Name != name {
			return nil
		}
		return []Finding{f}
	}
	f.Edits = c.rename("runtimeClassName", "RuntimeClass", name, have)
	return []Finding{f}
}
