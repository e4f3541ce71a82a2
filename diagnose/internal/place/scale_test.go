package place

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/diagnose/facts"
)

// Nodes that somebody has just made have neither labels nor resources.
func TestNodesMayLackEverything(t *testing.T) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n"}}
	if got := Another(n, map[string]string{"zone": "a"}); got.Labels[corev1.LabelHostname] != "n-more" || got.Labels["zone"] != "a" {
		t.Errorf("another node has labels %v", got.Labels)
	}
	name := "example.com/gpu"
	f := &facts.Facts{Objects: facts.Objects{
		Nodes:         []*corev1.Node{n},
		DeviceClasses: []*resourcev1.DeviceClass{{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourcev1.DeviceClassSpec{ExtendedResourceName: &name}}},
		ResourceSlices: []*resourcev1.ResourceSlice{{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: resourcev1.ResourceSliceSpec{
			Driver: "example.com", NodeName: &n.Name, Pool: resourcev1.ResourcePool{Name: "n", ResourceSliceCount: 1}, Devices: []resourcev1.Device{{Name: "gpu-0"}},
		}}},
	}}
	got := Offered(f, n).(*corev1.Node).Status.Allocatable[corev1.ResourceName(name)]
	if got.Value() != 1 {
		t.Errorf("the node offers %s, want 1", &got)
	}
}
