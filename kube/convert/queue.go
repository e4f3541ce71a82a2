package convert

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
)

// Queue is the queue as the engine sees it, without what namespaces decide: see OpenTo. A limit that the API
// server should have refused is brought into range.
func Queue(q *v1alpha1.Queue) engine.Queue {
	out := engine.Queue{Name: q.Name, Version: version(&q.ObjectMeta)}
	for i := range q.Spec.Resources {
		r := &q.Spec.Resources[i]
		v := amount(corev1.ResourceName(r.Name), r.Limit)
		out.Limits = append(out.Limits, engine.Amount{Resource: r.Name, Value: max(0, min(v, most))})
	}
	out.Limits = sorted(out.Limits)
	return out
}

// OpenTo selects the namespaces that may use the queue. One that makes no sense selects none.
func OpenTo(q *v1alpha1.Queue) (labels.Selector, error) {
	if q.Spec.NamespaceSelector == nil {
		return labels.Everything(), nil
	}
	s, err := metav1.LabelSelectorAsSelector(q.Spec.NamespaceSelector)
	if err != nil {
		return labels.Nothing(), fmt.Errorf("spec.namespaceSelector: %w", err)
	}
	return s, nil
}

// QueueOf is the queue that the object names, "" for none. On a namespace it is for workloads that name none.
func QueueOf(o metav1.Object) string {
	return asked(&metav1.ObjectMeta{Annotations: o.GetAnnotations(), Labels: o.GetLabels()}, KeyQueue)
}

// Quantity is an amount in the engine's units as Kubernetes writes it.
func Quantity(name string, amount int64) resource.Quantity {
	switch corev1.ResourceName(name) {
	case corev1.ResourceCPU:
		return *resource.NewMilliQuantity(amount, resource.DecimalSI)
	case corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return *resource.NewQuantity(amount, resource.BinarySI)
	}
	return *resource.NewQuantity(amount, resource.DecimalSI)
}
