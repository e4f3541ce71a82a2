package l2

import (
	"fmt"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/supply"
)

var machineNotLaunchedCheck = check.Check{
	Cause: "machine-not-launched", Layer: check.L2, Owner: check.Platform, Stage: check.Place, Rank: 52,
	Title:   "Whoever makes nodes cannot make one for it",
	Meaning: "An autoscaler could make a node for the pod and does not: it does not run, an object of its own reports a fault, or the provider refused the machine for another reason than stock or quota, such as missing rights, an image that is gone, or a subnet without addresses.",
	Remedy:  "Repair what the message names; then the autoscaler asks again by itself.",
	Not:     "The cluster is full: a node more is to be had, and somebody keeps it from being made.",
	Find:    machineNotLaunched,
}

// backsOffWords are the cluster autoscaler's for groups whose last growth failed.
const backsOffWords = "in backoff after failed scale-up"

func machineNotLaunched(c *check.Case) []check.Finding {
	out := supply.AutoscalerFindings(c, supply.CloudRefused, func(who string, x supply.AutoscalerFault) string {
		return fmt.Sprintf("no machine is made for %s: %s", who, supply.CloudText(supply.CloudSaid(x.Code, x.Text)))
	})
	if len(out) > 0 || supply.AutoscalerStuck(c) == nil {
		return out
	}
	if w := supply.AutoscalerSaid(c); w.Refused(backsOffWords) > 0 && len(supply.AutoscalerGroups(c.Facts)) == 0 { // which group, and why, is in a status that cannot be seen
		out = append(out, supply.AutoscalerHeard(c, check.Finding{Blind: !c.Sees("configmaps", ""), Message: "the cluster autoscaler has tried to make a node for the pod, failed, and waits before it tries again: " + backsOffWords, Evidence: supply.AutoscalerEvidence(w, c)})...)
	}
	for _, r := range supply.ReportedByMakers(c) {
		if r.Supply() {
			continue // a cause of L1
		}
		out = append(out, check.Finding{Fit: true, Probe: supply.AutoscalerProbe(c, supply.Makes(c)), Message: "whoever makes nodes for the pod has a fault: " + r.Text, Evidence: []facts.Evidence{r.Evidence}})
	}
	if down, evidence := supply.MakerDown(c); down != "" && supply.MayGrow(c) {
		out = append(out, check.Finding{Fit: true, Probe: supply.AutoscalerProbe(c, supply.Makes(c)), Message: down, Evidence: evidence})
	}
	if said, s := supply.MakerSilent(c); said != "" && len(out) == 0 {
		out = append(out, check.Finding{Last: true, Blind: !c.Sees("events", ""), Message: said, Evidence: []facts.Evidence{{Object: facts.RefTo(s.Pool.Unstructured).In(), Field: "status.conditions", Value: "no fault"}}})
	}
	return out
}
