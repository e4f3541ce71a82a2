package diagnose

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

// patience is how long a pod that could be placed, or created, may wait before that is strange; startsIn how long one
// may take from its node to its program, pulls aside.
const (
	patience = time.Minute
	startsIn = 10 * time.Minute
)

// calm words the answer for a target that nothing blocks: what it is at, and when it goes on where that is known. What
// should have gone on long ago and shows nothing is unknown.
func (d *Diagnoser) calm(out *Diagnosis, j *judgement) {
	c := j.cases[0]
	if p := c.leaving(); p != nil {
		until := p.DeletionTimestamp.Time
		out.Summary = fmt.Sprintf("pod %s is ending, and has until %s for it", p.Name, until.UTC().Format("15:04:05"))
		if c.Waits() || facts.WaitsForDeletion(c.Owner()) {
			out.ETA = &facts.ETA{Earliest: c.Now, Likely: until, Because: "pod " + p.Name + " has ended by then"}
		}
		return
	}
	for _, say := range []func(*Case) string{(*Case).restful, (*Case).comingUp} {
		if s := say(c); s != "" {
			out.Summary = s
			return
		}
	}
	switch placed := c.Fit != nil && c.Fit.Placed(); {
	case c.Fit == nil && c.refusal() != "":
		out.Cause = Unknown
		out.Summary = "its scheduler has no place for it, and what it would take to say why cannot be seen; it says: " + c.refusal()
	case c.Waits() && c.Fit != nil && !placed && d.engineSays(out, c):
	case c.Waits() && c.Age() < patience:
		out.Summary = fmt.Sprintf("it is %s old, and nothing stands in its way", c.Age().Round(time.Second))
	case c.State == facts.Absent && c.backsOff() != "":
		out.Summary = c.backsOff()
	case c.Waits() && c.Exists && c.nominated() != "":
		out.Summary = c.nominated()
	case c.Waits() && c.Exists && placed:
		out.Summary = "the engine finds a place for it now: " + j.outcome() + " once its scheduler looks at it"
	default:
		out.Cause, out.Owner = Unknown, Nobody
		out.Summary = c.unexplained()
	}
}

// engineSays names what the engine has against the pod, where no check did: never is work called healthy for which there
// is no place.
func (d *Diagnoser) engineSays(out *Diagnosis, c *Case) bool {
	i := slices.IndexFunc(d.checks, func(k *Check) bool { return k.Cause == c.Fit.Cause })
	if i < 0 || len(c.Fit.Gates) == 0 {
		return false
	}
	check := d.checks[i]
	out.Layer, out.Cause, out.Owner, out.Advice = check.Layer, check.Cause, check.Owner, check.Remedy
	out.Summary = c.Fit.Gates[0].Sentence(c.Fit.Certificates)
	return true
}

// restful is about work that is where it should be.
func (c *Case) restful() string {
	switch c.State {
	case facts.Running:
		for _, k := range containersOf(c.Pod) {
			if t := k.ended(); t != nil && k.status.State.Running == nil && c.firstFall(&k, t) {
				return fmt.Sprintf("%s ended with exit code %d for the first time, %s ago, and is started again", k.noun(), t.ExitCode, wording.Minutes(c.Now.Sub(t.FinishedAt.Time)))
			}
		}
		if slices.ContainsFunc(containersOf(c.Pod), func(k container) bool {
			return !k.init && !k.status.Ready && (k.ReadinessProbe != nil || k.StartupProbe != nil)
		}) {
			return "it runs, and its probes have some time left before it has to be ready"
		}
		if n := restarts(c.Pod); n > 0 {
			return fmt.Sprintf("it runs; its containers were restarted %s before", wording.Number(n, "time"))
		}
		return "it runs"
	case facts.Succeeded:
		return "it has finished"
	}
	if c.Exists {
		return ""
	}
	switch top := c.Top.(type) {
	case *batchv1.CronJob:
		if len(c.Owners) > 1 || len(c.Children(top)) > 0 {
			return ""
		}
		if last := top.Status.LastScheduleTime; last != nil {
			return fmt.Sprintf("its schedule is %q, it ran last %s ago, and the next run is not due", top.Spec.Schedule, wording.Minutes(c.Now.Sub(last.Time)))
		}
		return fmt.Sprintf("its schedule is %q, and the first run is not due", top.Spec.Schedule)
	case *appsv1.DaemonSet:
		if top.Status.DesiredNumberScheduled == 0 {
			return "no node asks for it: none matches its selector and tolerations"
		}
	}
	return ""
}

