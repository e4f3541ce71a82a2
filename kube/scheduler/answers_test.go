package scheduler

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/answer"
	"github.com/berth-dev/berth/kube/report"
)

// source runs a scheduler on the world and returns what it would give a server.
func (w *world) source(change ...func(*Options)) *scheduler {
	w.t.Helper()
	o := Options{queues: w.queues}
	for _, c := range change {
		c(&o)
	}
	s, err := newScheduler(w.client, o.normal())
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	stop, err := s.watch(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); s.binds.run(ctx) }()
	go s.loop(ctx)
	w.stops = append(w.stops, func() { cancel(); stop(); <-ended })
	w.rest()
	return s
}

// made gives pods a controller.
func made(kind, name string, pods []runtime.Object) []runtime.Object {
	yes := true
	for _, o := range pods {
		o.(*corev1.Pod).OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name, UID: types.UID("uid-" + name), Controller: &yes}}
	}
	return append(pods, job(name, int32(len(pods))))
}

func TestAnswersOfTwoGangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, append(made("Job", "first", gang("first", 4)), node("n1", "r1", 4))...)
		s := w.source()
		for i := range 4 {
			w.edit(fmt.Sprintf("first-%d", i), func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning })
		}
		time.Sleep(time.Second)
		for _, o := range append(made("Job", "second", gang("second", 2)), pod("lone", 1)) {
			w.add(o)
		}
		w.after(time.Second)

		all, err := s.Workloads(context.Background(), "default")
		if err != nil {
			t.Fatal(err)
		}
		unseen := cmpopts.IgnoreFields(answer.Workload{}, "Certificates", "Gates", "CreationTimestamp")
		eta := &answer.ETA{Because: "no running workload has a known end"}
		want := []answer.Workload{
			{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gang.second"}, Owner: &answer.Owner{Kind: "Job", Name: "second"},
				State: answer.Waiting, Pods: answer.Pods{Size: 2, Min: 2, Waiting: 2, Names: []string{"second-0", "second-1"}}, GPUs: 2,
				Position: &answer.Position{Place: 1, Of: 2}, Verdict: why.Impossible, Cause: why.ClusterFull, ETA: eta,
			},
			{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod.lone"},
				State:      answer.Waiting, Pods: answer.Pods{Size: 1, Min: 1, Waiting: 1, Names: []string{"lone"}}, GPUs: 1,
				Position: &answer.Position{Place: 2, Of: 2}, Verdict: why.Impossible, Cause: why.ClusterFull, ETA: eta,
			},
			{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gang.first"}, Owner: &answer.Owner{Kind: "Job", Name: "first"},
				State: answer.Running, Pods: answer.Pods{Size: 4, Min: 4, Placed: 4, Running: 4, Names: []string{"first-0", "first-1", "first-2", "first-3"}}, GPUs: 4,
			},
		}
		if diff := cmp.Diff(want, all, unseen); diff != "" {
			t.Errorf("list:\n%s", diff)
		}

		one, err := s.Workload(context.Background(), "default", "pod.lone")
		if err != nil {
			t.Fatal(err)
		}
		first := answer.Reference{Namespace: "default", Name: "gang.first", Owner: &answer.Owner{Kind: "Job", Name: "first"}}
		second := answer.Reference{Namespace: "default", Name: "gang.second", Owner: &answer.Owner{Kind: "Job", Name: "second"}}
		if diff := cmp.Diff(&answer.Position{Place: 2, Of: 2, Ahead: []answer.Reference{second}}, one.Position); diff != "" {
			t.Errorf("position:\n%s", diff)
		}
		if diff := cmp.Diff(&answer.Holders{Resource: "nvidia.com/gpu", Items: []answer.Holder{{Reference: first, Amount: 4}}}, one.Holders); diff != "" {
			t.Errorf("holders:\n%s", diff)
		}
		if len(one.Certificates) != 1 || len(one.Gates) != 1 || one.Gates[0].Certificate != 0 {
			t.Errorf("gates %+v, certificates %+v", one.Gates, one.Certificates)
		}
	})
}

