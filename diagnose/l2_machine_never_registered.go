package diagnose

import (
	"cmp"
	"fmt"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/kube/dialect"
)

var machineNeverRegisteredCheck = Check{
	Cause: "machine-never-registered", Layer: L2, Owner: Platform, Stage: Place, Rank: 51,
	Title:   "A machine runs and does not become a node",
	Meaning: "The provider has given a machine, which is paid for, and its kubelet has not joined the cluster in the time that it is given.",
	Remedy:  "Look at the machine's console: its start script, its network's way to the API server, and its role.",
	Not:     "The cloud has no machines.",
	Find:    machineNeverRegistered,
}

func machineNeverRegistered(c *Case) []Finding {
	if c.autoscalerStuck() == nil {
		return nil
	}
	var out []Finding
	for _, s := range c.autoscalerSources() {
		f := Finding{Fit: true}
		if s.pool != nil {
			f.Message, f.Evidence = c.karpenterUnregistered(s.pool)
		} else {
			f.Message, f.Evidence = c.autoscalerUnregistered(s.group)
		}
		if f.Message != "" {
			f.Probe = c.autoscalerProbe(s)
			out = append(out, f)
		}
	}
	if f, ok := c.autoscalerLate(); ok && len(out) == 0 {
		out = append(out, f)
	}
	return out
}

// autoscalerLate is about a group that was to grow for the pod, where its status cannot be seen and no node came.
func (c *Case) autoscalerLate() (Finding, bool) {
	w := c.autoscalerSaid()
	if w == nil || len(w.grows) == 0 || len(autoscalerGroups(c.Facts)) > 0 || !c.unmatched(c.Fit) {
		return Finding{}, false
	}
	age := c.Now.Sub(facts.EventTime(w.event))
	s := &autoscalerSource{group: &autoscalerGroup{Name: w.grows[0].group}, like: c.autoscalerWished()}
	return Finding{
		Fit: true, Probe: c.autoscalerProbe(s), Evidence: w.evidence(c),
		Message: fmt.Sprintf("%s was to grow for the pod %s ago, and no node that it can use has come", s, wording.Minutes(age)),
	}, age > autoscalerProvisions
}

// karpenterUnregistered is about machines of the pool that should be nodes by now, or the pool whose machines never are.
func (c *Case) karpenterUnregistered(p *karpenterPool) (string, []facts.Evidence) {
	for _, claim := range p.claims {
		if !karpenterOverdue(claim, c.Now) {
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
	if h := dialect.ConditionOf(p.Unstructured, "NodeRegistrationHealthy"); h != nil && h.Status == "False" && !p.launchedWell(c.Now) {
		return fmt.Sprintf("machines of NodePool %s do not become nodes: %s", p.GetName(), cloudText(cmp.Or(h.Message, h.Reason))),
			[]facts.Evidence{{Object: facts.RefTo(p.Unstructured).In(), Field: `status.conditions[type="NodeRegistrationHealthy"]`, Value: cmp.Or(h.Message, h.Reason, h.Status)}}
	}
	return "", nil
}

// autoscalerUnregistered is the same of a node group.
func (c *Case) autoscalerUnregistered(g *autoscalerGroup) (string, []facts.Evidence) {
	if g.LongUnregistered > 0 {
		n := "1 machine of node group %s should have become a node long ago"
		if g.LongUnregistered > 1 {
			n = fmt.Sprintf("%d machines of node group %%s should have become nodes long ago", g.LongUnregistered)
		}
		return fmt.Sprintf(n, g.short()),
			[]facts.Evidence{{Object: "configmap/kube-system/" + autoscalerStatusName, Field: fmt.Sprintf("nodeGroups[name=%q].health.nodeCounts.longUnregistered", g.Name), Value: fmt.Sprint(g.LongUnregistered)}}
	}
	if x, ok := c.autoscalerFailure(g); ok && x.fault == cloudNoMachine {
		return fmt.Sprintf("machines that node group %s was given did not become nodes in time: %s", g.short(), cloudText(x.text)), x.evidence
	}
	return "", nil
}
