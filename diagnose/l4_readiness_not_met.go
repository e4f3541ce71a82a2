package diagnose

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var readinessNotMetCheck = Check{
	Cause: "readiness-not-met", Layer: L4, Owner: ML, Stage: Run, Rank: 60,
	Title:   "The pod runs and is not ready",
	Meaning: "All containers run, and a startup or readiness probe does not succeed, or a readiness gate is not met. Services send it no traffic and rollouts wait for it.",
	Remedy:  "Read the probe's message and the container's log; give a slow start more time with a startup probe.",
	Not:     "It is Pending: it was placed and started.",
	Find:    readinessNotMet,
}

func readinessNotMet(c *Case) []Finding {
	if c.State != facts.Running || c.Pod.DeletionTimestamp != nil || facts.Unsettled(c.Pod) {
		return nil
	}
	if what, _ := c.lost(); what != "" {
		return nil
	}
	for _, k := range containersOf(c.Pod) {
		if f, ok := c.notReady(&k); ok {
			return []Finding{f}
		}
	}
	return c.gateNotMet()
}

// notReady words one container that runs and does not answer its probe in time.
func (c *Case) notReady(k *container) (Finding, bool) {
	run := k.status.State.Running
	if k.init || run == nil || k.status.Ready || k.ReadinessProbe == nil && k.StartupProbe == nil {
		return Finding{}, false
	}
	ran := c.Now.Sub(run.StartedAt.Time)
	if ran < allowance(k) {
		return Finding{}, false
	}
	probe := "readiness"
	if k.StartupProbe != nil && !ptr.Deref(k.status.Started, false) {
		probe = "startup"
	}
	f := Finding{
		Message:  fmt.Sprintf("%s of pod %s runs since %s, and its %s probe does not succeed", k.noun(), c.Pod.Name, wording.Minutes(ran), probe),
		Evidence: []facts.Evidence{k.said(c.Pod, "running, ready: false")},
	}
	for _, e := range c.EventsOf(c.Pod, "Unhealthy") {
		f.Message += ": " + wording.Shortened(e.Message, 120)
		f.Evidence = append(f.Evidence, shown(e))
		break
	}
	return f, true
}

// allowance is how long the container may take to become ready before that is strange.
func allowance(k *container) time.Duration {
	d := 2 * time.Minute
	for _, p := range []*corev1.Probe{k.StartupProbe, k.ReadinessProbe} {
		if p != nil {
			d = max(d, time.Duration(p.InitialDelaySeconds+p.PeriodSeconds*max(p.FailureThreshold, 1))*time.Second)
		}
	}
	return d
}

// gateNotMet is about conditions that others have to set.
func (c *Case) gateNotMet() []Finding {
	for _, g := range c.Pod.Spec.ReadinessGates {
		met, since := false, c.Pod.CreationTimestamp.Time
		for _, k := range c.Pod.Status.Conditions {
			if k.Type == g.ConditionType {
				met, since = k.Status == corev1.ConditionTrue, k.LastTransitionTime.Time
			}
		}
		if !met && c.Now.Sub(since) > 2*time.Minute {
			return []Finding{{
				Message:  fmt.Sprintf("pod %s runs, and nobody has set its readiness gate %s since %s", c.Pod.Name, g.ConditionType, wording.Minutes(c.Now.Sub(since))),
				Evidence: []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: fmt.Sprintf("status.conditions[%s]", g.ConditionType), Value: "not True"}},
				Owner:    Platform, Advice: fmt.Sprintf("Look at the controller that sets %s, often a load balancer's.", g.ConditionType),
			}}
		}
	}
	return nil
}