// What is served is what decides: the options with their defaults.
func TestConfigurationIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 1))
		got := w.source().Configuration()
		if got.Name == "" || len(got.SchedulerNames) == 0 || got.Engine.GPU != "nvidia.com/gpu" || got.Engine.Policy != engine.Default || got.Engine.Heads == 0 {
			t.Errorf("%+v", got)
		}
	})
}

func TestAWorkloadThatIsGoneIsNotFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 1), pod("a", 1))
		s := w.source()
		if _, err := s.Workload(context.Background(), "default", "pod.a"); err != nil {
			t.Fatal(err)
		}
		w.remove("pods", "default", "a")
		w.rest()
		for _, name := range []string{"pod.a", "gang.a", "a", "."} {
			if _, err := s.Workload(context.Background(), "default", name); !errors.Is(err, answer.ErrNotFound) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// A pod that the engine does not know, because its claim does not exist, is in the list too.
func TestAPodHeldByItsClaimsIsListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pod("a", 1)
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}
		s := newWorld(t, node("n1", "r1", 1), p).source()
		all, err := s.Workloads(context.Background(), "")
		if err != nil || len(all) != 1 || all[0].Name != "pod.a" || all[0].State != answer.Waiting || all[0].Cause != report.ClaimsNotReady {
			t.Errorf("%v, %+v", err, all)
		}
		if one, err := s.Workload(context.Background(), "default", "pod.a"); err != nil || one.Cause != report.ClaimsNotReady {
			t.Errorf("%v, %+v", err, one)
		}
	})
}

func TestABusyLoopRefusesQuestionsAndIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := newScheduler(newWorld(t).client, Options{}.normal())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Workloads(context.Background(), ""); !errors.Is(err, answer.ErrBusy) || s.Ready() == nil {
			t.Errorf("before the first plan: %v, ready: %v", err, s.Ready())
		}
		s.note(engine.Plan{})
		began := time.Now()
		if _, err := s.Workloads(context.Background(), ""); !errors.Is(err, answer.ErrBusy) {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took != askFor {
			t.Errorf("refused after %s", took)
		}
		s.began.Store(time.Now().UnixNano())
		if err := s.Ready(); err != nil {
			t.Errorf("a cycle that has just begun: %v", err)
		}
		time.Sleep(stuckAfter + time.Second)
		if s.Ready() == nil {
			t.Error("ready, though a cycle does not end")
		}
	})
}

func TestQueuesCountWhatTheirWorkloadsHoldAndWant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newWorld(t, node("n1", "r1", 1), pod("a", 1, "queue", "nowhere")).source()
		got, err := s.Queues(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		var missing []answer.Queue
		for _, q := range got {
			if q.Missing {
				missing = append(missing, q)
			}
		}
		want := []answer.Queue{{ObjectMeta: metav1.ObjectMeta{Name: "nowhere"}, Missing: true, Wanted: []why.Amount{{Resource: "nvidia.com/gpu", Value: 1}}, Waiting: answer.Demand{Workloads: 1, GPUs: 1}}}
		if diff := cmp.Diff(want, missing); diff != "" {
			t.Error(diff)
		}
	})
}

