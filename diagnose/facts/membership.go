package facts

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// CrewLabels are what operators, by API group, mark the pods of one object with. A kind that is not known is taken for a training.
var CrewLabels = map[string]string{
	"jobset.x-k8s.io": "jobset.sigs.k8s.io/jobset-name", "kubeflow.org": "training.kubeflow.org/job-name", "leaderworkerset.x-k8s.io": "leaderworkerset.sigs.k8s.io/name",
	"ray.io": "ray.io/cluster", "batch.volcano.sh": "volcano.sh/job-name",
}

// labelled are the pods that the object's operator marked with its name, and whose controller is not seen: what stands between the two may
// not be read, as the Job of an MPIJob's launcher.
func (f *Facts) labelled(o *unstructured.Unstructured) (out []*corev1.Pod) {
	key := CrewLabels[o.GroupVersionKind().Group]
	if key == "" {
		return nil
	}
	for _, p := range f.Pods {
		if p.Namespace == o.GetNamespace() && p.Labels[key] == o.GetName() && metav1.GetControllerOf(p) != nil && f.Controller(p) == nil {
			out = append(out, p)
		}
	}
	return out
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
