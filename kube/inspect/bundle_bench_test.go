package inspect

import (
	"bytes"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/diagnose/facts"
)

// large is a cluster of 5,000 nodes and 10,000 pods.
func large() *facts.Facts {
	f := some()
	for i := range 5000 {
		f.Nodes = append(f.Nodes, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("gpu-node-%04d", i), UID: types.UID(fmt.Sprint("n", i)), Labels: map[string]string{"nvidia.com/gpu.product": "H100", "kubernetes.io/hostname": fmt.Sprintf("gpu-node-%04d", i), "team": "vision"}},
			Status:     corev1.NodeStatus{Capacity: corev1.ResourceList{gpuResource: resource.MustParse("8"), "cpu": resource.MustParse("96")}, Allocatable: corev1.ResourceList{gpuResource: resource.MustParse("8"), "cpu": resource.MustParse("95")}, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Message: "kubelet is posting ready status"}}},
		})
	}
	for i := range 10000 {
		f.Pods = append(f.Pods, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprintf("team-%02d", i%40), Name: fmt.Sprintf("train-%d-%d", i/8, i%8), UID: types.UID(fmt.Sprint("p", i)), Labels: map[string]string{"job-name": fmt.Sprintf("train-%d", i/8)}},
			Spec:       corev1.PodSpec{NodeName: fmt.Sprintf("gpu-node-%04d", i/2), Containers: []corev1.Container{{Name: "main", Image: "registry.example/team/train:1.2", Args: []string{"torchrun", "--nproc_per_node=8", "train.py", "--token", "abc"}, Env: []corev1.EnvVar{{Name: "WORLD_SIZE", Value: "8"}, {Name: "X", Value: "y"}}}}},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning, Message: fmt.Sprintf("0/5000 nodes are available: %d Insufficient nvidia.com/gpu", i)},
		})
	}
	return f
}

func BenchmarkWriteBundle(b *testing.B) {
	f := large()
	for name, redact := range map[string]bool{"plain": false, "redacted": true} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				var o BundleOptions
				if redact {
					o.Redact = NewRedaction(f, nil)
				}
				var out bytes.Buffer
				if _, err := Write(&out, f, o); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(out.Len()), "bytes")
			}
		})
	}
}

func BenchmarkReadBundle(b *testing.B) {
	data, _ := written(b, large(), BundleOptions{})
	for b.Loop() {
		if _, err := read(data); err != nil {
			b.Fatal(err)
		}
	}
}
