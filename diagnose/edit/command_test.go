package edit

import (
	"strings"
	"testing"

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