// Queues are in a tree; what a queue has beyond its quota is borrowed by it and lent by others, and its workloads that
// may be evicted say what of theirs that is.
func TestWhatIsBorrowedIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		amount := func(n int64) engine.Resources { return engine.Resources{{Resource: "nvidia.com/gpu", Value: n}} }
		lab, here, there := promised("lab", 8), promised("here", 2), promised("there", 6)
		here.Spec.Parent, there.Spec.Parent, there.Spec.Weight = "lab", "lab", 3
		here.Spec.Budgets = []v1alpha1.QueueBudget{{Hours: resource.MustParse("1"), Period: metav1.Duration{Duration: 7 * 24 * time.Hour}}}
		w := newWorld(t, node("n1", "r1", 8), lab, here, there)
		s := w.source()
		w.add(pod("a", 5, "queue", "here"))
		w.after(time.Second)
		if err := s.ask(context.Background(), func() {
			s.state.Apply(engine.Change{Usage: &engine.QueueUsage{Queue: "here", Version: 1 << 41, At: time.Now(), Spent: []int64{60}, Total: 600}})
		}); err != nil {
			t.Fatal(err)
		}
		s.latest.Store(nil)
		time.Sleep(time.Second)
		got, err := s.Queues(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		running := answer.Demand{Workloads: 1, GPUs: 5}
		gpus := func(n int64) []why.Amount { return amount(n) }
		want := []answer.Queue{
			{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Quota: gpus(0)}, // implied
			{ObjectMeta: metav1.ObjectMeta{Name: "lab"}, Quota: gpus(8), Used: gpus(5), Running: running},
			{
				ObjectMeta: metav1.ObjectMeta{Name: "here"}, Parent: "lab", Quota: gpus(2), Used: gpus(5), Borrowed: gpus(3), Running: running, GPUSeconds: 600,
				Budgets: []answer.Budget{{Resource: "nvidia.com/gpu", Seconds: 3600, Spent: 60, PeriodSeconds: 604800}},
			},
			{ObjectMeta: metav1.ObjectMeta{Name: "there"}, Parent: "lab", Quota: gpus(6), Weight: 3, Lent: gpus(3)},
		}
		unseen := cmpopts.IgnoreFields(answer.Queue{}, "Share")
		if diff := cmp.Diff(want, got, unseen, cmpopts.EquateEmpty()); diff != "" {
			t.Error(diff)
		}
		if one, err := s.Workload(context.Background(), "default", "pod.a"); err != nil || one.Borrowed != 3 {
			t.Errorf("%v: borrowed %d, want 3", err, one.Borrowed)
		}
	})
}

// What waits for work that says how long it runs is told when that ends, and for whom it waits.
func TestWaitingWorkIsToldWhenItStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 8), pod("runs", 8, "expected-run", "1h"))
		s := w.source()
		w.edit("runs", func(p *corev1.Pod) {
			now := metav1.Now()
			p.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &now, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: now}}}
		})
		w.add(pod("waits", 8))
		w.after(time.Second)
		one, err := s.Workload(context.Background(), "default", "pod.waits")
		if err != nil || one.ETA == nil {
			t.Fatalf("%v, %+v", err, one)
		}
		if left := time.Until(one.ETA.Likely); left < 50*time.Minute || left > time.Hour || one.ETA.Earliest.After(one.ETA.Likely) || one.ETA.Because != "waits for default/runs to end" {
			t.Errorf("%+v, and it is %s", one.ETA, time.Now())
		}
		if one, err := s.Workload(context.Background(), "default", "pod.runs"); err != nil || one.ETA != nil {
			t.Errorf("%v: what runs is expected to start: %+v", err, one.ETA)
		}
	})
}

// What will become of a workload: what is promised, expected, and to be given back.
func TestForesight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, now := newWorld(t, pod("owner", 1)).source(), time.Now()
		b := &snapshot{
			etas:     map[string]answer.ETA{"default/waits": {Earliest: now, Likely: now.Add(time.Hour), Because: "a job ends"}},
			promises: map[string]answer.Promise{"default/waits": {Start: now.Add(2 * time.Hour), Since: now}}, debts: map[string]int64{},
			queues: []engine.QueueUse{
				{Queue: engine.Queue{Name: "lab"}, Borrowed: engine.Resources{{Resource: "nvidia.com/gpu", Value: 6}}},
				{Queue: engine.Queue{Name: "here", Parent: "lab"}, Borrowed: engine.Resources{{Resource: "nvidia.com/gpu", Value: 2}}}, {Queue: engine.Queue{Name: "even"}},
			},
		}
		b.owe("nvidia.com/gpu")
		eta, promise := b.etas["default/waits"], b.promises["default/waits"]
		owner := answer.Reference{Namespace: "default", Name: "pod.owner"}
		for _, c := range []struct {
			tally engine.Tally
			want  answer.Workload
		}{
			{engine.Tally{Key: "default/waits"}, answer.Workload{ETA: &eta, Promise: &promise}},
			{engine.Tally{Key: "default/a", Queue: "here", Held: 8, Loose: 8}, answer.Workload{Borrowed: 6}}, // the one above owes more
			{engine.Tally{Key: "default/b", Queue: "here", Held: 8, Loose: 4}, answer.Workload{Borrowed: 4}},
			{engine.Tally{Key: "default/c", Queue: "here", Held: 8}, answer.Workload{}}, // nobody may take it
			{engine.Tally{Key: "default/d", Queue: "even", Held: 8, Loose: 8}, answer.Workload{}},
			{
				engine.Tally{Key: "default/e", Evicting: 2, Eviction: engine.Eviction{Cause: engine.Preempted, For: "default/owner", At: now}},
				answer.Workload{Evicting: &answer.Evicting{Pods: 2, Cause: "preempted", For: &owner, At: now}},
			},
			{engine.Tally{Key: "default/f", Evicting: 1, Eviction: engine.Eviction{Cause: engine.MaxRun, At: now}}, answer.Workload{Evicting: &answer.Evicting{Pods: 1, Cause: "max-run", At: now}}},
		} {
			var got answer.Workload
			s.foresee(&got, b, &c.tally)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s:\n%s", c.tally.Key, diff)
			}
		}
	})
}

