package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// create makes the workload's objects. Where it fails halfway, what was made stays and is deleted with the rest.
func (c recipe) create(ctx context.Context, client kubernetes.Interface) error {
	if c.group {
		groups := client.SchedulingV1beta1().PodGroups(namespace)
		if _, err := groups.Create(ctx, c.podGroup(), metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	var err error
	switch c.owner {
	case "job":
		_, err = client.BatchV1().Jobs(namespace).Create(ctx, c.job(), metav1.CreateOptions{})
	case "statefulset":
		_, err = client.AppsV1().StatefulSets(namespace).Create(ctx, c.statefulSet(), metav1.CreateOptions{})
	case "deployment":
		_, err = client.AppsV1().Deployments(namespace).Create(ctx, c.deployment(), metav1.CreateOptions{})
	default:
		for i := 0; i < c.members && err == nil; i++ {
			_, err = client.CoreV1().Pods(namespace).Create(ctx, c.pod(i), metav1.CreateOptions{})
		}
	}
	return err
}

func (c recipe) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: c.name, Labels: c.labels()}
}

func (c recipe) labels() map[string]string { return map[string]string{labelWorkload: c.name} }

func (c recipe) podLabels() map[string]string {
	out := c.labels()
	if c.queue != "" {
		out[labelTeam] = c.queue
	}
	if c.rule == "loud" {
		out[labelLoud] = c.scheduler
	}
	return out
}

func (c recipe) selector() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: c.labels()}
}

func (c recipe) podGroup() *schedulingv1beta1.PodGroup {
	g := &schedulingv1beta1.PodGroup{ObjectMeta: c.meta(), Spec: schedulingv1beta1.PodGroupSpec{
		SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(c.min)}},
	}}
	if c.high {
		g.Spec.PriorityClassName = high
	}
	return g
}

func (c recipe) template(restart corev1.RestartPolicy) corev1.PodTemplateSpec {
	grace := int64(3)
	spec := corev1.PodSpec{
		SchedulerName: c.scheduler, RestartPolicy: restart, TerminationGracePeriodSeconds: &grace,
		Containers: []corev1.Container{{
			Name: "train", Image: "registry.example/train:1", Command: []string{"torchrun", "train.py"},
			Resources: corev1.ResourceRequirements{
				Limits:   corev1.ResourceList{gpu: *resource.NewQuantity(c.gpus, resource.DecimalSI)},
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")},
			},
		}},
	}
	if c.high {
		spec.PriorityClassName = high
	}
	c.restrict(&spec)
	if c.disks {
		spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "disk", MountPath: "/disk"}}
	}
	if c.disks && c.owner != "statefulset" { // which has a place of its own for them
		spec.Volumes = []corev1.Volume{{Name: "disk", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
			VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: disk()},
		}}}}
	}
	if c.group {
		spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &c.name}
	}
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: c.podLabels(), Annotations: c.annotations()}, Spec: spec}
}

// restrict writes the workload's rule into the spec of its pods.
func (c recipe) restrict(spec *corev1.PodSpec) {
	zone := corev1.PodAffinityTerm{TopologyKey: corev1.LabelTopologyZone, LabelSelector: c.selector()}
	switch c.rule {
	case "apart":
		host := corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: c.selector()}
		spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{host}}}
	case "aloof":
		loud := corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{labelLoud: c.scheduler}}}
		spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{loud}}}
	case "near":
		spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{zone}}}
	case "spread":
		spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: c.selector(),
		}}
	}
}

// disk is of the class that fleets come with, which makes it where its first user is.
func disk() corev1.PersistentVolumeClaimSpec {
	return corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}
}

// job has every member once. Members that were disrupted do not count against it.
func (c recipe) job() *batchv1.Job {
	n, limit, indexed := int32(c.members), int32(6), batchv1.IndexedCompletion
	return &batchv1.Job{ObjectMeta: c.meta(), Spec: batchv1.JobSpec{
		Completions: &n, Parallelism: &n, CompletionMode: &indexed, BackoffLimit: &limit, Template: c.template(corev1.RestartPolicyNever),
		PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
			Action:          batchv1.PodFailurePolicyActionIgnore,
			OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}},
		}}},
	}}
}

func (c recipe) statefulSet() *appsv1.StatefulSet {
	n := int32(c.members)
	set := &appsv1.StatefulSet{ObjectMeta: c.meta(), Spec: appsv1.StatefulSetSpec{
		Replicas: &n, Selector: c.selector(), PodManagementPolicy: appsv1.ParallelPodManagement, Template: c.template(corev1.RestartPolicyAlways),
		PersistentVolumeClaimRetentionPolicy: &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: appsv1.DeletePersistentVolumeClaimRetentionPolicyType},
	}}
	if c.disks {
		set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "disk"}, Spec: disk()}}
	}
	return set
}

func (c recipe) deployment() *appsv1.Deployment {
	n := int32(c.members)
	return &appsv1.Deployment{ObjectMeta: c.meta(), Spec: appsv1.DeploymentSpec{
		Replicas: &n, Selector: c.selector(), Template: c.template(corev1.RestartPolicyAlways),
	}}
}

func (c recipe) pod(i int) *corev1.Pod {
	t := c.template(corev1.RestartPolicyNever)
	t.Name = fmt.Sprintf("%s-%d", c.name, i)
	return &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
}
