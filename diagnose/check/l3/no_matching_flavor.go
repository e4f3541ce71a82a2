package l3

import (
	"fmt"
	"regexp"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/queue"
)

var noMatchingFlavorCheck = check.Check{
	Cause: "no-matching-flavor", Layer: check.L3, Owner: check.User, Stage: check.Admit, Rank: 23,
	Title:   "No flavor of its Kueue queue matches",
	Meaning: "The queue hands out quota by kind of node, and the pod's selector, tolerations or resources go with none of the kinds it has.",
	Remedy:  "Select a kind of node that the queue has, tolerate its taint, or use another queue.",
	Not:     "The quota is used up.",
	Find:    noMatchingFlavor,
}

// kueueUncovered is how Kueue says that the work requests what no resource group of the queue covers (pkg/scheduler/flavorassigner).
var kueueUncovered = regexp.MustCompile(`resource (\S+) unavailable in ClusterQueue`)

func noMatchingFlavor(c *check.Case) []check.Finding {
	v := queue.Kueue(c)
	if v == nil || v.Cause != "no-matching-flavor" {
		return nil
	}
	found := check.Finding{Message: v.Name() + " has no flavor for the work", Evidence: v.Evidence()}
	switch {
	case v.Room.Missing != "":
		found.Message = fmt.Sprintf("%s has no quota for %s at all", v.Name(), v.Room.Missing)
		found.Edits = queue.KueueElsewhere(c, v)
	case kueueUncovered.MatchString(v.Message):
		name := kueueUncovered.FindStringSubmatch(v.Message)[1]
		found.Owner, found.Message = check.Scheduler, fmt.Sprintf("%s has no quota for %s at all: none of its resource groups covers it", v.Name(), name)
		found.Advice = fmt.Sprintf("Have a resource group of the queue cover %s, with a quota in each of its flavors, or do without the request.", name)
		found.Edits = queue.KueueElsewhere(c, v)
	case len(v.Room.Refused) > 0:
		r := v.Room.Refused[0]
		if r.Taint != nil {
			found.Message += fmt.Sprintf(": flavor %s has taint %s, which its pods do not tolerate", r.Flavor, r.Taint.ToString())
		} else {
			found.Message += fmt.Sprintf(": its pods select %s=%s, and flavor %s has %q", r.Key, c.Pod.Spec.NodeSelector[r.Key], r.Flavor, r.Value)
		}
		found.Edits = append(kueueMatching(c, v), queue.KueueElsewhere(c, v)...)
	case v.Message != "":
		found.Message += ": " + v.Message
	}
	return []check.Finding{found}
}

// kueueMatching changes the pod so that it matches a flavor: its selector, or a toleration for what marks hardware.
func kueueMatching(c *check.Case, v *queue.KueueView) []edit.Edit {
	var out []edit.Edit
	for _, r := range v.Room.Refused {
		e := edit.Edit{Side: edit.Workload, Cost: 2}
		switch {
		case r.Taint != nil && gpustack.IsStateTaint(c.Facts, r.Taint.Key):
			continue
		case r.Taint != nil:
			t := corev1.Toleration{Key: r.Taint.Key, Operator: corev1.TolerationOpEqual, Value: r.Taint.Value, Effect: r.Taint.Effect}
			e.Text = "tolerate " + r.Taint.ToString()
			e.Ops = []edit.Op{{Op: "add", Path: "/spec/tolerations/-", Value: t}}
			if len(place.Written(c).Spec.Tolerations) == 0 {
				e.Ops[0] = edit.Op{Op: "add", Path: "/spec/tolerations", Value: []corev1.Toleration{t}}
			}
		case r.Value != "" && c.Pod.Spec.NodeSelector[r.Key] != "":
			e.Cost, e.Text = 1, fmt.Sprintf("select %s=%s instead of %s", r.Key, r.Value, c.Pod.Spec.NodeSelector[r.Key])
			e.Ops = []edit.Op{{Op: "replace", Path: edit.Pointer("spec", "nodeSelector", r.Key), Value: r.Value}}
		default:
			continue
		}
		out = append(out, queue.KueueOnly(c, e)...)
	}
	return out
}
