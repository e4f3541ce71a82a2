package place

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
)

// WrittenByClass is the pod's RuntimeClass where it, and not the workload, asks for the label: the API server adds a class's
// selector to the pods that name it. Nil: the workload asks for it.
func WrittenByClass(c *check.Case, n Need) *nodev1.RuntimeClass {
	name := c.Pod.Spec.RuntimeClassName
	own := metav1.GetControllerOf(c.Pod) != nil && Written(c).Spec.NodeSelector[n.Key] != "" // a bare pod shows both alike
	if name == nil || n.Term >= 0 || own {
		return nil
	}
	for _, r := range c.RuntimeClasses {
		if r.Name == *name && r.Scheduling != nil && len(n.Values) == 1 && r.Scheduling.NodeSelector[n.Key] == n.Values[0] {
			return r
		}
	}
	return nil
}

// ClassEvidence shows the class's selector.
func ClassEvidence(r *nodev1.RuntimeClass, n Need) facts.Evidence {
	return facts.Evidence{Object: "runtimeclass/" + r.Name, Field: fmt.Sprintf("scheduling.nodeSelector[%q]", n.Key), Value: n.Text()}
}

// RenamesInClass has the RuntimeClass ask for another value. Pods keep what they were given when they were created, so those
// that wait are deleted, which needs a controller that makes them again.
func RenamesInClass(c *check.Case, r *nodev1.RuntimeClass, n Need, value string) (edit.Edit, bool) {
	owner := metav1.GetControllerOf(c.Pod)
	if owner == nil {
		return edit.Edit{}, false
	}
	class := r.DeepCopy()
	class.Scheduling.NodeSelector[n.Key] = value
	e := edit.Edit{
		Side: edit.Cluster, Cost: edit.CostWord, Set: []facts.Object{class},
		Text: fmt.Sprintf("have RuntimeClass %s ask for %s=%s in place of %s, and make the pods anew", r.Name, n.Key, value, n.Text()),
	}
	var names []string
	for _, p := range c.Pods {
		of := metav1.GetControllerOf(p)
		if p.Namespace != c.Pod.Namespace || of == nil || of.UID != owner.UID || p.Spec.NodeName != "" || p.Spec.NodeSelector[n.Key] != n.Values[0] {
			continue
		}
		again := p.DeepCopy()
		again.Spec.NodeSelector[n.Key] = value
		again.Status = corev1.PodStatus{Phase: corev1.PodPending}
		e.Set, names = append(e.Set, again), append(names, p.Name)
	}
	slices.Sort(names)
	e.Command = edit.PatchLine(r, "merge", map[string]any{"scheduling": map[string]any{"nodeSelector": map[string]string{n.Key: value}}}) +
		fmt.Sprintf(" && kubectl delete pod %s -n %s", strings.Join(names, " "), c.Pod.Namespace)
	return e, len(names) > 0
}
