package l4

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
)

var cronjobNeverDueCheck = check.Check{
	Cause: "cronjob-never-due", Layer: check.L4, Owner: check.User, Stage: check.Create, Rank: 4,
	Title:   "The CronJob's schedule names no day that exists",
	Meaning: "The schedule can be read, and no day in the next years fits it, such as the 31st of February: the CronJob starts nothing, and nothing says so.",
	Remedy:  "Correct the schedule: minute, hour, day of the month, month, day of the week.",
	Find:    cronJobNeverDue,
}

func cronJobNeverDue(c *check.Case) []check.Finding {
	o, ok := c.Top.(*batchv1.CronJob)
	if !ok || c.Exists {
		return nil
	}
	if next, err := life.NextRun(o, c.Now); err != nil || !next.IsZero() {
		return nil
	}
	return []check.Finding{{
		Message:  fmt.Sprintf("%s has the schedule %q, and no day of the next five years fits it", facts.RefTo(o), o.Spec.Schedule),
		Evidence: []facts.Evidence{{Object: facts.RefTo(o).In(), Field: "spec.schedule", Value: o.Spec.Schedule}},
	}}
}
