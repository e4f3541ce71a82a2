package life

import (
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
)

const (
	// forgottenAfter is how long a container has to run for the kubelet to forget its crashes.
	forgottenAfter = 10 * time.Minute
	// repeats is how often a program must have failed for the next failure to be expected, and longestLife how long it may run
	// between two failures: NCCL's watchdog, for one, ends a program after half an hour.
	repeats     = 3
	longestLife = time.Hour
)

// Recurs says whether a container that runs now can be expected to fail again: it has failed several times, and this instance
// has not outlived the last one.
func Recurs(c *check.Case, k *Container) bool {
	t, run := k.Status.LastTerminationState.Terminated, k.Status.State.Running
	if t == nil || run == nil || t.ExitCode == 0 || k.Status.RestartCount < repeats {
		return false
	}
	lived, lives := t.FinishedAt.Sub(t.StartedAt.Time), c.Now.Sub(run.StartedAt.Time)
	if lived < forgottenAfter {
		return lives < forgottenAfter
	}
	return lived <= longestLife && lives < lived && c.Age() <= time.Duration(k.Status.RestartCount)*longestLife
}

// FailedBefore are pods of the Job that failed in the place of a pod that runs now, the newest first; nil where the pod has outlived
// the last of them, or they are too few to expect that it fails as well.
func FailedBefore(c *check.Case) []*corev1.Pod {
	if _, ok := c.Owner().(*batchv1.Job); !ok || c.State != facts.Running {
		return nil
	}
	out := before(c, func(p *corev1.Pod) bool { return Disrupted(p) == nil })
	if len(out) < repeats {
		return nil
	}
	t := FailedIn(out[0])
	if t == nil || t.FinishedAt.Sub(t.StartedAt.Time) > longestLife || c.Age() >= max(t.FinishedAt.Sub(t.StartedAt.Time), forgottenAfter) {
		return nil
	}
	return out
}

// EvictedBefore are pods of the Job that somebody ended in the place of a pod that runs now, the newest first; nil where the pod has
// outlived the last of them, or they are too few to expect that it is ended as well.
func EvictedBefore(c *check.Case) []*corev1.Pod {
	if _, ok := c.Owner().(*batchv1.Job); !ok || c.State != facts.Running {
		return nil
	}
	out := before(c, func(p *corev1.Pod) bool { return Disrupted(p) != nil })
	if len(out) < repeats {
		return nil
	}
	if lived := Lived(out[0]); lived > longestLife || c.Age() >= max(lived, forgottenAfter) {
		return nil
	}
	return out
}

// Lived is how long the pod, which somebody ended, had been there.
func Lived(p *corev1.Pod) time.Duration {
	return Disrupted(p).LastTransitionTime.Sub(p.CreationTimestamp.Time)
}

// before are the failed pods of the kind that were in the pod's place before it, the newest first.
func before(c *check.Case, is func(*corev1.Pod) bool) []*corev1.Pod {
	var out []*corev1.Pod
	for _, p := range c.All {
		if facts.StateOf(p) == facts.Failed && p.Status.Reason == "" && index(p) == index(c.Pod) && is(p) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int {
		if at := b.CreationTimestamp.Compare(a.CreationTimestamp.Time); at != 0 {
			return at
		}
		return strings.Compare(a.Name, b.Name)
	})
	return out
}

// FailedIn is how the first container that failed in the pod ended; nil: none has.
func FailedIn(p *corev1.Pod) *corev1.ContainerStateTerminated {
	for _, k := range ContainersOf(p) {
		if t := k.Ended(); t != nil && t.ExitCode != 0 {
			return t
		}
	}
	return nil
}

// index is the pod's place in an indexed Job; "" in others.
func index(p *corev1.Pod) string { return p.Annotations[batchv1.JobCompletionIndexAnnotation] }

// defaultContainer names the container that kubectl means where none is named: injectors of sidecars write it.
const defaultContainer = "kubectl.kubernetes.io/default-container"

// lingers is how long a sidecar may go on after the program, to send what is left to send.
const lingers = 10 * time.Minute

// Lingering is a container that keeps a pod from completing: the pod's program has ended well, and this one does not end. The
// program is what asks for devices, or else the container that an injector of sidecars has named. A sidecar that the kubelet
// ends by itself, an init container that is always restarted, does not linger.
func Lingering(c *check.Case) (program, lingering *Container) {
	if c.State != facts.Running || c.Pod.Spec.RestartPolicy == corev1.RestartPolicyAlways {
		return nil, nil
	}
	all := slices.DeleteFunc(ContainersOf(c.Pod), func(k Container) bool { return k.Init })
	is := func(k Container) bool { return UsesDevices(k.Container) }
	if !slices.ContainsFunc(all, is) {
		is = func(k Container) bool { return k.Name == c.Pod.Annotations[defaultContainer] }
	}
	for i := range all {
		k := &all[i]
		switch t := k.Status.State.Terminated; {
		case is(*k) && (t == nil || t.ExitCode != 0 || c.Now.Sub(t.FinishedAt.Time) < lingers):
			return nil, nil
		case is(*k):
			program = k
		case k.Status.State.Running != nil && lingering == nil:
			lingering = k
		}
	}
	if program == nil || lingering == nil {
		return nil, nil
	}
	return program, lingering
}

// UsesDevices says whether the container asks for devices, as extended resources or by claims.
func UsesDevices(k *corev1.Container) bool {
	if len(k.Resources.Claims) > 0 {
		return true
	}
	for name, q := range k.Resources.Limits {
		if strings.Contains(string(name), "/") && !q.IsZero() {
			return true
		}
	}
	return false
}
