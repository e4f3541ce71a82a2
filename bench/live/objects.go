package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/scheduler"
)

const (
	namespace     = "bench"
	schedulerName = scheduler.DefaultName // in every pod, whoever schedules it
	gpu           = corev1.ResourceName("nvidia.com/gpu")

	gpusPerNode   = 8
	nodesPerRack  = 32
	rackLabel     = v1alpha1.LabelRack
	nodesPerBlock = 8 * nodesPerRack
	nodesPerZone  = 4 * nodesPerBlock
)

func nodeName(i int) string { return fmt.Sprintf("node-%05d", i) }

// node is an idle, ready machine with eight GPUs.
func node(i int) *corev1.Node {
	room := corev1.ResourceList{
		gpu: *resource.NewQuantity(gpusPerNode, resource.DecimalSI), corev1.ResourceCPU: resource.MustParse("192"),
		corev1.ResourceMemory: resource.MustParse("2Ti"), corev1.ResourcePods: resource.MustParse("110"),
		corev1.ResourceEphemeralStorage: resource.MustParse("4Ti"),
	}
	labels := map[string]string{
		corev1.LabelHostname: nodeName(i), corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
		v1alpha1.LabelRegion: "region-0",
		v1alpha1.LabelZone:   fmt.Sprintf("zone-%d", i/nodesPerZone),
		v1alpha1.LabelBlock:  fmt.Sprintf("block-%d", i/nodesPerBlock),
		v1alpha1.LabelRack:   fmt.Sprintf("rack-%d", i/nodesPerRack),
	}
	for kind, name := range instanceTypes {
		if i/nodesPerRack%len(instanceTypes) == kind {
			labels[instanceType] = name
		} else {
			labels[fabric(kind)] = "true"
		}
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: nodeName(i), Labels: labels},
		Status: corev1.NodeStatus{
			Capacity: room, Allocatable: room,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}},
		},
	}
}

// pod asks for so many GPUs, and for little else.
func pod(name string, gpus int64) *corev1.Pod {
	no := false
	ask := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi")}
	if gpus > 0 {
		ask[gpu] = *resource.NewQuantity(gpus, resource.DecimalSI)
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: corev1.PodSpec{
			SchedulerName: schedulerName, AutomountServiceAccountToken: &no,
			Containers: []corev1.Container{{
				Name: "main", Image: "registry.example/train:1",
				Resources: corev1.ResourceRequirements{Requests: ask, Limits: ask},
			}},
		},
	}
}

// member is the pod number i of a gang.
func member(gang string, i int, gpus int64) *corev1.Pod {
	p := pod(fmt.Sprintf("%s-%03d", gang, i), gpus)
	p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &gang}
	return p
}

// group is a gang of that size in upstream's words; with a required level where label is not "".
func group(name string, size int, label string) *schedulingv1beta1.PodGroup {
	g := &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: schedulingv1beta1.PodGroupSpec{SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
			Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(size)},
		}},
	}
	if label != "" {
		g.Spec.SchedulingConstraints = &schedulingv1beta1.PodGroupSchedulingConstraints{
			Topology: []schedulingv1beta1.TopologyConstraint{{Key: label}},
		}
	}
	return g
}
