package l3

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/signs"
)

var controllerReportsCheck = check.Check{
	Cause: "controller-reports", Layer: check.L3, Owner: check.Platform, Stage: check.Run, Rank: 99,
	Title:   "A controller reports a fault that no other check knows",
	Meaning: "A gate, a condition, a state of a container or a warning in the pod's chain of owners and references says that something is wrong. Nothing here knows what it means; the layer and the owner are those of the API group, the kind, or the stage that the pod has reached.",
	Remedy:  "Look at the object that is named, and at the controller that reports it.",
	Not:     "Nothing is wrong because a node has room: a place is not all that a pod needs.",
	Find:    controllerReports,
}

// controllerReports words the signs that stand by themselves one by one, and of the others the first, with all as evidence.
func controllerReports(c *check.Case) []check.Finding {
	var out []check.Finding
	var rest *check.Finding
	for _, s := range signs.Of(c) {
		if s.Young {
			continue
		}
		f := check.Finding{Message: s.What, Layer: s.Layer, Owner: s.Owner, Stage: s.Stage, Advice: s.Advice, Evidence: []facts.Evidence{s.Evidence}, Last: !s.Stands}
		if s.Gate != "" && !s.Reported {
			f.Edits = ungated(c, s.Gate)
		}
		switch {
		case s.Stands && len(out) < 3:
			out = append(out, f)
		case rest == nil:
			rest = &f
		default:
			if len(rest.Evidence) < 8 {
				rest.Evidence = append(rest.Evidence, s.Evidence)
			}
		}
	}
	if rest != nil {
		out = append(out, *rest)
	}
	return out
}

// ungated takes a gate away that the author of the work wrote, where no controller can be seen to open it. A gate that a
// controller put there is that controller's.
func ungated(c *check.Case, gate string) []edit.Edit {
	t := facts.TemplateFor(c.Owner(), c.Pod)
	if t == nil || len(c.Pod.Spec.SchedulingGates) > signs.MostGates || signs.HasOpener(c, gate) || !c.Sees("deployments.apps", "") {
		return nil
	}
	at := slices.IndexFunc(c.Pod.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return g.Name == gate })
	if !slices.ContainsFunc(t.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return g.Name == gate }) || at < 0 {
		return nil
	}
	return []edit.Edit{{
		Side: edit.Workload, Cost: edit.CostConsent, Text: fmt.Sprintf("take scheduling gate %s out of the template", gate),
		Ops:     []edit.Op{{Op: "remove", Path: edit.Pointer("spec", "schedulingGates", fmt.Sprint(at))}},
		Assumes: "no controller is to open the gate: none was found",
	}}
}
