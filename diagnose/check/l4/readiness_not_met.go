package l4

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var readinessNotMetCheck = check.Check{
	Cause: "readiness-not-met", Layer: check.L4, Owner: check.ML, Stage: check.Run, Rank: 60,
	Title:   "The pod runs and is not ready",
	Meaning: "All containers run, and a startup or readiness probe does not succeed, or a readiness gate is not met. Services send it no traffic and rollouts wait for it.",
	Remedy:  "Read the probe's message and the container's log; give a slow start more time with a startup probe.",
	Not:     "It is Pending: it was placed and started.",
	Find:    readinessNotMet,
}

func readinessNotMet(c *check.Case) []check.Finding {
	if c.State != facts.Running || c.Pod.DeletionTimestamp != nil || facts.Unsettled(c.Pod) {
		return nil
	}
	if what, _ := life.Lost(c); what != "" {
		return nil
	}
	for _, k := range life.ContainersOf(c.Pod) {
		if f, ok := notReady(c, &k); ok {
			return []check.Finding{f}
		}
	}
	return gateNotMet(c)
}

// notReady words one container that runs and does not answer its probe in time.
func notReady(c *check.Case, k *life.Container) (check.Finding, bool) {
	run := k.Status.State.Running
	if k.Init || run == nil || k.Status.Ready || k.ReadinessProbe == nil && k.StartupProbe == nil {
		return check.Finding{}, false
	}
	ran := c.Now.Sub(run.StartedAt.Time)
	if ran < allowance(k) {
		return check.Finding{}, false
	}
	probe := "readiness"
	if k.StartupProbe != nil && !ptr.Deref(k.Status.Started, false) {
		probe = "startup"
	}
	f := check.Finding{
		Message:  fmt.Sprintf("%s of pod %s runs since %s, and its %s probe does not succeed", k.Noun(), c.Pod.Name, wording.Minutes(ran), probe),
		Evidence: []facts.Evidence{k.Said(c.Pod, "running, ready: false")},
	}
	for _, e := range c.EventsOf(c.Pod, "Unhealthy") {
		f.Message += ": " + wording.Shortened(e.Message, 120)
		f.Evidence = append(f.Evidence, life.Shown(e))
		break
	}
	return f, true
}

// allowance is how long the container may take to become ready before that is strange.
func allowance(k *life.Container) time.Duration {
	d := 2 * time.Minute
	for _, p := range []*corev1.Probe{k.StartupProbe, k.ReadinessProbe} {
		if p != nil {
			d = max(d, time.Duration(p.InitialDelaySeconds+p.PeriodSeconds*max(p.FailureThreshold, 1))*time.Second)
		}
	}
	return d
}

// gateNotMet is about conditions that others have to set.
func gateNotMet(c *check.Case) []check.Finding {
	for _, g := range c.Pod.Spec.ReadinessGates {
		met, since := false, c.Pod.CreationTimestamp.Time
		for _, k := range c.Pod.Status.Conditions {
			if k.Type == g.ConditionType {
				met, since = k.Status == corev1.ConditionTrue, k.LastTransitionTime.Time
			}
		}
		if !met && c.Now.Sub(since) > 2*time.Minute {
			return []check.Finding{{
				Message:  fmt.Sprintf("pod %s runs, and nobody has set its readiness gate %s since %s", c.Pod.Name, g.ConditionType, wording.Minutes(c.Now.Sub(since))),
				Evidence: []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: fmt.Sprintf("status.conditions[%s]", g.ConditionType), Value: "not True"}},
				Owner:    check.Platform, Advice: fmt.Sprintf("Look at the controller that sets %s, often a load balancer's.", g.ConditionType),
			}}
		}
	}
	return nil
}
