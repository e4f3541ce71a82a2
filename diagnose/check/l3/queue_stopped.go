package l3

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/queue"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/internal/spelling"
	"github.com/berth-dev/berth/kube/dialect"
)

var queueStoppedCheck = check.Check{
	Cause: why.QueueStopped, Layer: check.L3, Owner: check.Scheduler, Stage: check.Admit, Rank: 21,
	Title:   "Its queue is stopped",
	Meaning: "Somebody stopped the queue, or it lacks something it is made of, so nothing starts from it.",
	Remedy:  "Ask who stopped it, and why; start it again, or repair what it lacks.",
	Not:     "Wait for quota.",
	Find:    queueStopped,
}

func queueStopped(c *check.Case) []check.Finding {
	if g, ok := queue.GateOf(c, why.QueueStopped); ok {
		return []check.Finding{queue.BerthStopped(c, g.Object)}
	}
	if found := queue.BerthSaid(c, why.QueueStopped); found != nil {
		return found
	}
	if found := queue.VolcanoClosed(c); found != nil {
		return found
	}
	v := queue.Kueue(c)
	if v == nil || v.Cause != why.QueueStopped {
		return nil
	}
	for _, u := range []*queue.KueueStop{{U: v.Local, Name: "LocalQueue"}, {U: v.Cluster, Name: "ClusterQueue"}} {
		if u.U == nil {
			continue
		}
		if policy := dialect.Text(u.U.Object, "spec", "stopPolicy"); policy != "" && policy != "None" {
			return []check.Finding{{
				Message:  fmt.Sprintf("%s %s is stopped", u.Name, u.U.GetName()),
				Evidence: []facts.Evidence{{Object: facts.RefTo(u.U).In(), Field: "spec.stopPolicy", Value: policy}},
				Edits: queue.KueueOnly(c, edit.Edit{
					Side: edit.Cluster, Cost: 3, Text: fmt.Sprintf("start %s %s again", u.Name, u.U.GetName()), Assumes: "who stopped it agrees",
					Set:     []facts.Object{edit.WithValues(u.U, map[string]any{"/spec/stopPolicy": "None", "/status/conditions": nil})},
					Command: edit.PatchLine(u.U, "merge", map[string]any{"spec": map[string]any{"stopPolicy": "None"}}),
				}),
			}}
		}
	}
	if active := dialect.ConditionOf(v.Cluster, "Active"); active != nil && active.Status == "False" {
		return []check.Finding{kueueBroken(c, v, active)}
	}
	return v.Found(v.Name()+" is stopped", nil)
}

// kueueBroken is a ClusterQueue that is not stopped by anyone's word, and not active either: what it is made of does not exist, or is not well.
func kueueBroken(c *check.Case, v *queue.KueueView, active *dialect.Condition) check.Finding {
	found := check.Finding{
		Message:  fmt.Sprintf("ClusterQueue %s is not active: %s", v.Cluster.GetName(), strings.TrimSuffix(cmp.Or(active.Message, active.Reason), ".")),
		Evidence: []facts.Evidence{{Object: facts.RefTo(v.Cluster).In(), Field: `status.conditions["Active"]`, Value: active.Reason}},
	}
	switch active.Reason {
	case "AdmissionCheckInactive":
		found.Owner, found.Advice = check.Platform, "See why the controller of the admission check does not run."
	case "Terminating":
		found.Advice = "The queue is being deleted: use another."
	default:
		found.Advice = "Make what the queue names and does not find, or take it out of the queue."
	}
	for said, depth := active.Message, 0; depth < 3; depth++ { // each names the next: the queue its check, the check its clusters
		faults := queue.KueueFaults(c, said)
		if len(faults) == 0 {
			break
		}
		said = faults[0].Value
		found.Message += fmt.Sprintf("; %s says %s", faults[0].Object, wording.Shortened(said, 160))
		found.Evidence = append(found.Evidence, faults...)
	}
	for _, r := range queue.KueueReferences(c.Facts, v.Cluster) {
		if !c.Sees(facts.KindOf("kueue.x-k8s.io", strings.TrimSuffix(r.Kind, ".kueue.x-k8s.io")).Name(), "") || c.ForeignNamed(r.Kind, "", r.Name) != nil {
			continue
		}
		found.Evidence = append(found.Evidence, r.Evidence)
		if near, ok := spelling.Closest(r.Name, c.ForeignNames(r.Kind, "")); ok {
			found.Message += fmt.Sprintf("; there is %s", near)
			if e, can := r.Renamed(v.Cluster, near); can {
				found.Edits = append(found.Edits, queue.KueueOnly(c, e)...)
			} else {
				found.Advice = fmt.Sprintf("Make a flavor that names %s, and have the queue use it: %s of a flavor cannot be changed; or make what it names.", near, r.Field)
			}
		}
	}
	return found
}
