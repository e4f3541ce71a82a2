package convert

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
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

// A limit of one GPU of the model holds as many instances of each profile of each model under single as under mixed: as many as are
// not more than the GPU by their larger share.
func TestLimitsOfAModelCountItsInstances(t *testing.T) {
	for _, m := range gpu.Models() {
		model, _ := shortModel(m.Label())
		for _, p := range m.Profiles() {
			t.Run(m.Name+"/"+p.Name, func(t *testing.T) {
				mixed, want := migNode(m, p, "mixed")
				if got := startsWithin(mixed, "nvidia.com/mig-"+p.ResourceName(), model); got != want {
					t.Errorf("under mixed %d instances start within one %s, want %d", got, model, want)
				}
				single, _ := migNode(m, p, "single")
				if got := startsWithin(single, "nvidia.com/gpu", model); got != want {
					t.Errorf("under single %d instances start within one %s, want %d", got, model, want)
				}
			})
		}
	}
}

// migNode is a node of which all GPUs are cut into instances of the profile, as GPU Feature Discovery labels it, and how many of them
// one GPU is.
func migNode(m gpu.Model, p gpu.Profile, strategy string) (n *corev1.Node, perGPU int) {
	labels, resource := map[string]string{
		"nvidia.com/gpu.product": m.Label() + "-MIG-" + p.ResourceName(), "nvidia.com/gpu.memory": strconv.Itoa(p.MemoryMiB), "nvidia.com/gpu.replicas": "1",
	}, "nvidia.com/gpu"
	if strategy == "mixed" {
		resource = "nvidia.com/mig-" + p.ResourceName()
		labels = map[string]string{
			"nvidia.com/gpu.product": m.Label(), "nvidia.com/gpu.memory": strconv.Itoa(m.MemoryMiB),
			resource + ".product": m.Label() + "-MIG-" + p.ResourceName(), resource + ".replicas": "1",
		}
	}
	n = gpuNode(labels, resource, 16)
	n.Status.Allocatable["pods"] = *apiresource.NewQuantity(110, apiresource.DecimalSI)
	each := max(int64(p.Size)*engine.Whole/int64(m.Slots()), int64(p.Slices)*engine.Whole/int64(m.Slices()))
	return n, int(engine.Whole / each)
}

// startsWithin is how many of sixteen pods that ask for one of the resource start in a queue with a limit of one GPU of the model.
func startsWithin(n *corev1.Node, resource, model string) int {
	snap := engine.Snapshot{Version: engine.SnapshotVersion, Nodes: []engine.Node{Node(n, Options{})}, Queues: []engine.Queue{
		{Name: "team", Limits: engine.Resources{{Resource: engine.OfModel("nvidia.com/gpu", model), Value: 1}}},
	}}
	for i := range 16 {
		snap.Pods = append(snap.Pods, engine.Pod{
			Key: fmt.Sprintf("team/infer-%d", i), UID: fmt.Sprint(i), Queue: "team", Spec: engine.Spec{Requests: engine.Resources{{Resource: resource, Value: 1}}},
		})
	}
	return len(engine.Load(snap, engine.Config{GPU: "nvidia.com/gpu"}).Plan(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)).Starts)
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
		{"single, shared", "gpu.product=NVIDIA-A100-SXM4-40GB-MIG-7g.40gb-SHARED gpu.replicas=2", "nvidia.com/gpu", "nvidia.com/gpu 500 500 of A100-MIG-7g.40gb"},
		{"single", "gpu.product=NVIDIA-A100-SXM4-40GB-MIG-1g.5gb gpu.replicas=1", "nvidia.com/gpu", "nvidia.com/gpu 125 142 of A100-MIG-1g.5gb"},
		{"single, a product that is no model", "gpu.product=NVIDIA-Thing-MIG-1g.5gb", "nvidia.com/gpu", "nvidia.com/gpu 142 142 of NVIDIA-Thing-MIG-1g.5gb"},
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
		Status:     corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourceName(name): *apiresource.NewQuantity(count, apiresource.DecimalSI)}},
	}
}

// The generation of a pool is a number that a driver writes, and no driver is below zero but a broken one.
func TestSlicesOfAGenerationBelowZero(t *testing.T) {
	slice := &resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{Driver: "gpu.nvidia.com", Pool: resourcev1.ResourcePool{Name: "a", Generation: -2, ResourceSliceCount: 1}, Devices: []resourcev1.Device{{Name: "gpu-0"}}}}
	if got := ReadSlices([]*resourcev1.ResourceSlice{slice}); len(got.Devices) != 1 {
		t.Errorf("%+v", got)
	}
}
