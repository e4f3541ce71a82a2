package fleet

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/fleet/fault"
)

// appliedAnnotation marks a Node as the fleet's and remembers what its pool last gave it.
const appliedAnnotation = v1alpha1.KeyApplied

// applied is what a pool gives a node. Comparing it with what the pool gave last time, and not
// with the node, leaves alone what users and controllers change on the node in between: only a
// change of the pool is carried over.
type applied struct {
	Hardware string            `json:"hardware"` // see hardwareID
	Labels   map[string]string `json:"labels"`
	Taints   []corev1.Taint    `json:"taints,omitempty"`
	Cordon   bool              `json:"cordon,omitempty"` // by a fault
}

// with is what the pool and the faults of the node give it together.
func (a applied) with(e *fault.Effects) applied {
	if e == nil {
		return a
	}
	for key, value := range e.Labels {
		a.Labels = cloneLabels(a.Labels)
		a.Labels[key] = value
	}
	a.Taints = mergeTaints(slices.Clone(a.Taints), nil, e.Taints)
	a.Cordon = e.Cordon
	return a
}

// lastApplied reads the record back from a node. It is empty, and false, on a node that is not
// the fleet's or whose record cannot be read.
func lastApplied(node *corev1.Node) (applied, bool) {
	var last applied
	text, ok := node.Annotations[appliedAnnotation]
	if !ok || json.Unmarshal([]byte(text), &last) != nil {
		return applied{}, false
	}
	return last, true
}

func (a applied) String() string {
	text, err := json.Marshal(a)
	if err != nil {
		panic(fmt.Sprintf("encode %#v: %v", a.Labels, err)) // plain strings only
	}
	return string(text)
}

// verdict is what has to happen to a node.
type verdict int

const (
	keep    verdict = iota
	update          // labels or taints changed
	replace         // it is another machine now: delete it, and register anew
)

// reconcile brings what the pool gives to a node. The node is never written; for update the
// second result is the changed copy. A node without a record is taken over as it is.
func reconcile(node *corev1.Node, next applied) (verdict, *corev1.Node) {
	last, ok := lastApplied(node)
	if ok && last.Hardware != next.Hardware {
		return replace, nil
	}
	record := next.String()
	if node.Annotations[appliedAnnotation] == record {
		return keep, nil
	}
	out := node.DeepCopy()
	out.Labels = mergeLabels(out.Labels, last.Labels, next.Labels)
	out.Spec.Taints = mergeTaints(out.Spec.Taints, last.Taints, next.Taints)
	if last.Cordon != next.Cordon {
		out.Spec.Unschedulable = next.Cordon
	}
	if out.Annotations == nil {
		out.Annotations = map[string]string{}
	}
	out.Annotations[appliedAnnotation] = record
	return update, out
}

// mergeLabels carries the difference between last and next over to have, which it may write.
func mergeLabels(have, last, next map[string]string) map[string]string {
	if have == nil {
		have = map[string]string{}
	}
	for key := range last {
		if _, stays := next[key]; !stays {
			delete(have, key)
		}
	}
	for key, value := range next {
		if old, was := last[key]; !was || old != value {
			have[key] = value
		}
	}
	return have
}

// mergeTaints does the same for taints, whose identity is key and effect; have keeps its order.
func mergeTaints(have, last, next []corev1.Taint) []corev1.Taint {
	at := func(list []corev1.Taint, t corev1.Taint) int {
		return slices.IndexFunc(list, func(o corev1.Taint) bool { return o.MatchTaint(&t) })
	}
	have = slices.DeleteFunc(have, func(t corev1.Taint) bool { return at(last, t) >= 0 && at(next, t) < 0 })
	for _, t := range next {
		if i := at(last, t); i >= 0 && last[i].Value == t.Value {
			continue
		}
		if i := at(have, t); i >= 0 {
			have[i].Value = t.Value
		} else {
			have = append(have, t)
		}
	}
	return have
}

// cloneLabels never returns nil, so that callers may write to it.
func cloneLabels(in map[string]string) map[string]string {
	if in == nil {
		return map[string]string{}
	}
	return maps.Clone(in)
}
