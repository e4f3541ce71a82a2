package convert

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/dialect/hami"
)

// TestVolcanosVGPUs holds what is read of a container to volcano.sh's ExtractResourceRequest and checkNodeGPUSharingPredicateAndScore.
func TestVolcanosVGPUs(t *testing.T) {
	for name, test := range map[string]struct {
		asks []string
		want engine.Part
	}{
		"memory and cores":         {[]string{"volcano.sh/vgpu-number", "2", "volcano.sh/vgpu-memory", "3000", "volcano.sh/vgpu-cores", "50"}, engine.Part{Cards: 2, Memory: 3000, Compute: 500}},
		"a number alone":           {[]string{"volcano.sh/vgpu-number", "1"}, engine.Part{Cards: 1, Share: 1000}},
		"memory alone is one card": {[]string{"volcano.sh/vgpu-memory", "1024"}, engine.Part{Cards: 1, Memory: 1024}},
		"a percentage":             {[]string{"volcano.sh/vgpu-number", "1", "volcano.sh/vgpu-memory-percentage", "40"}, engine.Part{Cards: 1, Share: 400}},
		"a percentage comes first": {[]string{"volcano.sh/vgpu-number", "1", "volcano.sh/vgpu-memory", "10", "volcano.sh/vgpu-memory-percentage", "40"}, engine.Part{Cards: 1, Share: 400}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Pod(sharingPod(nil, []string{"cpu", "1"}, test.asks), Options{})
			if diff := cmp.Diff(&test.want, got.Part); diff != "" || got.Invalid != "" || len(got.Features) > 0 {
				t.Errorf("%s, needs %v (-want +got):\n%s", got.Invalid, got.Features, diff)
			}
			if got.Selector[KeySharing] != "volcano" {
				t.Errorf("from %q", got.Selector[KeySharing])
			}
			if got.Requests.Get("volcano.sh/vgpu-memory-percentage") != 0 {
				t.Errorf("it asks for %v, and no node offers percentages", got.Requests)
			}
		})
	}
}

// TestPartsOfSeveralContainers has what each container is given be its own, and says that the engine counts the largest.
func TestPartsOfSeveralContainers(t *testing.T) {
	p := sharingPod(nil, []string{"volcano.sh/vgpu-number", "1", "volcano.sh/vgpu-memory", "3000"}, []string{"volcano.sh/vgpu-number", "1", "volcano.sh/vgpu-memory", "2000", "volcano.sh/vgpu-cores", "20"})
	got := Pod(p, Options{})
	if diff := cmp.Diff(&engine.Part{Cards: 2, Memory: 3000, Compute: 200}, got.Part); diff != "" || got.Invalid != "" {
		t.Errorf("%s (-want +got):\n%s", got.Invalid, diff)
	}
	told := []string{"parts of GPUs for 2 containers apart (each has GPUs of its own, and every part counts as the largest)"}
	if diff := cmp.Diff(told, Unheeded(p)); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	want := [][]hami.Grant{{{UUID: "GPU-a", Memory: 3000}}, {{UUID: "GPU-b", Memory: 2000, Cores: 20}}}
	if diff := cmp.Diff(want, Grants(p, vgpuNode(), []string{"n0/GPU-a", "n0/GPU-b"})); diff != "" {
		t.Errorf("given (-want +got):\n%s", diff)
	}
}

// vgpuNode has two cards that Volcano's plugin gives parts of, one of them broken, and one that MIG divides.
func vgpuNode() *corev1.Node {
	q := resource.MustParse
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n0", Annotations: map[string]string{
			"volcano.sh/node-vgpu-register": "GPU-a,10,40960,NVIDIA-NVIDIA A100-SXM4-40GB,true,hami-core:GPU-b,10,40960,NVIDIA-NVIDIA A100-SXM4-40GB,false,hami-core:GPU-c,7,40960,NVIDIA-NVIDIA A100-SXM4-40GB,true,mig:",
		}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			"volcano.sh/vgpu-number": q("27"), "volcano.sh/vgpu-memory": q("122880"), "volcano.sh/vgpu-cores": q("300"),
		}},
	}
}

func TestNodesOfVolcanosPlugin(t *testing.T) {
	got := Node(vgpuNode(), Options{})
	want := []engine.Device{
		{ID: "n0/GPU-a", Model: "A100", NUMA: -1, Memory: 40960, Parts: 10},
		{ID: "n0/GPU-b", Model: "A100", NUMA: -1, Memory: 40960, Parts: 10, Unhealthy: true},
		{ID: "n0/GPU-c", Model: "A100", NUMA: -1, Memory: 40960},
	}
	if diff := cmp.Diff(want, got.Devices); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	if got.Labels[KeySharing] != "volcano" || got.Allocatable.Get("volcano.sh/vgpu-memory") != 122880 || got.Allocatable.Get("nvidia.com/gpu") != 0 || got.Check() != "" {
		t.Errorf("%v, shared by %q: %s", got.Allocatable, got.Labels[KeySharing], got.Check())
	}
}

func TestGrantsOfVolcanosPlugin(t *testing.T) {
	p := sharingPod(nil, []string{"cpu", "1"}, []string{"volcano.sh/vgpu-number", "1", "volcano.sh/vgpu-memory-percentage", "50", "volcano.sh/vgpu-cores", "30"})
	p.Spec.InitContainers = []corev1.Container{{Name: "first"}}
	want := [][]hami.Grant{nil, {{UUID: "GPU-a", Memory: 20480, Cores: 30}}}
	if diff := cmp.Diff(want, Grants(p, vgpuNode(), []string{"n0/GPU-a"})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestHeldOfVolcanosPlugin reads what another scheduler has allocated to a pod.
func TestHeldOfVolcanosPlugin(t *testing.T) {
	p := sharingPod(map[string]string{"volcano.sh/vgpu-node": "n0", "volcano.sh/vgpu-ids-new": ";GPU-a,NVIDIA,3000,0:"}, []string{"cpu", "1"}, []string{"volcano.sh/vgpu-number", "1", "volcano.sh/vgpu-memory", "3000"})
	p.Spec.NodeName = "n0"
	if got := Pod(p, Options{}).Devices; len(got) != 1 || got[0] != "n0/GPU-a" {
		t.Errorf("it holds %q", got)
	}
}
