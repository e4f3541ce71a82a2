package report

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var (
	due   = time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)
	marks = why.NewMarker([]byte("secret"))
)

// What is said of an eviction, as a sentence and as data, whatever the cause and whoever it is for. The data is read back;
// the sentence is not. To who reads the pod's namespace no workload of another is named.
func TestEvictions(t *testing.T) {
	gpus := func(n int64) engine.Resources { return engine.Resources{{Resource: "nvidia.com/gpu", Value: n}} }
	use := &engine.QueueUse{Queue: engine.Queue{Quota: gpus(16)}, Used: gpus(24)}
	var causes []engine.EvictionCause
	for c := range reasons {
		causes = append(causes, c)
	}
	slices.Sort(causes)
	var golden strings.Builder
	for _, cause := range causes {
		for _, gang := range []string{"", "b/x", "b/podgroup/z", "team-a/gang/y"} {
			e := &engine.Eviction{Pod: "b/old", Cause: cause, For: gang, At: due}
			if cause == engine.Moved {
				e.To, e.Surge = "n2", gang == "b/x"
			}
			said := OfEviction(e, "b", "research", use, "nvidia.com/gpu", marks)
			fmt.Fprintf(&golden, "%s: %s\n\t%s\n", EvictionReason(cause), said.Sentence(), said.Text())
			if strings.Contains(said.Sentence()+said.Text(), "team-a") {
				t.Errorf("another namespace is told %q", said.Text())
			}
			want := gang
			if strings.HasPrefix(gang, "team-a/") {
				want = marks.Mark(gang)
			}
			got, ok := EvictionOf(evicted(said.Text()))
			if diff := cmp.Diff(said, got); !ok || diff != "" || got.For != want {
				t.Errorf("%s is read as %+v", said.Text(), got)
			}
		}
	}
	golden.WriteString(MakingRoom("b", []Victim{{"b/x", Eviction{Cause: engine.Preempted, At: due}}, {"c/y", Eviction{Queue: "c"}}, {"d/z", Eviction{}}}, due.Add(-time.Hour)) + "\n")
	compare(t, "testdata/evictions.golden", golden.String())
}

// Another scheduler's eviction, or one without data, is nobody's.
func TestEvictionsOfOthers(t *testing.T) {
	p := &corev1.Pod{}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler}}
	if _, ok := EvictionOf(p); ok || Evicted(p) {
		t.Error("another scheduler's eviction is taken for ours")
	}
	p.Status.Conditions[0].Reason = "Reclaimed"
	if _, ok := EvictionOf(p); ok || !Evicted(p) {
		t.Error("a sentence alone is read, or not seen")
	}
}

// Why a workload waits, as a sentence and as data.
func TestPending(t *testing.T) {
	gates := []why.Gate{
		{Cause: why.OverQueueLimit, Object: "research", Resource: "nvidia.com/gpu", Need: 8, Have: 4, Limit: 16, Certificate: -1},
		{Cause: why.KeptForPromise, Object: "team-a/gang/y", Certificate: -1},
	}
	w := &engine.Waiting{Gang: "b/x", Cause: why.OverQueueLimit, Verdict: why.Blocked, Gates: gates}
	name := ForNamespace("b", func(string) string { return "research" })
	said := OfWaiting(w, nil, due, name)
	text := Sentence(gates, nil, name) + PromiseText(due, due.Add(-time.Hour))
	if strings.Contains(text+said.Text(), "team-a") {
		t.Errorf("another namespace is told %q %s", text, said.Text())
	}
	since := said.Condition(metav1.NewTime(due))
	p := &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse}, since}}}
	got, ok := PendingOf(p)
	if diff := cmp.Diff(said, got); !ok || diff != "" || since.Type != v1alpha1.PodPendingCause {
		t.Error(diff)
	}
	p.Status.Conditions[0].Status = corev1.ConditionTrue
	if _, ok := PendingOf(p); ok {
		t.Error("a pod that has a node is said to wait")
	}
	compare(t, "testdata/pending.golden", fmt.Sprintf("%s: %s\n\t%s: %s\n", Reason(w), text, since.Reason, since.Message))
}

func compare(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if diff := cmp.Diff(string(want), got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
