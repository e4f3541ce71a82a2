package edit

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/diagnose/facts"
)

// Two edits of one node both hold, in either order.
func TestEditsOfOneObject(t *testing.T) {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n", Labels: map[string]string{"a": "1", "b": "1"}},
		Spec:       corev1.NodeSpec{Unschedulable: true, Taints: []corev1.Taint{{Key: "x", Effect: "NoSchedule"}, {Key: "y", Effect: "NoSchedule"}, {Key: "z", Effect: "NoSchedule"}}},
	}
	one, two := n.DeepCopy(), n.DeepCopy()
	one.Spec.Unschedulable, one.Spec.Taints = false, one.Spec.Taints[1:]
	one.Labels["a"] = "2"
	two.Spec.Taints = two.Spec.Taints[:2]
	delete(two.Labels, "b")
	two.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}
	f := &facts.Facts{Objects: facts.Objects{Nodes: []*corev1.Node{n}}}
	for _, edits := range [][]Edit{{{Set: []facts.Object{one}}, {Set: []facts.Object{two}}}, {{Set: []facts.Object{two}}, {Set: []facts.Object{one}}}} {
		g, _, err := After(f, n, edits)
		if err != nil {
			t.Fatal(err)
		}
		got := g.Nodes[0]
		if got.Spec.Unschedulable || len(got.Spec.Taints) != 1 || got.Spec.Taints[0].Key != "y" || len(got.Labels) != 1 || got.Labels["a"] != "2" || got.Status.Allocatable.Name("nvidia.com/gpu", resource.DecimalSI).Value() != 8 {
			t.Errorf("%+v %+v %v", got.Spec, got.Labels, got.Status.Allocatable)
		}
	}
	if len(n.Spec.Taints) != 3 || !n.Spec.Unschedulable {
		t.Error("the facts were written to")
	}
}
