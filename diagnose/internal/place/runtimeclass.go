package place

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
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

// ToleratedByClass is the pod's RuntimeClass where it gave the toleration of the taints to pods that run, and does not give it any more: what those
// tolerate and their templates do not, the API server took from the class. Nil: it did not.
func ToleratedByClass(c *check.Case, taints []corev1.Taint) (r *nodev1.RuntimeClass, had *corev1.Pod) {
	class := c.Pod.Spec.RuntimeClassName
	if class == nil || len(taints) == 0 {
		return nil, nil
	}
	at := slices.IndexFunc(c.RuntimeClasses, func(r *nodev1.RuntimeClass) bool { return r.Name == *class })
	if at < 0 {
		return nil, nil
	}
	var gives []corev1.Toleration
	if s := c.RuntimeClasses[at].Scheduling; s != nil {
		gives = s.Tolerations
	}
	lacks := func(list []corev1.Toleration, t *corev1.Taint) bool {
		return !slices.ContainsFunc(list, func(have corev1.Toleration) bool { return podspec.Tolerates(&have, t) })
	}
	for _, p := range c.Pods {
		if p.Spec.NodeName == "" || facts.Ended(p) || p.Spec.RuntimeClassName == nil || *p.Spec.RuntimeClassName != *class {
			continue
		}
		maker := c.Controller(p)
		if maker == nil || facts.TemplateFor(maker, p) == nil {
			continue
		}
		written := facts.TemplateFor(maker, p).Spec.Tolerations
		if !slices.ContainsFunc(taints, func(t corev1.Taint) bool {
			return lacks(p.Spec.Tolerations, &t) || !lacks(written, &t) || !lacks(gives, &t)
		}) && (had == nil || p.Name < had.Name) {
			r, had = c.RuntimeClasses[at], p
		}
	}
	return r, had
}

// ToleratesInClass has the RuntimeClass give its pods tolerations. Pods keep what they were given when they were created, so those that wait are
// deleted, which needs a controller that makes them again.
func ToleratesInClass(c *check.Case, r *nodev1.RuntimeClass, taints []corev1.Taint) (edit.Edit, bool) {
	owner := metav1.GetControllerOf(c.Pod)
	if owner == nil {
		return edit.Edit{}, false
	}
	class := r.DeepCopy()
	if class.Scheduling == nil {
		class.Scheduling = &nodev1.Scheduling{}
	}
	var texts []string
	for _, t := range taints {
		class.Scheduling.Tolerations = append(class.Scheduling.Tolerations, tolerationFor(t))
		texts = append(texts, podspec.TaintText(t))
	}
	e := edit.Edit{
		Side: edit.Cluster, Cost: edit.CostWord, Set: []facts.Object{class},
		Text: fmt.Sprintf("have RuntimeClass %s give its pods a toleration for %s, and make the pods anew", r.Name, strings.Join(texts, " and ")),
	}
	return madeAnew(c, e, owner.UID, func(p *corev1.Pod) bool {
		for _, t := range taints {
			p.Spec.Tolerations = append(p.Spec.Tolerations, tolerationFor(t))
		}
		return true
	}, edit.PatchLine(r, "merge", map[string]any{"scheduling": map[string]any{"tolerations": class.Scheduling.Tolerations}}))
}

// madeAnew has the edit change the waiting pods of the owner as they come back after its first command; change says which those are.
func madeAnew(c *check.Case, e edit.Edit, owner types.UID, change func(*corev1.Pod) bool, first string) (edit.Edit, bool) {
	var names []string
	for _, p := range c.Pods {
		of := metav1.GetControllerOf(p)
		if p.Namespace != c.Pod.Namespace || of == nil || of.UID != owner || p.Spec.NodeName != "" {
			continue
		}
		again := p.DeepCopy()
		if !change(again) {
			continue
		}
		again.Status = corev1.PodStatus{Phase: corev1.PodPending}
		e.Set, names = append(e.Set, again), append(names, p.Name)
	}
	slices.Sort(names)
	e.Command = first + fmt.Sprintf(" && kubectl delete pod %s -n %s", strings.Join(names, " "), c.Pod.Namespace)
	return e, len(names) > 0
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
	return madeAnew(c, e, owner.UID, func(p *corev1.Pod) bool {
		if p.Spec.NodeSelector[n.Key] != n.Values[0] {
			return false
		}
		p.Spec.NodeSelector[n.Key] = value
		return true
	}, edit.PatchLine(r, "merge", map[string]any{"scheduling": map[string]any{"nodeSelector": map[string]string{n.Key: value}}}))
}
