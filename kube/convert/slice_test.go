package convert

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/fleet/gpu"
)

// Every profile of every model that the fleet can cut counts as its slots of memory and its compute slices, under both strategies.
func TestSlicesAreThoseOfTheTables(t *testing.T) {
	for _, m := range gpu.Models() {
		for _, p := range m.Profiles() {
			want := engine.Slice{Memory: int64(p.Size) * engine.Whole / int64(m.Slots()), Compute: int64(p.Slices) * engine.Whole / int64(m.Slices())}
			t.Run(m.Name+"/"+p.Name, func(t *testing.T) {
				mixed := "nvidia.com/mig-" + p.ResourceName()
				want.Resource = mixed
				got := Node(gpuNode(map[string]string{
					"nvidia.com/gpu.product": m.Label(), "nvidia.com/gpu.memory": strconv.Itoa(m.MemoryMiB),
					mixed + ".product": m.Label() + "-MIG-" + p.ResourceName(), mixed + ".replicas": "1",
				}, mixed, 7), Options{}).Slices
				if diff := cmp.Diff([]engine.Slice{want}, got); diff != "" {
					t.Errorf("mixed (-want +got):\n%s", diff)
				}
				want.Resource = "nvidia.com/gpu"
				got = Node(gpuNode(map[string]string{
					"nvidia.com/gpu.product": m.Label() + "-MIG-" + p.ResourceName(), "nvidia.com/gpu.memory": strconv.Itoa(p.MemoryMiB), "nvidia.com/gpu.replicas": "1",
				}, "nvidia.com/gpu", 7), Options{}).Slices
				if diff := cmp.Diff([]engine.Slice{want}, got); diff != "" {
					t.Errorf("single (-want +got):\n%s", diff)
				}
			})
		}
	}
}

func TestSlices(t *testing.T) {
	for _, tt := range []struct {
		name     string
		labels   string
		resource string
		want     string
	}{
		{"whole GPUs", "gpu.product=NVIDIA-H200 gpu.replicas=1 gpu.count=8", "nvidia.com/gpu", ""},
		{"no labels", "", "nvidia.com/gpu", ""},
		{"another resource", "gpu.product=NVIDIA-H200 gpu.replicas=4", "rdma/hca", ""},
		{"four replicas", "gpu.product=Tesla-T4-SHARED gpu.replicas=4", "nvidia.com/gpu", "nvidia.com/gpu 250 250 of T4"},
		{"replicas under their own name", "gpu.product=Tesla-T4 gpu.replicas=3", "nvidia.com/gpu.shared", "nvidia.com/gpu.shared 333 333 of T4"},
		{"replicas of instances", "gpu.product=NVIDIA-A100-SXM4-40GB mig-3g.20gb.product=NVIDIA-A100-SXM4-40GB-MIG-3g.20gb-SHARED mig-3g.20gb.replicas=2", "nvidia.com/mig-3g.20gb", "nvidia.com/mig-3g.20gb 250 214 of A100"},
		{"an instance whose label alone names the card", "mig-3g.20gb.product=NVIDIA-A100-SXM4-40GB-MIG-3g.20gb", "nvidia.com/mig-3g.20gb", "nvidia.com/mig-3g.20gb 500 428 of A100"},
		{"an instance of another card than the node's", "gpu.product=NVIDIA-A30 mig-3g.20gb.product=NVIDIA-A100-SXM4-40GB-MIG-3g.20gb", "nvidia.com/mig-3g.20gb", "nvidia.com/mig-3g.20gb 500 428"},
		{"single, shared", "gpu.product=NVIDIA-A100-SXM4-40GB-MIG-7g.40gb-SHARED gpu.replicas=2", "nvidia.com/gpu", "nvidia.com/gpu 500 500"},
		{"cut in different ways", "gpu.product=NVIDIA-A100-SXM4-40GB-MIG-INVALID gpu.replicas=0", "nvidia.com/gpu", ""},
		{"an instance of a card that nobody describes", "", "nvidia.com/mig-2g.10gb", "nvidia.com/mig-2g.10gb 285 285"},
		{"more replicas than parts", "gpu.replicas=100000", "nvidia.com/gpu", "nvidia.com/gpu 1 1"},
		{"a number that is none", "gpu.replicas=-4", "nvidia.com/gpu", ""},
		{"a profile that is none", "", "nvidia.com/mig-99g.0gb", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			labels := make(map[string]string)
			for _, word := range strings.Fields(tt.labels) {
				key, value, _ := strings.Cut(word, "=")
				labels["nvidia.com/"+key] = value
			}
			got := ""
			n := Node(gpuNode(labels, tt.resource, 4), Options{})
			for _, s := range n.Slices {
				got += fmt.Sprint(s.Resource, " ", s.Memory, " ", s.Compute)
			}
			if n.Model != "" {
				got += " of " + n.Model
			}
			if got != tt.want {
				t.Errorf("slices %q, want %q", got, tt.want)
			}
			if reason := n.Check(); reason != "" {
				t.Errorf("the engine refuses the node: %s", reason)
			}
		})
	}
}

func gpuNode(labels map[string]string, name string, count int64) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: labels},
		Status:     corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourceName(name): *resource.NewQuantity(count, resource.DecimalSI)}},
	}
}
