package scheduler

import (
	"testing"
	"testing/synctest"
	"time"

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

// Claims that nobody binds say why, and that is nothing for an autoscaler.
func TestClaimNotBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 8), openClaim("data", "zonal"), claiming("a", "data"))
		w.start()
		w.add(class("zonal", "maker.example", storagev1.VolumeBindingImmediate))
		w.rest()
		want := []string{
			"FailedScheduling: storage class zonal of claim data does not exist",
			"FailedScheduling: claim data is not bound yet by its storage class zonal, which waits for no pod",
		}
		if diff := cmp.Diff(want, w.said("a")); diff != "" {
			t.Error(diff)
		}
		if got := w.condition("a"); got != "False ClaimsNotReady" {
			t.Errorf("condition %q", got)
		}
	})
}

// A claim that one pod at a time may use goes to the oldest, and when that is over to the next.
func TestClaimForOnePod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		claim, volume := boundClaim("data", "r1")
		claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
		w := newWorld(t, node("n1", "r1", 8), claim, volume, claiming("b", "data"))
		w.after(time.Second)
		w.add(claiming("a", "data"))
		w.start()
		if diff := cmp.Diff([]string{"", "n1"}, w.at("a", "b")); diff != "" {
			t.Fatal(diff)
		}
		if diff := cmp.Diff([]string{"FailedScheduling: claim data is for one pod at a time, and pod b has it"}, w.said("a")); diff != "" {
			t.Error(diff)
		}
		w.edit("b", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
		w.rest()
		if diff := cmp.Diff([]string{"n1"}, w.at("a")); diff != "" {
			t.Error(diff)
		}
	})
}

// Another scheduler's pod has the claim.
func TestClaimForOnePodIsAForeigners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		claim, volume := boundClaim("data", "r1")
		claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
		other := claiming("other", "data")
		other.Spec.SchedulerName, other.Spec.NodeName = "default-scheduler", "n1"
		w := newWorld(t, node("n1", "r1", 8), claim, volume, claiming("a", "data"), other)
		w.start()
		if got := w.condition("a"); got != "False ClaimsNotReady" || len(w.tried()) > 0 {
			t.Fatalf("condition %q, tried %q", got, w.tried())
		}
		w.remove("pods", "default", "other")
		w.rest()
		if diff := cmp.Diff([]string{"n1"}, w.at("a")); diff != "" {
			t.Error(diff)
		}
	})
}

// A pod of a higher priority has a claim for one pod at a time from the pod that has it, on that pod's node, though another is
// free. One of the same priority waits, and so does one that evicts nobody.
func TestClaimForOnePodIsPreempted(t *testing.T) {
	for name, c := range map[string]struct {
		priority int32
		policy   corev1.PreemptionPolicy
		takes    bool
	}{
		"higher":          {10, corev1.PreemptLowerPriority, true},
		"the same":        {5, corev1.PreemptLowerPriority, false},
		"higher, patient": {10, corev1.PreemptNever, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				claim, volume := boundClaim("data", "r1")
				claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
				low, high := claiming("low", "data"), claiming("high", "data")
				low.Spec.Priority, high.Spec.Priority, high.Spec.PreemptionPolicy = new(int32(5)), &c.priority, &c.policy
				w := newWorld(t, node("n1", "r1", 8), node("n2", "r1", 8), claim, volume, low)
				ends := w.ends(2 * time.Second)
				w.start()
				at := w.at("low")
				w.add(high)
				w.after(5 * time.Second)
				if !c.takes {
					if got := w.condition("high"); got != "False ClaimsNotReady" || len(ends.ended()) > 0 {
						t.Fatalf("condition %q, ended %q", got, ends.ended())
					}
					return
				}
				if diff := cmp.Diff([]string{"low Preempted, preempted for pod default/high: it has a higher priority"}, ends.ended()); diff != "" {
					t.Error(diff)
				}
				if diff := cmp.Diff(at, w.at("high")); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}
