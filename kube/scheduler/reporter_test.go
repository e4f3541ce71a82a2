package scheduler

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/report"
)

// reasons are those of the object's events, in order.
func (w *world) reasons(name string) []string {
	var out []string
	for _, s := range w.said(name) {
		reason, _, _ := strings.Cut(s, ":")
		out = append(out, reason)
	}
	return out
}

// The cause of waiting is written once, however often the world changes, and again when it is another one.
func TestCauseIsSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 1), pod("a", 1, "gang", "g", "min", "2"))
		w.start()
		if got := w.condition("a"); got != "" {
			t.Fatalf("condition %q of a gang that is being made", got)
		}
		w.after(gathering)
		if got := w.condition("a"); got != "False GangIncomplete" {
			t.Fatalf("condition %q", got)
		}
		for i := range 20 {
			w.add(node(fmt.Sprintf("x%d", i), "r1", 0))
			w.rest()
		}
		w.after(time.Hour)
		if diff := cmp.Diff([]string{"FailedScheduling: needs 2 members to start; 1 exists"}, w.said("a")); diff != "" {
			t.Error(diff)
		}
		since := transition(w.pod("a"))
		w.add(pod("b", 1, "gang", "g", "min", "2"))
		w.rest()
		if got := w.condition("a"); got != "False Unschedulable" {
			t.Errorf("condition %q", got)
		}
		if diff := cmp.Diff([]string{"FailedScheduling", "FailedScheduling"}, w.reasons("a")); diff != "" {
			t.Error(diff)
		}
		if got := transition(w.pod("a")); !got.Equal(&since) {
			t.Errorf("it was false all the time: %v became %v", since, got)
		}
	})
}

func transition(p *corev1.Pod) metav1.Time {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			return c.LastTransitionTime
		}
	}
	return metav1.Time{}
}

// Autoscalers act on Unschedulable: it is there only where nodes could help.
func TestReason(t *testing.T) {
	got := map[why.Cause]string{}
	for verdict, causes := range map[why.Verdict][]why.Cause{
		why.Impossible:  {why.ClusterFull, why.Fragmented, why.NoMatchingNode, why.LargerThanAnyNode, why.UnknownTopologyLevel},
		why.NotFound:    {why.SearchBudget},
		why.Blocked:     {why.GangIncomplete, why.GangMissing, why.QueueMissing, why.OverQueueLimit, why.ExceedsQueueMaximum},
		why.Unsupported: {why.UnsupportedFeature},
		why.Invalid:     {why.InvalidObject},
	} {
		for _, c := range causes {
			got[c] = report.Reason(&engine.Waiting{Verdict: verdict, Cause: c})
		}
	}
	want := map[why.Cause]string{
		why.ClusterFull: "Unschedulable", why.Fragmented: "Unschedulable", why.NoMatchingNode: "Unschedulable",
		why.LargerThanAnyNode: "Unschedulable", why.UnknownTopologyLevel: "Unschedulable", why.SearchBudget: "Unschedulable",
		why.GangIncomplete: "GangIncomplete", why.GangMissing: "GangMissing", why.QueueMissing: "QueueMissing",
		why.OverQueueLimit: "OverQueueLimit", why.ExceedsQueueMaximum: "ExceedsQueueMaximum",
		why.UnsupportedFeature: "UnsupportedFeature", why.InvalidObject: "InvalidObject",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Where nodes are asked for, an autoscaler sees a pod that needs them only once they are, or if that takes too long.
func TestNodesAreAskedForFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 1), pod("a", 2), pod("b", 2))
		w.start(func(o *Options) { o.Asked = func(p *corev1.Pod) bool { return p.Annotations["asked"] != "" } })
		if got := w.condition("a"); got != "False LargerThanAnyNode" {
			t.Errorf("before: %q", got)
		}
		w.edit("a", func(p *corev1.Pod) { p.Annotations = map[string]string{"asked": "yes"} })
		w.after(2 * unaskedEvery)
		if a, b := w.condition("a"), w.condition("b"); a != "False Unschedulable" || b != "False LargerThanAnyNode" {
			t.Errorf("asked for a: %q and %q", a, b)
		}
		w.after(unaskedFor)
		if got := w.condition("b"); got != "False Unschedulable" {
			t.Errorf("nobody asks: %q", got)
		}
	})
}

func TestQueueHasItsOwnReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 1), pod("a", 1, "queue", "team"))
		w.start()
		if got := w.condition("a"); got != "False QueueMissing" {
			t.Errorf("condition %q", got)
		}
	})
}

// The condition must not fall on a pod that was bound since: it is written onto the version that is known.
func TestConditionMissesABoundPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 1), pod("a", 2))
		s := w.still(t)
		s.cycle(time.Now())
		w.edit("a", func(p *corev1.Pod) { p.Spec.NodeName = "n1" })
		if err := s.reports.patchPod(t.Context(), "default/a", w.pod("a").UID, pending{reason: "Unschedulable", text: "text"}); err == nil {
			t.Error("written onto a version that is not known")
		}
		s.feed.Set(w.pod("a"))
		if err := s.reports.patchPod(t.Context(), "default/a", w.pod("a").UID, pending{reason: "Unschedulable", text: "text"}); err != nil {
			t.Error(err)
		}
		if got := w.condition("a"); got != "" {
			t.Errorf("condition %q", got)
		}
	})
}

// An API server that is busy gets it later.
func TestEventIsWrittenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 1), pod("a", 2))
		w.refuse = errors.New("connection refused")
		w.start()
		w.after(10 * time.Second)
		locked(w, func() bool { w.refuse = nil; return true })
		w.after(10 * time.Second)
		if diff := cmp.Diff([]string{"FailedScheduling"}, w.reasons("a")); diff != "" {
			t.Error(diff)
		}
	})
}

