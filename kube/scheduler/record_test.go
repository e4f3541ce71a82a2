package scheduler

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/record"
)

// replays makes all decisions of a scheduler again: whatever the story of a test, they must be the same.
func (w *world) replays(dir string) {
	log, err := record.Open(dir)
	if errors.Is(err, record.ErrNone) {
		return // it never led
	}
	if err != nil {
		w.t.Fatal(err)
	}
	for _, err := range log.Cycles(time.Time{}, time.Now().Add(time.Hour)) {
		if err != nil {
			w.t.Error(err)
		}
	}
}

// recorded plays the log in the folder again and lists, once each, what started and what waited for what. Playing
// it fails where a plan is not what it was.
func recorded(t *testing.T, dir string) (out []string) {
	t.Helper()
	log, err := record.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]bool{}
	say := func(what string) {
		if !said[what] {
			said[what] = true
			out = append(out, what)
		}
	}
	for c, err := range log.Cycles(time.Time{}, time.Now().Add(time.Hour)) {
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range c.Plan.Starts {
			say("starts " + s.Gang)
		}
		for _, w := range c.Plan.Waiting {
			say("waits " + w.Gang + " " + string(w.Cause))
		}
	}
	return out
}

// The story of two gangs, of which the second waits until the first is gone, with a node that refuses: refusals, their
// end, assumptions and bindings all come back as they came to the engine.
func TestTheStoryOfAGangCanBeReplayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		w := newWorld(t, node("a-1", "a", 2), node("a-2", "a", 2))
		refusals := 0
		w.answer(func(b *corev1.Binding) error {
			if b.Target.Name == "a-1" && refusals < 2 {
				refusals++
				return apierrors.NewForbidden(podsResource.GroupResource(), b.Name, errors.New("not here"))
			}
			return nil
		})
		stop := w.start(func(o *Options) { o.Decisions.Dir = dir })
		for _, p := range gang("first", 4) {
			w.add(p)
		}
		w.after(2 * time.Minute)
		for _, p := range gang("second", 3) {
			w.add(p)
		}
		w.after(time.Minute)
		for _, name := range []string{"first-0", "first-1", "first-2", "first-3"} {
			w.remove("pods", "default", name)
		}
		w.after(5 * time.Minute)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		want := []string{
			"starts default/gang/first", "waits default/gang/first " + string(why.ClusterFull), // one node refused, and the other is full
			"waits default/gang/second " + string(why.ClusterFull), "starts default/gang/second",
		}
		if diff := cmp.Diff(want, recorded(t, dir)); diff != "" {
			t.Error(diff)
		}
	})
}

// A shadow decides and records, and writes nothing to the cluster.
func TestAShadowRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		w := newWorld(t, node("a-1", "a", 1), pod("runs", 1), pod("large", 9))
		stop := w.start(func(o *Options) { o.Shadow, o.Decisions.Dir = true, dir })
		w.after(time.Minute)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		want := []string{"starts default/runs", "waits default/large " + string(why.LargerThanAnyNode)}
		if diff := cmp.Diff(want, recorded(t, dir)); diff != "" {
			t.Error(diff)
		}
		if len(w.tried()) > 0 || len(w.patched()) > 0 || len(w.said("large")) > 0 {
			t.Errorf("wrote: bindings %q, patches %q, events %q", w.tried(), w.patched(), w.said("large"))
		}
	})
}

// A state of the past explains as it did then.
func TestThePastExplains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		w := newWorld(t, node("a-1", "a", 1), pod("large", 9))
		stop := w.start(func(o *Options) { o.Decisions.Dir = dir })
		then := time.Now()
		w.add(node("a-2", "a", 16))
		w.after(time.Minute)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		log, err := record.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		causes := map[time.Time]why.Verdict{}
		for _, at := range []time.Time{then, time.Now()} {
			c, err := log.At(at)
			if err != nil {
				t.Fatal(err)
			}
			causes[at] = c.State.Explain("default/large", c.Now, 0).Verdict
		}
		if causes[then] != why.Impossible || causes[time.Now()] != why.Placed {
			t.Errorf("got %v, want impossible and then placed", causes)
		}
	})
}
