package diagnose

import (
	"fmt"

	"github.com/berth-dev/berth/engine/why"
)

var queueForbiddenCheck = Check{
	Cause: why.QueueForbidden, Layer: L3, Owner: Scheduler, Stage: Admit, Rank: 21,
	Title:   "The queue is not open to the namespace",
	Meaning: "The queue exists, and its selector does not choose the namespace that the work is in.",
	Remedy:  "Use a queue that is open to the namespace, or have the namespace labelled as the queue's selector wants it.",
	Not:     "The queue is full.",
	Find:    queueForbidden,
}

func queueForbidden(c *Case) []Finding {
	if g, ok := c.gate(why.QueueForbidden); ok {
		return []Finding{c.berthForbidden(g.Object)}
	}
	if found := c.berthSaid(why.QueueForbidden); found != nil {
		return found
	}
	v := c.kueue()
	if v == nil || v.cause != why.QueueForbidden {
		return nil
	}
	found := Finding{Message: fmt.Sprintf("%s takes no work of namespace %s", v.name(), c.Pod.Namespace), Evidence: v.evidence(), Edits: c.kueueElsewhere(v)}
	if v.cluster != nil {
		if e, ok := c.admitNamespace(v.cluster); ok {
			found.Edits = append(found.Edits, c.kueueOnly(e)...)
		}
	}
	return []Finding{found}
}
