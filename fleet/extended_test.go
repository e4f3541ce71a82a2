package fleet

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/fleet/device"
)

// What other device plugins offer is on the node from the start, also offline, and what the pool no longer has is zero, as a kubelet
// leaves it. Cards that are shared say so offline too.
func TestOtherDevicePlugins(t *testing.T) {
	n := int32(1)
	tpu := v1alpha1.Pool{Spec: v1alpha1.PoolSpec{Nodes: &n, ExtendedResources: map[string]int32{"google.com/tpu": 4, "rdma/hca": 63}}}
	tpu.Name = "tpu"
	shared := v1alpha1.Pool{Spec: v1alpha1.PoolSpec{Nodes: &n, GPUs: []v1alpha1.GPU{{Model: "L40S", Count: 2}}, Sharing: v1alpha1.SharingBerth}}
	shared.Name = "shared"
	hami := v1alpha1.Pool{Spec: v1alpha1.PoolSpec{Nodes: &n, GPUs: []v1alpha1.GPU{{Model: "L4", Count: 2}}, Sharing: v1alpha1.SharingHAMi}}
	hami.Name = "hami"
	b, err := Boot([]v1alpha1.Pool{tpu, shared, hami}, time.Unix(0, 0))
	if err != nil || len(b.Nodes) != 3 {
		t.Fatalf("%d nodes, %v", len(b.Nodes), err)
	}
	byName := map[string]*corev1.Node{}
	for _, n := range b.Nodes {
		byName[n.Name] = n
	}
	has := func(node *corev1.Node, name corev1.ResourceName) int64 {
		q := node.Status.Allocatable[name]
		return q.Value()
	}
	node := byName["tpu-0"]
	if has(node, "google.com/tpu") != 4 || has(node, "rdma/hca") != 63 {
		t.Errorf("the node offers %v", node.Status.Allocatable)
	}
	if n := has(byName["hami-0"], "nvidia.com/gpu"); n != 2*device.HAMiSplit {
		t.Errorf("HAMi's plugin offers %d", n)
	}
	tpu.Spec.ExtendedResources = map[string]int32{"google.com/tpu": 8}
	tpu.Generation = 2
	w, _ := wanted([]*v1alpha1.Pool{&tpu})
	next := publish(node, facts{want: w[0], ready: true}, device.Advertisement{}, time.Unix(9, 0))
	if has(next, "google.com/tpu") != 8 || has(next, "rdma/hca") != 0 {
		t.Errorf("after the change it offers %v", next.Status.Allocatable)
	}
}
