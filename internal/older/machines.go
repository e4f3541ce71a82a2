package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// The machines: written by hand, as kubelets of GPU nodes write them.
const (
	machines = 4
	gpuless  = 3 // the number of the one that has no GPUs, and a device for claims
	gpus     = 8 // of each of the others
	gpuName  = "nvidia.com/gpu"
	// beat is how often the nodes and their pods are kept alive.
	beat = 500 * time.Millisecond
)

func machineName(i int) string { return fmt.Sprintf("machine-%d", i) }

// addMachines writes the nodes, with leases, and keeps them and their pods as kubelets would until ctx ends.
func (p *play) addMachines(ctx context.Context) error {
	for i := range machines {
		has := corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("512Gi"), corev1.ResourcePods: resource.MustParse("110"), gpuName: resource.MustParse(fmt.Sprint(gpus)),
		}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: machineName(i), Labels: map[string]string{
			corev1.LabelHostname: machineName(i), corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.count": fmt.Sprint(gpus),
		}}}
		if i == gpuless {
			delete(has, gpuName)
			delete(node.Labels, "nvidia.com/gpu.product")
			delete(node.Labels, "nvidia.com/gpu.count")
		}
		made, err := p.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		now := metav1.Now()
		made.Status = corev1.NodeStatus{
			Capacity: has, Allocatable: has, NodeInfo: corev1.NodeSystemInfo{KubeletVersion: p.version[len("Kubernetes "):], OperatingSystem: "linux", Architecture: "amd64"},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: now, LastTransitionTime: now}},
		}
		if _, err := p.client.CoreV1().Nodes().UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
			return err
		}
		// A node that is not ready has a taint, which the node lifecycle controller takes away; it does not run here.
		if _, err := p.client.CoreV1().Nodes().Patch(ctx, made.Name, types.MergePatchType, []byte(`{"spec":{"taints":null}}`), metav1.PatchOptions{}); err != nil {
			return err
		}
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: made.Name}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &made.Name, LeaseDurationSeconds: new(int32(40)), RenewTime: &metav1.MicroTime{Time: now.Time}}}
		if err := p.until(ctx, "the namespace of node leases", time.Minute, func() error {
			_, err := p.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(ctx, lease, metav1.CreateOptions{})
			return err
		}); err != nil {
			return err
		}
	}
	go p.keepMachines(ctx)
	return nil
}

// keepMachines renews the leases and runs the pods. What fails is tried again at the next beat.
func (p *play) keepMachines(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		for i := range machines {
			if n%20 == 0 {
				text := fmt.Appendf(nil, `{"spec":{"renewTime":%q}}`, time.Now().UTC().Format("2006-01-02T15:04:05.000000Z07:00"))
				p.client.CoreV1().RESTClient().Patch("application/merge-patch+json").AbsPath("/apis/coordination.k8s.io/v1/namespaces", corev1.NamespaceNodeLease, "leases", machineName(i)).Body(text).Do(ctx)
			}
		}
		if list, err := p.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{}); err == nil {
			for i := range list.Items {
				p.live(ctx, &list.Items[i])
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(beat):
		}
	}
}

// live is what a kubelet does with a pod of its node: it runs, and goes when it is deleted.
func (p *play) live(ctx context.Context, pod *corev1.Pod) {
	pods := p.client.CoreV1().Pods(pod.Namespace)
	switch {
	case pod.Spec.NodeName == "":
	case pod.DeletionTimestamp != nil:
		pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	case pod.Status.Phase == corev1.PodPending:
		now := metav1.Now()
		pod.Status.Phase, pod.Status.StartTime = corev1.PodRunning, &now
		for _, t := range []corev1.PodConditionType{corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: t, Status: corev1.ConditionTrue, LastTransitionTime: now})
		}
		for _, c := range pod.Spec.Containers {
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, Image: c.Image, Ready: true, Started: new(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}})
		}
		pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	}
}

