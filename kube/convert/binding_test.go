package convert

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/engine"
)

func TestBindingOf(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}
	target := corev1.ObjectReference{Kind: "Node", Name: "n1"}
	got := BindingOf(engine.Placement{Pod: "ns/p", UID: "u", Node: "n1"})
	if diff := cmp.Diff(&corev1.Binding{ObjectMeta: meta, Target: target}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	meta.Annotations = map[string]string{"berth.dev/wanted-gpus": `["gpu-0","gpu-3"]`}
	got = BindingOf(engine.Placement{Pod: "ns/p", UID: "u", Node: "n1", Devices: []string{"n1/gpu-0", "n1/gpu-3"}})
	if diff := cmp.Diff(&corev1.Binding{ObjectMeta: meta, Target: target}, got); diff != "" {
		t.Errorf("with devices (-want +got):\n%s", diff)
	}
}
