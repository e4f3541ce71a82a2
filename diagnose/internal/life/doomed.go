package life

import (
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
)

// Eviction is that of a pod which runs on a node whose taint it does not tolerate for long.
type Eviction struct {
	Node    *corev1.Node
	Taint   corev1.Taint
	Seconds int64 // for which the pod tolerates it
	// Earliest and Latest are when the pod is evicted: the same where it is known since when the taint is there.
	Earliest, Latest time.Time
}

// Doomed is how a pod is evicted that is well now, nil where nothing evicts it. It goes by the rule of Kubernetes' taint eviction
// controller (pkg/controller/tainteviction): of each NoExecute taint the first toleration that tolerates it counts, and of those that
// count the shortest tolerationSeconds. Taints with which Kubernetes says that a node is not Ready are left to who looks at the node.
func Doomed(f *facts.Facts, p *corev1.Pod) *Eviction {
	if p.Spec.NodeName == "" || p.DeletionTimestamp != nil || facts.Ended(p) || !f.Sees("nodes", "") {
		return nil
	}
	n := f.NodeNamed(p.Spec.NodeName)
	if n == nil || !facts.NodeReady(n) {
		return nil
	}
	var out *Eviction
	least := int64(math.MaxInt64)
	for _, t := range n.Spec.Taints {
		if t.Effect != corev1.TaintEffectNoExecute || t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable {
			continue
		}
		i := slices.IndexFunc(p.Spec.Tolerations, func(o corev1.Toleration) bool { return podspec.Tolerates(&o, &t) })
		if i < 0 || p.Spec.Tolerations[i].TolerationSeconds == nil { // whoever does not tolerate it is evicted at once, if ever
			continue
		}
		seconds := max(0, *p.Spec.Tolerations[i].TolerationSeconds)
		if seconds >= least {
			continue
		}
		least = seconds
		out = &Eviction{Node: n, Taint: t, Seconds: seconds}
		from := Since(p)
		known := t.TimeAdded != nil
		if known && t.TimeAdded.After(from) {
			from = t.TimeAdded.Time
		}
		out.Earliest = from.Add(time.Duration(seconds) * time.Second)
		if out.Latest = out.Earliest; !known || out.Earliest.Before(f.At) {
			out.Latest = f.At.Add(time.Duration(seconds) * time.Second)
		}
	}
	return out
}
