package workload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestProgramThatWorksAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{})
		p := start(r, rank(0), Spec{Run: 25 * time.Second, Step: 10 * time.Second, GPUUtil: 80, GPUMemory: 1 << 30})
		wantUse(t, r, 80, 1<<30, "team/train-0")
		wantExits(t, 0, p)
		wantUse(t, r, 0, 0, "team/train-0")
		wantLog(t, p,
			"0s running to step 3, 10s per step, no checkpoints",
			"10s step 1/3 (33.3%)",
			"20s step 2/3 (66.7%)",
			"30s finished at step 3",
		)
		wantForgotten(t, r)
	})
}

// It fails at the same point of every life, yet checkpoints carry it to the end.
func TestFailingProgramAdvancesByCheckpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{})
		spec := Spec{Run: 40 * time.Second, FailAfter: 25 * time.Second, Checkpoint: 20 * time.Second, ExitCode: 42}
		wantExits(t, 42, start(r, rank(5), spec))
		other := start(r, rank(6), spec)
		second := start(r, rank(5), spec)
		wantExits(t, 0, second)
		wantLog(t, second,
			"0s resuming from step 20",
			"0s running to step 40, 1s per step, checkpoint every 20s",
			"10s step 30/40 (75.0%)",
			"20s finished at step 40",
		)
		wantExits(t, 42, other)
		wantLog(t, other,
			"0s running to step 40, 1s per step, checkpoint every 20s",
			"10s step 10/40 (25.0%)",
			"20s checkpoint saved at step 20",
			"20s step 20/40 (50.0%)",
			"25s RuntimeError: simulated failure after step 25/40 (62.5%) (sim.berth.dev/fail-after: 25s), exit code 42",
		)
	})
}

func TestExitCodesOfSignals(t *testing.T) {
	tests := []struct {
		name  string
		cause error
		exit  int
		said  int // last words
	}{
		{"SIGTERM", sigterm, 143, 1},
		{"wrapped SIGTERM", fmt.Errorf("pod deleted: %w", sigterm), 143, 1},
		{"SIGKILL", sigkill, 137, 0},
		{"a cause without a signal", errors.New("node gone"), 137, 0},
		{"no cause", nil, 137, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := New(Options{})
				alone, waiting := start(r, rank(0), Spec{}), start(r, rank(1), Spec{World: 2})
				time.Sleep(time.Second)
				for _, p := range []*program{alone, waiting} {
					p.cancel(test.cause)
					wantExits(t, test.exit, p)
					if got := p.count("stopped by signal"); got != test.said {
						t.Errorf("log %q", p.log.text())
					}
				}
				wantForgotten(t, r)
			})
		})
	}
}

func TestContextThatHasEnded(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(sigterm)
	if exit := New(Options{}).Run(ctx, rank(0), Spec{}, io.Discard); exit != 143 {
		t.Errorf("exit %d, want 143", exit)
	}
}

func TestIndicesOfProgramsThatWorkAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{})
		spec := Spec{Run: time.Minute, Checkpoint: 10 * time.Second}
		unranked := func(pod string) *program { return start(r, Identity{Group: "g", Index: -1, Pod: pod}, spec) }
		first, second := unranked("a"), unranked("b")
		time.Sleep(15 * time.Second)
		first.cancel(sigkill)
		wantExits(t, 137, first)
		next := unranked("c")
		if next.count("resuming from step 10") != 1 {
			t.Errorf("the free index was not taken over: %q", next.log.text())
		}
		wantExits(t, 0, second, next)
		wantForgotten(t, r)
	})
}

// Two containers of a pod share its GPUs.
func TestUseAddsUpWithinAPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{})
		spec := Spec{GPUUtil: 60, GPUMemory: 10}
		programs := []*program{start(r, rank(0), spec), start(r, rank(0), spec)}
		wantUse(t, r, 100, 20, "team/train-0")
		programs[0].cancel(sigkill)
		wantExits(t, 137, programs[0])
		wantUse(t, r, 60, 10, "team/train-0")
		programs[1].cancel(sigkill)
		wantExits(t, 137, programs[1])
		wantForgotten(t, r)
	})
}

// brokenStore has something it cannot read and takes nothing.
type brokenStore struct{}

func (brokenStore) Load(string) (Progress, bool, error) { return Progress{}, false, errors.New("torn") }
func (brokenStore) Save(string, Progress) error         { return errors.New("disk full") }
func (brokenStore) Delete(string) error                 { return errors.New("read-only") }

func TestBrokenStoreIsSaidAndSurvived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{Store: brokenStore{}})
		p := start(r, rank(0), Spec{Run: 9 * time.Second, Checkpoint: 5 * time.Second})
		wantExits(t, 0, p)
		wantLog(t, p,
			"0s checkpoint cannot be used, starting from step 0: torn",
			"0s running to step 9, 1s per step, checkpoint every 5s",
			"5s checkpoint at step 5 not saved: disk full",
			"9s last checkpoint not removed: read-only",
			"9s finished at step 9",
		)
	})
}

// A checkpoint interval shorter than a step saves what there is, which may be nothing yet.
func TestCheckpointWithinTheFirstStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{})
		p := start(r, rank(0), Spec{Run: 9 * time.Second, Step: 9 * time.Second, Checkpoint: 5 * time.Second})
		time.Sleep(6 * time.Second)
		if _, saved, _ := r.store.Load("index/0/Job/team/train/1"); !saved {
			t.Error("the log says saved, the store knows nothing")
		}
		wantExits(t, 0, p)
	})
}

// counter counts writes, one per line.
type counter struct{ n atomic.Int64 }

func (c *counter) Write(p []byte) (int, error) { c.n.Add(1); return len(p), nil }

// A thousand pods step through a day of 100 ms steps, 864 million rank-steps, in a moment:
// what costs is the lines they print. (The race detector ends at 8,128 goroutines.)
func TestDayOfAThousandPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{})
		const pods = 1000
		var lines counter
		spec := Spec{Run: 24 * time.Hour, Step: 100 * time.Millisecond, World: 10, Checkpoint: 6 * time.Hour}
		exits := make(chan int, pods)
		for i := range pods {
			id := Identity{Group: fmt.Sprint("job-", i/10), Index: i % 10, Pod: fmt.Sprint("pod-", i)}
			go func() { exits <- r.Run(t.Context(), id, spec, &lines) }()
		}
		for range pods {
			if exit := <-exits; exit != 0 {
				t.Fatalf("exit %d", exit)
			}
		}
		if perPod := lines.n.Load() / pods; perPod > 230 {
			t.Errorf("%d lines per pod and day, want 230 at most", perPod)
		}
		wantForgotten(t, r)
	})
}
