package podspec

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// Suits says whether the node is open to the pod, room aside.
func Suits(p *corev1.Pod, n *corev1.Node) bool {
	return !n.Spec.Unschedulable && len(Untolerated(p, n)) == 0 && Selects(p, n)
}

// Selects says whether the node is one that the pod's selector and affinity ask for.
func Selects(p *corev1.Pod, n *corev1.Node) bool {
	ok, err := nodeaffinity.GetRequiredNodeAffinity(p).Match(n)
	return ok && err == nil
}

// Untolerated are the taints that keep the pod from the node.
func Untolerated(p *corev1.Pod, n *corev1.Node) []corev1.Taint {
	var out []corev1.Taint
	for _, t := range n.Spec.Taints {
		keeps := t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
		if keeps && !slices.ContainsFunc(p.Spec.Tolerations, func(o corev1.Toleration) bool { return Tolerates(&o, &t) }) {
			out = append(out, t)
		}
	}
	return out
}

// Tolerates reports whether the toleration is for the taint. Kubernetes' comparison operators (Gt, Lt) are off by default and match
// nothing.
func Tolerates(o *corev1.Toleration, t *corev1.Taint) bool {
	if o.Effect != "" && o.Effect != t.Effect || o.Key != "" && o.Key != t.Key {
		return false
	}
	switch o.Operator {
	case corev1.TolerationOpExists:
		return true
	case "", corev1.TolerationOpEqual:
		return o.Key != "" && o.Value == t.Value
	}
	return false
}

// TaintText is the taint as kubectl takes it.
func TaintText(t corev1.Taint) string {
	if t.Value == "" {
		return t.Key + ":" + string(t.Effect)
	}
	return t.Key + "=" + t.Value + ":" + string(t.Effect)
}
