package l3

import (
	"fmt"

	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
)

var runtimeClassMissingCheck = check.Check{
	Cause: "runtime-class-missing", Layer: check.L3, Owner: check.User, Stage: check.Create, Rank: 4,
	Title:   "The pod names a RuntimeClass that does not exist",
	Meaning: "The API server refuses to create a pod whose runtimeClassName is not the name of a RuntimeClass. On GPU clusters it is often \"nvidia\", which the GPU Operator makes.",
	Remedy:  "Name a RuntimeClass that exists, or none; or install what makes it.",
	Not:     "The container runtime of a node lacks the handler: the pod never got to a node.",
	Find:    runtimeClassMissing,
}

func runtimeClassMissing(c *check.Case) []check.Finding {
	name := ptr.Deref(c.Pod.Spec.RuntimeClassName, "")
	if !life.Wanted(c) || name == "" {
		return nil
	}
	var have []string
	for _, r := range c.RuntimeClasses {
		if r.Name == name {
			return nil
		}
		have = append(have, r.Name)
	}
	f := check.Finding{Message: fmt.Sprintf("there is no RuntimeClass %s, which the pod names", name)}
	r := life.DeniedBy(c, life.ByRuntimeClass)
	if r != nil {
		f.Evidence = []facts.Evidence{r.Evidence}
	}
	if !c.Sees("runtimeclasses.node.k8s.io", "") {
		if r == nil || r.Name != name {
			return nil
		}
		return []check.Finding{f}
	}
	f.Edits = rename(c, "runtimeClassName", "RuntimeClass", name, have)
	return []check.Finding{f}
}
