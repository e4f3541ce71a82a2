package v1alpha1_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-dev/berth/api/v1alpha1"
)

func TestNodesOfAPool(t *testing.T) {
	p := goodPool()
	p.Spec.Nodes = new(int32(5))
	p.Spec.Labels = map[string]string{"team": "x"}
	p.Spec.WorkloadClass = "training"
	p.Spec.Topology = v1alpha1.Topology{
		Region: "n", Zone: "n-a", Block: "blk", Clique: "nvl",
		NodesPerBlock: new(int32(4)), NodesPerRack: new(int32(2)), NodesPerClique: new(int32(3)),
	}
	v1alpha1.Default(&p)
	var got []string
	for i := range int(*p.Spec.Nodes) {
		labels := p.NodeLabels(i)
		got = append(got, fmt.Sprint(p.NodeName(i), " ", labels[v1alpha1.LabelBlock], " ", labels[v1alpha1.LabelRack], " ", p.NodeClique(i)))
	}
	want := []string{
		"a-0 blk-0 a-rack-0 nvl.0",
		"a-1 blk-0 a-rack-0 nvl.0",
		"a-2 blk-0 a-rack-1 nvl.0",
		"a-3 blk-0 a-rack-1 nvl.1",
		"a-4 blk-1 a-rack-2 nvl.1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
	wantLabels := map[string]string{
		"team": "x", "berth.dev/pool": "a", "berth.dev/workload-class": "training",
		"topology.kubernetes.io/region": "n", "topology.kubernetes.io/zone": "n-a",
		"berth.dev/block": "blk-0", "berth.dev/rack": "a-rack-0",
	}
	if diff := cmp.Diff(wantLabels, p.NodeLabels(0)); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	p.NodeLabels(0)["team"] = "changed"
	if p.Spec.Labels["team"] != "x" {
		t.Error("NodeLabels handed out the pool's own map")
	}
}

func TestControlPlaneNode(t *testing.T) {
	p := v1alpha1.Pool{Spec: v1alpha1.PoolSpec{
		NodeNames: []string{"cp"},
		Role:      v1alpha1.RoleControlPlane,
		Taints:    []v1alpha1.Taint{{Key: "k", Value: "v", Effect: corev1.TaintEffectNoExecute}},
	}}
	p.Name = "control"
	v1alpha1.Default(&p)
	labels := map[string]string{
		"berth.dev/pool": "control", "node-role.kubernetes.io/control-plane": "",
		"node.kubernetes.io/exclude-from-external-load-balancers": "",
	}
	if diff := cmp.Diff(labels, p.NodeLabels(0)); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	taints := []corev1.Taint{
		{Key: "node-role.kubernetes.io/control-plane", Effect: "NoSchedule"},
		{Key: "k", Value: "v", Effect: "NoExecute"},
	}
	if diff := cmp.Diff(taints, p.NodeTaints()); diff != "" {
		t.Errorf("taints (-want +got):\n%s", diff)
	}
	if p.NodeName(0) != "cp" {
		t.Errorf("name %q, want cp", p.NodeName(0))
	}
}

func TestDefaultIsIdempotent(t *testing.T) {
	once := goodPool()
	v1alpha1.Default(&once)
	twice := *once.DeepCopy()
	v1alpha1.Default(&twice)
	if diff := cmp.Diff(once, twice); diff != "" {
		t.Errorf("(-once +twice):\n%s", diff)
	}
}

func TestDriverDefaults(t *testing.T) {
	for given, want := range map[v1alpha1.Driver]v1alpha1.Driver{
		{}:                                   {Version: "580.95.05", CUDA: "13.0"},
		{Version: "535.1.1"}:                 {Version: "535.1.1", CUDA: "12.2"},
		{CUDA: "12.4"}:                       {Version: "550.127.08", CUDA: "12.4"},
		{Preinstalled: true}:                 {Version: "580.95.05", CUDA: "13.0", Preinstalled: true},
		{Version: "999.10.01"}:               {Version: "999.10.01"}, // Validate asks for the rest
		{Version: "580.95.05", CUDA: "12.2"}: {Version: "580.95.05", CUDA: "12.2"},
	} {
		p := goodPool()
		p.Spec.Driver = given
		v1alpha1.Default(&p)
		if diff := cmp.Diff(want, p.Spec.Driver); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", given, diff)
		}
	}
}

func TestScheme(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for _, object := range []runtime.Object{&v1alpha1.Pool{}, &v1alpha1.PoolList{}} {
		kinds, _, err := scheme.ObjectKinds(object)
		if err != nil || kinds[0].GroupVersion() != v1alpha1.GroupVersion {
			t.Errorf("%T: kinds %v, error %v", object, kinds, err)
		}
	}
}
