package l4

import (
	"fmt"
	"time"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var readinessNotMetCheck = check.Check{
	Cause: "readiness-not-met", Layer: check.L4, Owner: check.ML, Stage: check.Run, Rank: 60,
	Title:   "The pod runs and is not ready",
	Meaning: "A container runs, and its startup or readiness probe does not succeed in the time that the probe itself allows, or nobody meets a readiness gate. Services send it no traffic and rollouts wait for it; behind a sidecar that has not started, the other containers do not start either.",
	Remedy:  "Read the probe's message and the container's log; give a slow start more time with a startup probe.",
	Not:     "It is Pending: it was placed and started.",
	Find:    readinessNotMet,
}

func readinessNotMet(c *check.Case) []check.Finding {
	sidecar := c.State == facts.Starting // one that runs, with the others behind it
	if !sidecar && (c.State != facts.Running || facts.Unsettled(c.Pod)) || c.Pod.DeletionTimestamp != nil {
		return nil
	}
	if what, _ := life.Lost(c); what != "" {
		return nil
	}
	for _, k := range life.ContainersOf(c.Pod) {
		if f, ok := notReady(c, &k); ok && k.Init == sidecar {
			return []check.Finding{f}
		}
	}
	return gateNotMet(c)
}

// notReady words one container that runs and does not answer its probe. As long as the probe gives it more time, that is
// a part of starting, and worth a word only once the probe has failed.
func notReady(c *check.Case, k *life.Container) (check.Finding, bool) {
	p, left := life.Unanswered(c, k)
	if p == nil || left > 0 && p.Failed(c) == nil {
		return check.Finding{}, false
	}
	ran := c.Now.Sub(k.Status.State.Running.StartedAt.Time)
	f := check.Finding{
		Message:  fmt.Sprintf("%s of pod %s runs since %s, and its %s does not succeed", k.Noun(), c.Pod.Name, wording.Minutes(ran), p),
		Evidence: []facts.Evidence{k.Said(c.Pod, "running, "+p.State())},
	}
	if k.Init {
		f.Message += ", so that the containers after it do not start"
	}
	switch e := p.Failed(c); {
	case left > 0 && e != nil && life.Hopeless(e) && ran > time.Minute:
		f.Owner = check.User
		f.Message = fmt.Sprintf("%s of pod %s runs since %s, and its %s asks for what waiting does not bring, though it allows %s more", k.Noun(), c.Pod.Name, wording.Minutes(ran), p, wording.Minutes(left))
		f.Advice = "Correct what the probe asks: its path, port, scheme or command."
	case left > 0 && p.Killed():
		f.Message = fmt.Sprintf("%s of pod %s has been started %d times, and its %s has not succeeded; it allows %s more before the kubelet ends the container again", k.Noun(), c.Pod.Name, k.Status.RestartCount+1, p, wording.Minutes(left))
		f.Advice = "Read the container's log for what it waits for; if it only needs longer to start, raise failureThreshold of its startup probe."
	case left > 0:
		f.Healthy = true
		f.Message = fmt.Sprintf("%s of pod %s has %s left to answer its %s", k.Noun(), c.Pod.Name, wording.Minutes(left), p)
	}
	if l := leadsNobody(c); l != nil && left <= 0 {
		f.Message += fmt.Sprintf("; %s makes its workers when it is ready (spec.startupPolicy), and it has none", facts.RefTo(l))
		f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(l).In(), Field: "spec.startupPolicy", Value: "LeaderReady"})
		f.Advice = "See whether the leader waits for its workers before it answers its probe: then each waits for the other, and startupPolicy has to be LeaderCreated."
	}
	if e := p.Failed(c); e != nil {
		f.Message += ": " + wording.Shortened(e.Message, 120)
		f.Evidence = append(f.Evidence, life.Shown(e))
	}
	return f, true
}

// gateNotMet is about conditions that others have to set.
func gateNotMet(c *check.Case) []check.Finding {
	g, left := life.GateShut(c)
	if g == "" || left > 0 {
		return nil
	}
	return []check.Finding{{
		Message:  fmt.Sprintf("pod %s runs and is not ready: nobody has set its readiness gate %s to True", c.Pod.Name, g),
		Evidence: []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: fmt.Sprintf("status.conditions[%s]", g), Value: "not True"}},
		Owner:    check.Platform, Advice: fmt.Sprintf("Look at the controller that sets %s, often a load balancer's: whether it runs, and what it says of the pod.", g),
	}}
}
