package facts_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/diagnose/facts"
)

// An event that does not say who wrote it is no scheduler's without a name.
func TestNobodyIsNoScheduler(t *testing.T) {
	now := time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)
	f := &facts.Facts{At: now}
	f.Events = []*corev1.Event{{Reason: "FailedScheduling", LastTimestamp: metav1.Time{Time: now.Add(-time.Minute)}}}
	if got := f.LivingSchedulers(); slices.Contains(got, "") {
		t.Errorf("living schedulers are %q", got)
	}
}
