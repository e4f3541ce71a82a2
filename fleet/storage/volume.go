package storage

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"
)

// place is from where a volume can be reached: nodes with this label.
type place struct{ key, value string }

// placeOf is the zone of the node; of a node in none it is the node itself.
func placeOf(n *corev1.Node) place {
	if zone := n.Labels[corev1.LabelTopologyZone]; zone != "" {
		return place{corev1.LabelTopologyZone, zone}
	}
	return place{corev1.LabelHostname, n.Labels[corev1.LabelHostname]}
}

func (m *maker) create(ctx context.Context, claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, at place) error {
	v := newVolume(claim, class, at)
	_, err := m.Client.CoreV1().PersistentVolumes().Create(ctx, v, metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil // the controller has not bound it yet
	case err != nil:
		return fmt.Errorf("create volume %s: %w", v.Name, err)
	}
	m.events.Eventf(claim, corev1.EventTypeNormal, "ProvisioningSucceeded", "Successfully provisioned volume %s", v.Name)
	return nil
}

// newVolume is a volume for the claim alone, named after it so that it is never made twice.
func newVolume(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, at place) *corev1.PersistentVolume {
	name := "pvc-" + string(claim.UID)
	reclaim := corev1.PersistentVolumeReclaimDelete
	if class.ReclaimPolicy != nil {
		reclaim = *class.ReclaimPolicy
	}
	in := corev1.NodeSelectorRequirement{Key: at.key, Operator: corev1.NodeSelectorOpIn, Values: []string{at.value}}
	var attributes map[string]string
	if what := class.Parameters[FailsParameter]; what != "" {
		attributes = map[string]string{FailsParameter: what}
	}
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{volume.AnnDynamicallyProvisioned: Provisioner}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage]},
			AccessModes:                   claim.Spec.AccessModes,
			VolumeMode:                    claim.Spec.VolumeMode,
			StorageClassName:              class.Name,
			VolumeAttributesClassName:     claim.Spec.VolumeAttributesClassName,
			MountOptions:                  class.MountOptions,
			PersistentVolumeReclaimPolicy: reclaim,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: Provisioner, VolumeHandle: name, VolumeAttributes: attributes}},
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID, ResourceVersion: claim.ResourceVersion,
			},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{in}}},
			}},
		},
	}
}

// lookAtVolume removes a volume of ours that its claim has left.
func (m *maker) lookAtVolume(ctx context.Context, name string) error {
	v, err := m.volumes.Get(name)
	if err != nil {
		return nil // gone
	}
	ours := v.Annotations[volume.AnnDynamicallyProvisioned] == Provisioner
	if !ours || v.Status.Phase != corev1.VolumeReleased || v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		return nil
	}
	err = m.Client.CoreV1().PersistentVolumes().Delete(ctx, name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(v.UID))})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete volume %s: %w", name, err)
	}
	return nil
}
