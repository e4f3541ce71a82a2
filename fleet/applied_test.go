package fleet

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

func taint(key, value string) corev1.Taint {
	return corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffectNoSchedule}
}

func TestReconcileCarriesOverOnlyWhatThePoolChanged(t *testing.T) {
	last := applied{Hardware: "h", Labels: map[string]string{"keep": "1", "change": "1", "drop": "1"}, Taints: []corev1.Taint{taint("keep", ""), taint("drop", "")}}
	next := applied{Hardware: "h", Labels: map[string]string{"keep": "1", "change": "2", "new": "1"}, Taints: []corev1.Taint{taint("keep", ""), taint("new", "")}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Annotations: map[string]string{appliedAnnotation: last.String(), "theirs": "x"},
		Labels:      map[string]string{"keep": "edited", "change": "1", "drop": "1", "theirs": "x"},
	}}
	node.Spec.Taints = []corev1.Taint{taint("theirs", ""), taint("drop", ""), taint(corev1.TaintNodeNotReady, "")}
	node.Spec.Unschedulable = true

	v, got := reconcile(node, next)
	if v != update {
		t.Fatalf("verdict %d, want update", v)
	}
	want := node.DeepCopy()
	want.Annotations = map[string]string{appliedAnnotation: next.String(), "theirs": "x"}
	want.Labels = map[string]string{"keep": "edited", "change": "2", "new": "1", "theirs": "x"}
	// the user removed taint "keep": the pool did not change it, so it stays away
	want.Spec.Taints = []corev1.Taint{taint("theirs", ""), taint(corev1.TaintNodeNotReady, ""), taint("new", "")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestReconcileVerdicts(t *testing.T) {
	next := applied{Hardware: "h", Labels: map[string]string{"a": "1"}}
	record := func(text string) map[string]string { return map[string]string{appliedAnnotation: text} }
	for _, tc := range []struct {
		name        string
		annotations map[string]string
		want        verdict
	}{
		{"same record", record(next.String()), keep},
		{"other labels", record(applied{Hardware: "h"}.String()), update},
		{"other hardware", record(applied{Hardware: "old"}.String()), replace},
		{"not ours yet", nil, update},
		{"record broken by a user", record("{"), update},
	} {
		if got, _ := reconcile(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: tc.annotations}}, next); got != tc.want {
			t.Errorf("%s: verdict %d, want %d", tc.name, got, tc.want)
		}
	}
}

// After one update there is nothing left to do, and nothing a user has put on the node under keys
// that no version of the pool has is lost.
func TestReconcileSettlesAndLeavesUsersAlone(t *testing.T) {
	labels := rapid.MapOf(rapid.SampledFrom([]string{"a", "b", "c"}), rapid.SampledFrom([]string{"1", "2"}))
	taints := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) corev1.Taint {
		return taint(rapid.SampledFrom([]string{"x", "y"}).Draw(t, "key"), rapid.SampledFrom([]string{"", "v"}).Draw(t, "value"))
	}), 0, 2, func(t corev1.Taint) string { return t.Key })
	version := rapid.Custom(func(t *rapid.T) applied {
		return applied{Hardware: "h", Labels: labels.Draw(t, "labels"), Taints: taints.Draw(t, "taints")}
	})
	rapid.Check(t, func(t *rapid.T) {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"user": "u"}}}
		node.Spec.Taints = []corev1.Taint{taint("user", "u")}
		var current applied
		for range 4 {
			current = version.Draw(t, "version")
			if v, next := reconcile(node, current); v == update {
				node = next
			}
			if v, _ := reconcile(node, current); v != keep {
				t.Fatalf("verdict %d after an update, want keep", v)
			}
		}
		wantLabels := maps.Clone(current.Labels)
		wantLabels["user"] = "u"
		if diff := cmp.Diff(wantLabels, node.Labels); diff != "" {
			t.Fatal(diff)
		}
		have := map[string]string{}
		for _, taint := range node.Spec.Taints {
			have[taint.Key] = taint.Value
		}
		wantTaints := map[string]string{"user": "u"}
		for _, taint := range current.Taints {
			wantTaints[taint.Key] = taint.Value
		}
		if diff := cmp.Diff(wantTaints, have); diff != "" || len(node.Spec.Taints) != len(have) {
			t.Fatalf("taints %v: %s", node.Spec.Taints, diff)
		}
	})
}
