package edit

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A pod that is made anew loses its node in any case: a patch that takes the node away twice is rejected.
func TestPatchRemovesAFieldOnce(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "a"}, Spec: corev1.PodSpec{NodeName: "gone"}}
	for _, c := range []struct{ op, want string }{
		{"remove", `'[{"op":"remove","path":"/spec/nodeName"}]'`},
		{"replace", `'[{"op":"remove","path":"/spec/nodeName"},{"op":"add","path":"/spec/nodeName"}]'`},
	} {
		if got := PatchCommand(pod, nil, []Op{{Op: c.op, Path: "/spec/nodeName"}}); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s in it", c.op, got, c.want)
		}
	}
}

// What admission gave a pod, its template need not have: kubectl refuses to replace what is not there, and makes no object on the way.
func TestPatchMakesWhatIsMissing(t *testing.T) {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "a"}, Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}}}}}
	got := PatchCommand(d, nil, []Op{{Op: "replace", Path: "/spec/containers/0/resources/limits/memory", Value: "2Gi"}})
	const at = "/spec/template/spec/containers/0/resources/limits"
	want := `'[{"op":"add","path":"` + at + `","value":{}},{"op":"add","path":"` + at + `/memory","value":"2Gi"}]'`
	if !strings.Contains(got, want) {
		t.Errorf("%s, want %s in it", got, want)
	}
}
