package workload

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestIdentityOf(t *testing.T) {
	yes := true
	owned := []metav1.OwnerReference{
		{Kind: "Policy", Name: "p", UID: "9"},
		{Kind: "Job", Name: "train", UID: "7", Controller: &yes},
	}
	tests := []struct {
		name string
		meta metav1.ObjectMeta
		spec Spec
		want Identity
	}{
		{"bare pod", metav1.ObjectMeta{UID: "1"}, Spec{Rank: -1}, Identity{"Pod/team/pod/1", -1, "team/pod"}},
		{"pod of an indexed job",
			metav1.ObjectMeta{OwnerReferences: owned, Annotations: map[string]string{jobIndexKey: "3"}},
			Spec{Rank: -1}, Identity{"Job/team/train/7", 3, "team/pod"}},
		{"pod of a stateful set",
			metav1.ObjectMeta{OwnerReferences: owned, Labels: map[string]string{statefulSetIndexKey: "0"}},
			Spec{Rank: -1}, Identity{"Job/team/train/7", 0, "team/pod"}},
		{"nonsense index",
			metav1.ObjectMeta{OwnerReferences: owned, Annotations: map[string]string{jobIndexKey: "-3"}},
			Spec{Rank: -1}, Identity{"Job/team/train/7", -1, "team/pod"}},
		{"group and rank by hand win",
			metav1.ObjectMeta{OwnerReferences: owned, Annotations: map[string]string{jobIndexKey: "3"}},
			Spec{Group: "llama", Rank: 0}, Identity{"group/team/llama", 0, "team/pod"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: test.meta}
			pod.Namespace, pod.Name = "team", "pod"
			if diff := cmp.Diff(test.want, IdentityOf(pod, test.spec)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
