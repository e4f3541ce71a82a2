package facts

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
)

// SchedulerState is whether a scheduler serves the pods of a schedulerName.
type SchedulerState string

const (
	SchedulerAlive   SchedulerState = "alive"
	SchedulerDead    SchedulerState = "dead"    // it was there, and does not renew its lease, or has no pod that runs
	SchedulerAbsent  SchedulerState = "absent"  // nothing shows that it was ever there
	SchedulerUnclear SchedulerState = "unclear" // what could be seen does not tell
)

// leases are the names of the leases of schedulers that do not call it as themselves.
var leases = map[string][]string{
	corev1.DefaultSchedulerName: {"kube-scheduler"},
	"volcano":                   {"volcano", "vc-scheduler"},
	"kai-scheduler":             {"kai-scheduler", "kai-scheduler-default", "scheduler"},
}

// groups are the API groups that show that a scheduler is installed.
var groups = map[string]string{"kai-scheduler": ".scheduling.run.ai", "volcano": ".scheduling.volcano.sh", "berth": ".berth.dev"}

// leaseStale is how long a lease must not have been renewed to say that it is not held. Leases last 15 seconds as a rule.
const leaseStale = time.Minute

// SilentAfter is how long a pod, or the controller that should make it, may wait without an event before that is strange in itself.
const SilentAfter = 5 * time.Minute

// Scheduler says whether a scheduler serves the pods that name it, since when not, and what shows it.
func (f *Facts) Scheduler(name string) (SchedulerState, time.Time, []Evidence) {
	if s := f.Served; s != nil && s.Unreached == "" && slices.Contains(s.Names, name) {
		return SchedulerAlive, time.Time{}, nil // it has just answered
	}
	heard := f.schedulers().heard[name]
	if l := f.leaseOf(name); l != nil {
		e := []Evidence{{Object: RefTo(l).In(), Field: "spec.renewTime", Value: renewed(l).UTC().Format(time.RFC3339)}}
		if f.At.Sub(renewed(l)) < leaseStale || heard.After(renewed(l).Add(leaseStale)) {
			return SchedulerAlive, time.Time{}, e
		}
		return SchedulerDead, renewed(l), e
	}
	r, sure := f.runnerOf(name)
	if r != nil && sure {
		return f.stateOf(r, heard)
	}
	switch {
	case r != nil:
		_, _, e := f.stateOf(r, heard)
		return SchedulerUnclear, heard, e
	case !heard.IsZero(), f.installed(name), name == corev1.DefaultSchedulerName:
		return SchedulerUnclear, heard, nil
	case !f.Sees("leases.coordination.k8s.io", "") || !f.Sees("deployments.apps", ""):
		return SchedulerUnclear, time.Time{}, nil
	}
	return SchedulerAbsent, time.Time{}, nil
}

// stateOf says whether the workload that runs a scheduler does: by the lease that its pods hold, else by how many are available.
func (f *Facts) stateOf(r *runner, heard time.Time) (SchedulerState, time.Time, []Evidence) {
	e := []Evidence{{Object: RefTo(r.Object).In(), Field: r.field, Value: strconv.Itoa(int(r.available))}}
	l := f.leaseHeldBy(r)
	if l != nil {
		e = append(e, Evidence{Object: RefTo(l).In(), Field: "spec.renewTime", Value: renewed(l).UTC().Format(time.RFC3339)})
	}
	switch {
	case r.available == 0 && l != nil:
		return SchedulerDead, renewed(l), e
	case r.available == 0:
		return SchedulerDead, heard, e
	case l != nil && f.At.Sub(renewed(l)) >= leaseStale && !heard.After(renewed(l).Add(leaseStale)):
		return SchedulerDead, renewed(l), e
	}
	return SchedulerAlive, time.Time{}, e
}

// HeardFrom says whether the scheduler has written an event of its own about the pod, whatever its reason.
func (f *Facts) HeardFrom(scheduler string, p *corev1.Pod) bool {
	return scheduler != "" && slices.ContainsFunc(f.EventsNamed("Pod", p.Namespace, p.Name), func(e *corev1.Event) bool { return Emitter(e) == scheduler })
}

