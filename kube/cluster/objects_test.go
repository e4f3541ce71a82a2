package cluster

import (
	"fmt"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
)

func node(name, rack string, gpus int64) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"rack": rack, corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi"),
			corev1.ResourcePods: resource.MustParse("110"), "nvidia.com/gpu": *resource.NewQuantity(gpus, resource.DecimalSI),
		}},
	}
}

// pod is one of ours that asks for GPUs, with annotations as "key=value" in our prefix.
func pod(name string, gpus int64, annotations ...string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: map[string]string{}},
		Spec: corev1.PodSpec{SchedulerName: DefaultName, Containers: []corev1.Container{{
			Name: "c", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(gpus, resource.DecimalSI)}},
		}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	p.Spec.Containers[0].Resources.Requests = p.Spec.Containers[0].Resources.Limits
	for i := 0; i+1 < len(annotations); i += 2 {
		p.Annotations["berth.dev/"+annotations[i]] = annotations[i+1]
	}
	return p
}

// gang is pods of one GPU each.
func gang(name string, n int, annotations ...string) []runtime.Object {
	out := make([]runtime.Object, n)
	for i := range out {
		out[i] = pod(fmt.Sprintf("%s-%d", name, i), 1, append([]string{"gang", name, "min", strconv.Itoa(n)}, annotations...)...)
	}
	return out
}

func owner(name string, annotations ...string) metav1.ObjectMeta {
	o := metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name), Annotations: map[string]string{}}
	for i := 0; i+1 < len(annotations); i += 2 {
		o.Annotations["berth.dev/"+annotations[i]] = annotations[i+1]
	}
	return o
}

// ownedPod is one that the controller of the name made.
func ownedPod(by string, index int, annotations ...string) *corev1.Pod {
	p := pod(fmt.Sprintf("%s-%d", by, index), 1, annotations...)
	yes := true
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: by, UID: types.UID("uid-" + by), Controller: &yes}}
	return p
}

func job(name string, pods int32, annotations ...string) *batchv1.Job {
	return &batchv1.Job{ObjectMeta: owner(name, annotations...), Spec: batchv1.JobSpec{Parallelism: &pods, Completions: &pods}}
}

// limit is a queue of so many GPUs, open to the namespaces with the labels: none given, all.
func limit(name string, gpus int64, selector map[string]string) *v1alpha1.BerthQueue {
	q := &v1alpha1.BerthQueue{ObjectMeta: metav1.ObjectMeta{Name: name}}
	q.Spec.Resources = []v1alpha1.QueueResource{{Name: "nvidia.com/gpu", Limit: resource.NewQuantity(gpus, resource.DecimalSI)}}
	if selector != nil {
		q.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: selector}
	}
	return q
}

func group(name string, minimum int32) *schedulingv1beta1.PodGroup {
	return &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Generation: 3},
		Spec: schedulingv1beta1.PodGroupSpec{SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
			Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: minimum},
		}},
	}
}

func grouped(name, group string) *corev1.Pod {
	p := pod(name, 1)
	p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
	return p
}
