package engine_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
)

func (x *simulation) forecast(most int) (out []string) {
	tell := func(at time.Time) string {
		if at.IsZero() {
			return "?"
		}
		return "+" + at.Sub(noon).String()
	}
	for _, e := range x.s.Forecast(x.now, most) {
		out = append(out, fmt.Sprintf("%s %s %s %s: %s", e.Gang, tell(e.Earliest), tell(e.Likely), tell(e.Latest), e.Because))
	}
	return out
}

func (x *simulation) wantForecast(want ...string) {
	x.t.Helper()
	if diff := cmp.Diff(want, x.forecast(100)); diff != "" {
		x.t.Errorf("forecast (-want +got):\n%s", diff)
	}
}

// What cannot be known is not told, and why is said.
func TestForecastOfTheUnknown(t *testing.T) {
	x := newSimulation(t, engine.Snapshot{Nodes: eights(1), Queues: []engine.Queue{{Name: "q", Version: 1, Limits: engine.Resources{{Resource: gpu, Value: 4}}}}}, engine.Config{})
	x.wantForecast()
	x.submit(&job{key: "old", gpus: 8, true: hours(9)})
	x.settle()
	x.submit(&job{key: "a-waits", gpus: 1})
	x.submit(&job{key: "b-lacks", size: 2, gpus: 1})
	x.apply(engine.Change{Gone: &engine.Ref{Kind: engine.KindPod, Key: "b-lacks-1"}})
	x.submit(&job{key: "c-queue", gpus: 1, queue: "nowhere"})
	x.submit(&job{key: "d-large", gpus: 5, queue: "q"})
	x.settle()
	x.wantForecast(
		"a-waits ? ? ?: no running workload has a known end",
		"b-lacks ? ? ?: needs 2 members to start; 1 exists",
		"c-queue ? ? ?: queue nowhere does not exist",
		"d-large ? ? ?: needs 5 nvidia.com/gpu of queue q, whose limit is 4",
	)
	if e, ok := x.s.Estimate("nobody", x.now); ok {
		t.Errorf("an estimate of nobody: %+v", e)
	}
	if e, ok := x.s.Estimate("old", x.now); ok {
		t.Errorf("an estimate of what runs: %+v", e)
	}
}

// Places are given in the order of the line, each for the time that its workload runs; what is first alone has none
// before it.
func TestForecast(t *testing.T) {
	x := newSimulation(t, engine.Snapshot{
		Nodes:            eights(2),
		RunTimeEstimates: []engine.RunTimeEstimate{{Like: "train", Version: 1, Count: 9, Short: time.Hour, Median: hours(2), Long: hours(4)}},
	}, engine.Config{})
	x.submit(&job{key: "learned", gpus: 8, terms: engine.Terms{Like: "train"}, true: hours(9)})
	x.submit(&job{key: "said", gpus: 8, terms: expected(hours(3)), true: hours(9)})
	x.settle()
	x.submit(&job{key: "wait-a", size: 2, gpus: 8, terms: expected(time.Hour)})
	x.submit(&job{key: "wait-b", gpus: 8, terms: expected(hours(2))})
	x.submit(&job{key: "wait-c", gpus: 8, terms: expected(time.Hour)})
	x.settle()
	want := []string{
		"wait-a +3h0m0s +3h0m0s +4h0m0s: waits for said to end",
		"wait-b +1h0m0s +4h0m0s +5h0m0s: waits for wait-a to end",
		"wait-c +1h0m0s +2h0m0s +3h0m0s: waits for learned to end",
	}
	x.wantForecast(want...)
	if diff := cmp.Diff(want[:2], x.forecast(2)); diff != "" {
		t.Errorf("the first two (-want +got):\n%s", diff)
	}
	e, ok := x.s.Estimate("wait-c", x.now)
	if !ok || !e.Likely.Equal(noon.Add(2*time.Hour)) {
		t.Errorf("alone: %+v", e)
	}
}

// A queue's limit is shared by those that wait for it.
func TestForecastOfALimit(t *testing.T) {
	x := newSimulation(t, engine.Snapshot{
		Nodes:  eights(4),
		Queues: []engine.Queue{{Name: "q", Version: 1, Limits: engine.Resources{{Resource: gpu, Value: 8}}}},
	}, engine.Config{})
	x.submit(&job{key: "old", queue: "q", gpus: 8, terms: expected(time.Hour), true: hours(9)})
	x.settle()
	for _, key := range []string{"wait-a", "wait-b"} {
		x.submit(&job{key: key, queue: "q", gpus: 8, terms: expected(time.Hour)})
	}
	x.wantForecast(
		"wait-a +1h0m0s +1h0m0s +1h0m0s: its queue may not use more until old ends",
		"wait-b +1h0m0s +2h0m0s +2h0m0s: its queue may not use more until wait-a ends",
	)
}