// leaving is the pod, or the one whose place it takes, that ends within the time it has for that.
func (c *Case) leaving() *corev1.Pod {
	for _, p := range c.All {
		if p.DeletionTimestamp != nil && (p.Name == c.Pod.Name || c.State == facts.Absent) && c.Now.Before(p.DeletionTimestamp.Add(patience)) {
			return p
		}
	}
	return nil
}

// comingUp is about pods that have a node.
func (c *Case) comingUp() string {
	if c.State != facts.Starting {
		return ""
	}
	if e := c.pulling(); e != nil {
		return fmt.Sprintf("node %s is pulling its image since %s: large images take minutes", c.Pod.Spec.NodeName, wording.Minutes(c.Now.Sub(facts.EventTime(e))))
	}
	for _, k := range containersOf(c.Pod) {
		if run := k.status.State.Running; run != nil && k.init && c.Now.Sub(run.StartedAt.Time) < startsIn {
			return fmt.Sprintf("its %s runs since %s", k.noun(), wording.Minutes(c.Now.Sub(run.StartedAt.Time)))
		}
	}
	if at := since(c.Pod); at.IsZero() && c.Age() < startsIn || c.Now.Sub(at) < startsIn {
		return "it is starting on node " + c.Pod.Spec.NodeName
	}
	return ""
}

// pulling is the event of a pull that neither succeeded nor failed yet.
func (c *Case) pulling() *corev1.Event {
	if c.State != facts.Starting {
		return nil
	}
	if all := c.EventsOf(c.Pod, "Pulling", "Pulled", "Failed", "BackOff"); len(all) > 0 && all[0].Reason == "Pulling" {
		return all[0]
	}
	return nil
}

// firstFall says whether the container ended just now, and never before: it is started again in a moment.
func (c *Case) firstFall(k *container, t *corev1.ContainerStateTerminated) bool {
	if c.Now.Sub(t.FinishedAt.Time) > patience {
		return false
	}
	if c.State != facts.Failed {
		return k.status.RestartCount <= 1
	}
	j, ok := c.Owner().(*batchv1.Job)
	return ok && j.Status.Failed <= 1 && ptr.Deref(j.Spec.BackoffLimit, 6) > 0
}

// mostBackOff is the longest pause that a Job makes between two pods.
const mostBackOff = 10 * time.Minute

// backsOff is about a Job that pauses after a pod that failed, or that was just made again.
func (c *Case) backsOff() string {
	job, ok := c.Owner().(*batchv1.Job)
	if !ok || job.Status.Failed == 0 {
		return ""
	}
	for _, p := range c.All {
		for _, k := range containersOf(p) {
			if t := k.ended(); t != nil && c.Now.Sub(t.FinishedAt.Time) < mostBackOff {
				return fmt.Sprintf("job %s pauses before it makes the next pod: %d %s failed", job.Name, job.Status.Failed, wording.InNumber(job.Status.Failed, "has", "have"))
			}
		}
	}
	return ""
}

// nominated is about a pod for which the scheduler has chosen a node that others are leaving.
func (c *Case) nominated() string {
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

// refusal is what the scheduler says of a pod that it cannot place.
func (c *Case) refusal() string {
	for _, s := range c.Pod.Status.Conditions {
		if c.State == facts.Pending && s.Type == corev1.PodScheduled && s.Status == corev1.ConditionFalse {
			return s.Message
		}
	}
	return ""
}

// unexplained is what can be said where nothing explains the wait.
func (c *Case) unexplained() string {
	if c.State == facts.Absent {
		return fmt.Sprintf("%s has not made its pods since %s, and nothing says why", facts.RefTo(c.Owner()), wording.Minutes(c.Age()))
	}
	return "nothing that can be seen keeps it"
}

// finished says whether the owner's work is done.
func finished(m facts.Object) bool {
	j, ok := m.(*batchv1.Job)
	return ok && facts.JobEnded(j) == batchv1.JobComplete
}

func restarts(p *corev1.Pod) (n int32) {
	for _, s := range p.Status.ContainerStatuses {
		n += s.RestartCount
	}
	return n
}
