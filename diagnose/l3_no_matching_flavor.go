package diagnose

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/gpustack"
)

var noMatchingFlavorCheck = Check{
	Cause: "no-matching-flavor", Layer: L3, Owner: User, Stage: Admit, Rank: 23,
	Title:   "No flavor of its Kueue queue matches",
	Meaning: "The queue hands out quota by kind of node, and the pod's selector, tolerations or resources go with none of the kinds it has.",
	Remedy:  "Select a kind of node that the queue has, tolerate its taint, or use another queue.",
	Not:     "The quota is used up.",
	Find:    noMatchingFlavor,
}

func noMatchingFlavor(c *Case) []Finding {
	v := c.kueue()
	if v == nil || v.cause != "no-matching-flavor" {
		return nil
	}
	found := Finding{Message: v.name() + " has no flavor for the work", Evidence: v.evidence()}
	switch {
	case v.room.missing != "":
		found.Message = fmt.Sprintf("%s has no quota for %s at all", v.name(), v.room.missing)
		found.Edits = c.kueueElsewhere(v)
	case len(v.room.refused) > 0:
		r := v.room.refused[0]
		if r.taint != nil {
			found.Message += fmt.Sprintf(": flavor %s has taint %s, which its pods do not tolerate", r.flavor, r.taint.ToString())
		} else {
			found.Message += fmt.Sprintf(": its pods select %s=%s, and flavor %s has %q", r.key, c.Pod.Spec.NodeSelector[r.key], r.flavor, r.value)
		}
		found.Edits = append(c.kueueMatching(v), c.kueueElsewhere(v)...)
	case v.message != "":
		found.Message += ": " + v.message
	}
	return []Finding{found}
}

// kueueMatching changes the pod so that it matches a flavor: its selector, or a toleration for what marks hardware.
func (c *Case) kueueMatching(v *kueueView) []edit.Edit {
	var out []edit.Edit
	for _, r := range v.room.refused {
		e := edit.Edit{Side: edit.Workload, Cost: 2}
		switch {
		case r.taint != nil && gpustack.IsStateTaint(c.Facts, r.taint.Key):
			continue
		case r.taint != nil:
			t := corev1.Toleration{Key: r.taint.Key, Operator: corev1.TolerationOpEqual, Value: r.taint.Value, Effect: r.taint.Effect}
			e.Text = "tolerate " + r.taint.ToString()
			e.Ops = []edit.Op{{Op: "add", Path: "/spec/tolerations/-", Value: t}}
			if len(c.written().Spec.Tolerations) == 0 {
				e.Ops[0] = edit.Op{Op: "add", Path: "/spec/tolerations", Value: []corev1.Toleration{t}}
			}
		case r.value != "" && c.Pod.Spec.NodeSelector[r.key] != "":
			e.Cost, e.Text = 1, fmt.Sprintf("select %s=%s instead of %s", r.key, r.value, c.Pod.Spec.NodeSelector[r.key])
			e.Ops = []edit.Op{{Op: "replace", Path: edit.Pointer("spec", "nodeSelector", r.key), Value: r.value}}
		default:
			continue
		}
		out = append(out, c.kueueOnly(e)...)
	}
	return out
}
