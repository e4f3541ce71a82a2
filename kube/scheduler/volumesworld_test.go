package scheduler

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-helpers/storage/volume"
)

var (
	claimsResource  = schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}
	volumesResource = schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumes"}
)

func class(name, provisioner string, mode storagev1.VolumeBindingMode) *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, VolumeBindingMode: &mode}
}

// zonal makes volumes for the rack of the node selected, as far as the test plays it; local has those that are.
func zonal() *storagev1.StorageClass {
	return class("zonal", "maker.example", storagev1.VolumeBindingWaitForFirstConsumer)
}

func local() *storagev1.StorageClass {
	return class("local", volume.NotSupportedProvisioner, storagev1.VolumeBindingWaitForFirstConsumer)
}

func openClaim(name, class string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.PersistentVolumeClaimSpec{StorageClassName: &class},
		Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
	}
}

// disk is a volume of the local class that nodes of a rack reach and nobody has.
func disk(name, rack string) *corev1.PersistentVolume {
	_, v := boundClaim(name, rack)
	v.Name, v.Spec.ClaimRef, v.Spec.StorageClassName, v.Status.Phase = name, nil, "local", corev1.VolumeAvailable
	return v
}

// gangWithClaims is a gang of one-GPU pods, each with a claim of its own that waits for it: data-0, data-1.
func gangWithClaims(name, class string, n int, annotations ...string) (out []runtime.Object) {
	for i, o := range gang(name, n, annotations...) {
		claim := fmt.Sprintf("data-%s-%d", name, i)
		o.(*corev1.Pod).Spec.Volumes = claiming("x", claim).Spec.Volumes
		out = append(out, o, openClaim(claim, class))
	}
	return out
}

func (w *world) claim(name string) *corev1.PersistentVolumeClaim {
	w.t.Helper()
	c, err := w.client.Tracker().Get(claimsResource, "default", name)
	if err != nil {
		w.t.Fatal(err)
	}
	return c.(*corev1.PersistentVolumeClaim)
}

// editClaim changes a claim as somebody else would.
func (w *world) editClaim(name string, change func(*corev1.PersistentVolumeClaim)) {
	w.t.Helper()
	c := w.claim(name).DeepCopy()
	w.mu.Lock()
	defer w.mu.Unlock()
	change(c)
	c.ResourceVersion = w.next()
	if err := w.client.Tracker().Update(claimsResource, c, "default"); err != nil {
		w.t.Fatal(err)
	}
}

// provide binds the claim to a new volume that nodes of the rack reach.
func (w *world) provide(name, rack string) {
	w.t.Helper()
	_, v := boundClaim(name, rack)
	v.Spec.ClaimRef.UID = w.claim(name).UID
	w.add(v)
	w.settle(name, v.Name)
}

// settle binds the claim to a volume that has it entered.
func (w *world) settle(name, pv string) {
	w.t.Helper()
	w.editClaim(name, func(c *corev1.PersistentVolumeClaim) {
		c.Spec.VolumeName, c.Status.Phase = pv, corev1.ClaimBound
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, volume.AnnBindCompleted, "yes")
	})
	w.rest()
}

// decline is what a provisioner does that cannot make a volume for the node.
func (w *world) decline(name string) {
	w.t.Helper()
	w.editClaim(name, func(c *corev1.PersistentVolumeClaim) { delete(c.Annotations, volume.AnnSelectedNode) })
	w.rest()
}

// selected are the nodes for which the claims' volumes are being made.
func (w *world) selected(names ...string) []string {
	w.t.Helper()
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = w.claim(name).Annotations[volume.AnnSelectedNode]
	}
	return out
}

// intercept answers patches of claims; nil lets them through.
func (w *world) intercept(answer func(name string) error) {
	w.client.PrependReactor("patch", "persistentvolumeclaims", func(a clienttesting.Action) (bool, runtime.Object, error) {
		err := answer(a.(clienttesting.PatchAction).GetName())
		return err != nil, nil, err
	})
}

func wantAt(t *testing.T, w *world, want []string, pods ...string) {
	t.Helper()
	if diff := cmp.Diff(want, w.at(pods...)); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
}

func wantSelected(t *testing.T, w *world, want []string, claims ...string) {
	t.Helper()
	if diff := cmp.Diff(want, w.selected(claims...)); diff != "" {
		t.Errorf("selected nodes (-want +got):\n%s", diff)
	}
}

// twoRacks have a node of one GPU each.
func twoRacks() []runtime.Object {
	return []runtime.Object{zonal(), node("n1", "r1", 1), node("n2", "r2", 1)}
}

func (w *world) volume(name string) *corev1.PersistentVolume {
	w.t.Helper()
	v, err := w.client.Tracker().Get(volumesResource, "", name)
	if err != nil {
		w.t.Fatal(err)
	}
	return v.(*corev1.PersistentVolume)
}

// settleAll plays the controller that binds claims to volumes in which they are entered.
func (w *world) settleAll() {
	w.t.Helper()
	list, _ := w.client.CoreV1().PersistentVolumes().List(w.t.Context(), metav1.ListOptions{})
	for _, v := range list.Items {
		if ref := v.Spec.ClaimRef; ref != nil && w.claim(ref.Name).Spec.VolumeName == "" {
			w.settle(ref.Name, v.Name)
		}
	}
}
