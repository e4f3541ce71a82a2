package main

import (
	"context"
	"testing"
	"time"
)

func TestHoldsReadsTheProcess(t *testing.T) {
	for identity, want := range map[string]bool{"host_42_1": true, "a_b_42_1": true, "host_43_1": false, "host_1_42": false, "42": false, "": false} {
		if got := holds(identity, 42); got != want {
			t.Errorf("%q: %v", identity, got)
		}
	}
}

// A binding counts only if its pod was created after the question: an old leader's last ones do not end a gap.
func TestNextWaitsForANewPod(t *testing.T) {
	w := &world{created: map[string]time.Time{"old": time.Now()}}
	answer := make(chan time.Time)
	go func() {
		at, err := w.next(context.Background(), time.Minute)
		if err != nil {
			t.Error(err)
		}
		answer <- at
	}()
	for {
		w.mu.Lock()
		asked := len(w.waiting) == 1
		w.mu.Unlock()
		if asked {
			break
		}
		time.Sleep(time.Millisecond)
	}
	start := time.Now()
	w.bound("old", start)
	w.mu.Lock()
	w.created["new"] = start
	w.mu.Unlock()
	w.bound("new", start.Add(3*time.Second))
	if got := (<-answer).Sub(start); got != 3*time.Second {
		t.Errorf("the next binding was %v after", got)
	}
	if w.longest != 3*time.Second || len(w.created) != 0 || len(w.waiting) != 0 {
		t.Errorf("longest %v, %d waiting pods, %d questions", w.longest, len(w.created), len(w.waiting))
	}
}

func TestReportHoldsTheBar(t *testing.T) {
	if !report("a", []time.Duration{time.Second, 2 * time.Second}, 2*time.Second) || report("b", []time.Duration{3 * time.Second}, 2*time.Second) || !report("c", nil, 0) {
		t.Error("the bar is not what is compared")
	}
}
