package facts

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// GroupKeys are the annotations and labels by which pods name a PodGroup of another project, and its kind. All of them have
// spec.minMember.
var GroupKeys = []struct{ Key, Kind string }{
	{"scheduling.k8s.io/group-name", "PodGroup.scheduling.volcano.sh"},
	{"scheduling.volcano.sh/group-name", "PodGroup.scheduling.volcano.sh"},
	{"scheduling.x-k8s.io/pod-group", "PodGroup.scheduling.x-k8s.io"},
	{"pod-group.scheduling.sigs.k8s.io", "PodGroup.scheduling.sigs.k8s.io"},
	{"pod-group-name", "PodGroup.scheduling.run.ai"},
}

// Named is what the pod says under the key, in an annotation or in a label.
func Named(p *corev1.Pod, key string) string {
	if v := p.Annotations[key]; v != "" {
		return v
	}
	return p.Labels[key]
}

// namedBy are the pods that name the PodGroup of another project.
func (f *Facts) namedBy(group *unstructured.Unstructured) (out []*corev1.Pod) {
	kind := group.GroupVersionKind().Kind + "." + group.GroupVersionKind().Group
	for _, p := range f.Pods {
		for _, k := range GroupKeys {
			if p.Namespace == group.GetNamespace() && k.Kind == kind && Named(p, k.Key) == group.GetName() {
				out = append(out, p)
				break
			}
		}
	}
	return out
}
