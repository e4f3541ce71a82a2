package cluster

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// Which kinds the feed reads, and which subject takes them in.

// Set takes in an object as a watch shows it. An object of a kind that is not read is passed over. The object is kept, and not written to.
func (f *Feed) Set(o metav1.Object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.set(o)
}

// Learn takes in what a claim or a volume became by our own doing, ahead of the watch. One that has gone meanwhile does not come back.
func (f *Feed) Learn(o metav1.Object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var known metav1.Object
	switch o.(type) {
	case *corev1.PersistentVolumeClaim:
		if c := f.volumes.Claim(keyOf(o)); c != nil {
			known = c
		}
	case *corev1.PersistentVolume:
		if v := f.volumes.Volume(o.GetName()); v != nil {
			known = v
		}
	case *resourcev1.ResourceClaim:
		if c := f.devices.claims[keyOf(o)]; c != nil {
			known = c
		}
	}
	if known != nil && known.GetUID() == o.GetUID() {
		f.set(o)
	}
}

func (f *Feed) set(o metav1.Object) {
	switch o := o.(type) {
	case *corev1.Node:
		f.setNode(o)
	case *corev1.Pod:
		f.setPod(o)
	case *corev1.Namespace:
		f.setNamespace(o)
	case *corev1.Service:
		if f.rules.SetService(o.Namespace, o.Name, o.Spec.Selector) {
			f.out.wake()
		}
	case *corev1.PersistentVolumeClaim:
		if key := keyOf(o); !outdated(f.volumes.Claim(key), o) {
			f.volumes.SetClaim(key, o)
		}
	case *corev1.PersistentVolume:
		if !outdated(f.volumes.Volume(o.Name), o) {
			f.volumes.SetVolume(o)
		}
	case *storagev1.StorageClass:
		f.volumes.SetClass(o.Name, o)
	case *storagev1.CSINode:
		f.attachable(o.Name, o)
	case *storagev1.CSIDriver:
		f.volumes.SetCSIDriver(o.Name, o)
	case *storagev1.CSIStorageCapacity:
		f.volumes.SetCapacity(o)
	case *resourcev1.ResourceSlice:
		f.devices.SetSlice(o)
		f.out.wake()
	case *resourcev1.DeviceTaintRule:
		f.devices.SetTaintRule(o)
		f.out.wake()
	case *resourcev1.DeviceClass:
		f.setDeviceClass(o)
	case *resourcev1.ResourceClaim:
		f.setResourceClaim(o)
	case *resourcev1.ResourceClaimTemplate:
		f.setClaimTemplate(o)
	case *policyv1.PodDisruptionBudget:
		f.budgets.set(o)
	case *schedulingv1.PriorityClass:
		f.setPriorityClass(o)
	case *schedulingv1beta1.PodGroup:
		f.setGroup(o)
	case *schedulingv1alpha3.CompositePodGroup:
		f.setComposite(o)
	case *batchv1.Job, *appsv1.StatefulSet, *appsv1.ReplicaSet, *appsv1.Deployment, *metav1.PartialObjectMetadata:
		f.setOwner(o)
	case *v1alpha1.BerthQueue:
		f.setBerthQueue(o)
	case *unstructured.Unstructured:
		f.setForeign(o)
	}
}

// Remove takes an object away, as it was last seen.
func (f *Feed) Remove(o metav1.Object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch o := o.(type) {
	case *corev1.Node:
		f.removeNode(o)
	case *corev1.Pod:
		f.removePod(o)
	case *corev1.Namespace:
		f.removeNamespace(o)
	case *corev1.Service:
		if f.rules.RemoveService(o.Namespace, o.Name) {
			f.out.wake()
		}
	case *corev1.PersistentVolumeClaim:
		f.volumes.SetClaim(keyOf(o), nil)
	case *corev1.PersistentVolume:
		f.volumes.RemoveVolume(o)
	case *storagev1.StorageClass:
		f.volumes.SetClass(o.Name, nil)
	case *storagev1.CSINode:
		f.attachable(o.Name, nil)
	case *storagev1.CSIDriver:
		f.volumes.SetCSIDriver(o.Name, nil)
	case *storagev1.CSIStorageCapacity:
		f.volumes.RemoveCapacity(o)
	case *resourcev1.ResourceSlice:
		f.devices.RemoveSlice(o.Name)
		f.out.wake()
	case *resourcev1.DeviceTaintRule:
		f.devices.RemoveTaintRule(o.Name)
		f.out.wake()
	case *resourcev1.DeviceClass:
		f.removeDeviceClass(o)
	case *resourcev1.ResourceClaim:
		f.removeResourceClaim(o)
	case *resourcev1.ResourceClaimTemplate:
		f.removeClaimTemplate(o)
	case *policyv1.PodDisruptionBudget:
		f.budgets.remove(o)
	case *schedulingv1.PriorityClass:
		f.removePriorityClass(o)
	case *schedulingv1beta1.PodGroup:
		f.removeGroup(o)
	case *schedulingv1alpha3.CompositePodGroup:
		f.removeComposite(o)
	case *batchv1.Job, *appsv1.StatefulSet, *appsv1.ReplicaSet, *appsv1.Deployment, *metav1.PartialObjectMetadata:
		f.removeOwner(o)
	case *v1alpha1.BerthQueue:
		f.removeBerthQueue(o)
	case *unstructured.Unstructured:
		f.removeForeign(o)
	}
}