func TestOwnerOfADeploymentsPod(t *testing.T) {
	p := made("ReplicaSet", "web-7d4b", []runtime.Object{pod("web-7d4b-x", 0)})[0].(*corev1.Pod)
	if diff := cmp.Diff(&answer.Owner{Kind: "ReplicaSet", Name: "web-7d4b"}, ownerOf(p)); diff != "" {
		t.Error(diff)
	}
	p.Labels = map[string]string{"pod-template-hash": "7d4b"}
	if diff := cmp.Diff(&answer.Owner{Kind: "Deployment", Name: "web"}, ownerOf(p)); diff != "" {
		t.Error(diff)
	}
}

func TestAWorkloadsNameLeadsBackToItsKey(t *testing.T) {
	for _, key := range []string{"ns/pod.with.dots", "ns/gang/a.b", "ns/podgroup/x"} {
		r := referenceOf(key, nil)
		if got := workloadKey(r.Namespace, r.Name); got != key {
			t.Errorf("%s became %s and then %s", key, r.Name, got)
		}
	}
}

// Who is at the limit of a queue waits for those of the queue, whatever is free.
func TestHoldersOfAQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 8), pod("other", 1))
		s := w.source()
		s.inbox.Put(engine.Change{Queue: &engine.Queue{Name: "q", Version: 1 << 40, Limits: engine.Resources{{Resource: "nvidia.com/gpu", Value: 2}}}})
		w.add(pod("a", 2, "queue", "q"))
		w.rest()
		w.add(pod("b", 1, "queue", "q"))
		w.after(time.Second)
		got, err := s.Workload(context.Background(), "default", "pod.b")
		if err != nil {
			t.Fatal(err)
		}
		want := &answer.Holders{Resource: "nvidia.com/gpu", Queue: "q", Items: []answer.Holder{{Reference: answer.Reference{Namespace: "default", Name: "pod.a"}, Amount: 2}}}
		if diff := cmp.Diff(want, got.Holders); diff != "" || got.Cause != why.OverQueueLimit {
			t.Errorf("%s:\n%s", got.Cause, diff)
		}
		if diff := cmp.Diff(&answer.Position{Place: 1, Of: 1, InQueue: 1}, got.Position); diff != "" {
			t.Error(diff)
		}
	})
}

// Questions take at most a tenth of the loop's time.
func TestSlowQuestionsArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newWorld(t).source()
		slow := func() error { return s.ask(context.Background(), func() { time.Sleep(time.Second) }) }
		if err := slow(); err != nil {
			t.Fatal(err)
		}
		if err := slow(); !errors.Is(err, answer.ErrBusy) {
			t.Errorf("the second at once: %v", err)
		}
		time.Sleep(9 * time.Second)
		if err := slow(); err != nil {
			t.Errorf("once the loop has had its time: %v", err)
		}
	})
}
