package cluster

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/kube/convert"
)

// Trim drops what nothing here reads: managed fields, all but the outcome of a pod that is over, what containers
// run, what the pods that a controller makes look like, and annotations of others.
func Trim(o any) {
	if m, ok := o.(metav1.Object); ok {
		m.SetManagedFields(nil)
	}
	switch o := o.(type) {
	case *corev1.Pod:
		if o.Status.Phase == corev1.PodFailed || o.Status.Phase == corev1.PodSucceeded {
			o.Spec = corev1.PodSpec{NodeName: o.Spec.NodeName, SchedulerName: o.Spec.SchedulerName, SchedulingGroup: o.Spec.SchedulingGroup}
			o.Status = corev1.PodStatus{Phase: o.Status.Phase, Reason: o.Status.Reason, Message: o.Status.Message}
		}
		convert.Trim(o)
	case *corev1.Service:
		o.Spec, o.Status = corev1.ServiceSpec{Selector: o.Spec.Selector}, corev1.ServiceStatus{}
	case *batchv1.Job:
		convert.TrimOwner(o)
		if !suspended(o) { // else it may wait to be let in
			o.Spec.Template.Spec = corev1.PodSpec{Subdomain: o.Spec.Template.Spec.Subdomain}
			break
		}
		t := &corev1.Pod{ObjectMeta: o.Spec.Template.ObjectMeta, Spec: o.Spec.Template.Spec}
		convert.Trim(t)
		o.Spec.Template.ObjectMeta, o.Spec.Template.Spec = t.ObjectMeta, t.Spec
	case *appsv1.StatefulSet:
		convert.TrimOwner(o)
		o.Spec.Template.Spec, o.Spec.VolumeClaimTemplates = corev1.PodSpec{}, nil
	case *appsv1.ReplicaSet:
		convert.TrimOwner(o)
		o.Spec.Template.Spec = corev1.PodSpec{}
	case *appsv1.Deployment:
		convert.TrimOwner(o)
		o.Spec.Template.Spec = corev1.PodSpec{}
	}
}
