package l4

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
)

var cronjobSuspendedCheck = check.Check{
	Cause: "cronjob-suspended", Layer: check.L4, Owner: check.User, Stage: check.Create, Rank: 3,
	Title:   "The CronJob is suspended",
	Meaning: "Somebody has set spec.suspend: it starts no new Jobs until that is taken back. Jobs that it has started go on.",
	Remedy:  "Take the suspension back when it should run.",
	Find:    cronJobSuspended,
}

func cronJobSuspended(c *check.Case) []check.Finding {
	o, ok := c.Top.(*batchv1.CronJob)
	if !ok || !ptr.Deref(o.Spec.Suspend, false) || c.Exists && c.State != facts.Succeeded && c.State != facts.Failed {
		return nil
	}
	return []check.Finding{{
		Healthy: true, Message: fmt.Sprintf("%s is suspended: it starts no Jobs", facts.RefTo(o)),
		Evidence: []facts.Evidence{{Object: facts.RefTo(o).In(), Field: "spec.suspend", Value: "true"}},
		Advice:   fmt.Sprintf(`To run it: kubectl patch cronjob %s -n %s -p '{"spec":{"suspend":false}}'`, o.Name, o.Namespace),
	}}
}
