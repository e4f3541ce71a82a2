package l3

import (
	"fmt"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/internal/queue"
	"github.com/berth-dev/berth/engine/why"
)

var queueForbiddenCheck = check.Check{
	Cause: why.QueueForbidden, Layer: check.L3, Owner: check.Scheduler, Stage: check.Admit, Rank: 21,
	Title:   "The queue is not open to the namespace",
	Meaning: "The queue exists, and its selector does not choose the namespace that the work is in.",
	Remedy:  "Use a queue that is open to the namespace, or have the namespace labelled as the queue's selector wants it.",
	Not:     "The queue is full.",
	Find:    queueForbidden,
}

func queueForbidden(c *check.Case) []check.Finding {
	if g, ok := queue.GateOf(c, why.QueueForbidden); ok {
		return []check.Finding{queue.BerthForbidden(c, g.Object)}
	}
	if found := queue.BerthSaid(c, why.QueueForbidden); found != nil {
		return found
	}
	if found := queue.Refused(c, why.QueueForbidden); found != nil {
		return found
	}
	v := queue.Kueue(c)
	if v == nil || v.Cause != why.QueueForbidden {
		return nil
	}
	found := check.Finding{Message: fmt.Sprintf("%s takes no work of namespace %s", v.Name(), c.Pod.Namespace), Evidence: v.Evidence(), Edits: queue.KueueElsewhere(c, v)}
	if v.Cluster != nil {
		if e, ok := queue.AdmitNamespace(c, v.Cluster); ok {
			found.Edits = append(found.Edits, queue.KueueOnly(c, e)...)
		}
	}
	return []check.Finding{found}
}
