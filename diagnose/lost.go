package diagnose

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// lostAfter is how long a node may be silent before what runs there is taken for lost: the node controller's own
// patience, and some.
const lostAfter = time.Minute

// lost says why nothing is heard of the pod's node, where that is so. A pod that was put by hand on a node which never
// was is not lost.
func (c *Case) lost() (what string, e Evidence) {
	name := c.Pod.Spec.NodeName
	if name == "" || over(c.Pod) || !c.Sees("nodes", "") || since(c.Pod).IsZero() {
		return "", Evidence{}
	}
	n := c.NodeNamed(name)
	if n == nil {
		return fmt.Sprintf("node %s does not exist any more", name), Evidence{Object: RefTo(c.Pod).In(), Field: "spec.nodeName", Value: name}
	}
	for _, k := range n.Status.Conditions {
		if k.Type == corev1.NodeReady && k.Status != corev1.ConditionTrue && c.Now.Sub(k.LastTransitionTime.Time) > lostAfter {
			return fmt.Sprintf("node %s is not ready (%s) since %s", name, k.Reason, minutes(c.Now.Sub(k.LastTransitionTime.Time))),
				Evidence{Object: RefTo(n).In(), Field: "status.conditions[Ready]", Value: fmt.Sprintf("%s %s: %s", k.Status, k.Reason, shortened(k.Message, 120))}
		}
	}
	return "", Evidence{}
}
