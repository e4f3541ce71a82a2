package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/diagnose"
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/record"
)

// historyLog is the life of default/train, a pod: it waits for room, starts on a node that comes, loses it to a binding of
// somebody else, and waits again for room. Another pod waits beside it all the time.
func historyLog(t *testing.T) (dir string, start time.Time) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "decisions")
	start = time.Date(2026, 11, 17, 9, 0, 0, 0, time.UTC)
	s := engine.Load(engine.Snapshot{}, engine.Config{})
	w := record.Start(record.Options{Dir: dir, Berth: "v1"}, engine.Config{})
	for i, changes := range [][]engine.Change{
		{aPod("default/train", "", 1), aPod("default/other", "default/gang/never", 2), {Gang: &engine.Gang{Key: "default/gang/never", Version: 2, Groups: []engine.Group{{Min: 9}}}}},
		{aNode("n1", 3)},
		{{Refusal: &engine.Refusal{Pod: "default/train", UID: "default/train", Version: 4, Node: "n1", Reason: "taken by another scheduler", Until: start.Add(time.Hour)}}, aPod("default/train", "", 5)},
		{},
	} {
		s.Apply(changes...)
		plan := s.Plan(start.Add(time.Duration(i) * 10 * time.Second))
		s.Apply(plan.Changes...)
		w.Cycle(plan.Now, changes, plan)
	}
	w.Close()
	return dir, start
}

func historyPod() (*facts.Facts, []*corev1.Pod) {
	f := &facts.Facts{}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "train", UID: "default/train"}}
	f.Pods = []*corev1.Pod{p}
	return f, f.Pods
}

func TestWhyReadsTheDecisionLog(t *testing.T) {
	dir, start := historyLog(t)
	h := newHistorian(historyPod())
	if unseen := h.read(dir, start.Add(time.Hour), time.Minute); unseen != nil {
		t.Fatalf("not seen: %v", unseen)
	}
	at := func(i int) time.Time { return start.Add(time.Duration(i) * 10 * time.Second) }
	want := []diagnose.Moment{
		{At: at(0), Last: at(0), Times: 1, What: "waits", Cause: "no-matching-node", Text: "no-matching-node"},
		{At: at(1), Last: at(1), Times: 1, What: "starts", Text: "1 pod on 1 node"},
		{At: at(2), Last: at(2), Times: 1, What: "refused", Text: "node n1 was chosen and could not be had: taken by another scheduler"},
	}
	if diff := cmp.Diff(want, h.moments()); diff != "" {
		t.Error(diff)
	}
}

// A log that is missing, damaged or too long breaks nothing: what was read is told, and the rest is named.
func TestWhyWithoutADecisionLog(t *testing.T) {
	dir, start := historyLog(t)
	files, err := filepath.Glob(filepath.Join(dir, "*.zst"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	whole, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	read := func(t *testing.T, dir string, budget time.Duration) (*historian, string) {
		h := newHistorian(historyPod())
		var words []string
		for _, u := range h.read(dir, start.Add(time.Hour), budget) {
			words = append(words, u.String())
		}
		return h, strings.Join(words, "\n")
	}
	if h, unseen := read(t, t.TempDir(), time.Minute); len(h.moments()) > 0 || !strings.Contains(unseen, "no decisions are recorded") {
		t.Errorf("of no log %v, not seen %q", h.moments(), unseen)
	}
	if h, unseen := read(t, dir, 0); len(h.moments()) > 0 || !strings.Contains(unseen, "decisions") {
		t.Errorf("without time %v, not seen %q", h.moments(), unseen)
	}
	for cut := range len(whole) {
		if err := os.WriteFile(files[0], whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		read(t, dir, time.Minute) // any end of a file that a crash leaves
	}
	broken := append([]byte(nil), whole...)
	broken[len(broken)/2] ^= 0x40
	if err := os.WriteFile(files[0], broken, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, unseen := read(t, dir, time.Minute); !strings.Contains(unseen, "decisions") {
		t.Errorf("of a damaged log %q is not seen", unseen)
	}
}

func TestHistoryOnThePage(t *testing.T) {
	now := time.Date(2026, 11, 17, 9, 30, 0, 0, time.UTC)
	waits := diagnose.Moment{At: now.Add(-20 * time.Minute), Last: now.Add(-5 * time.Minute), Times: 3, What: "waits", Cause: "cluster-full", Text: "cluster-full"}
	evicted := diagnose.Moment{At: now.Add(-10 * time.Minute), Last: now.Add(-10 * time.Minute), Times: 1, What: "evicted", Cause: "preempted", Text: "preempted for default/gang/prod"}
	calm := diagnose.Moment{At: now.Add(-time.Minute), Last: now.Add(-time.Minute), Times: 1, What: "waits", Cause: "cluster-full", Text: "cluster-full"}
	for _, c := range []struct {
		history []diagnose.Moment
		want    string
	}{
		{nil, ""},
		{[]diagnose.Moment{calm}, ""},
		{[]diagnose.Moment{evicted, waits}, "\nHistory    09:20:00 UTC: evicted: preempted for default/gang/prod\n" +
			"           09:25:00 UTC: waits: cluster-full (3 times since 09:10:00 UTC)\n"},
	} {
		var b strings.Builder
		whyPage{now: now}.history(&b, &diagnose.Diagnosis{Layer: check.L3, Cause: "cluster-full", History: c.history})
		if diff := cmp.Diff(c.want, b.String()); diff != "" {
			t.Error(diff)
		}
	}
}
