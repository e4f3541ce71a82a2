package diagnose

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/dialect"
)

var queueStoppedCheck = Check{
	Cause: "queue-stopped", Layer: L3, Owner: Scheduler, Stage: Admit, Rank: 21,
	Title:   "Its queue is stopped",
	Meaning: "Somebody stopped the queue, or it lacks something it is made of, so nothing starts from it.",
	Remedy:  "Ask who stopped it, and why; start it again, or repair what it lacks.",
	Not:     "Wait for quota.",
	Find:    queueStopped,
}

func queueStopped(c *Case) []Finding {
	if found := c.volcanoClosed(); found != nil {
		return found
	}
	v := c.kueue()
	if v == nil || v.cause != "queue-stopped" {
		return nil
	}
	for _, u := range []*kueueStop{{u: v.local, name: "LocalQueue"}, {u: v.cluster, name: "ClusterQueue"}} {
		if u.u == nil {
			continue
		}
		if policy := dialect.Text(u.u.Object, "spec", "stopPolicy"); policy != "" && policy != "None" {
			return []Finding{{
				Message:  fmt.Sprintf("%s %s is stopped", u.name, u.u.GetName()),
				Evidence: []facts.Evidence{{Object: facts.RefTo(u.u).In(), Field: "spec.stopPolicy", Value: policy}},
				Edits: c.kueueOnly(edit.Edit{
					Side: edit.Cluster, Cost: 3, Text: fmt.Sprintf("start %s %s again", u.name, u.u.GetName()), Assumes: "who stopped it agrees",
					Set:     []facts.Object{edit.WithValues(u.u, map[string]any{"/spec/stopPolicy": "None", "/status/conditions": nil})},
					Command: edit.PatchLine(u.u, "merge", map[string]any{"spec": map[string]any{"stopPolicy": "None"}}),
				}),
			}}
		}
	}
	if active := dialect.ConditionOf(v.cluster, "Active"); active != nil && active.Status == "False" {
		return []Finding{kueueBroken(v, active)}
	}
	return v.found(v.name()+" is stopped", nil)
}

// kueueBroken is a ClusterQueue that is not stopped by anyone's word, and not active either.
func kueueBroken(v *kueueView, active *dialect.Condition) Finding {
	found := Finding{
		Message:  fmt.Sprintf("ClusterQueue %s is not active: %s", v.cluster.GetName(), strings.TrimSuffix(cmp.Or(active.Message, active.Reason), ".")),
		Evidence: []facts.Evidence{{Object: facts.RefTo(v.cluster).In(), Field: `status.conditions["Active"]`, Value: active.Reason}},
	}
	switch active.Reason {
	case "AdmissionCheckInactive":
		found.Owner, found.Advice = Platform, "See why the controller of the admission check does not run."
	case "Terminating":
		found.Advice = "The queue is being deleted: use another."
	default:
		found.Advice = "Make what the queue names and does not find, or take it out of the queue."
	}
	return found
}
