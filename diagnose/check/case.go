package check

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/facts"
)

// Case is one pod of the target, for the checks: it exists, or is what its owner would make. Pods of a target that
// look the same and are in the same state are one case.
type Case struct {
	*facts.Facts
	Now    time.Time
	Target facts.Ref
	Top    facts.Object   // the target itself
	Owners []facts.Object // from Top down to the pod's controller; Top alone where it is the pod
	Pod    *corev1.Pod
	Exists bool // the pod does; else Pod is as Maker would make it, without status
	Like   int  // how many pods of the target this one stands for
	State  facts.State
	All    []*corev1.Pod // of the target, that exist
	Checks []*Check      // all that are run, for a check that speaks only where no other does

	// Unexplained says that only whether the pod has a place is asked, and not why it has none.
	Unexplained bool

	// Fit is what the engine says of the pod; nil where nodes or the pods on them may not be read, and for pods that have
	// a node already or have ended.
	Fit *Fit

	Tolerable map[string]bool // by taint: see taint.go
}

// Owner is what makes the pod: its controller, or the pod itself where it has none.
func (c *Case) Owner() facts.Object { return c.Owners[len(c.Owners)-1] }

// Age is how long the pod has been there; where it does not exist, its owner.
func (c *Case) Age() time.Duration {
	if c.Exists {
		return c.Now.Sub(c.Pod.CreationTimestamp.Time)
	}
	return c.Now.Sub(c.Owner().GetCreationTimestamp().Time)
}

// Waits says whether the pod has no node yet: it is to be created, admitted or placed.
func (c *Case) Waits() bool {
	return c.State == facts.Absent || c.State == facts.Gated || c.State == facts.Pending
}