// Asking for forecasts changes nothing, whatever the state, and the same is told after a restart.
func TestForecastChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := anyConfig(t)
		s := lived(cfg, anyHistory(t))
		before := answers(t, s, noon)
		first := text(t, s.Forecast(noon, 10))
		if diff := cmp.Diff(before, answers(t, s, noon)); diff != "" {
			t.Fatalf("after a forecast:\n%s", diff)
		}
		if diff := cmp.Diff(first, text(t, engine.Load(s.Dump(), cfg).Forecast(noon, 10))); diff != "" {
			t.Fatalf("loaded from its dump:\n%s", diff)
		}
		for _, e := range s.Forecast(noon, 10) {
			if e.Because == "" || !e.Likely.IsZero() && (e.Earliest.After(e.Likely) || !e.Latest.IsZero() && e.Latest.Before(e.Likely)) {
				t.Fatalf("out of order: %+v", e)
			}
		}
	})
}

// calibration is how forecasts compare with what came.
type calibration struct {
	told, inside, early, late int
	off                       time.Duration // sum of distances of the likely time
	wait                      time.Duration // sum of waits from when it was told
}

// calibrate plays a random history and compares every forecast made in it with what came. Run times are learned: their
// logarithm is normal, and the run-time estimates are its quantiles.
func calibrate(t rapid.TB, seed uint64, c *calibration) {
	r := rand.New(rand.NewPCG(seed, 6))
	kinds := []struct {
		like   string
		median time.Duration
		spread float64 // of the logarithm
	}{{"short", 10 * time.Minute, 0.3}, {"train", hours(1), 0.5}, {"long", hours(4), 0.7}}
	snap := engine.Snapshot{Nodes: eights(8)}
	for _, k := range kinds {
		tenth := time.Duration(float64(k.median) * math.Exp(1.2816*k.spread))
		snap.RunTimeEstimates = append(snap.RunTimeEstimates, engine.RunTimeEstimate{Like: k.like, Version: 1, Count: 100, Short: time.Duration(float64(k.median) * math.Exp(-1.2816*k.spread)), Median: k.median, Long: tenth})
	}
	x := newSimulation(t, snap, engine.Config{})
	type told struct {
		at   time.Time
		what engine.Estimate
	}
	var all []told
	for i := range 150 {
		k := kinds[r.IntN(len(kinds))]
		j := &job{key: fmt.Sprintf("job-%03d", i), gpus: 1 << r.IntN(4), firm: true, terms: engine.Terms{Like: k.like}}
		if r.IntN(4) == 0 {
			j.size = 2 + r.IntN(3)
		}
		j.true = time.Duration(float64(k.median) * math.Exp(r.NormFloat64()*k.spread))
		if r.IntN(3) == 0 {
			j.terms = expected(j.true + time.Duration(r.IntN(20))*time.Minute)
		}
		x.submit(j)
		x.settle()
		for _, e := range x.s.Forecast(x.now, 8) {
			all = append(all, told{x.now, e})
		}
		x.until(x.now.Add(time.Duration(r.ExpFloat64() * float64(13*time.Minute))))
	}
	x.until(noon.Add(1000 * time.Hour))
	for _, e := range all {
		j := x.gang(e.what.Gang)
		if e.what.Likely.IsZero() || j.waits() {
			continue
		}
		c.told++
		switch {
		case j.started.Before(e.what.Earliest):
			c.early++
		case !e.what.Latest.IsZero() && j.started.After(e.what.Latest):
			c.late++
		default:
			c.inside++
		}
		c.off += j.started.Sub(e.what.Likely).Abs()
		c.wait += j.started.Sub(e.at)
	}
}

// How often the start fell inside what was told, over random histories. The floor is below what is measured; the figure
// is in the log.
func TestForecastIsCalibrated(t *testing.T) {
	var c calibration
	for seed := range uint64(8) {
		calibrate(t, seed, &c)
	}
	inside := float64(c.inside) / float64(c.told)
	t.Logf("%d forecasts of workloads that waited: %.1f %% started inside, %.1f %% before, %.1f %% after; off the likely time by %v on average, after waits of %v",
		c.told, 100*inside, 100*float64(c.early)/float64(c.told), 100*float64(c.late)/float64(c.told),
		(c.off / time.Duration(c.told)).Round(time.Second), (c.wait / time.Duration(c.told)).Round(time.Second))
	if c.told < 500 || inside < 0.8 {
		t.Errorf("%.1f %% of %d inside", 100*inside, c.told)
	}
}

// What a plan made now leaves waiting is not expected now, whatever the state; and where the plan says that it waits behind
// another, not before that one.
func TestForecastIsNotBeforeThePlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := anyConfig(t)
		s := lived(cfg, anyHistory(t))
		told := make(map[string]engine.Estimate)
		for _, e := range s.Forecast(noon, 1000) {
			told[e.Gang] = e
		}
		for _, w := range s.Plan(noon).Waiting {
			e, ok := told[w.Gang]
			if !ok {
				continue // it grows
			}
			for _, at := range []time.Time{e.Earliest, e.Likely, e.Latest} {
				if !at.IsZero() && !at.After(noon) {
					t.Fatalf("%s waits for %s and is expected now: %+v", w.Gang, w.Cause, e)
				}
			}
			if head, known := told[w.Gates[0].Object]; w.Cause == why.BehindTheHead && known && !e.Likely.IsZero() && (head.Likely.IsZero() || e.Likely.Before(head.Likely)) {
				t.Fatalf("%+v waits behind %+v", e, head)
			}
		}
	})
}
