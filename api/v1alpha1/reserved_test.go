package v1alpha1_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// TestStateAt has a reservation's own times count before what the provider said once.
func TestStateAt(t *testing.T) {
	now := time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC)
	in := func(hours int) *metav1.Time { return &metav1.Time{Time: now.Add(time.Duration(hours) * time.Hour)} }
	for _, c := range []struct {
		start, end *metav1.Time
		said, want v1alpha1.ReservationState
		observed   *metav1.Time
	}{
		{want: v1alpha1.ReservationActive},
		{start: in(1), said: v1alpha1.ReservationActive, want: v1alpha1.ReservationScheduled},
		{start: in(-1), said: v1alpha1.ReservationScheduled, want: v1alpha1.ReservationActive},
		{start: in(-1), said: v1alpha1.ReservationScheduled, observed: in(-2), want: v1alpha1.ReservationActive},
		{start: in(-2), said: v1alpha1.ReservationScheduled, observed: in(-1), want: v1alpha1.ReservationScheduled}, // it is late
		{end: in(0), said: v1alpha1.ReservationActive, want: v1alpha1.ReservationExpired},
		{end: in(1), want: v1alpha1.ReservationExpiring},
		{end: in(2), want: v1alpha1.ReservationActive},
		{said: v1alpha1.ReservationScheduled, want: v1alpha1.ReservationScheduled},
		{start: in(1), said: v1alpha1.ReservationFailed, want: v1alpha1.ReservationFailed},
	} {
		r := &v1alpha1.Reservation{Spec: v1alpha1.ReservationSpec{Start: c.start, End: c.end}, Status: v1alpha1.ReservationStatus{State: c.said, ObservedAt: c.observed}}
		if got := r.StateAt(now); got != c.want {
			t.Errorf("%v to %v, said %q: %s, want %s", c.start, c.end, c.said, got, c.want)
		}
	}
}