// finish ends the pods of a job as a kubelet does when their containers have.
func (p *play) finish(ctx context.Context, job string) error {
	list, err := p.members(ctx, job)
	if err != nil {
		return err
	}
	for i := range list {
		pod := &list[i]
		now := metav1.Now()
		pod.Status.Phase = corev1.PodSucceeded
		for j := range pod.Status.ContainerStatuses {
			c := &pod.Status.ContainerStatuses[j]
			c.Ready, c.Started, c.State = false, new(false), corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: now, FinishedAt: now}}
		}
		if _, err := p.client.CoreV1().Pods(space).UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// gang submits a Job whose pods start together, and makes the pods as the Job controller does, which does not run here.
func (p *play) gang(ctx context.Context, name string, size int32, each int) error {
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		SchedulerName: "berth", RestartPolicy: corev1.RestartPolicyNever,
		Containers: []corev1.Container{{Name: "train", Image: "registry.example/train:1", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{gpuName: resource.MustParse(fmt.Sprint(each))}}}},
	}}
	job, err := p.client.BatchV1().Jobs(space).Create(ctx, &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{v1alpha1.KeyGang: name}},
		Spec:       batchv1.JobSpec{Completions: &size, Parallelism: &size, CompletionMode: new(batchv1.IndexedCompletion), BackoffLimit: new(int32(0)), Template: template},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	for i := range size {
		index := fmt.Sprint(i)
		pod := &corev1.Pod{Spec: *job.Spec.Template.Spec.DeepCopy(), ObjectMeta: metav1.ObjectMeta{
			GenerateName: name + "-" + index + "-", Labels: maps.Clone(job.Spec.Template.Labels), Annotations: map[string]string{batchv1.JobCompletionIndexAnnotation: index},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))},
		}}
		pod.Labels[batchv1.JobCompletionIndexAnnotation] = index
		if _, err := p.client.CoreV1().Pods(space).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func (p *play) members(ctx context.Context, job string) ([]corev1.Pod, error) {
	list, err := p.client.CoreV1().Pods(space).List(ctx, metav1.ListOptions{LabelSelector: "job-name=" + job})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// running waits until all pods of the job run, and sees to it that it never has some of them on nodes for long.
func (p *play) running(ctx context.Context, job string, size int) error {
	return p.until(ctx, job+" to run", time.Minute, func() error {
		list, err := p.members(ctx, job)
		if err != nil {
			return err
		}
		run := 0
		for i := range list {
			if list[i].Status.Phase == corev1.PodRunning {
				run++
			}
		}
		if run != size || len(list) != size {
			return fmt.Errorf("%d of %d pods run, want %d", run, len(list), size)
		}
		return nil
	})
}

// waiting waits until every pod of the job says why it waits, none of them having a node.
func (p *play) waiting(ctx context.Context, job string, size int) error {
	return p.until(ctx, job+" to say why it waits", time.Minute, func() error {
		list, err := p.members(ctx, job)
		if err != nil {
			return err
		}
		said := 0
		for i := range list {
			if list[i].Spec.NodeName != "" {
				return fmt.Errorf("%s has a node", list[i].Name)
			}
			for _, c := range list[i].Status.Conditions {
				if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Message != "" {
					said++
				}
			}
		}
		if said != size {
			return fmt.Errorf("%d of %d pods say why, want %d", said, len(list), size)
		}
		return nil
	})
}

// until tries until it works.
func (p *play) until(ctx context.Context, what string, limit time.Duration, try func() error) error {
	var last error
	for end := time.Now().Add(limit); time.Now().Before(end); {
		if last = try(); last == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, errors.Join(ctx.Err(), last))
		case <-time.After(beat / 2):
		}
	}
	return fmt.Errorf("wait for %s, %v: %w", what, limit, last)
}

// forbidden says what is wrong where somebody was not refused.
func forbidden(err error, words string) error {
	switch {
	case err == nil:
		return fmt.Errorf("it was not refused: want %q", words)
	case !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err):
		return err
	}
	return nil
}
