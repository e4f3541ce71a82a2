package diagnose_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/diagnose"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/cluster"
	"github.com/berth-dev/berth/kube/convert"
)

// many makes n of something, each from its number.
func many[T any](n int, one func(i int) T) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = one(i)
	}
	return out
}

// largePods change a pod into one that is as large as the API server stores it, about 1.5 MB, each in another list.
var largePods = map[string]func(*corev1.Pod){
	"terms of affinity": func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: many(3000, termOf(20))}}}
	},
	"values of affinity": func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: many(1, termOf(60_000))}}}
	},
	"expressions of affinity": func(p *corev1.Pod) {
		term := corev1.NodeSelectorTerm{MatchExpressions: many(5000, func(i int) corev1.NodeSelectorRequirement { return termOf(5)(i).MatchExpressions[0] })}
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}}}}
	},
	"preferred terms": func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: many(3000, func(i int) corev1.PreferredSchedulingTerm {
			return corev1.PreferredSchedulingTerm{Weight: 1, Preference: termOf(20)(i)}
		})}}
	},
	"node selector": func(p *corev1.Pod) {
		p.Spec.NodeSelector = map[string]string{}
		for i := range 20_000 {
			p.Spec.NodeSelector[fmt.Sprint("gpu-pool-", i)] = "v"
		}
	},
	"rules between pods": func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: many(4000, func(i int) corev1.PodAffinityTerm {
			return corev1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{fmt.Sprint("k", i): "x"}}, TopologyKey: fmt.Sprint("t", i), NamespaceSelector: &metav1.LabelSelector{}}
		})}}
	},
	"spread": func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = many(6000, func(i int) corev1.TopologySpreadConstraint {
			return corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: fmt.Sprint("t", i), WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}
		})
	},
	"tolerations": func(p *corev1.Pod) {
		p.Spec.Tolerations = many(20_000, func(i int) corev1.Toleration {
			return corev1.Toleration{Key: fmt.Sprint("k", i), Operator: corev1.TolerationOpExists}
		})
	},
	"volumes": func(p *corev1.Pod) {
		p.Spec.Volumes = many(9000, func(i int) corev1.Volume {
			return corev1.Volume{Name: fmt.Sprint("v", i), VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: fmt.Sprint("c", i)}}}
		})
	},
	"volumes of configuration": func(p *corev1.Pod) {
		p.Spec.Volumes = many(9000, func(i int) corev1.Volume {
			return corev1.Volume{Name: fmt.Sprint("v", i), VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: fmt.Sprint("c", i)}}}}
		})
	},
	"gates": func(p *corev1.Pod) {
		p.Spec.SchedulingGates = many(20_000, func(i int) corev1.PodSchedulingGate {
			return corev1.PodSchedulingGate{Name: fmt.Sprint("example.com/g", i)}
		})
	},
	"containers": func(p *corev1.Pod) {
		p.Spec.Containers = many(4000, func(i int) corev1.Container {
			c := *p.Spec.Containers[0].DeepCopy()
			c.Name = fmt.Sprint("c", i)
			return c
		})
	},
	"resources": func(p *corev1.Pod) {
		list := corev1.ResourceList{}
		for i := range 9000 {
			list[corev1.ResourceName(fmt.Sprintf("x%d.example.com/gpu", i))] = resource.MustParse("1")
		}
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: list, Limits: list}
	},
	"resource claims": func(p *corev1.Pod) {
		p.Spec.ResourceClaims = many(9000, func(i int) corev1.PodResourceClaim {
			name := fmt.Sprint("t", i)
			return corev1.PodResourceClaim{Name: fmt.Sprint("c", i), ResourceClaimTemplateName: &name}
		})
	},
	"annotations": func(p *corev1.Pod) {
		p.Annotations = map[string]string{}
		for i := range 9000 {
			p.Annotations[fmt.Sprint("berth.dev/gang-", i)] = "x"
		}
	},
	"labels": func(p *corev1.Pod) {
		p.Labels = map[string]string{}
		for i := range 20_000 {
			p.Labels[fmt.Sprint("berth.dev/queue-", i)] = "x"
		}
	},
	"owners": func(p *corev1.Pod) {
		p.OwnerReferences = many(8000, func(i int) metav1.OwnerReference {
			return metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Thing", Name: fmt.Sprint("o", i), UID: types.UID(fmt.Sprint("o", i))}
		})
	},
	"a long message": func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available: " + strings.Repeat("1 node(s) had untolerated taint {a: b}, ", 30_000) + "."}}
	},
}

