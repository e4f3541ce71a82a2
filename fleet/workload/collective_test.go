package workload

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/fleet/clock"
	"pgregory.net/rapid"
)

// four is a collective of four ranks with a minute of work.
var four = Spec{Run: time.Minute, World: 4, Step: time.Second, Timeout: 5 * time.Minute, GPUUtil: 95, GPUMemory: 70 << 30}

// Two jobs of four ranks each got half of four GPUs: neither ever makes a step, nobody uses a
// GPU, the logs say what is waited for, and the time-out ends it.
func TestDeadlockOfTwoHalfPlacedJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{})
		var all []*program
		var pods []string
		for _, job := range []string{"a", "b"} {
			for i := range 2 {
				id := Identity{Group: "Job/team/" + job, Index: i, Pod: fmt.Sprintf("team/%s-%d", job, i)}
				all, pods = append(all, start(r, id, four)), append(pods, id.Pod)
			}
		}
		for range 9 {
			time.Sleep(30 * time.Second)
			wantRunning(t, all...)
			wantUse(t, r, 0, 0, pods...)
		}
		wantExits(t, 1, all...)
		wantLog(t, all[0],
			"0s NCCL INFO Bootstrap : waiting for ranks: 1 of 4 joined, missing 1 2 3",
			"10s NCCL INFO Bootstrap : waiting for ranks: 2 of 4 joined, missing 2 3",
			"20s NCCL INFO Bootstrap : waiting for ranks: 2 of 4 joined, missing 2 3",
			"30s NCCL INFO Bootstrap : waiting for ranks: 2 of 4 joined, missing 2 3",
			"40s NCCL INFO Bootstrap : waiting for ranks: 2 of 4 joined, missing 2 3",
			"50s NCCL INFO Bootstrap : waiting for ranks: 2 of 4 joined, missing 2 3",
			"60s NCCL INFO Bootstrap : waiting for ranks: 2 of 4 joined, missing 2 3",
			"70s NCCL INFO Bootstrap : waiting for ranks: 2 of 4 joined, missing 2 3",
			"80s NCCL INFO Bootstrap : waiting for ranks: 2 of 4 joined, missing 2 3",
			"90s NCCL INFO Bootstrap : waiting for ranks: 2 of 4 joined, missing 2 3",
			"100s NCCL INFO Bootstrap : waiting for ranks: 2 of 4 joined, missing 2 3",
			"110s NCCL INFO Bootstrap : waiting for ranks: 2 of 4 joined, missing 2 3",
			"120s NCCL INFO Bootstrap : waiting for ranks: 2 of 4 joined, missing 2 3",
			"180s NCCL INFO Bootstrap : waiting for ranks: 2 of 4 joined, missing 2 3",
			"240s NCCL INFO Bootstrap : waiting for ranks: 2 of 4 joined, missing 2 3",
			"300s torch.distributed.DistStoreError: Timed out after 300 seconds waiting for clients: 2 of 4 joined, missing 2 3",
		)
		wantForgotten(t, r)
	})
}

func TestLostRankStallsAllUntilTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{})
		all := startAll(r, four, 0, 1, 2, 3)
		wantUse(t, r, 95, 70<<30, "team/train-0", "team/train-3")
		time.Sleep(15 * time.Second)
		all[2].cancel(sigkill)
		wantExits(t, 137, all[2])
		survivors := slices.Delete(slices.Clone(all), 2, 3)
		wantUse(t, r, 0, 70<<30, "team/train-0", "team/train-1", "team/train-3")
		wantUse(t, r, 0, 0, "team/train-2")

		time.Sleep(5*time.Minute - time.Second)
		wantRunning(t, survivors...)
		wantExits(t, 134, survivors...)
		if got := time.Since(all[0].log.start); got != 15*time.Second+5*time.Minute {
			t.Errorf("the survivors ended after %v", got)
		}
		if n := all[0].count("still waiting for rank 2"); n != 14 {
			t.Errorf("%d reminders in five minutes of stall, want 14", n)
		}
		all[0].log.drop("still waiting")
		wantLog(t, all[0],
			"0s NCCL INFO Bootstrap : waiting for ranks: 1 of 4 joined, missing 1 2 3",
			"0s NCCL INFO rank 0 nranks 4 : Init COMPLETE",
			"0s running to step 60, 1s per step, no checkpoints",
			"10s step 10/60 (16.7%)",
			"15s NCCL WARN rank 2 (team/train-2) is gone: step 16 cannot complete, all ranks are stalled",
			"315s [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=16, OpType=ALLREDUCE, Timeout(ms)=300000) ran for 300000 milliseconds before timing out.",
			"315s [Rank 0] rank 2 never answered; taking the process down (SIGABRT)",
		)
		wantForgotten(t, r)
	})
}

