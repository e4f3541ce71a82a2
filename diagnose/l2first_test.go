package diagnose_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/diagnose"
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/cluster"
)

// gap is a cluster in which no node advertises a GPU, with some of the things that could tell that machines have them, and
// others taken away.
type gap struct {
	*rand.Rand
	facts *facts.Facts
	gpus  int64 // per machine
}

func (g *gap) maybe() bool { return g.IntN(2) == 0 }

func (g *gap) node(i int) *corev1.Node {
	at := metav1.NewTime(g.facts.At.Add(-time.Duration(1+g.IntN(100)) * time.Hour))
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i), UID: types.UID(fmt.Sprint("node-", i)), CreationTimestamp: at, Labels: map[string]string{}}}
	n.Labels[corev1.LabelHostname] = n.Name
	n.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("96"), "memory": resource.MustParse("1Ti"), "pods": resource.MustParse("110")}
	n.Status.Allocatable = n.Status.Capacity.DeepCopy()
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastTransitionTime: at}}
	count := fmt.Sprint(g.gpus)
	for key, value := range map[string]string{
		"feature.node.kubernetes.io/pci-10de.present": "true", "nvidia.com/gpu.present": "true", "nvidia.com/gpu.count": count, "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
		"k8s.amazonaws.com/accelerator": "nvidia-h100", "berth.dev/pool": "gpu", "nvidia.com/gpu.deploy.device-plugin": "true", "nvidia.com/mig.strategy": "mixed",
	} {
		if g.maybe() {
			n.Labels[key] = value
		}
	}
	if g.gpus == 8 && g.maybe() {
		n.Labels[corev1.LabelInstanceTypeStable] = []string{"p5.48xlarge", "a3-highgpu-8g", "Standard_ND96isr_H100_v5", "m7i.24xlarge"}[g.IntN(4)]
	}
	if g.IntN(4) == 0 { // once there, and away
		n.Status.Capacity["nvidia.com/gpu"], n.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("0"), resource.MustParse("0")
	}
	if g.IntN(4) == 0 {
		n.Status.Conditions[0].Status, n.Status.Conditions[0].Reason = corev1.ConditionFalse, "KubeletNotReady"
		n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}}
	}
	return n
}

// plugin is a pod of the device plugin on the node: in order, without its folder, crashing, or not there.
func (g *gap) plugin(n *corev1.Node) *corev1.Pod {
	if g.IntN(3) == 0 {
		return nil
	}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "gpu-operator", Name: "plugin-" + n.Name, UID: types.UID("plugin-" + n.Name), Labels: map[string]string{"app": "nvidia-device-plugin-daemonset"}, CreationTimestamp: n.CreationTimestamp}}
	p.Spec = corev1.PodSpec{NodeName: n.Name, Containers: []corev1.Container{{Name: "plugin", Image: "k8s-device-plugin:1"}}}
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &n.CreationTimestamp}
	ready := corev1.ConditionTrue
	if g.maybe() {
		ready = corev1.ConditionFalse
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "plugin", RestartCount: 7, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}}
	}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
	if g.maybe() {
		p.Spec.Volumes = []corev1.Volume{{Name: "s", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/var/lib/kubelet/device-plugins"}}}}
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "s", MountPath: "/var/lib/kubelet/device-plugins"}}
	}
	return p
}

func drawGap(seed uint64) *gap {
	g := &gap{Rand: rand.New(rand.NewPCG(seed, 2)), facts: &facts.Facts{At: time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC), Kubernetes: "v1.37.1"}}
	g.gpus = []int64{1, 2, 4, 8}[g.IntN(4)]
	f := g.facts
	pool := g.maybe()
	nodes := g.IntN(4)
	if !pool {
		nodes++ // an empty cluster of which nothing is known has no layer of its own
	}
	for i := range nodes {
		n := g.node(i)
		f.Nodes = append(f.Nodes, n)
		if p := g.plugin(n); p != nil {
			f.Pods = append(f.Pods, p)
		}
	}
	if pool {
		f.Foreign = map[string][]*unstructured.Unstructured{"Pool.berth.dev": {{Object: map[string]any{
			"apiVersion": "berth.dev/v1alpha1", "kind": "Pool", "metadata": map[string]any{"name": "gpu", "uid": "pool"},
			"spec": map[string]any{"nodes": int64(1 + g.IntN(4)), "gpus": []any{map[string]any{"model": "h100", "count": g.gpus}}},
		}}}}
	}
	ask := *resource.NewQuantity(1+g.Int64N(g.gpus), resource.DecimalSI)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "train", UID: "train", CreationTimestamp: metav1.NewTime(f.At.Add(-10 * time.Minute))}}
	p.Spec = corev1.PodSpec{SchedulerName: []string{"default-scheduler", "berth"}[g.IntN(2)], Containers: []corev1.Container{{Name: "main", Image: "train:1",
		Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": ask}, Requests: corev1.ResourceList{"nvidia.com/gpu": ask}}}}}
	p.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: fmt.Sprintf("0/%d nodes are available: %d Insufficient nvidia.com/gpu.", len(f.Nodes), len(f.Nodes)), LastTransitionTime: metav1.NewTime(f.At.Add(-9 * time.Minute))}}}
	f.Pods = append(f.Pods, p)
	return g
}

// A pod that asks for no more GPUs than a machine has, where no node advertises one, is the platform's: whatever tells of
// the hardware, and whatever of it is taken away. Nobody is told to ask for less.
func TestGapsAreThePlatforms(t *testing.T) {
	for i := range uint64(400) {
		seed := fixedSeed()*1000 + i
		g := drawGap(seed)
		got, err := diagnose.New(g.facts, cluster.NewModel(cluster.ModelOptions{})).Why(facts.Ref{Kind: "Pod", Namespace: "team", Name: "train"})
		if err != nil {
			t.Fatal(err)
		}
		if got.Layer != check.L2 || got.Owner != check.Platform {
			b, _ := yaml.Marshal(got)
			t.Fatalf("seed %d, %d GPUs a machine: %s\n%s", seed, g.gpus, b, describe(g.facts))
		}
		for _, fix := range got.Fixes {
			if fix.Side == edit.Workload {
				t.Fatalf("seed %d: the pod is told to %s", seed, fix.Edit)
			}
		}
	}
}

func describe(f *facts.Facts) string {
	var b strings.Builder
	for _, n := range f.Nodes {
		fmt.Fprintln(&b, n.Name, n.Labels, n.Status.Conditions[0].Status, n.Status.Capacity["nvidia.com/gpu"])
	}
	for _, p := range f.Pods {
		fmt.Fprintln(&b, p.Name, p.Spec.NodeName, p.Status.Conditions, len(p.Spec.Volumes))
	}
	fmt.Fprintln(&b, f.Foreign)
	return b.String()
}
