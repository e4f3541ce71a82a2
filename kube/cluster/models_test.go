package cluster

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// A pod that asks for one model, whichever it is, names those that there are while there are several, whether nodes or pods come first.
func TestOneModelNamesThoseThatThereAre(t *testing.T) {
	node := func(name, model string) *corev1.Node {
		n := &corev1.Node{}
		n.Name, n.UID, n.ResourceVersion = name, "u", "1"
		n.Labels = map[string]string{"nvidia.com/gpu.product": model}
		n.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8"), "pods": resource.MustParse("10")}
		return n
	}
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name, pod.UID, pod.ResourceVersion = "default", "p", "p", "1"
	pod.CreationTimestamp = metav1.Now()
	pod.Annotations = map[string]string{v1alpha1.KeyGPUModel: v1alpha1.SameGPUModel}
	pod.Spec.SchedulerName = DefaultName
	pod.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}}}}

	m := NewModel(ModelOptions{})
	named := func(want ...string) {
		t.Helper()
		m.settle()
		if got := m.feed.members.pods["default/p"].value.GPU.Models; !slices.Equal(got, want) {
			t.Errorf("it names %v, want %v", got, want)
		}
	}
	m.Set(pod)
	named()
	a, b := node("a", "NVIDIA-H100-80GB-HBM3"), node("b", "NVIDIA-A100-SXM4-40GB")
	m.Set(a)
	named()
	m.Set(b)
	named("A100", "H100")
	m.Set(node("c", "NVIDIA-L40S"))
	named("A100", "H100", "L40S")
	m.Set(node("d", ""))
	named()
	m.Delete(node("d", ""), node("c", "NVIDIA-L40S"))
	named("A100", "H100")
	m.Delete(b)
	named()
}
