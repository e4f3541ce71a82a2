package scheduler

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
)

// What a queue had spent, of its budgets too, is known before the first plan is made.
func TestSpendingOutlastsTheScheduler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := time.Now().UTC().Truncate(time.Second)
		q := promised("q", 2)
		q.Spec.Budgets = []v1alpha1.QueueBudget{
			{Resource: "nvidia.com/gpu", Hours: resource.MustParse("10"), Period: metav1.Duration{Duration: 24 * time.Hour}},
			{Resource: "cpu", Hours: resource.MustParse("1"), Period: metav1.Duration{Duration: time.Hour}},
		}
		q.Status.Spending = &v1alpha1.QueueSpending{At: metav1.NewTime(at), TotalSeconds: 7200, DecayedSeconds: 3600, Users: []v1alpha1.QueueUserSpending{{User: "ann", DecayedSeconds: 3000}}}
		q.Spec.FairUsers = true
		q.Status.Budgets = []v1alpha1.QueueBudgetUse{{Resource: "nvidia.com/gpu", SpentSeconds: 7200}}
		w := newWorld(t, node("n1", "r1", 2), q)
		o := &orders{w: w}
		w.start(o.options, func(o *Options) { o.Engine.HalfLife = time.Hour })
		if len(o.first.Usages) != 1 {
			t.Fatalf("known before the first plan: %+v", o.first.Usages)
		}
		got := o.first.Usages[0]
		got.Version = 0
		want := engine.QueueUsage{Queue: "q", At: at, Total: 7200, Decayed: 3600, Spent: []int64{7200, 0}, Users: []engine.UserUsage{{User: "ann", Decayed: 3000}}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		w.add(pod("a", 1, "queue", "q"))
		w.after(2 * time.Minute)
		status := w.queues.status("q")
		if status.Spending == nil || status.Spending.TotalSeconds < 7200 || len(status.Spending.Users) != 2 || status.GPUHours == nil || status.GPUHours.Cmp(resource.MustParse("2")) < 0 {
			t.Errorf("spent %+v, GPU-hours %v", status.Spending, status.GPUHours)
		}
		if len(status.Budgets) != 2 || status.Budgets[0].SpentSeconds < 7200 || status.Budgets[0].SpentHours.Cmp(resource.MustParse("2")) < 0 || status.Budgets[0].To.Sub(status.Budgets[0].From.Time) != 24*time.Hour {
			t.Errorf("budgets %+v", status.Budgets)
		}
	})
}

// A scheduler whose clock was ahead does not keep those after it from charging queues until then.
func TestSpendingOfAClockThatWasAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := promised("q", 2)
		q.Status.Spending = &v1alpha1.QueueSpending{At: metav1.NewTime(time.Now().Add(24 * time.Hour)), TotalSeconds: 100}
		runs := pod("a", 1, "queue", "q")
		runs.Spec.NodeName, runs.Status.Phase = "n1", corev1.PodRunning
		w := newWorld(t, node("n1", "r1", 2), q, runs)
		w.start(func(o *Options) { o.Engine.HalfLife = time.Hour })
		for i := range 10 {
			w.after(time.Minute)
			w.add(pod(fmt.Sprint("stirs-", i), 9))
		}
		if got := w.queues.status("q").Spending; got == nil || got.TotalSeconds < 500 || got.At.After(time.Now()) {
			t.Errorf("after ten minutes of one GPU it has spent %+v", got)
		}
	})
}

// A start that was promised is kept by who schedules next, since when it was first given.
func TestPromisesOutlastTheScheduler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 2), promised("q", 2), pod("runs", 1, "queue", "q", "expected-run", "1h"))
		stop := w.start()
		w.edit("runs", func(p *corev1.Pod) { p.Status.StartTime = new(metav1.Now()) })
		w.add(pod("big", 2, "queue", "q"))
		w.after(2 * time.Minute)
		before := w.queues.status("q").Promises
		if len(before) != 1 || before[0].Workload != "default/big" || !before[0].Start.After(time.Now()) {
			t.Fatalf("promised %+v", before)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		w.after(10 * time.Minute)
		o := &orders{w: w}
		w.start(o.options)
		w.after(2 * time.Minute)
		if len(o.first.Promises) != 1 || !o.first.Promises[0].Since.Equal(before[0].Since.Time) || !o.first.Promises[0].Start.Equal(before[0].Start.Time) {
			t.Errorf("known before the first plan: %+v, before %+v", o.first.Promises, before)
		}
		after := w.queues.status("q").Promises
		if len(after) != 1 || !after[0].Since.Equal(&before[0].Since) {
			t.Errorf("promised %+v, before %+v", after, before)
		}
	})
}

// What is borrowed, lent and due is in the status, and of a queue with others below it their sum.
func TestQueueStatusSaysWhatIsOwed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := promised("a", 2), promised("b", 2)
		a.Spec.Parent, b.Spec.Parent = "top", "top"
		w := newWorld(t, node("n1", "r1", 4), promised("top", 3), a, b)
		for _, name := range []string{"b0", "b1", "b2"} {
			w.add(pod(name, 1, "queue", "b", "preemptible", "true"))
		}
		w.start()
		w.after(2 * statusEvery)
		owed := func(u v1alpha1.QueueUse, borrowed, lent string) v1alpha1.QueueUse {
			x, y := resource.MustParse(borrowed), resource.MustParse(lent)
			u.Borrowed, u.Lent = &x, &y
			return u
		}
		for name, want := range map[string]v1alpha1.QueueUse{
			"a": owed(use("nvidia.com/gpu", "0", "0"), "0", "1"), "b": owed(use("nvidia.com/gpu", "3", "0"), "1", "0"), "top": owed(use("nvidia.com/gpu", "3", "0"), "0", "0"),
		} {
			got := w.queues.status(name).Resources
			if len(got) != 1 || got[0].FairShare == nil {
				t.Errorf("%s: %+v", name, got)
				continue
			}
			got[0].FairShare = nil
			if diff := cmp.Diff(want, got[0]); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
		exceeds := false
		for _, c := range w.queues.status("top").Conditions {
			exceeds = exceeds || c.Type == v1alpha1.QueuePromisesExceedParent && c.Status == metav1.ConditionTrue && c.Message != ""
		}
		if got := w.queues.status("top"); !exceeds || got.Running != 3 {
			t.Errorf("top: %+v", got)
		}
	})
}
