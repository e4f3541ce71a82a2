package gpustack

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestCUDA(t *testing.T) {
	node := func(labels map[string]string) *corev1.Node {
		n := &corev1.Node{}
		n.Labels = labels
		return n
	}
	for _, c := range []struct {
		pod    corev1.Pod
		labels map[string]string
		tooOld bool
	}{
		{pod("sim.berth.dev/cuda", "12.8", "train:1"), map[string]string{"nvidia.com/cuda.runtime-version.full": "12.4"}, true},
		{pod("sim.berth.dev/cuda", "12.4", "train:1"), map[string]string{"nvidia.com/cuda.runtime-version.full": "12.4"}, false},
		{pod("", "cuda>=12.8 brand=tesla,driver>=470", "train:1"), map[string]string{"nvidia.com/cuda.runtime.major": "12", "nvidia.com/cuda.runtime.minor": "4"}, true},
		{pod("", "cuda>=11.8", "train:1"), map[string]string{"nvidia.com/cuda.runtime-version.major": "12", "nvidia.com/cuda.runtime-version.minor": "4"}, false},
		// A tag says what an image was built with; drivers of the same major version run it.
		{pod("", "", "pytorch:2.8.0-cuda12.8-cudnn9"), map[string]string{"nvidia.com/cuda.runtime-version.full": "12.4"}, false},
		{pod("", "", "nvcr.example.com/nvidia/cuda:13.1.0-runtime"), map[string]string{"nvidia.com/cuda.runtime-version.full": "12.4"}, true},
		{pod("sim.berth.dev/cuda", "13.1", "train:1"), nil, false}, // nobody says what the node has
	} {
		need, where, sure := NeededCUDA(&c.pod, &c.pod.Spec.Containers[0])
		if got := where != "" && TooOldFor(node(c.labels), need, sure); got != c.tooOld {
			t.Errorf("%v on %v: too old is %v, want %v (needs %s by %s)", c.pod.Spec.Containers[0], c.labels, got, c.tooOld, need, where)
		}
	}
	off := pod("sim.berth.dev/cuda", "12.8", "train:1")
	off.Spec.Containers[0].Env = append(off.Spec.Containers[0].Env, corev1.EnvVar{Name: "NVIDIA_DISABLE_REQUIRE", Value: "true"})
	if _, where, _ := NeededCUDA(&off, &off.Spec.Containers[0]); where != "" {
		t.Errorf("NVIDIA_DISABLE_REQUIRE does not count: %s", where)
	}
}

// pod is one that states its need in an annotation, else in NVIDIA_REQUIRE_CUDA.
func pod(annotation, value, image string) corev1.Pod {
	p := corev1.Pod{}
	p.Spec.Containers = []corev1.Container{{Image: image}}
	if annotation != "" {
		p.Annotations = map[string]string{annotation: value}
	} else if value != "" {
		p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "NVIDIA_REQUIRE_CUDA", Value: value}}
	}
	return p
}

func FuzzRefusedCUDA(f *testing.F) {
	f.Add("nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8, please update your driver")
	f.Add("unsatisfied condition: cuda>=999.999")
	f.Fuzz(func(t *testing.T, text string) {
		if v, ok := RefusedCUDA(text); ok && !strings.Contains(strings.ReplaceAll(text, "0", ""), strings.ReplaceAll(v.String(), "0", "")) {
			t.Errorf("%q: made up %s", text, v)
		}
	})
}
