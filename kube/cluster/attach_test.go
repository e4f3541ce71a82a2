package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const ebs = "ebs.example"

func limitOf(node string, count int32) *storagev1.CSINode {
	return &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: ebs, Allocatable: &storagev1.VolumeNodeResources{Count: &count}}}}}
}

func lateClass() *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "ebs"}, Provisioner: ebs, VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer)}
}

func openClaim(name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new("ebs"), Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}},
		},
	}
}

// with is a pod with the claims, on the node if one is named.
func with(name, node string, claims ...string) *corev1.Pod {
	return edited(pod(name, 0), func(p *corev1.Pod) {
		p.Spec.NodeName = node
		for _, c := range claims {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: c, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: c}}})
		}
	})
}

// A node takes as many volumes of a driver as the driver says, each counted once however many pods on the node use it. Nodes
// whose driver sets no limit take any number.
func TestAttachLimits(t *testing.T) {
	m := racked(node("n1", "r1", 0), lateClass())
	for _, name := range []string{"a", "b", "c", "d"} {
		m.Set(openClaim(name))
	}
	m.Set(with("one", "n1", "a"), with("two", "n1", "a", "b"), with("new", "", "c"))
	expect(t, m, map[string]string{"new": "placed new@n1"})
	m.Set(limitOf("n1", 2))
	expect(t, m, map[string]string{"new": "impossible cluster-full"})
	m.Set(limitOf("n1", 3))
	expect(t, m, map[string]string{"new": "placed new@n1"})
	m.Set(with("new", "", "c", "d"))
	expect(t, m, map[string]string{"new": "impossible cluster-full"})
	m.Delete(with("one", "n1", "a")) // two counts for its claim from now on
	expect(t, m, map[string]string{"new": "impossible cluster-full"})
	m.Delete(with("two", "n1", "a", "b"))
	expect(t, m, map[string]string{"new": "placed new@n1"})
	m.Set(limitOf("n1", 1), node("n2", "r1", 0))
	expect(t, m, map[string]string{"new": "placed new@n2"})
	m.Delete(limitOf("n1", 1), node("n2", "r1", 0))
	expect(t, m, map[string]string{"new": "placed new@n1"})
}

// A driver that reports how much room it has gets new volumes where that is enough, and one that must be there first gets
// pods where it is.
func TestRoomOfDrivers(t *testing.T) {
	driver := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: ebs}, Spec: storagev1.CSIDriverSpec{StorageCapacity: new(true)}}
	room := func(rack, size string) *storagev1.CSIStorageCapacity {
		return &storagev1.CSIStorageCapacity{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: rack}, StorageClassName: "ebs", Capacity: new(resource.MustParse(size)),
			NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{"rack": rack}},
		}
	}
	m := racked(node("n1", "r1", 0), node("n2", "r2", 0), lateClass(), openClaim("a"), with("new", "", "a"))
	m.Set(driver)
	expect(t, m, map[string]string{"new": "impossible no-matching-node"})
	m.Set(room("r1", "5Gi"), room("r2", "10Gi"))
	expect(t, m, map[string]string{"new": "placed new@n2"})
	m.Set(room("r1", "11Gi"), room("r2", "1Gi"))
	expect(t, m, map[string]string{"new": "placed new@n1"})
	m.Delete(room("r1", "11Gi"))
	expect(t, m, map[string]string{"new": "impossible no-matching-node"})

	m.Set(&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: ebs}, Spec: storagev1.CSIDriverSpec{PreventPodSchedulingIfMissing: new(true)}})
	expect(t, m, map[string]string{"new": "impossible no-matching-node"})
	m.Set(&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n2"}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: ebs}}}})
	expect(t, m, map[string]string{"new": "placed new@n2"})
}
