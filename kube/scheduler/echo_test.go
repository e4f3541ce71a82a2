package scheduler

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/answer"
	"github.com/berth-dev/berth/kube/cluster"
	"github.com/berth-dev/berth/kube/metrics"
)

func TestEchoes(t *testing.T) {
	var e echoes
	now := time.Date(2026, 11, 17, 9, 0, 0, 0, time.UTC)
	if e.taken("early", now, func() bool { return true }) != true || e.oldest(now) != 0 {
		t.Error("what the watch showed before the answer is waited for")
	}
	e.taken("a", now, func() bool { return false })
	e.taken("b", now.Add(time.Second), func() bool { return false })
	if got := e.oldest(now.Add(5 * time.Second)); got != 5*time.Second {
		t.Errorf("the oldest is %s", got)
	}
	if after, known := e.shown("a", now.Add(2*time.Second)); !known || after != 2*time.Second {
		t.Errorf("a after %s, %v", after, known)
	}
	if _, known := e.shown("a", now.Add(3*time.Second)); known {
		t.Error("a is shown twice")
	}
	e.shown("b", now) // deleted before it was shown
	if got := e.oldest(now.Add(time.Hour)); got != 0 || len(e.sent) != 0 {
		t.Errorf("%s, %v", got, e.sent)
	}
}

func TestWorkLostByEvictions(t *testing.T) {
	now := time.Date(2026, 11, 17, 9, 0, 0, 0, time.UTC)
	s := &scheduler{}
	s.opts.metrics = metrics.New(func() metrics.Process { return metrics.Process{} }, func() (metrics.Figures, error) { return metrics.Figures{}, errNoFigures })
	gpus := engine.Resources{{Resource: cluster.DefaultGPU, Value: 8}}
	for _, c := range []struct {
		cause engine.EvictionCause
		surge bool
		pod   cluster.Pod
	}{
		{engine.Reclaimed, false, cluster.Pod{Requests: gpus, Started: now.Add(-time.Hour)}},
		{engine.Preempted, false, cluster.Pod{Requests: gpus, Started: now.Add(-65 * time.Minute), Checkpoint: 30 * time.Minute}},
		{engine.Idled, false, cluster.Pod{Requests: gpus}},                               // nobody knows since when
		{engine.MaxRun, false, cluster.Pod{Requests: gpus, Started: now.Add(time.Hour)}}, // another clock
		{engine.Broken, false, cluster.Pod{Started: now.Add(-time.Hour)}},                // without GPUs
		{engine.Moved, true, cluster.Pod{Requests: gpus, Started: now.Add(-time.Hour)}},
	} {
		s.lostBy(&eviction{Eviction: engine.Eviction{Cause: c.cause, Surge: c.surge}}, &c.pod, now)
	}
	text, err := s.opts.metrics.Text()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{`{cause="reclaimed"} 28800`, `{cause="preempted"} 2400`, `{cause="idle"} 0`, `{cause="max-run"} 0`, `{cause="broken"} 0`} {
		if !strings.Contains(text, "berth_scheduler_evicted_gpu_seconds_total"+line+"\n") {
			t.Errorf("no %s in:\n%s", line, text)
		}
	}
	if strings.Contains(text, `cause="moved"`) {
		t.Error("a pod that stays until its successor runs loses work")
	}
}

// The first estimate that a workload was given counts, for as long as it waits.
func TestFirstEstimateIsKept(t *testing.T) {
	p := newPublic()
	noon := time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC)
	told := func(gang string, likely time.Time, waiting ...string) {
		b := &snapshot{etas: map[string]answer.ETA{gang: {Likely: likely}}}
		for _, w := range waiting {
			b.plan.Waiting = append(b.plan.Waiting, engine.Waiting{Gang: w})
		}
		p.estimate(b)
	}
	told("a", noon, "a", "b")
	told("a", noon.Add(time.Hour), "a", "b")
	told("b", time.Time{}, "a", "b") // nobody can tell
	if got := p.estimates; len(got) != 1 || !got["a"].Equal(noon) {
		t.Errorf("%v", got)
	}
	told("b", noon, "b")
	if got := p.estimates; len(got) != 1 || !got["b"].Equal(noon) {
		t.Errorf("one that is gone is kept: %v", got)
	}
}