// processorTime is what this process has used.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func termOf(values int) func(i int) corev1.NodeSelectorTerm {
	return func(i int) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: fmt.Sprint("gpu-pool-", i), Operator: corev1.NodeSelectorOpIn, Values: many(values, func(k int) string { return fmt.Sprint("h100-", k) }),
		}}}
	}
}

// smallCluster has forty nodes that are full, some pools, and a pod that waits, the last.
func smallCluster() *facts.Facts {
	f := bigCluster(1)
	f.Nodes, f.Pods = f.Nodes[:40], slices.Concat(f.Pods[:80], f.Pods[10_000:])
	f.Foreign = map[string][]*unstructured.Unstructured{"Pool.berth.dev": many(10, func(i int) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "berth.dev/v1alpha1", "kind": "Pool", "metadata": map[string]any{"name": fmt.Sprint("pool-", i)}, "spec": map[string]any{"nodes": int64(1), "gpu": map[string]any{"model": "H100", "count": int64(8)}},
		}}
	})}
	for i, n := range f.Nodes {
		n.Labels["gpu-pool"] = fmt.Sprint("h100-", i%3)
	}
	return f
}

// answerInTime asks, and reports where the answer takes long, is longer than a person reads, or clears a pod that waits.
func answerInTime(t *testing.T, f *facts.Facts, of facts.Ref) diagnose.Diagnosis {
	t.Helper()
	began := processorTime(t)
	got, err := diagnose.New(f, cluster.NewModel(cluster.ModelOptions{})).Why(of)
	if err != nil {
		t.Fatal(err)
	}
	took := processorTime(t) - began
	t.Logf("%s %s takes %v: %.500s", got.Layer, got.Cause, took, got.Summary)
	if took > 2*time.Second {
		t.Errorf("takes %v", took)
	}
	if len(got.Summary) > 4096 {
		t.Errorf("its summary has %d bytes: %.300s", len(got.Summary), got.Summary)
	}
	if got.Cause == diagnose.Healthy && got.State != facts.Running {
		t.Errorf("it is called healthy: %s", got.Summary)
	}
	return got
}

// Whoever may create pods decides how large they are. A pod of any shape is diagnosed at once, in a text that a person can read, and where it
// was not looked at whole the answer says so and has no fixes: none was tried on the pod itself.
func TestPodsAsLargeAsTheyMayBe(t *testing.T) {
	for name, change := range largePods {
		for _, scheduler := range []string{"default-scheduler", "berth"} {
			t.Run(name+" for "+scheduler, func(t *testing.T) {
				f := smallCluster()
				p := f.Pods[len(f.Pods)-1]
				p.Spec.SchedulerName, p.Spec.NodeSelector = scheduler, nil
				if scheduler != "berth" {
					p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/40 nodes are available: 40 Insufficient nvidia.com/gpu."}}
				}
				change(p)
				above := convert.AboveLimits(p)
				got := answerInTime(t, f, facts.Ref{Kind: "Pod", Namespace: p.Namespace, Name: p.Name})
				if len(above) > 0 && (!strings.Contains(got.Summary, above[0]) || len(got.Fixes) > 0) {
					t.Errorf("%s: %s, with fixes %v: it does not say that the pod is above limits: %s", got.Cause, got.Summary, got.Fixes, above[0])
				}
			})
		}
	}
}

// Of a pod with very many terms, one of the last matches every node: the answer does not say that none does, neither before the pod is placed
// nor by what its scheduler says.
func TestTermsBeyondTheLimit(t *testing.T) {
	for _, message := range []string{"", "0/40 nodes are available: 40 Insufficient nvidia.com/gpu."} {
		for _, free := range []bool{false, true} {
			f := smallCluster()
			p := f.Pods[len(f.Pods)-1]
			if p.Spec.NodeSelector = nil; free {
				f.Pods = []*corev1.Pod{p}
			}
			largePods["terms of affinity"](p)
			terms := p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
			terms[2000].MatchExpressions[0].Key = "gpu-pool"
			if message != "" {
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: message}}
			}
			got := answerInTime(t, f, facts.Ref{Kind: "Pod", Namespace: p.Namespace, Name: p.Name})
			for _, b := range got.Blockers {
				if b.Binding && (b.Cause == why.NoMatchingNode || b.Cause == "no-such-pool") {
					t.Errorf("%q, free %v: %s %s", message, free, b.Cause, b.Message)
				}
			}
		}
	}
}

