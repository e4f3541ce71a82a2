package l2

import (
	"cmp"
	"fmt"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/supply"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/kube/dialect"
	"github.com/berth-dev/berth/kube/dialect/clusterautoscaler"
	"github.com/berth-dev/berth/kube/dialect/karpenter"
)

var machineNeverRegisteredCheck = check.Check{
	Cause: "machine-never-registered", Layer: check.L2, Owner: check.Platform, Stage: check.Place, Rank: 51,
	Title:   "A machine runs and does not become a node",
	Meaning: "The provider has given a machine, which is paid for, and its kubelet has not joined the cluster in the time that it is given.",
	Remedy:  "Look at the machine's console: its start script, its network's way to the API server, and its role.",
	Not:     "The cloud has no machines.",
	Find:    machineNeverRegistered,
}

func machineNeverRegistered(c *check.Case) []check.Finding {
	if supply.AutoscalerStuck(c) == nil {
		return nil
	}
	var out []check.Finding
	for _, s := range supply.AutoscalerSources(c) {
		f := check.Finding{Fit: true}
		if s.Pool != nil {
			f.Message, f.Evidence = karpenterUnregistered(c, s.Pool)
		} else {
			f.Message, f.Evidence = autoscalerUnregistered(c, s.Group)
		}
		if f.Message != "" {
			f.Probe = supply.AutoscalerProbe(c, s)
			out = append(out, f)
		}
	}
	if f, ok := autoscalerLate(c); ok && len(out) == 0 {
		out = append(out, f)
	}
	return out
}

// autoscalerLate is about a group that was to grow for the pod, where its status cannot be seen and no node came.
func autoscalerLate(c *check.Case) (check.Finding, bool) {
	w := supply.AutoscalerSaid(c)
	if w == nil || len(w.Grows) == 0 || len(supply.AutoscalerGroups(c.Facts)) > 0 || !place.Unmatched(c, c.Fit) {
		return check.Finding{}, false
	}
	age := c.Now.Sub(facts.EventTime(w.Event))
	s := &supply.AutoscalerSource{Group: &clusterautoscaler.Group{Name: w.Grows[0].Group}, Like: supply.AutoscalerWished(c)}
	return check.Finding{
		Fit: true, Probe: supply.AutoscalerProbe(c, s), Evidence: supply.AutoscalerEvidence(w, c),
		Message: fmt.Sprintf("%s was to grow for the pod %s ago, and no node that it can use has come", s, wording.Minutes(age)),
	}, age > supply.AutoscalerProvisions
}

// karpenterUnregistered is about machines of the pool that should be nodes by now, or the pool whose machines never are.
func karpenterUnregistered(c *check.Case, p *karpenter.Pool) (string, []facts.Evidence) {
	for _, claim := range p.Claims {
		if !supply.KarpenterOverdue(claim, c.Now) {
			continue
		}
		r := dialect.ConditionOf(claim, "Registered")
		at := dialect.ConditionOf(claim, "Launched").At
		if at.IsZero() {
			at = claim.GetCreationTimestamp().Time
		}
		what := fmt.Sprintf("the machine of NodeClaim %s runs since %s and has not become a node", claim.GetName(), wording.Minutes(c.Now.Sub(at)))
		if id := dialect.Text(claim.Object, "status", "providerID"); id != "" {
			what += " (" + id + ")"
		}
		e := facts.Evidence{Object: facts.RefTo(claim).In(), Field: `status.conditions[type="Registered"]`, Value: "not there"}
		if r != nil {
			e.Value = cmp.Or(r.Message, r.Reason, r.Status)
		}
		return what, []facts.Evidence{e}
	}
	if h := dialect.ConditionOf(p.Unstructured, "NodeRegistrationHealthy"); h != nil && h.Status == "False" && !supply.LaunchedWell(p, c.Now) {
		return fmt.Sprintf("machines of NodePool %s do not become nodes: %s", p.GetName(), supply.CloudText(cmp.Or(h.Message, h.Reason))),
			[]facts.Evidence{{Object: facts.RefTo(p.Unstructured).In(), Field: `status.conditions[type="NodeRegistrationHealthy"]`, Value: cmp.Or(h.Message, h.Reason, h.Status)}}
	}
	return "", nil
}

// autoscalerUnregistered is the same of a node group.
func autoscalerUnregistered(c *check.Case, g *clusterautoscaler.Group) (string, []facts.Evidence) {
	if g.LongUnregistered > 0 {
		n := "1 machine of node group %s should have become a node long ago"
		if g.LongUnregistered > 1 {
			n = fmt.Sprintf("%d machines of node group %%s should have become nodes long ago", g.LongUnregistered)
		}
		return fmt.Sprintf(n, g.Short()),
			[]facts.Evidence{{Object: "configmap/kube-system/" + clusterautoscaler.StatusName, Field: fmt.Sprintf("nodeGroups[name=%q].health.nodeCounts.longUnregistered", g.Name), Value: fmt.Sprint(g.LongUnregistered)}}
	}
	if x, ok := supply.AutoscalerFailure(c, g); ok && x.Fault == supply.CloudNoMachine {
		return fmt.Sprintf("machines that node group %s was given did not become nodes in time: %s", g.Short(), supply.CloudText(x.Text)), x.Evidence
	}
	return "", nil
}
