package life

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

// patience is how long a pod that could be placed, or created, may wait before that is strange; startsIn how long one
// may take from its node to its program, pulls aside.
const (
	Patience = time.Minute
	startsIn = 10 * time.Minute
)

// Restful is about work that is where it should be.
func Restful(c *check.Case) string {
	switch c.State {
	case facts.Running:
		for _, k := range ContainersOf(c.Pod) {
			if t := k.Ended(); t != nil && k.Status.State.Running == nil && FirstFall(c, &k, t) {
				return fmt.Sprintf("%s ended with exit code %d for the first time, %s ago, and is started again", k.Noun(), t.ExitCode, wording.Minutes(c.Now.Sub(t.FinishedAt.Time)))
			}
		}
		for _, k := range ContainersOf(c.Pod) {
			if p, left := Unanswered(c, &k); p != nil {
				return fmt.Sprintf("it runs, and %s has %s left to answer its %s", k.Noun(), wording.Minutes(left), p)
			}
		}
		if g, left := GateShut(c); g != "" {
			return fmt.Sprintf("it runs, and is ready when a controller sets its readiness gate %s, which should take no longer than %s", g, wording.Minutes(left))
		}
		if n := restarts(c.Pod); n > 0 {
			return fmt.Sprintf("it runs; its containers were restarted %s before", wording.Number(n, "time"))
		}
		return "it runs"
	case facts.Succeeded:
		if j, ok := c.Owner().(*batchv1.Job); ok && j.Spec.Completions != nil && *j.Spec.Completions == 0 {
			return "" // it had nothing to do
		}
		return "it has finished"
	}
	if c.Exists {
		return ""
	}
	switch top := c.Top.(type) {
	case *batchv1.CronJob:
		if len(c.Owners) > 1 || len(c.Children(top)) > 0 || overdue(top, c.Now) {
			return ""
		}
		if last := top.Status.LastScheduleTime; last != nil {
			return fmt.Sprintf("its schedule is %q, it ran last %s ago, and the next run is not due", top.Spec.Schedule, wording.Minutes(c.Now.Sub(last.Time)))
		}
		return fmt.Sprintf("its schedule is %q, and the first run is not due", top.Spec.Schedule)
	case *appsv1.DaemonSet:
		if top.Status.DesiredNumberScheduled == 0 && c.Sees("nodes", "") && place.Awaits(c) {
			return "no node asks for it: those of the pool that it is for are yet to come"
		}
	}
	return ""
}

// NextRun is when the CronJob's schedule is due after a time; zero where it is not within five years. The parser is that of
// the CronJob controller.
func NextRun(o *batchv1.CronJob, after time.Time) (time.Time, error) {
	if strings.Contains(o.Spec.Schedule, "TZ") {
		return time.Time{}, errors.New("a time zone in the schedule") // the API server refuses it, and the parser panics at some
	}
	s, err := cron.ParseStandard(o.Spec.Schedule)
	if err != nil {
		return time.Time{}, err
	}
	return s.Next(after.UTC()), nil
}

// overdue says whether a run of the CronJob should have been started by now.
func overdue(o *batchv1.CronJob, now time.Time) bool {
	from, grace := o.CreationTimestamp.Time, time.Minute
	if last := o.Status.LastScheduleTime; last != nil {
		from = last.Time
	}
	if ptr.Deref(o.Spec.TimeZone, "UTC") != "UTC" {
		grace += 28 * time.Hour // what its zone is, is not known here: it is at most 14 hours off, then and now
	}
	next, err := NextRun(o, from)
	return err != nil || !next.IsZero() && next.Add(grace).Before(now)
}

// Leaving is the pod, or the one whose place it takes, that ends within the time it has for that.
func Leaving(c *check.Case) *corev1.Pod {
	for _, p := range c.All {
		if p.DeletionTimestamp != nil && (p.Name == c.Pod.Name || c.State == facts.Absent) && c.Now.Before(p.DeletionTimestamp.Add(Patience)) {
			return p
		}
	}
	return nil
}

