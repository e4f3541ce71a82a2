package l4

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
)

var cronjobNeverDueCheck = check.Check{
	Cause: "cronjob-never-due", Layer: check.L4, Owner: check.User, Stage: check.Create, Rank: 4,
	Title:   "The CronJob's schedule leaves no time to start",
	Meaning: "The schedule can be read, and no day in the next years fits it, such as the 31st of February; or the CronJob may start so little after its time that its controller, which looks every ten seconds, is late for it.",
	Remedy:  "Correct the schedule: minute, hour, day of the month, month, day of the week; or let it start later after its time.",
	Find:    cronJobNeverDue,
}

// looksEvery is how often the controller looks after CronJobs at least, in seconds: with a startingDeadlineSeconds below it, a Job
// may never be started (Kubernetes' page on CronJobs).
const looksEvery = 10

func cronJobNeverDue(c *check.Case) []check.Finding {
	o, ok := c.Top.(*batchv1.CronJob)
	if !ok || c.Exists {
		return nil
	}
	if late := o.Spec.StartingDeadlineSeconds; late != nil && *late < looksEvery && len(c.EventsOf(o, "MissSchedule")) > 0 {
		n := o.DeepCopy()
		n.Spec.StartingDeadlineSeconds = ptr.To[int64](200)
		return []check.Finding{{
			Message: fmt.Sprintf("%s may start at most %d seconds after its time, its controller looks every %d, and it has missed its time", facts.RefTo(o), *late, looksEvery),
			Evidence: []facts.Evidence{{Object: facts.RefTo(o).In(), Field: "spec.startingDeadlineSeconds", Value: fmt.Sprint(*late)},
				life.Shown(c.EventsOf(o, "MissSchedule")[0])},
			Edits: []edit.Edit{{
				Side: edit.Workload, Cost: edit.CostWord, Set: []facts.Object{n}, Text: fmt.Sprintf("let %s start up to 200 seconds after its time", facts.RefTo(o)), Outcome: "it starts at its next time",
				Command: fmt.Sprintf("kubectl patch cronjob %s -n %s -p '{\"spec\":{\"startingDeadlineSeconds\":200}}'", o.Name, o.Namespace),
			}},
		}}
	}
	if next, err := life.NextRun(o, c.Now); err != nil || !next.IsZero() {
		return nil
	}
	return []check.Finding{{
		Message:  fmt.Sprintf("%s has the schedule %q, and no day of the next five years fits it", facts.RefTo(o), o.Spec.Schedule),
		Evidence: []facts.Evidence{{Object: facts.RefTo(o).In(), Field: "spec.schedule", Value: o.Spec.Schedule}},
	}}
}
