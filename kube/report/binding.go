package report

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/engine/why"
)

// BindingState is what has become of a binding that was not carried out.
type BindingState string

const (
	BindingRefused    BindingState = "refused"    // for good: the node is left alone for a while
	BindingFails      BindingState = "failing"    // and is tried again
	BindingWaits      BindingState = "waiting"    // behind others of its namespace that fail
	BindingUnanswered BindingState = "unanswered" // in time, and is tried again
)

// Binding is why a pod is not bound to the node that was chosen for it.
type Binding struct {
	Node  string       `json:"node"`
	State BindingState `json:"state"`
	Error string       `json:"error,omitempty"` // what the API server said
}

// Sentence says it in one line.
func (b *Binding) Sentence() string {
	switch b.State {
	case BindingFails:
		return fmt.Sprintf("the binding to node %s fails, and is tried again: %s", b.Node, b.Error)
	case BindingWaits:
		return fmt.Sprintf("the binding to node %s waits, because bindings in its namespace fail: %s", b.Node, b.Error)
	case BindingUnanswered:
		return fmt.Sprintf("the API server has not answered the binding to node %s in time: it, or an admission webhook that it asks about pods/binding, hangs; it is tried again", b.Node)
	}
	return fmt.Sprintf("the binding to node %s was refused: %s", b.Node, b.Error)
}

// OfBinding is what is to be said of a pod that has a place and is not bound: the condition's reason and sentence, and
// the same as data.
func OfBinding(b Binding) (reason, text string, p Pending) {
	return corev1.PodReasonSchedulerError, b.Sentence(), Pending{Cause: BindingFailed, Verdict: why.Blocked, Binding: &b}
}
