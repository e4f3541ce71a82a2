package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var operatorsItem = Item{
	Code: "operators", Title: "operators, and what they run, report no fault", Owner: check.Platform, Find: operatorsFound,
	Meaning: "An operator that is down, or says that it is not ready, installs and repairs nothing: the next node, or the next upgrade, has no GPUs.",
}

func operatorsFound(c *Cluster) Result {
	own := c.stackSets()
	r := Result{Looked: wording.Number(len(own), "DaemonSet") + " and " + wording.Number(len(c.operands()), "object") + " of operators"}
	r.Findings = slices.Concat(c.operandReports(), c.setTroubles(own), c.downOperators(own))
	for _, need := range []string{"daemonsets.apps", "deployments.apps", "events"} {
		if !c.Sees(need, "") && r.Blind == "" {
			r.Blind = "you may not list " + need + " in the whole cluster"
		}
	}
	return r
}

// operandReports are the faults that operators report of their objects: equal ones of one kind are one finding.
func (c *Cluster) operandReports() []Finding {
	var out []Finding
	at := make(map[string]int)
	for _, u := range c.operands() {
		for _, x := range c.reportsOf(u) {
			key := u.GetKind() + "\x00" + x.text
			if i, ok := at[key]; ok {
				out[i].Objects, out[i].Evidence = append(out[i].Objects, x.evidence.Object), append(out[i].Evidence, x.evidence)
				continue
			}
			at[key] = len(out)
			_, owner := c.ownerOfReport(u, x)
			out = append(out, Finding{
				Severity: Warn, Owner: owner, Message: fmt.Sprintf("%s %s", facts.RefTo(u), x.text), Next: nextOfReport(u, owner),
				Objects: []string{x.evidence.Object}, Evidence: []facts.Evidence{x.evidence},
			})
		}
	}
	for i := range out {
		if n := len(out[i].Objects); n > 1 {
			out[i].Message += ", and so " + wording.Number(n-1, "more object") + " of the kind"
		}
	}
	return out
}

// setTroubles are the GPU stack's DaemonSets that cannot make their pods, or whose pods do not become ready. What keeps GPUs of a node from
// being offered is another item's.
func (c *Cluster) setTroubles(sets []*appsv1.DaemonSet) (out []Finding) {
	for _, d := range sets {
		name, object := "DaemonSet "+d.Namespace+"/"+d.Name, facts.RefTo(d).In()
		if e := c.warningOf(d); e != nil && d.Status.CurrentNumberScheduled < d.Status.DesiredNumberScheduled {
			out = append(out, Finding{
				Severity: Warn, Message: fmt.Sprintf("%s cannot make its pods (%d of %d are there): %s", name, d.Status.CurrentNumberScheduled, d.Status.DesiredNumberScheduled, wording.Shortened(wording.FirstLine(e.Message), 200)),
				Next: "let the pods in, or have whatever refuses them repaired: the event says what it is", Objects: []string{object}, Evidence: []facts.Evidence{warningShown(d, e)},
			})
			continue
		}
		var bad []*corev1.Pod
		for _, p := range c.PodsMadeBy(d) {
			if c.unwellOf(p) {
				bad = append(bad, p)
			}
		}
		if len(bad) == 0 {
			continue
		}
		f := Finding{Severity: Warn, Message: fmt.Sprintf("%s has %s that %s not ready, on %s: %s", name, wording.Number(len(bad), "pod"), wording.InNumber(len(bad), "is", "are"), placesOf(bad), gpustack.Trouble(bad[0])), Next: "read the log and the events of its pods"}
		for _, p := range bad {
			f.Objects, f.Evidence = append(f.Objects, facts.RefTo(p).In()), append(f.Evidence, podEvidence(p))
		}
		out = append(out, f)
	}
	return out
}

// unwellOf says whether a pod of a DaemonSet has had the time to become ready, and its node is well.
func (c *Cluster) unwellOf(p *corev1.Pod) bool {
	if p.DeletionTimestamp != nil || p.Spec.NodeName == "" || c.At.Sub(p.CreationTimestamp.Time) < settles || p.Status.Phase == corev1.PodSucceeded {
		return false
	}
	switch c.stack.States[p.Spec.NodeName] {
	case gpustack.NodeUnready, gpustack.NodeLeaving, gpustack.NodeRepartitions, gpustack.NodeUpgrades:
		return false
	}
	if g := c.stack.Nodes[p.Spec.NodeName]; g != nil && c.stack.Faults[p.Spec.NodeName] != gpustack.FaultNone && slices.ContainsFunc([]gpustack.Role{gpustack.RoleDriver, gpustack.RoleToolkit, gpustack.RolePlugin}, func(r gpustack.Role) bool { return slices.Contains(g.Pods[r], p) }) {
		return false
	}
	return slices.ContainsFunc(p.Status.Conditions, func(k corev1.PodCondition) bool {
		return k.Type == corev1.PodReady && k.Status != corev1.ConditionTrue && c.At.Sub(k.LastTransitionTime.Time) >= settles
	})
}

func placesOf(pods []*corev1.Pod) string {
	var names []string
	for _, p := range pods {
		names = append(names, p.Spec.NodeName)
	}
	slices.Sort(names)
	return wording.InNumber(len(names), "node ", "nodes ") + wording.Few(names)
}

// downOperators are controllers of the stack of which no pod is available.
func (c *Cluster) downOperators(sets []*appsv1.DaemonSet) (out []Finding) {
	home := make(map[string]bool)
	for _, d := range sets {
		home[d.Namespace] = true
	}
	all := slices.Clone(c.Deployments)
	slices.SortFunc(all, func(a, b *appsv1.Deployment) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	for _, d := range all {
		if d.Status.AvailableReplicas > 0 || !operatorWords.MatchString(d.Name) && !critical(&d.Spec.Template.Spec) && !(home[d.Namespace] && controllerWords.MatchString(d.Name)) {
			continue
		}
		f := Finding{Severity: Warn, Objects: []string{facts.RefTo(d).In()}}
		switch off := d.Spec.Replicas != nil && *d.Spec.Replicas == 0; {
		case off && !operatorWords.MatchString(d.Name):
			continue
		case off:
			f.Message, f.Next = fmt.Sprintf("Deployment %s/%s is scaled to 0: nobody does its work", d.Namespace, d.Name), "scale it up again, or find out who scaled it to 0 and why"
			f.Evidence = []facts.Evidence{{Object: f.Objects[0], Field: "spec.replicas", Value: "0"}}
		case c.At.Sub(lastChange(d)) < settles:
			continue
		default:
			f.Message, f.Next = fmt.Sprintf("Deployment %s/%s has no pod that is available: %s", d.Namespace, d.Name, c.whyDown(d)), "read the log and the events of its pods"
			f.Evidence = []facts.Evidence{{Object: f.Objects[0], Field: "status.availableReplicas", Value: "0"}}
		}
		out = append(out, f)
	}
	return out
}

// whyDown is what keeps the Deployment's pods from being available, as far as can be told.
func (c *Cluster) whyDown(d *appsv1.Deployment) string {
	for _, p := range c.PodsMadeBy(d) {
		if p.DeletionTimestamp == nil && !facts.Ended(p) {
			return "pod " + p.Name + " is " + gpustack.Trouble(p)
		}
	}
	for _, k := range d.Status.Conditions {
		if k.Type == appsv1.DeploymentReplicaFailure && k.Status == corev1.ConditionTrue {
			return wording.Shortened(wording.FirstLine(k.Message), 160)
		}
	}
	return "it has none"
}