// ServedBy are the schedulerNames of pods that the scheduler has said something about; its own name is always among
// them.
func (f *Facts) ServedBy(scheduler string) []string {
	out := []string{scheduler}
	for _, e := range f.Events {
		if e.InvolvedObject.Kind != "Pod" || Emitter(e) != scheduler {
			continue
		}
		if p := f.PodNamed(e.InvolvedObject.Namespace, e.InvolvedObject.Name); p != nil && !slices.Contains(out, p.Spec.SchedulerName) {
			out = append(out, p.Spec.SchedulerName)
		}
	}
	slices.Sort(out)
	return out
}

// installed says whether objects of the scheduler's own kinds are there.
func (f *Facts) installed(name string) bool {
	suffix, ok := groups[name]
	if !ok {
		return false
	}
	for kind, all := range f.Foreign {
		if strings.HasSuffix(kind, suffix) && len(all) > 0 {
			return true
		}
	}
	return false
}

// leaseOf is the newest lease of a scheduler of the name.
func (f *Facts) leaseOf(name string) *coordinationv1.Lease {
	called := append([]string{name, name + "-scheduler"}, leases[name]...)
	var out *coordinationv1.Lease
	for _, l := range f.Leases {
		if !slices.Contains(called, l.Name) || name == corev1.DefaultSchedulerName && l.Namespace != "kube-system" {
			continue
		}
		if out == nil || renewed(l).After(renewed(out)) {
			out = l
		}
	}
	return out
}

// ManagerGone is since when nobody holds the lease of kube-controller-manager, and where that is seen; the zero time where somebody does,
// or the lease is not there to be seen.
func (f *Facts) ManagerGone() (time.Time, Evidence) {
	for _, l := range f.Leases {
		if l.Namespace == "kube-system" && l.Name == "kube-controller-manager" && f.At.Sub(renewed(l)) >= leaseStale {
			return renewed(l), Evidence{Object: RefTo(l).In(), Field: "spec.renewTime", Value: renewed(l).UTC().Format(time.RFC3339)}
		}
	}
	return time.Time{}, Evidence{}
}

func renewed(l *coordinationv1.Lease) time.Time {
	if l.Spec.RenewTime == nil {
		return l.CreationTimestamp.Time
	}
	return l.Spec.RenewTime.Time
}

// namesScheduler says whether a pod has the name as its schedulerName.
func (f *Facts) namesScheduler(name string) bool {
	return slices.ContainsFunc(f.Pods, func(p *corev1.Pod) bool { return p.Spec.SchedulerName == name })
}

// hear is when schedulers last said something of a pod, by name.
func (f *Facts) hear() map[string]time.Time {
	out := make(map[string]time.Time)
	note := func(name string, at time.Time) {
		if name != "" && at.After(out[name]) { // an event need not name its source
			out[name] = at
		}
	}
	for _, p := range f.Pods {
		for _, s := range p.Status.Conditions {
			if s.Type == corev1.PodScheduled && s.Reason != corev1.PodReasonSchedulingGated {
				note(p.Spec.SchedulerName, s.LastTransitionTime.Time)
			}
		}
	}
	for _, e := range f.Events {
		if e.Reason == "Scheduled" || e.Reason == "FailedScheduling" {
			note(Emitter(e), EventTime(e))
		}
	}
	return out
}

// LivingSchedulers are the schedulers that work for all one can see, by name.
func (f *Facts) LivingSchedulers() []string {
	var out []string
	called := maps.Clone(f.schedulers().heard)
	for name := range leases {
		called[name] = time.Time{}
	}
	for _, l := range f.Leases {
		if name, ok := strings.CutSuffix(l.Name, "-scheduler"); ok && name != "kube" && name != "vc" && leases[l.Name] == nil && !f.namesScheduler(l.Name) {
			called[name] = time.Time{}
		}
	}
	for _, r := range f.schedulers().runners {
		for _, name := range r.names {
			called[name] = time.Time{}
		}
	}
	delete(called, "") // of pods that were never admitted
	for name := range called {
		how, _, _ := f.Scheduler(name)
		if how == SchedulerAlive || how == SchedulerUnclear && !f.schedulers().heard[name].IsZero() {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