// A rank that comes back cannot join a communicator that runs without it. It waits until the
// survivors have given up and come back too; then all go on from the last checkpoint.
func TestReturnedRankWaitsForTheSurvivorsToRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spec := four
		spec.Checkpoint = 20 * time.Second
		spec.Timeout = time.Minute
		r := New(Options{})
		first := startAll(r, spec, 0, 1, 2, 3)
		time.Sleep(45 * time.Second)
		first[1].cancel(sigterm)
		wantExits(t, 143, first[1])
		time.Sleep(10 * time.Second)
		back := start(r, rank(1), spec)
		time.Sleep(49 * time.Second)
		wantRunning(t, back, first[0])
		wantUse(t, r, 0, 0, "team/train-1")
		wantExits(t, 134, first[0], first[2], first[3])

		others := startAll(r, spec, 0, 2, 3)
		wantUse(t, r, 95, 70<<30, "team/train-0", "team/train-1")
		wantExits(t, 0, append(others, back)...)
		wantLog(t, first[1],
			"0s NCCL INFO Bootstrap : waiting for ranks: 2 of 4 joined, missing 2 3",
			"0s NCCL INFO rank 1 nranks 4 : Init COMPLETE",
			"0s running to step 60, 1s per step, checkpoint every 20s",
			"10s step 10/60 (16.7%)",
			"20s checkpoint saved at step 20",
			"20s step 20/60 (33.3%)",
			"30s step 30/60 (50.0%)",
			"40s checkpoint saved at step 40",
			"40s step 40/60 (66.7%)",
			"45s stopped by signal 15 after step 45/60 (75.0%)",
		)
		wantLog(t, others[2],
			"0s NCCL INFO rank 3 nranks 4 : Init COMPLETE",
			"0s resuming from step 40",
			"0s running to step 60, 1s per step, checkpoint every 20s",
			"10s step 50/60 (83.3%)",
			"20s finished at step 60",
		)
		wantForgotten(t, r)
	})
}

func TestFinishedGroupRunsAgainFromTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spec := Spec{Run: 30 * time.Second, World: 2, Checkpoint: 10 * time.Second}
		r := New(Options{})
		wantExits(t, 0, startAll(r, spec, 0, 1)...)
		again := startAll(r, spec, 0, 1)
		wantExits(t, 0, again...)
		if again[0].count("resuming") != 0 {
			t.Errorf("a finished group resumes: %q", again[0].log.text())
		}
	})
}

// With a clock that runs 100 times faster everything is 100 times shorter on the wall and the
// same in the log.
func TestSpeedShortensTimeoutsAndWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{Clock: clock.Clock{Speed: 100}})
		began := time.Now()
		alone := start(r, rank(0), four)
		wantExits(t, 1, alone)
		if got := time.Since(began); got != 3*time.Second {
			t.Errorf("the rendezvous gave up after %v of wall time, want 3s", got)
		}
		began = time.Now()
		all := startAll(r, four, 0, 1, 2, 3)
		wantExits(t, 0, all...)
		if got := time.Since(began); got != 600*time.Millisecond {
			t.Errorf("a minute of work took %v of wall time, want 600ms", got)
		}
		wantLog(t, all[3],
			"0s NCCL INFO rank 3 nranks 4 : Init COMPLETE",
			"0s running to step 60, 1s per step, no checkpoints",
			"60s finished at step 60",
		)
	})
}