// More pods start than events can be written: those are shed and counted, and who waits is still told.
func TestNewsIsShedAndFailuresAreNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 1), pod("a", 2))
		s := w.still(t)
		for i := range eventRoom + 7 {
			s.reports.scheduled(&metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("p%d", i)}, "n1", "")
		}
		if got := s.reports.shed.Load(); got != 7 {
			t.Errorf("%d shed, want 7", got)
		}
		for range 2 * eventRoom {
			s.reports.wait(w.pod("a"), pending{reason: "Unschedulable", text: "text"})
		}
		waiting, _ := s.reports.queue.waiting("default")
		if waiting != 2*eventRoom || s.reports.shed.Load() != 7 {
			t.Errorf("%d of %d failures kept, %d shed", waiting, 2*eventRoom, s.reports.shed.Load())
		}
	})
}

func TestShadowWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, append(gang("g", 2, "min", "nonsense", "typo", "x"), node("n1", "r1", 4), pod("big", 9), group("group", 1), grouped("m", "group"))...)
		w.start(func(o *Options) { o.Shadow, o.Identity = true, "shadow" })
		w.after(10 * time.Minute)
		for _, a := range w.client.Actions() {
			if !slices.Contains([]string{"get", "list", "watch"}, a.GetVerb()) {
				t.Errorf("%s %s", a.GetVerb(), a.GetResource().Resource)
			}
		}
	})
}

// Nor does it keep what it would have written.
func TestShadowKeepsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 1), pod("a", 1), pod("big", 9))
		s := w.still(t, func(o *Options) { o.Shadow = true })
		s.cycle(time.Now())
		kept := s.binds.queue.left + s.reports.queue.left + s.reports.background.left
		if kept > 0 {
			t.Errorf("%d kept", kept)
		}
	})
}

// Where the GPUs of a node lie is said by hand; what cannot be read is said on the node, and costs it no pod.
func TestATopologyThatCannotBeReadIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := node("n1", "r1", 8)
		n.Annotations = map[string]string{v1alpha1.KeyGPUTopology: "half of them on each socket"}
		w := newWorld(t, n, pod("a", 1))
		w.start()
		want := []string{`NotHonoured: Not honoured yet: berth.dev/gpu-topology is "half of them on each socket": want a JSON list, such as [{"numa":0,"nvlink":"a"},{"numa":1,"nvlink":"a"}]`}
		if diff := cmp.Diff(want, w.said("n1")); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"n1"}, w.at("a")); diff != "" {
			t.Error(diff)
		}
	})
}

// What is said and not done is said on the pod, once, and not again by the next run; what cannot be read keeps the
// whole gang waiting, though a default would have let it start.
func TestWhatIsNotHonouredIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 8), pod("a", 1, "gang", "g", "min", "many", "typo", "x"))
		stop := w.start()
		for i := range 5 {
			w.add(pod(fmt.Sprintf("b%d", i), 1, "gang", "g"))
			w.rest()
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		w.start()
		var got []string
		for _, s := range w.said("a") {
			if !strings.HasPrefix(s, "FailedScheduling") {
				got = append(got, s)
			}
		}
		got = slices.Compact(got) // the tracker, which refuses the second, counts it too
		slices.Sort(got)
		want := []string{
			`NotHonoured: Not honoured yet: berth.dev/typo`,
		}
		if diff := cmp.Diff(want, slices.Compact(got)); diff != "" {
			t.Error(diff)
		}
		names, _ := w.client.EventsV1().Events("default").List(t.Context(), metav1.ListOptions{})
		count := 0
		for _, e := range names.Items {
			if e.Regarding.Name == "a" && e.Reason != "FailedScheduling" {
				count++
			}
		}
		if count != 1 {
			t.Errorf("%d events stored, want 1", count)
		}
		if got, want := w.condition("a"), "False InvalidObject"; got != want || len(w.tried()) > 0 {
			t.Errorf("condition %q, want %q; bindings tried: %v", got, want, w.tried())
		}
	})
}

// Names and notes fit what the API server takes.
func TestEventFits(t *testing.T) {
	y := newReporter(&scheduler{})
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: strings.Repeat("n", maxName)}}
	e := y.event(p, "Normal", "R", "A", strings.Repeat("é", maxNote), "", false)
	if len(e.Name) > maxName || len(e.Note) > maxNote || !strings.HasSuffix(e.Note, "é...") {
		t.Errorf("name of %d, note of %d: %q", len(e.Name), len(e.Note), e.Note[len(e.Note)-8:])
	}
}

// A pod on which a version before wrote the same sentence, and no data beside it, gets the data.
func TestDataIsWrittenBesideAnOldSentence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 1), pod("a", 2))
		stop := w.start()
		w.rest()
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		w.edit("a", func(p *corev1.Pod) {
			p.Status.Conditions = slices.DeleteFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == v1alpha1.PodPendingCause })
		})
		w.start()
		w.rest()
		said, ok := report.PendingOf(w.pod("a"))
		want := []report.Gate{{Cause: why.LargerThanAnyNode, Lacks: []why.Lack{{Resource: "nvidia.com/gpu", Need: 2, Largest: 1}}}}
		got := slices.Clone(said.Gates)
		for i := range got {
			got[i] = report.Gate{Cause: got[i].Cause, Lacks: got[i].Lacks}
		}
		if diff := cmp.Diff(want, got); !ok || diff != "" {
			t.Error(diff)
		}
	})
}
