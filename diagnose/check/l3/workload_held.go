package l3

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/queue"
	"github.com/berth-dev/berth/engine/why"
)

var workloadHeldCheck = check.Check{
	Cause: why.WorkloadHeld, Layer: check.L3, Owner: check.User, Stage: check.Admit, Rank: 19,
	Title:   "Somebody holds the work back",
	Meaning: "The work says that it is not to start until it is released. It keeps its place in line, and others pass it.",
	Remedy:  "Ask who holds it, and why; release it with `berth release`.",
	Not:     "Wait for GPUs.",
	Find:    workloadHeld,
}

func workloadHeld(c *check.Case) []check.Finding {
	g, ok := queue.GateOf(c, why.WorkloadHeld)
	if !ok {
		return queue.BerthSaid(c, why.WorkloadHeld)
	}
	found := check.Finding{Message: "it " + g.Sentence(nil)}
	o, value := holder(c)
	if o == nil { // another member of its gang says so
		return []check.Finding{found}
	}
	field := fmt.Sprintf("metadata.annotations[%q]", v1alpha1.KeyHold)
	found.Evidence = []facts.Evidence{{Object: facts.RefTo(o).In(), Field: field, Value: value}}
	found.Edits = []edit.Edit{unheld(o)}
	if value == v1alpha1.HoldByOperator {
		found.Owner = check.Scheduler
		found.Message += "; an operator holds it"
	}
	return []check.Finding{found}
}

// holder is who says that the pod is held, and how: an operator's word counts before what is nearer. A ReplicaSet of a
// Deployment has copies of that one's annotations.
func holder(c *check.Case) (by facts.Object, value string) {
	for _, o := range queue.BerthSpeakers(c) {
		if up := metav1.GetControllerOf(o); up != nil && up.Kind == "Deployment" {
			continue
		}
		said := o.GetAnnotations()[v1alpha1.KeyHold]
		if said == v1alpha1.HoldByOperator {
			return o, said
		}
		if said != "" && by == nil {
			by, value = o, said
		}
	}
	return by, value
}

// unheld takes the hold from the object that says it.
func unheld(o facts.Object) edit.Edit {
	e := edit.Edit{
		Side: edit.Workload, Cost: 1, Text: "release it", Assumes: "who holds it agrees",
		Command: edit.PatchLine(o, "merge", map[string]any{"metadata": map[string]any{"annotations": map[string]any{v1alpha1.KeyHold: nil}}}),
	}
	if _, pod := o.(*corev1.Pod); pod {
		e.Ops = []edit.Op{{Op: "remove", Path: edit.Pointer("metadata", "annotations", v1alpha1.KeyHold)}}
		return e
	}
	n := o.DeepCopyObject().(facts.Object)
	left := make(map[string]string)
	for key, value := range n.GetAnnotations() {
		if key != v1alpha1.KeyHold {
			left[key] = value
		}
	}
	n.SetAnnotations(left)
	e.Set = []facts.Object{n}
	return e
}
