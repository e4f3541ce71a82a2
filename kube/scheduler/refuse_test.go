package scheduler

import (
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/kube/cluster"
)

// rejected is what a kubelet makes of a pod that it does not admit.
func rejected(p *corev1.Pod) {
	p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfnvidia.com/gpu", Message: "Pod was rejected: Node didn't have enough resource"}
}

// A kubelet refuses a member of a gang. The pod is over; the one that comes for it goes elsewhere, and the same
// node is tried again after a while.
func TestKubeletRefusesAMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, append(gang("g", 2), node("n1", "r1", 2), node("n2", "r1", 8))...)
		w.start()
		if diff := cmp.Diff([]string{"n1", "n1"}, w.at("g-0", "g-1")); diff != "" {
			t.Fatal(diff)
		}
		w.edit("g-1", rejected)
		w.add(pod("g-1x", 1, "gang", "g", "min", "2"))
		w.rest()
		if diff := cmp.Diff([]string{"n2"}, w.at("g-1x")); diff != "" {
			t.Error(diff)
		}
		w.remove("pods", "default", "g-0") // who told the engine of the refusal is gone: it still holds
		w.add(pod("g-0x", 1, "gang", "g", "min", "2"))
		w.rest()
		if diff := cmp.Diff([]string{"n2"}, w.at("g-0x")); diff != "" {
			t.Error(diff)
		}
		w.remove("pods", "default", "g-0x")
		w.after(cluster.RefuseFor)
		w.add(pod("g-0y", 1, "gang", "g", "min", "2"))
		w.rest()
		if diff := cmp.Diff([]string{"n1"}, w.at("g-0y")); diff != "" {
			t.Error(diff)
		}
	})
}

// All members are refused at once, so nobody is left to hold the refusal: who comes next does.
func TestKubeletRefusesTheWholeGang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, append(gang("g", 2), node("n1", "r1", 2), node("n2", "r1", 8))...)
		w.start()
		w.edit("g-0", rejected)
		w.edit("g-1", rejected)
		w.rest()
		w.add(pod("g-2", 1, "gang", "g", "min", "2"))
		w.add(pod("g-3", 1, "gang", "g", "min", "2"))
		w.rest()
		if diff := cmp.Diff([]string{"n2", "n2"}, w.at("g-2", "g-3")); diff != "" {
			t.Error(diff)
		}
	})
}

// A lone pod's controller makes another: it does not try the same node. Others do.
func TestKubeletRefusesALonePod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		yes := true
		owned := func(name string) *corev1.Pod {
			p := pod(name, 1)
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "LeaderWorkerSet", Name: "rs", UID: "rs-uid", Controller: &yes}}
			return p
		}
		w := newWorld(t, node("n1", "r1", 2), node("n2", "r1", 8), owned("a"))
		w.start()
		w.edit("a", rejected)
		w.add(owned("b"))
		w.add(pod("c", 1))
		w.rest()
		if diff := cmp.Diff([]string{"n2", "n1"}, w.at("b", "c")); diff != "" {
			t.Error(diff)
		}
	})
}

// A pod that ran and failed says nothing against its node, and neither does one that was over before we looked.
func TestFailureIsNoRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := pod("old", 1, "gang", "g")
		old.Spec.NodeName = "n1"
		rejected(old)
		w := newWorld(t, append(gang("g", 2), node("n1", "r1", 2), node("n2", "r1", 8), old)...)
		w.start()
		w.edit("g-1", func(p *corev1.Pod) { p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Error"} })
		w.add(pod("g-1x", 1, "gang", "g", "min", "2"))
		w.rest()
		if diff := cmp.Diff([]string{"n1", "n1"}, w.at("g-0", "g-1x")); diff != "" {
			t.Error(diff)
		}
	})
}
