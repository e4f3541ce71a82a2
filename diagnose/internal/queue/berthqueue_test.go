package queue

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
)

// A pod that waits in a queue keeps its terms: who changes them on its Job has the pod made anew too.
func TestTermsOfAPodInAQueueChangeWithANewPod(t *testing.T) {
	yes := true
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "train", UID: "j", Annotations: map[string]string{berthQueueKey: "q"}}}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "train-x", UID: "p", OwnerReferences: []metav1.OwnerReference{{Kind: "Job", Name: "train", UID: "j", Controller: &yes}}}}
	const annotate = "kubectl annotate jobs.batch train -n team berth.dev/queue=r --overwrite"
	for _, x := range []struct {
		conditions []corev1.PodCondition
		want       string
	}{
		{nil, annotate},
		{[]corev1.PodCondition{{Type: berthAdmitted, Status: corev1.ConditionFalse}}, annotate},
		{[]corev1.PodCondition{{Type: berthAdmitted, Status: corev1.ConditionTrue}}, annotate + "\nkubectl delete pod train-x -n team"},
	} {
		p.Status.Conditions = x.conditions
		c := &check.Case{Facts: &facts.Facts{Objects: facts.Objects{Pods: []*corev1.Pod{p}, Jobs: []*batchv1.Job{j}}}, Pod: p, Owners: []facts.Object{j}}
		e := BerthRekey(c, berthQueueKey, berthQueueKey, "r", "")
		if diff := cmp.Diff(x.want, e.Command); diff != "" {
			t.Error(diff)
		}
		if len(e.Set) > 1 && len(e.Set[1].(*corev1.Pod).Status.Conditions) > 0 {
			t.Errorf("made anew as %v", e.Set[1])
		}
	}
}
