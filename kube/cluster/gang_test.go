package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The group that the Job controller makes for every Job asks nothing of its pods: they are what they would be without it,
// whichever comes first, and stay so when it goes before them. One with a gang policy is a gang.
func TestGroupThatAsksNothing(t *testing.T) {
	made := func(name string) *schedulingv1beta1.PodGroup {
		g := group(name, 0)
		g.Spec.SchedulingPolicy = schedulingv1beta1.PodGroupSchedulingPolicy{Basic: &schedulingv1beta1.BasicSchedulingPolicy{}}
		g.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: name, UID: "job", Controller: new(true)}}
		return g
	}
	workload := func(f *clock, key string) string { return f.Find(key).Workload }
	for _, first := range []string{"the group", "the pod"} {
		f := newClock()
		g := made("train")
		g.UID, g.ResourceVersion = "g", "1"
		alone := edited(grouped("alone", "train"), func(p *corev1.Pod) { p.UID, p.ResourceVersion = "a", "2" })
		gang := edited(grouped("gang", "train"), func(p *corev1.Pod) { p.UID, p.ResourceVersion, p.Annotations["berth.dev/gang"] = "b", "3", "ours" })
		if first == "the group" {
			f.SetGroup(g)
		}
		f.SetPod(alone)
		f.SetPod(gang)
		if first == "the pod" {
			f.SetGroup(g)
		}
		f.Settle()
		for range 2 {
			if a, b := workload(f, "default/alone"), workload(f, "default/gang"); a != "default/alone" || b != "default/gang/ours" {
				t.Errorf("%s comes first: workloads %s, %s", first, a, b)
			}
			f.RemoveGroup(g)
			alone.ResourceVersion = "9"
			f.SetPod(alone)
			f.Settle()
		}
		for _, c := range f.changes.take() {
			if c.Gang != nil && c.Gang.Key == "default/podgroup/train" {
				t.Errorf("%s comes first: the engine has its group", first)
			}
		}
		asks := made("train")
		asks.Spec.SchedulingPolicy = schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: 2}}
		f = newClock()
		f.SetGroup(asks)
		f.SetPod(alone)
		if got := workload(f, "default/alone"); got != "default/podgroup/train" {
			t.Errorf("with a gang policy: %s", got)
		}
	}
}
