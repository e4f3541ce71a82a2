package life

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
)

// Probe is a probe of a container that has not been answered yet.
type Probe struct {
	kind string // startup, readiness or liveness, as the kubelet words it in events, in lower case
	of   *Container
	*corev1.Probe
}

// String names the probe and what it asks.
func (p *Probe) String() string {
	switch {
	case p.HTTPGet != nil:
		return fmt.Sprintf("%s probe (HTTP %s on port %s)", p.kind, p.HTTPGet.Path, &p.HTTPGet.Port)
	case p.TCPSocket != nil:
		return fmt.Sprintf("%s probe (TCP port %s)", p.kind, &p.TCPSocket.Port)
	case p.GRPC != nil:
		return fmt.Sprintf("%s probe (gRPC port %d)", p.kind, p.GRPC.Port)
	case p.Exec != nil:
		return p.kind + " probe (a command)" // bundles mask the words of commands, which may hold secrets
	}
	return p.kind + " probe"
}

// State is what the kubelet says of the container while the probe is not answered.
func (p *Probe) State() string {
	if p.kind == "startup" {
		return "started: false"
	}
	return "ready: false"
}

// allows is how long after the container's start the probe may go unanswered: its own delay, and as many failures as it
// forgives. A container has half a minute in any case.
func (p *Probe) allows() time.Duration {
	seconds := p.InitialDelaySeconds + max(p.PeriodSeconds, 1)*max(p.FailureThreshold, 1)
	return max(time.Duration(seconds)*time.Second, 30*time.Second)
}

// Failed is the newest event of the probe's failure; nil where none is left.
func (p *Probe) Failed(c *check.Case) *corev1.Event {
	for _, e := range c.EventsOf(c.Pod, "Unhealthy") {
		if strings.HasPrefix(strings.ToLower(e.Message), p.kind+" probe ") && inContainer(e, p.of.Name) {
			return e
		}
	}
	return nil
}

// Killed says whether the instance of the container before this one went the same way: a startup probe did not succeed in its time, and the
// kubelet ended it, which takes its grace period. One that lived longer had started.
func (p *Probe) Killed() bool {
	t := p.of.Status.LastTerminationState.Terminated
	const grace = time.Minute
	return p.kind == "startup" && t != nil && t.ExitCode != 0 && t.FinishedAt.Sub(t.StartedAt.Time) <= p.allows()+grace
}

// hopeless are words of a probe's failure that no waiting changes: the program answers and has no such page, does not let the
// kubelet in, or speaks another protocol; what the probe runs is not in the image. A program that still loads refuses
// connections, does not answer in time, or says 503 (400 in Triton).
var hopeless = []string{
	"statuscode: 401", "statuscode: 403", "statuscode: 404", "statuscode: 405", // pkg/probe/http of Kubernetes
	"server gave http response to https client", "client sent an http request to an https server", "malformed http",
	"executable file not found", "no such file or directory", "unknown service", // gRPC has no health service
}

// Hopeless says whether the failure does not pass by itself, however much time the probe allows.
func Hopeless(e *corev1.Event) bool {
	text := strings.ToLower(e.Message)
	return slices.ContainsFunc(hopeless, func(words string) bool { return strings.Contains(text, words) })
}

// inContainer says whether the event can be about the container: it names that one, or none.
func inContainer(e *corev1.Event, name string) bool {
	return e.InvolvedObject.FieldPath == "" || strings.HasSuffix(e.InvolvedObject.FieldPath, "{"+name+"}")
}

// Unanswered is the probe that keeps a running container from being started or ready, and how much of the time that the
// probe allows is left; nil: none does. Of init containers those that stay, sidecars, have probes.
func Unanswered(c *check.Case, k *Container) (*Probe, time.Duration) {
	run := k.Status.State.Running
	if run == nil {
		return nil, 0
	}
	var p *Probe
	switch {
	case k.StartupProbe != nil && !ptr.Deref(k.Status.Started, false) && !k.Status.Ready:
		p = &Probe{kind: "startup", of: k, Probe: k.StartupProbe}
	case k.ReadinessProbe != nil && !k.Status.Ready:
		p = &Probe{kind: "readiness", of: k, Probe: k.ReadinessProbe}
	default:
		return nil, 0
	}
	left := run.StartedAt.Add(p.allows()).Sub(c.Now)
	return p, max(left, 0)
}

// KilledBy is the liveness or startup probe because of which the kubelet stopped the container's last instance; nil: it
// did not, or nothing shows it any more.
func KilledBy(c *check.Case, k *Container) (*Probe, *corev1.Event) {
	for _, p := range []*Probe{{kind: "liveness", of: k, Probe: k.LivenessProbe}, {kind: "startup", of: k, Probe: k.StartupProbe}} {
		if p.Probe == nil {
			continue
		}
		for _, e := range c.EventsOf(c.Pod, "Killing", "Unhealthy") {
			killed := e.Reason == "Killing" && strings.Contains(e.Message, "failed "+p.kind+" probe")
			if inContainer(e, k.Name) && (killed || e.Reason == "Unhealthy" && strings.HasPrefix(strings.ToLower(e.Message), p.kind+" probe failed")) {
				if failed := p.Failed(c); failed != nil {
					e = failed
				}
				return p, e
			}
		}
	}
	return nil, nil
}

// GateShut is the first readiness gate of a pod with ready containers that is not met, and how much is left of the half
// minute that its controller has for it; "": there is none.
func GateShut(c *check.Case) (corev1.PodConditionType, time.Duration) {
	if c.State != facts.Running {
		return "", 0
	}
	at := func(t corev1.PodConditionType) (met bool, since time.Time) {
		since = c.Pod.CreationTimestamp.Time
		for _, k := range c.Pod.Status.Conditions {
			if k.Type == t {
				met = k.Status == corev1.ConditionTrue
				if !k.LastTransitionTime.IsZero() {
					since = k.LastTransitionTime.Time
				}
			}
		}
		return met, since
	}
	for _, g := range c.Pod.Spec.ReadinessGates {
		if met, since := at(g.ConditionType); !met {
			if ready, then := at(corev1.ContainersReady); ready && then.After(since) {
				since = then
			}
			return g.ConditionType, max(since.Add(30*time.Second).Sub(c.Now), 0)
		}
	}
	return "", 0
}