// ComingUp is about pods that have a node.
func ComingUp(c *check.Case) string {
	if c.State != facts.Starting {
		return ""
	}
	if e := Pulling(c); e != nil {
		return fmt.Sprintf("node %s is pulling its image since %s: large images take minutes", c.Pod.Spec.NodeName, wording.Minutes(c.Now.Sub(facts.EventTime(e))))
	}
	for _, k := range ContainersOf(c.Pod) {
		if p, left := Unanswered(c, &k); p != nil && k.Init {
			return fmt.Sprintf("its %s has %s left to answer its %s", k.Noun(), wording.Minutes(left), p)
		}
		if run := k.Status.State.Running; run != nil && k.Init && c.Now.Sub(run.StartedAt.Time) < startsIn {
			return fmt.Sprintf("its %s runs since %s", k.Noun(), wording.Minutes(c.Now.Sub(run.StartedAt.Time)))
		}
	}
	if at := Since(c.Pod); at.IsZero() && c.Age() < startsIn || c.Now.Sub(at) < startsIn {
		return "it is starting on node " + c.Pod.Spec.NodeName
	}
	return ""
}

// Pulling is the event of a pull that neither succeeded nor failed yet.
func Pulling(c *check.Case) *corev1.Event {
	if c.State != facts.Starting {
		return nil
	}
	if all := c.EventsOf(c.Pod, "Pulling", "Pulled", "Failed", "BackOff"); len(all) > 0 && all[0].Reason == "Pulling" {
		return all[0]
	}
	return nil
}

// FirstFall says whether the container ended just now, and never before: it is started again in a moment.
func FirstFall(c *check.Case, k *Container, t *corev1.ContainerStateTerminated) bool {
	if c.Now.Sub(t.FinishedAt.Time) > Patience {
		return false
	}
	if c.State != facts.Failed {
		return k.Status.RestartCount <= 1
	}
	j, ok := c.Owner().(*batchv1.Job)
	return ok && j.Status.Failed <= 1 && ptr.Deref(j.Spec.BackoffLimit, 6) > 0
}

// mostBackOff is the longest pause that a Job makes between two pods.
const mostBackOff = 10 * time.Minute

// BacksOff is about a Job that pauses after a pod that failed, or that was just made again.
func BacksOff(c *check.Case) string {
	job, ok := c.Owner().(*batchv1.Job)
	if !ok || job.Status.Failed == 0 {
		return ""
	}
	for _, p := range c.All {
		for _, k := range ContainersOf(p) {
			if t := k.Ended(); t != nil && c.Now.Sub(t.FinishedAt.Time) < mostBackOff {
				return fmt.Sprintf("job %s pauses before it makes the next pod: %d %s failed", job.Name, job.Status.Failed, wording.InNumber(job.Status.Failed, "has", "have"))
			}
		}
	}
	return ""
}

// Nominated is about a pod for which the scheduler has chosen a node that others are leaving.
func Nominated(c *check.Case) string {
	node := c.Pod.Status.NominatedNodeName
	if node == "" {
		return ""
	}
	for _, p := range c.PodsOn(node) {
		if p.DeletionTimestamp != nil {
			return fmt.Sprintf("it gets node %s when pod %s/%s has ended", node, p.Namespace, p.Name)
		}
	}
	return ""
}

// SchedulerRefusal is what the scheduler says of a pod that it cannot place.
func SchedulerRefusal(c *check.Case) string {
	for _, s := range c.Pod.Status.Conditions {
		if c.State == facts.Pending && s.Type == corev1.PodScheduled && s.Status == corev1.ConditionFalse {
			return s.Message
		}
	}
	return ""
}

// Unexplained is what can be said where nothing explains the wait.
func Unexplained(c *check.Case) string {
	if c.State == facts.Absent && !c.Sees("pods", c.Pod.Namespace) {
		return fmt.Sprintf("the pods of %s cannot be seen, and what can be seen does not say why it does not run", facts.RefTo(c.Owner()))
	}
	if c.State == facts.Absent {
		return fmt.Sprintf("%s has not made its pods since %s, and nothing says why", facts.RefTo(c.Owner()), wording.Minutes(c.Age()))
	}
	return "nothing that can be seen keeps it"
}

// Finished says whether the owner's work is done.
func Finished(m facts.Object) bool {
	j, ok := m.(*batchv1.Job)
	return ok && facts.JobEnded(j) == batchv1.JobComplete
}

func restarts(p *corev1.Pod) (n int32) {
	for _, s := range p.Status.ContainerStatuses {
		n += s.RestartCount
	}
	return n
}