// Odd speeds do not divide evenly; no rank may take a peer's end for a loss.
func TestRanksEndTogetherAtAnySpeed(t *testing.T) {
	for _, speed := range []float64{0.3, 1, 7, 33.3, 1234.5} {
		synctest.Test(t, func(t *testing.T) {
			r := New(Options{Clock: clock.Clock{Speed: speed}})
			spec := Spec{Run: 100 * time.Second, Step: 333 * time.Millisecond, World: 3, Checkpoint: 7 * time.Second}
			wantExits(t, 0, startAll(r, spec, 0, 1, 2)...)
			wantForgotten(t, r)
		})
	}
}

func TestFailingRankBreaksTheCollective(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{})
		spec := four
		good := startAll(r, spec, 0, 1, 2)
		spec.FailAfter, spec.ExitCode = 7*time.Second, 3
		bad := start(r, rank(3), spec)
		wantExits(t, 3, bad)
		wantExits(t, 134, good...)
		if good[0].count("rank 3 (team/train-3) is gone: step 8 cannot complete") != 1 {
			t.Errorf("log: %q", good[0].log.text())
		}
	})
}

// Who comes without a rank gets one by name, whatever the order of arrival; a rank asked for
// twice is the first one's, and the second waits.
func TestRanksAreAssignedByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{})
		spec := Spec{Run: time.Minute, World: 3}
		unranked := func(name string) *program {
			return start(r, Identity{Group: "g", Index: -1, Pod: name}, spec)
		}
		c, b := unranked("c"), unranked("b")
		one := start(r, Identity{Group: "g", Index: 1, Pod: "z"}, spec)
		for p, want := range map[*program]string{b: "rank 0 ", one: "rank 1 ", c: "rank 2 "} {
			if p.count(want) != 1 {
				t.Errorf("no %q in %q", want, p.log.text())
			}
		}
		twice := start(r, Identity{Group: "g", Index: 1, Pod: "y"}, spec)
		time.Sleep(30 * time.Second)
		wantUse(t, r, 0, 0, "y")
		wantExits(t, 0, b, c, one)
		twice.cancel(sigterm)
		wantExits(t, 143, twice)
		wantForgotten(t, r)
	})
}

func TestRankOutsideTheWorld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{})
		p := start(r, rank(4), four)
		wantExits(t, 1, p)
		wantLog(t, p, "0s rank 4 is outside a world of 4 ranks")
	})
}

// A step takes as long as the slowest rank's.
func TestStragglerSlowsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{})
		spec := Spec{Run: time.Minute, World: 2, Step: time.Second}
		quick := start(r, rank(0), spec)
		spec.Step = 3 * time.Second
		slow := start(r, rank(1), spec)
		began := time.Now()
		wantExits(t, 0, quick, slow)
		if got := time.Since(began); got != 3*time.Minute {
			t.Errorf("60 steps took %v, want 3m", got)
		}
	})
}

// The seats of a rendezvous, for any crowd: ranks are honoured, nobody sits twice, and all
// seats are taken exactly when enough different programs are there.
func TestSeatsProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		world := rapid.IntRange(1, 6).Draw(t, "world")
		ranks := rapid.SliceOfN(rapid.IntRange(-1, world-1), 0, 12).Draw(t, "ranks")
		c := &crew{meeting: meeting{world: world}}
		distinct, anywhere := map[int]bool{}, 0
		for i, index := range ranks {
			c.waiting = append(c.waiting, &process{id: Identity{Index: index, Pod: fmt.Sprint(i)}})
			if index < 0 {
				anywhere++
			} else {
				distinct[index] = true
			}
		}
		seen := map[*process]bool{}
		for rank, p := range c.seats() {
			if p == nil {
				continue
			}
			if seen[p] || (p.id.Index >= 0 && p.id.Index != rank) {
				t.Fatalf("%s with index %d sits at rank %d", p.id.Pod, p.id.Index, rank)
			}
			seen[p] = true
		}
		if want := min(world, len(distinct)+anywhere); len(seen) != want {
			t.Fatalf("%d seats taken, want %d", len(seen), want)
		}
	})
}
