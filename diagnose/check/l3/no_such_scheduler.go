package l3

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/queue"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/internal/spelling"
)

var noSuchSchedulerCheck = check.Check{
	Cause: "no-such-scheduler", Layer: check.L3, Owner: check.User, Stage: check.Admit, Rank: 30,
	Title:   "Nobody schedules the pod",
	Meaning: "The pod names a scheduler that does not exist, or that does not run. Such a pod gets no event and no condition; it just gets older.",
	Remedy:  "Name a scheduler that runs, or start the one that is named.",
	Not:     "The cluster is full: nobody has looked.",
	Find:    noSuchScheduler,
}

func noSuchScheduler(c *check.Case) []check.Finding {
	name := c.Pod.Spec.SchedulerName
	if c.State != facts.Pending && c.State != facts.Absent || name == "" || spokenOf(c) {
		return nil
	}
	how, since, seen := c.Scheduler(name)
	f := check.Finding{Evidence: append(seen, facts.Evidence{Object: facts.RefTo(c.Pod).In(), Field: "spec.schedulerName", Value: name})}
	switch {
	case how == facts.SchedulerAbsent:
		f.Message = fmt.Sprintf("pod %s names scheduler %s, and there is none of that name", c.Pod.Name, name)
	case how == facts.SchedulerDead:
		f.Owner, f.Message = check.Scheduler, fmt.Sprintf("scheduler %s, which pod %s names, does not run", name, c.Pod.Name)
		if !since.IsZero() {
			f.Message = fmt.Sprintf("scheduler %s, which pod %s names, has not run", name, c.Pod.Name) + " since " + since.UTC().Format("2006-01-02 15:04 MST")
		}
		f.Advice = "Start the scheduler; its pods and its log say why it does not run."
	case silence(c, since):
		f.Message = fmt.Sprintf("no scheduler has said anything about pod %s, which names %s, for %s", c.Pod.Name, name, wording.Minutes(c.Age()))
		f.Owner, f.Last = check.Scheduler, true // silence is no cause where there are events
		// kube-scheduler writes a condition on the pod in any case; others may speak in events and on their groups alone.
		f.Blind = name != corev1.DefaultSchedulerName && !c.Sees("events", c.Pod.Namespace)
		if near, ok := spelling.Closest(name, c.LivingSchedulers()); ok && near != name && since.IsZero() {
			f.Owner, f.Message = check.User, f.Message+fmt.Sprintf("; %s runs, and its name is nearly the same", near)
		}
	default:
		return nil
	}
	if name == corev1.DefaultSchedulerName {
		f.Owner = check.Platform
	}
	f.Edits = otherSchedulers(c, name)
	return []check.Finding{f}
}

// silence says whether the pod has waited for long without a word, where nothing else explains that: a scheduler that
// spoke since the pod is there would have looked at it, and a gang or a claim may keep a pod from being looked at.
func silence(c *check.Case, spoke time.Time) bool {
	if c.State != facts.Pending || c.Age() < facts.SilentAfter || spoke.After(c.Pod.CreationTimestamp.Time) || c.Edited() || len(c.Pod.Spec.ResourceClaims) > 0 || queue.Incomplete(c) {
		return false
	}
	if f := c.Fit; f != nil {
		return f.Placed()
	}
	return c.GangOf(c.Pod) == "" && len(c.Pod.Spec.SchedulingGates) == 0 // whatever the nodes are, it would have said that none will do
}

// otherSchedulers offers those that run: the one that may have been meant first.
func otherSchedulers(c *check.Case, name string) []edit.Edit {
	living := c.LivingSchedulers()
	near, isNear := spelling.Closest(name, living)
	var out []edit.Edit
	for _, s := range spelling.ByLikeness(name, living) {
		if s == name {
			continue
		}
		e := edit.Edit{
			Side: edit.Workload, Cost: 5, Text: fmt.Sprintf("name scheduler %s instead of %s", s, name),
			Ops: []edit.Op{{Op: "replace", Path: "/spec/schedulerName", Value: s}},
		}
		if isNear && s == near {
			e.Cost = 1
		} else if s == corev1.DefaultSchedulerName {
			e.Cost = 2
		}
		out = append(out, e)
	}
	return out
}