// What is beside the pod that is asked about may be as large: it is what holds the pod up, makes it, or tells of it.
func TestNeighboursAsLargeAsTheyMayBe(t *testing.T) {
	one := true
	for name, change := range map[string]func(f *facts.Facts, p *corev1.Pod){
		"ten pods that wait too": func(f *facts.Facts, p *corev1.Pod) {
			for i, shape := range slices.Sorted(maps.Keys(largePods))[:10] {
				q := p.DeepCopy()
				q.Name, q.UID = fmt.Sprint("large-", i), types.UID(fmt.Sprint("large-", i))
				largePods[shape](q)
				f.Pods = append(f.Pods, q)
			}
		},
		"pods that run": func(f *facts.Facts, p *corev1.Pod) {
			for i, shape := range slices.Sorted(maps.Keys(largePods)) {
				q := p.DeepCopy()
				q.Name, q.UID = fmt.Sprint("large-", i), types.UID(fmt.Sprint("large-", i))
				q.Spec.NodeName, q.Status.Phase = f.Nodes[i].Name, corev1.PodRunning
				largePods[shape](q)
				f.Pods = append(f.Pods, q)
			}
		},
		"events": func(f *facts.Facts, p *corev1.Pod) {
			f.Events = many(5000, func(i int) *corev1.Event {
				return &corev1.Event{
					ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: fmt.Sprint("e", i)}, Type: "Warning", Reason: fmt.Sprint("Reason", i), Message: strings.Repeat("0/40 nodes are available: ", 40),
					InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID}, LastTimestamp: metav1.NewTime(f.At), Source: corev1.EventSource{Component: fmt.Sprint("c", i)},
				}
			})
		},
		"configuration": func(f *facts.Facts, p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}}}}}
			f.ConfigMaps = []*corev1.ConfigMap{{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: "c"}, Data: map[string]string{"config.yaml": strings.Repeat("schedulerName: berth\n", 45_000)}}}
		},
		"an annotation": func(_ *facts.Facts, p *corev1.Pod) {
			p.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": strings.Repeat(`{"a":`, 50_000)}
		},
		"a gang of a thousand": func(f *facts.Facts, p *corev1.Pod) {
			g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: "gang", UID: "gang"}}
			g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: 1000}
			f.PodGroups = append(f.PodGroups, g)
			p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &g.Name}
			for i := range 999 {
				q := p.DeepCopy()
				q.Name, q.UID = fmt.Sprint("member-", i), types.UID(fmt.Sprint("member-", i))
				f.Pods = append(f.Pods, q)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := smallCluster()
			p := f.Pods[len(f.Pods)-1]
			p.Spec.SchedulerName, p.Spec.NodeSelector = "berth", nil
			change(f, p)
			answerInTime(t, f, facts.Ref{Kind: "Pod", Namespace: p.Namespace, Name: p.Name})
		})
	}
	for name, change := range largePods {
		t.Run("a Job of "+name, func(t *testing.T) {
			f := smallCluster()
			p := f.Pods[len(f.Pods)-1]
			f.Pods = f.Pods[:len(f.Pods)-1]
			p.Spec.SchedulerName, p.Spec.NodeSelector, p.UID = "berth", nil, ""
			change(p)
			n := int32(3)
			j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: "job", UID: "job", CreationTimestamp: p.CreationTimestamp}}
			j.Spec.Parallelism, j.Spec.Completions = &n, &n
			j.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: p.Labels, Annotations: p.Annotations}, Spec: p.Spec}
			f.Jobs = append(f.Jobs, j)
			for i := range 2 {
				q := p.DeepCopy()
				q.Name, q.UID = fmt.Sprint("job-", i), types.UID(fmt.Sprint("job-", i))
				q.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "job", UID: "job", Controller: &one}}
				f.Pods = append(f.Pods, q)
			}
			answerInTime(t, f, facts.Ref{Kind: "Job", Namespace: p.Namespace, Name: "job"})
		})
		t.Run("a pod that runs with "+name, func(t *testing.T) {
			f := smallCluster()
			p := f.Pods[0]
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady"}}
			change(p)
			answerInTime(t, f, facts.Ref{Kind: "Pod", Namespace: p.Namespace, Name: p.Name})
		})
	}
}
