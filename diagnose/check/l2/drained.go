package l2

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
)

// drainer is what empties a node, by what stops it.
type drainer int

const (
	evicts      drainer = iota // through the eviction API alone: only budgets stop it, and pods that do not go
	asKubectl                  // as kubectl drain without --force and --delete-emptydir-data, the default of the GPU Operator too
	asKarpenter                // pods that ask not to be disturbed stop it
)

// holder is a pod that a drain of its node does not get past.
type holder struct {
	pod      *corev1.Pod
	why      string
	evidence facts.Evidence
}

// says is the holder in words.
func (h *holder) says() string {
	return fmt.Sprintf("pod %s of namespace %s %s", h.pod.Name, h.pod.Namespace, h.why)
}

// holdsDrain is the pod that a drain of the node waits for, the hardest to move first; nil: nothing is known to stop one. Pods of DaemonSets
// and of the node itself stay in any case.
func holdsDrain(c *check.Case, n *corev1.Node, by drainer) *holder {
	pods := slices.DeleteFunc(slices.Clone(c.PodsOn(n.Name)), func(p *corev1.Pod) bool {
		_, daemon := c.Controller(p).(*appsv1.DaemonSet)
		o := metav1.GetControllerOfNoCopy(p)
		return daemon || o != nil && (o.Kind == "DaemonSet" || o.Kind == "Node") || p.Annotations[corev1.MirrorPodAnnotationKey] != "" || facts.Ended(p)
	})
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	for _, holds := range []func(*check.Case, *corev1.Pod, drainer) (string, facts.Evidence){budgeted, undisturbed, goesNot, unowned, keepsFiles} {
		for _, p := range pods {
			if why, e := holds(c, p, by); why != "" {
				if e.Object == "" {
					e.Object = facts.RefTo(p).In()
				}
				return &holder{p, why, e}
			}
		}
	}
	return nil
}

// budgeted is about a pod that a PodDisruptionBudget keeps from being evicted now. One that is not ready may go, if its budget says so.
func budgeted(c *check.Case, p *corev1.Pod, _ drainer) (string, facts.Evidence) {
	for _, b := range c.PodDisruptionBudgets {
		s, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil || b.Namespace != p.Namespace || b.Status.DisruptionsAllowed > 0 || !s.Matches(labels.Set(p.Labels)) || p.DeletionTimestamp != nil {
			continue
		}
		if b.Spec.UnhealthyPodEvictionPolicy != nil && *b.Spec.UnhealthyPodEvictionPolicy == policyv1.AlwaysAllow && !ready(p) {
			continue
		}
		return fmt.Sprintf("may not be evicted: PodDisruptionBudget %s allows no disruption", b.Name),
			facts.Evidence{Object: facts.RefTo(b).In(), Field: "status.disruptionsAllowed", Value: fmt.Sprint(b.Status.DisruptionsAllowed)}
	}
	return "", facts.Evidence{}
}

// undisturbed is about a pod whose author has Karpenter leave it alone.
func undisturbed(_ *check.Case, p *corev1.Pod, by drainer) (string, facts.Evidence) {
	const key = "karpenter.sh/do-not-disrupt"
	if by != asKarpenter || p.Annotations[key] != "true" {
		return "", facts.Evidence{}
	}
	return "is not to be disturbed (" + key + ")", facts.Evidence{Field: fmt.Sprintf("metadata.annotations[%q]", key), Value: "true"}
}

// goesNot is about a pod that was told to go, and has not within its grace period and some time for its volumes.
func goesNot(c *check.Case, p *corev1.Pod, _ drainer) (string, facts.Evidence) {
	if p.DeletionTimestamp == nil || c.Now.Sub(p.DeletionTimestamp.Time) < 5*time.Minute {
		return "", facts.Evidence{}
	}
	return "was deleted and does not go", facts.Evidence{Field: "metadata.deletionTimestamp", Value: p.DeletionTimestamp.UTC().Format(time.RFC3339)}
}

// unowned is about a pod that nobody makes again: kubectl drain evicts it only with --force.
func unowned(_ *check.Case, p *corev1.Pod, by drainer) (string, facts.Evidence) {
	if by != asKubectl || metav1.GetControllerOfNoCopy(p) != nil || p.DeletionTimestamp != nil {
		return "", facts.Evidence{}
	}
	return "has no controller, so that kubectl drain stops at it without --force", facts.Evidence{Field: "metadata.ownerReferences", Value: "none"}
}

// keepsFiles is about a pod whose files are lost with it: kubectl drain evicts it only with --delete-emptydir-data.
func keepsFiles(_ *check.Case, p *corev1.Pod, by drainer) (string, facts.Evidence) {
	if by != asKubectl || p.DeletionTimestamp != nil {
		return "", facts.Evidence{}
	}
	for i := range p.Spec.Volumes {
		if v := &p.Spec.Volumes[i]; v.EmptyDir != nil {
			return fmt.Sprintf("has files in the emptyDir %s, so that kubectl drain stops at it without --delete-emptydir-data", v.Name), facts.Evidence{Field: fmt.Sprintf("spec.volumes[%q].emptyDir", v.Name), Value: "set"}
		}
	}
	return "", facts.Evidence{}
}
