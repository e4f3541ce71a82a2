package podspec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestTotal holds the sum over a pod's containers to Kubernetes' own rules.
func TestTotal(t *testing.T) {
	const gpu = "nvidia.com/gpu"
	always := corev1.ContainerRestartPolicyAlways
	asks := func(n string, restart *corev1.ContainerRestartPolicy) corev1.Container {
		return corev1.Container{RestartPolicy: restart, Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{gpu: resource.MustParse(n)}}}
	}
	for _, c := range []struct {
		what string
		spec corev1.PodSpec
		want string
	}{
		{"side by side", corev1.PodSpec{Containers: []corev1.Container{asks("1", nil), asks("2", nil)}}, "3"},
		{"a larger init container", corev1.PodSpec{Containers: []corev1.Container{asks("1", nil)}, InitContainers: []corev1.Container{asks("4", nil), asks("2", nil)}}, "4"},
		{"a sidecar counts with both", corev1.PodSpec{Containers: []corev1.Container{asks("2", nil)}, InitContainers: []corev1.Container{asks("1", &always), asks("4", nil)}}, "5"},
		{"a sidecar after the init container", corev1.PodSpec{Containers: []corev1.Container{asks("2", nil)}, InitContainers: []corev1.Container{asks("4", nil), asks("1", &always)}}, "4"},
		{"overhead", corev1.PodSpec{Containers: []corev1.Container{asks("2", nil)}, Overhead: corev1.ResourceList{gpu: resource.MustParse("1")}}, "3"},
		{"overhead of what no container requests", corev1.PodSpec{Containers: []corev1.Container{{}}, Overhead: corev1.ResourceList{gpu: resource.MustParse("1")}}, "1"},
	} {
		got := TotalRequests(&corev1.Pod{Spec: c.spec})[gpu]
		if got.String() != c.want {
			t.Errorf("%s: %s, want %s", c.what, &got, c.want)
		}
	}
}

// What is said for the pod as a whole counts before its containers, and asking twice does not change the pod.
func TestTotalOfThePodAsAWhole(t *testing.T) {
	p := &corev1.Pod{Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("2")}}}},
		Resources:  &corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("6")}},
		Overhead:   corev1.ResourceList{"cpu": resource.MustParse("1")},
	}}
	for range 2 {
		if got := TotalRequests(p)["cpu"]; got.String() != "7" {
			t.Errorf("%s, want 7", &got)
		}
	}
}
