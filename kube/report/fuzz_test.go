package report

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// FuzzEvictionOf reads any condition as an eviction. What is read is of a cause that we write, has a time, and is written
// down as it was read.
func FuzzEvictionOf(f *testing.F) {
	for cause := range reasons {
		e := Eviction{Cause: cause, At: due, For: "team/gang/x", To: "n2", Surge: true}
		f.Add(e.Text())
	}
	f.Add(`{"cause":"reclaimed","for":"#"}`)
	f.Add(`reclaimed for gang team/x: queue b had borrowed it`)
	f.Fuzz(func(t *testing.T, message string) {
		e, ok := EvictionOf(evicted(message))
		if !ok {
			return
		}
		if reasons[e.Cause] == "" || e.At.IsZero() {
			t.Errorf("%q is read as %+v", message, e)
		}
		if again, ok := EvictionOf(evicted(e.Text())); !ok || again.Text() != e.Text() {
			t.Errorf("%q is read as %+v, and then as %+v", message, e, again)
		}
		_ = e.Sentence()
	})
}

func evicted(message string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: "old"}, Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
		{Type: v1alpha1.PodEviction, Status: corev1.ConditionTrue, Message: message},
	}}}
}
