package l3

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/queue"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var managedElsewhereCheck = check.Check{
	Cause: "managed-elsewhere", Layer: check.L3, Owner: check.Platform, Stage: check.Create, Rank: 80,
	Title:   "The Job is left to a controller that makes no pods",
	Meaning: "spec.managedBy hands the Job to a controller of that name, and Kubernetes' own Job controller leaves it alone. The other one has not made pods, and says nothing.",
	Remedy:  "See whether that controller is installed and runs. The field cannot be changed: without that controller, create the Job anew without spec.managedBy.",
	Not:     "There is no room: its pods would exist, and be Pending.",
	Find:    managedElsewhere,
}

func managedElsewhere(c *check.Case) []check.Finding {
	j, ok := c.Owner().(*batchv1.Job)
	if !ok || c.State != facts.Absent || c.Now.Sub(j.CreationTimestamp.Time) < life.Patience/2 || queue.Queued(c) {
		return nil
	}
	by := ptr.Deref(j.Spec.ManagedBy, batchv1.JobControllerName)
	if by == batchv1.JobControllerName {
		return nil
	}
	return []check.Finding{{
		Message:  fmt.Sprintf("%s is managed by %s, which has not made its %s: Kubernetes' own Job controller leaves it alone", facts.RefTo(j), by, wording.Pods(c.Like)),
		Evidence: []facts.Evidence{{Object: facts.RefTo(j).In(), Field: "spec.managedBy", Value: by}},
	}}
}
