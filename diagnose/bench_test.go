package diagnose_test

import (
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/diagnose"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/cluster"
)

// bigCluster has 5,000 nodes of two GPUs in racks of twenty, all of them taken by 10,000 pods, and pods that wait for one
// more, one in four of them with a label that no node has.
func bigCluster(waiting int) *facts.Facts {
	now := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	f := &facts.Facts{At: now, Kubernetes: "v1.37.1"}
	old := metav1.NewTime(now.Add(-time.Hour))
	for i := range 5000 {
		name := fmt.Sprintf("node-%d", i)
		list := corev1.ResourceList{"cpu": resource.MustParse("64"), "memory": resource.MustParse("512Gi"), "pods": resource.MustParse("110"), "nvidia.com/gpu": resource.MustParse("2")}
		f.Nodes = append(f.Nodes, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: old, Labels: map[string]string{
				"kubernetes.io/hostname": name, "rack": fmt.Sprint(i / 20), "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.count": "2", "nvidia.com/gpu.present": "true",
			}},
			Status: corev1.NodeStatus{Capacity: list, Allocatable: list, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: old}}},
		})
	}
	for i := range 10000 + waiting {
		name := fmt.Sprintf("pod-%d", i)
		list := corev1.ResourceList{"cpu": resource.MustParse("4"), "nvidia.com/gpu": resource.MustParse("1")}
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprintf("team-%d", i%50), Name: name, UID: types.UID(name), CreationTimestamp: old},
			Spec: corev1.PodSpec{SchedulerName: "default-scheduler", Containers: []corev1.Container{{
				Name: "train", Image: "train:1", Resources: corev1.ResourceRequirements{Requests: list, Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}},
			}}},
			Status: corev1.PodStatus{Phase: corev1.PodPending},
		}
		switch {
		case i < 10000:
			p.Spec.NodeName, p.Status.Phase = fmt.Sprintf("node-%d", i/2), corev1.PodRunning
		case i%4 == 0:
			p.Spec.NodeSelector = map[string]string{"nvidia.com/gpu.product": "NVIDIA-H100-80GB"}
		}
		f.Pods = append(f.Pods, p)
	}
	return f
}

// BenchmarkWhy is one question about a cluster that was just read: what `berth why` costs beside the reading.
func BenchmarkWhy(b *testing.B) {
	for b.Loop() {
		d := diagnose.New(bigCluster(4), cluster.NewModel(cluster.ModelOptions{}))
		if _, err := d.Why(facts.Ref{Kind: "Pod", Namespace: "team-1", Name: "pod-10001"}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkWhyAll is all that waits: `berth why -A`.
func BenchmarkWhyAll(b *testing.B) {
	for _, waiting := range []int{10, 100} {
		b.Run(fmt.Sprintf("waiting=%d", waiting), func(b *testing.B) {
			for b.Loop() {
				d := diagnose.New(bigCluster(waiting), cluster.NewModel(cluster.ModelOptions{}))
				for _, r := range d.Waiting("") {
					if _, err := d.Why(r.Ref); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// gangOf is a big cluster with a gang of pods that wait, none of which has a place: of a size that no node has, with a label that no
// node has, or kept apart from each other on nodes that are all full.
func gangOf(n int, change func(*corev1.Pod)) *facts.Facts {
	f := bigCluster(0)
	group := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "gang", UID: "gang", CreationTimestamp: f.Pods[0].CreationTimestamp}}
	group.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(n)}
	f.PodGroups = append(f.PodGroups, group)
	one := true
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "gang", UID: "job", CreationTimestamp: f.Pods[0].CreationTimestamp}}
	pods := int32(n)
	job.Spec.Parallelism, job.Spec.Completions, job.Status.Active = &pods, &pods, pods
	for i := range n {
		p := f.Pods[0].DeepCopy()
		p.Namespace, p.Name, p.UID = "team", fmt.Sprintf("gang-%d", i), types.UID(fmt.Sprintf("gang-%d", i))
		p.Labels = map[string]string{"job-name": "gang"}
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "gang", UID: "job", Controller: &one}}
		p.Spec.NodeName, p.Status = "", corev1.PodStatus{Phase: corev1.PodPending}
		p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group.Name}
		change(p)
		if i == 0 {
			job.Spec.Template.Spec = *p.Spec.DeepCopy()
			job.Spec.Template.Labels = p.Labels
		}
		f.Pods = append(f.Pods, p)
	}
	f.Jobs = append(f.Jobs, job)
	return f
}

var gangs = []struct {
	name   string
	change func(*corev1.Pod)
}{
	{"full", func(*corev1.Pod) {}},
	{"too large", func(p *corev1.Pod) {
		eight := resource.MustParse("8")
		p.Spec.Containers[0].Resources.Requests["nvidia.com/gpu"], p.Spec.Containers[0].Resources.Limits["nvidia.com/gpu"] = eight, eight
	}},
	{"no such label", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"nvidia.com/gpu.product": "H100"} }},
	{"apart", func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels}, TopologyKey: "rack"}}}}
	}},
	{"spread", func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "rack", WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels}}}
	}},
}

// BenchmarkWhyGang is one question about a gang of 512 pods that cannot start.
func BenchmarkWhyGang(b *testing.B) {
	for _, g := range gangs {
		b.Run(g.name, func(b *testing.B) {
			for b.Loop() {
				d := diagnose.New(gangOf(512, g.change), cluster.NewModel(cluster.ModelOptions{}))
				if _, err := d.Why(facts.Ref{Kind: "Job", Namespace: "team", Name: "gang"}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
