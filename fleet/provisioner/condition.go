package provisioner

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// conditions are those of an object of Karpenter: Ready follows from those it depends on
// (github.com/awslabs/operatorpkg: status/condition_set.go).
type conditions struct {
	list       *[]metav1.Condition
	generation int64
	now        time.Time
	of         []string // that Ready depends on
}

func (c conditions) get(name string) *metav1.Condition {
	return meta.FindStatusCondition(*c.list, name)
}

func (c conditions) is(name string) bool { return meta.IsStatusConditionTrue(*c.list, name) }

// begin has all that Ready depends on Unknown, where nothing is said of them.
func (c conditions) begin() {
	for _, name := range c.of {
		if c.get(name) == nil {
			c.set(name, metav1.ConditionUnknown, "AwaitingReconciliation", "object is awaiting reconciliation")
		}
	}
}

func (c conditions) set(name string, status metav1.ConditionStatus, reason, message string) {
	c.write(metav1.Condition{Type: name, Status: status, Reason: reason, Message: message})
	var not []string
	is := metav1.ConditionUnknown
	for _, d := range c.of {
		if o := c.get(d); o == nil {
			not = append(not, d+"=Unknown")
		} else if o.Status != metav1.ConditionTrue {
			not = append(not, fmt.Sprintf("%s=%s", d, o.Status))
			if o.Status == metav1.ConditionFalse {
				is = metav1.ConditionFalse
			}
		}
	}
	switch {
	case len(not) == 0:
		c.write(metav1.Condition{Type: condReady, Status: metav1.ConditionTrue, Reason: condReady})
	case is == metav1.ConditionUnknown:
		c.write(metav1.Condition{Type: condReady, Status: is, Reason: "ReconcilingDependents", Message: strings.Join(not, ", ")})
	default:
		c.write(metav1.Condition{Type: condReady, Status: is, Reason: "UnhealthyDependents", Message: strings.Join(not, ", ")})
	}
}

func (c conditions) write(next metav1.Condition) {
	next.ObservedGeneration, next.LastTransitionTime = c.generation, metav1.NewTime(c.now.Truncate(time.Second))
	meta.SetStatusCondition(c.list, next)
	slices.SortFunc(*c.list, func(a, b metav1.Condition) int { return strings.Compare(a.Type, b.Type) })
}

func (c conditions) clear(name string) { meta.RemoveStatusCondition(c.list, name) }
