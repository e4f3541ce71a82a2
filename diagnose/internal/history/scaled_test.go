package history_test

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/history"
)

// Events of a Deployment say how large it was before; those of a rollout, and of sizes that it has no more, say nothing.
func TestScaled(t *testing.T) {
	now := time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)
	four := int32(4)
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "serve", UID: "d"}, Spec: appsv1.DeploymentSpec{Replicas: &four}}
	said := func(message string, ago time.Duration) *corev1.Event {
		return &corev1.Event{InvolvedObject: corev1.ObjectReference{UID: "d"}, Reason: "ScalingReplicaSet", Message: message, LastTimestamp: metav1.NewTime(now.Add(-ago))}
	}
	for _, c := range []struct {
		name   string
		events []*corev1.Event
		was    any
	}{
		{"scaled", []*corev1.Event{said("Scaled up replica set serve-a from 2 to 4", time.Minute)}, 2.0},
		{"made", []*corev1.Event{said("Scaled up replica set serve-a from 0 to 4", time.Minute)}, nil},
		{"another size", []*corev1.Event{said("Scaled up replica set serve-a from 2 to 3", time.Minute)}, nil},
		{"rolled out", []*corev1.Event{said("Scaled up replica set serve-b from 2 to 4", time.Minute), said("Scaled down replica set serve-a from 2 to 0", 2*time.Minute)}, nil},
		{"rolled out before", []*corev1.Event{said("Scaled up replica set serve-b from 2 to 4", time.Minute), said("Scaled down replica set serve-a from 2 to 0", 2*time.Hour)}, 2.0},
		{"in other words", []*corev1.Event{said("Scaled up replica set serve-a to 4", time.Minute)}, nil},
	} {
		got := history.Scaled(&facts.Facts{At: now, Objects: facts.Objects{Deployments: []*appsv1.Deployment{d}, Events: c.events}}, d)
		if c.was == nil && len(got) > 0 || c.was != nil && (len(got) != 1 || got[0].Changes[0].Was != c.was) {
			t.Errorf("%s: %+v, want %v", c.name, got, c.was)
		}
	}
}
