package volcano

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/kube/dialect"
)

// Volcano's objects: a PodGroup, that is Pending until its queue lets it in, and Queues with a capability.
const (
	Queues    = "Queue.scheduling.volcano.sh"
	PodGroups = "PodGroup.scheduling.volcano.sh"
)

// WithCapability is the queue with another capability; names of resources have slashes, which paths cannot have.
func WithCapability(queue *unstructured.Unstructured, resource, to string) *unstructured.Unstructured {
	out := queue.DeepCopy()
	if m, ok := dialect.Value(out.Object, "spec", "capability").(map[string]any); ok {
		m[resource] = to
	}
	return out
}

// Quantities are the keys of a map whose values may be written as strings or as numbers.
func Quantities(at any, path ...string) map[string]any {
	m, _ := dialect.Value(at, path...).(map[string]any)
	return m
}
