package facts

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// A pod's template is found by what the operator writes on the pod, and by what the pod is made of where it writes nothing.
func TestTemplateOfThePodsRole(t *testing.T) {
	template := func(image string, selector map[string]any) map[string]any {
		return map[string]any{"spec": map[string]any{"nodeSelector": selector, "containers": []any{map[string]any{"name": "main", "image": image}}}}
	}
	pod := func(image string, selector, labels map[string]string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{NodeSelector: selector, Containers: []corev1.Container{{Name: "main", Image: image}}}}
	}
	specs := map[string]map[string]any{
		"PyTorchJob": {"pytorchReplicaSpecs": map[string]any{"Master": map[string]any{"template": template("a", nil)}, "Worker": map[string]any{"template": template("a", nil)}}},
		"RayCluster": {"headGroupSpec": map[string]any{"template": template("a", nil)}, "workerGroupSpecs": []any{
			map[string]any{"groupName": "small", "template": template("a", nil)}, map[string]any{"groupName": "large", "template": template("a", nil)}}},
		"LeaderWorkerSet": {"leaderWorkerTemplate": map[string]any{"leaderTemplate": template("a", nil), "workerTemplate": template("b", nil)}},
		"Unknown":         {"parts": []any{map[string]any{"template": template("a", map[string]any{"gpu": "h100"})}, map[string]any{"template": template("a", map[string]any{"gpu": "a100"})}}},
		"Single":          {"template": template("a", nil)},
	}
	for _, c := range []struct {
		kind string
		pod  *corev1.Pod
		want string
	}{
		{"PyTorchJob", pod("a", nil, map[string]string{"training.kubeflow.org/replica-type": "worker"}), "/spec/pytorchReplicaSpecs/Worker/template"},
		{"PyTorchJob", pod("a", nil, map[string]string{"training.kubeflow.org/replica-type": "master"}), "/spec/pytorchReplicaSpecs/Master/template"},
		{"RayCluster", pod("a", nil, map[string]string{"ray.io/node-type": "head", "ray.io/group": "headgroup"}), "/spec/headGroupSpec/template"},
		{"RayCluster", pod("a", nil, map[string]string{"ray.io/node-type": "worker", "ray.io/group": "large"}), "/spec/workerGroupSpecs/1/template"},
		{"LeaderWorkerSet", pod("b", nil, nil), "/spec/leaderWorkerTemplate/workerTemplate"},
		{"LeaderWorkerSet", pod("a", nil, map[string]string{"leaderworkerset.sigs.k8s.io/worker-index": "0"}), "/spec/leaderWorkerTemplate/leaderTemplate"},
		{"LeaderWorkerSet", pod("a", nil, map[string]string{"leaderworkerset.sigs.k8s.io/worker-index": "1"}), "/spec/leaderWorkerTemplate/workerTemplate"},
		{"Unknown", pod("a", map[string]string{"gpu": "a100"}, nil), "/spec/parts/1/template"},
		{"Single", pod("z", nil, nil), "/spec/template"},
		{"PyTorchJob", nil, "/spec/pytorchReplicaSpecs/Master/template"},
	} {
		u := &unstructured.Unstructured{Object: map[string]any{"kind": c.kind, "spec": specs[c.kind]}}
		if got := TemplatePathFor(u, c.pod); got != c.want {
			t.Errorf("%s: %s, want %s", c.kind, got, c.want)
		}
	}
}
