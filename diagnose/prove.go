package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/signs"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

// Work is called healthy only where nothing in plain view speaks against it. A check that knows a cause makes the answer
// better; a cause that no check knows leaves signs, and makes the answer unknown, with the signs as evidence.

// explained says whether a finding only repeats what another one knows better: another says the same of the same object, a
// normal part of starting accounts for it, or a gate belongs to what another finding says of admission.
func (j *judgement) explained(f *check.Finding) bool {
	if f.Check.Cause != controllerReports {
		return false
	}
	for _, g := range j.findings {
		if g.Check == f.Check {
			continue
		}
		if g.Healthy && g.Pod == f.Pod && accounts(g.Stage, f.Stage) {
			return true
		}
		if f.Last || g.Last || g.Fit {
			continue
		}
		for _, e := range f.Evidence {
			if e.Field == "status.conditions[PodScheduled]" && g.Pod == f.Pod && g.Stage <= check.Place && !g.Healthy {
				return true // the scheduler's words, of which another check knows what they are about
			}
			if strings.HasPrefix(e.Field, "spec.schedulingGates") && g.Stage <= check.Admit && g.Pod == f.Pod {
				return true
			}
			if slices.ContainsFunc(g.Evidence, func(o facts.Evidence) bool {
				return o.Object == e.Object && (o.Field == e.Field || !strings.HasPrefix(e.Object, "pod/"))
			}) {
				return true
			}
		}
	}
	return false
}

// controllerReports is the cause of what is reported and no check knows.
const controllerReports = "controller-reports"

// accounts says whether something healthy at one stage is why another stage has not gone by: what is on its way to a place
// says nothing of containers that fail.
func accounts(healthy, sign check.Stage) bool {
	if sign <= check.Place {
		return healthy <= check.Place
	}
	return healthy >= check.Start
}

// contradicted says whether signs speak against what a healthy finding says of the target, in any of its cases.
func (d *Diagnoser) contradicted(out *Diagnosis, j *judgement) bool {
	hard, _ := d.against(j)
	return len(hard) > 0
}

// against are the signs against all being well, of all cases, that nothing healthy accounts for: those that stand, and those
// that may pass.
func (d *Diagnoser) against(j *judgement) (hard, young []signs.Sign) {
	for _, c := range j.cases {
		for _, s := range signs.Of(c) {
			accounted := slices.ContainsFunc(j.findings, func(f *check.Finding) bool { return f.Healthy && f.Pod == c.Pod && accounts(f.Stage, s.Stage) })
			switch {
			case accounted || settledSign(c, s):
			case s.Young:
				young = append(young, s)
			default:
				hard = append(hard, s)
			}
		}
	}
	return hard, young
}

// settledSign says whether the sign is of what has come about since: a refusal of a pod for which there is room since a
// moment.
func settledSign(c *check.Case, s signs.Sign) bool {
	return s.Stage == check.Place && s.Field == "status.conditions[PodScheduled]" && (roomSince(c) != "" || life.Nominated(c) != "")
}

// roomSince says what made room for the pod within the time that schedulers need to look again; "" where nothing did.
func roomSince(c *check.Case) string {
	if c.Fit == nil || !c.Fit.Placed() {
		return ""
	}
	for _, w := range c.Fit.Starts {
		n := c.NodeNamed(w.Node)
		if n == nil {
			continue
		}
		if k := facts.ConditionOf(n, corev1.NodeReady); k != nil && k.Status == corev1.ConditionTrue && c.Now.Sub(k.LastTransitionTime.Time) < life.Patience {
			return fmt.Sprintf("node %s is Ready since %s", n.Name, wording.Minutes(c.Now.Sub(k.LastTransitionTime.Time)))
		}
		for _, p := range c.Pods {
			if p.Spec.NodeName == n.Name && facts.Ended(p) && c.Now.Sub(endedAt(p)) < life.Patience {
				return fmt.Sprintf("pod %s/%s ended on node %s %s ago", p.Namespace, p.Name, n.Name, wording.Minutes(c.Now.Sub(endedAt(p))))
			}
		}
	}
	return ""
}

func endedAt(p *corev1.Pod) time.Time {
	at := time.Time{}
	for _, s := range p.Status.ContainerStatuses {
		if t := s.State.Terminated; t != nil && t.FinishedAt.After(at) {
			at = t.FinishedAt.Time
		}
	}
	return at
}

// unproven words what speaks against the work being well, where no cause was found.
func unproven(out *Diagnosis, hard []signs.Sign) {
	out.Cause, out.Layer, out.Owner = Unknown, check.None, check.Nobody
	out.Summary = "no check knows why, and this speaks against it being well: " + hard[0].What
	b := Blocker{Layer: hard[0].Layer, Cause: Unknown, Owner: hard[0].Owner, Binding: true, Message: hard[0].What}
	for _, s := range hard[:min(len(hard), 12)] {
		if !slices.Contains(b.Evidence, s.Evidence) {
			b.Evidence = append(b.Evidence, s.Evidence)
		}
	}
	out.Layer, out.Owner = b.Layer, b.Owner
	out.Advice = hard[0].Advice
	out.Blockers = append([]Blocker{b}, out.Blockers...)
}
