package scheduler

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/cluster"
)

// FuzzEvictionOf reads any condition as an eviction. What is read is of the pod itself, of a cause that we write, and for a
// workload that the text names.
func FuzzEvictionOf(f *testing.F) {
	marks := why.NewMarker([]byte("secret"))
	for cause := range evictionReasons {
		e := &engine.Eviction{Pod: "b/old", Cause: cause, For: "team/gang/x", To: "n2", Surge: true}
		f.Add(reasonOf(cause), whyEvicted(e, cluster.Pod{Queue: "b"}, "research", nil, "nvidia.com/gpu", marks), true)
		f.Add(reasonOf(cause), "at 2026-11-16T12:00:00Z, "+whyEvicted(e, cluster.Pod{Queue: "b"}, "research", nil, "nvidia.com/gpu", marks), false)
	}
	f.Add("Reclaimed", " for  #: ", true)
	f.Add("PreemptionByScheduler", "at x, y", false)
	f.Fuzz(func(t *testing.T, reason, message string, target bool) {
		c := corev1.PodCondition{Type: v1alpha1.PodEvictionPlanned, Status: corev1.ConditionTrue, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(time.Unix(1, 0))}
		if target {
			c.Type = corev1.DisruptionTarget
		}
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: "old", UID: "u"}, Status: corev1.PodStatus{Conditions: []corev1.PodCondition{c}}}
		e, text, ok := evictionOf(p)
		if !ok {
			return
		}
		if e.Pod != "b/old" || e.UID != "u" || e.At.IsZero() || evictionReasons[e.Cause] != reason || e.Cause == engine.Broken {
			t.Errorf("%q %q is read as %+v", reason, message, e)
		}
		if !strings.HasSuffix(message, text) {
			t.Errorf("%q is in nothing that was said: %q", text, message)
		}
		if head, _, _ := strings.Cut(text, ": "); strings.HasPrefix(e.For, "#") && !strings.Contains(head, e.For) {
			t.Errorf("%q is for %q", text, e.For)
		}
	})
}
