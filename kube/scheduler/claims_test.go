package scheduler

import (
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// claiming is a pod that uses a claim.
func claiming(name, claim string) *corev1.Pod {
	p := pod(name, 1)
	p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}}
	return p
}

// boundClaim is a claim and its volume, which nodes of one rack reach.
func boundClaim(name, rack string) (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume) {
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"}},
		Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "pv-" + name},
		Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	}
	in := corev1.NodeSelectorRequirement{Key: "rack", Operator: corev1.NodeSelectorOpIn, Values: []string{rack}}
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv-" + name},
		Spec: corev1.PersistentVolumeSpec{
			ClaimRef:     &corev1.ObjectReference{Namespace: "default", Name: name},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{in}}}}},
		},
	}
	return claim, volume
}

// A bound volume says where the pod goes, also when a node that reaches it comes later.
func TestVolumeDecidesTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		claim, volume := boundClaim("data", "r2")
		w := newWorld(t, node("n1", "r1", 8), claim, volume, claiming("a", "data"))
		w.start()
		if got := w.condition("a"); got != "False Unschedulable" {
			t.Fatalf("condition %q", got)
		}
		w.add(node("n3", "r3", 1))
		w.rest()
		w.add(node("n2", "r2", 1))
		w.rest()
		if diff := cmp.Diff([]string{"n2"}, w.at("a")); diff != "" {
			t.Error(diff)
		}
		w.add(node("n4", "r2", 1))
		w.rest()
		w.add(claiming("b", "data"))
		w.rest()
		if diff := cmp.Diff([]string{"n4"}, w.at("b")); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"FailedScheduling", "Scheduled"}, w.reasons("a")); diff != "" {
			t.Errorf("said once: %s", diff)
		}
	})
}

// A pod whose claim is missing says so, and goes when it is there: the pod itself did not change.
func TestMissingClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 8), claiming("a", "data"))
		w.start()
		if got := w.condition("a"); got != "False ClaimsNotReady" {
			t.Fatalf("condition %q", got)
		}
		claim, volume := boundClaim("data", "r1")
		w.add(claim)
		w.rest()
		w.add(volume)
		w.rest()
		want := []string{
			"FailedScheduling: claim data does not exist",
			"FailedScheduling: volume pv-data of claim data does not exist",
			"Scheduled: Successfully assigned default/a to n1",
		}
		if diff := cmp.Diff(want, w.said("a")); diff != "" {
			t.Error(diff)
		}
	})
}

// A claim that is lost takes its pod away from the engine again.
func TestClaimLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		claim, volume := boundClaim("data", "r2")
		w := newWorld(t, node("n1", "r1", 8), claim, volume, claiming("a", "data"))
		w.start()
		w.remove("persistentvolumeclaims", "default", "data")
		w.add(node("n2", "r2", 1))
		w.rest()
		if diff := cmp.Diff([]string{""}, w.at("a")); diff != "" {
			t.Error(diff)
		}
		if got := w.condition("a"); got != "False ClaimsNotReady" {
			t.Errorf("condition %q", got)
		}
	})
}

// A claim that waits for its first consumer keeps the pod waiting, by name: a pod on a node that its volume
// cannot be made for would never start.
func TestClaimWaitsForConsumer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mode, class := storagev1.VolumeBindingWaitForFirstConsumer, "local"
		claim := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data"},
			Spec:       corev1.PersistentVolumeClaimSpec{StorageClassName: &class},
		}
		w := newWorld(t, node("n1", "r1", 8), claim, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: class}, VolumeBindingMode: &mode}, claiming("a", "data"))
		w.start()
		if len(w.tried()) > 0 {
			t.Fatalf("tried %q", w.tried())
		}
		want := []string{"FailedScheduling: claim data waits for its first consumer, which is not supported yet"}
		if diff := cmp.Diff(want, w.said("a")); diff != "" {
			t.Error(diff)
		}
	})
}
