package place

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
)

// namespaceSelector has the admission plugin PodNodeSelector add labels to the node selectors of a namespace's pods.
const namespaceSelector = "scheduler.alpha.kubernetes.io/node-selector"

// Added is who gave a pod what its author did not write.
type Added struct {
	Who    string // a clause
	Advice string
	facts.Evidence
}

// AddedOnTheWayIn says who added what the pod asks of a node, where the template that it was made from does not ask for it: the
// namespace, or somebody who leaves no trace. Of a RuntimeClass see WrittenByClass.
func AddedOnTheWayIn(c *check.Case, n Need) (Added, bool) {
	if n.Term >= 0 || metav1.GetControllerOf(c.Pod) == nil || Written(c) == c.Pod || Written(c).Spec.NodeSelector[n.Key] != "" || WrittenByClass(c, n) != nil || len(n.Values) != 1 {
		return Added{}, false
	}
	for _, ns := range c.Namespaces {
		if ns.Name != c.Pod.Namespace {
			continue
		}
		said := ns.Annotations[namespaceSelector]
		if all, err := labels.ConvertSelectorToLabelsMap(said); err == nil && all[n.Key] == n.Values[0] {
			return Added{
				Who:      fmt.Sprintf("namespace %s adds it to all its pods", ns.Name),
				Advice:   fmt.Sprintf("Have annotation %s of namespace %s corrected, or nodes with that label added; pods that exist keep what they were given.", namespaceSelector, ns.Name),
				Evidence: facts.Evidence{Object: facts.RefTo(ns).In(), Field: fmt.Sprintf("metadata.annotations[%q]", namespaceSelector), Value: said},
			}, true
		}
	}
	return Added{
		Who:      "somebody added it on the way in",
		Advice:   "Look for the admission webhook or policy that adds it to pods of this namespace.",
		Evidence: facts.Evidence{Object: facts.RefTo(c.Pod).In(), Field: fmt.Sprintf("spec.nodeSelector[%q]", n.Key), Value: n.Text()},
	}, true
}
