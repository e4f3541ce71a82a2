package submit

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/capacity/maintenance"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/engine"
)

// All pods of a workload count, those on other nodes too; what holds no GPU, waits or is on its way out does not.
func TestWorksOn(t *testing.T) {
	now := time.Date(2026, 11, 18, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	gpus := func(n int64) engine.Spec {
		return engine.Spec{Requests: engine.Resources{{Resource: "nvidia.com/gpu", Value: n}}}
	}
	snap := engine.Snapshot{
		Gangs: []engine.Gang{{Key: "t/gang", Terms: engine.Terms{Checkpoint: time.Hour, Restart: time.Minute, Expected: 5 * time.Hour, Max: 4 * time.Hour}}},
		Pods: []engine.Pod{
			{Key: "t/a", Gang: "t/gang", Node: "n1", Started: ago(time.Hour), Spec: gpus(8)},
			{Key: "t/b", Gang: "t/gang", Node: "n2", Started: ago(2 * time.Hour), Spec: gpus(8)},
			{Key: "t/c", Gang: "t/gang", Node: "n9", Started: ago(time.Hour), Spec: gpus(8)},
			{Key: "t/late", Node: "n1", Started: ago(time.Hour), Terms: engine.Terms{Expected: time.Minute}, Foreign: true, Spec: gpus(1)},
			{Key: "t/far", Node: "n9", Started: ago(time.Hour), Spec: gpus(1)},
			{Key: "t/waits", Spec: gpus(1)},
			{Key: "t/goes", Node: "n1", Terminating: true, Spec: gpus(1)},
			{Key: "t/cpu", Node: "n1"},
		},
	}
	want := []maintenance.Work{
		{Key: "t/gang", Nodes: []string{"n1", "n2"}, GPUs: 24, Started: ago(2 * time.Hour), Ends: now.Add(2 * time.Hour), Checkpoint: time.Hour, Restart: time.Minute},
		{Key: "t/late", Nodes: []string{"n1"}, GPUs: 1, Started: ago(time.Hour)}, // it should be over
	}
	if diff := cmp.Diff(want, worksOn([]string{"n1", "n2"}, snap, "nvidia.com/gpu", &facts.Facts{At: now})); diff != "" {
		t.Errorf("works (-want +got):\n%s", diff)
	}
}

// TestLearnedEnds takes the end of work from how long workloads of its kind and size took: of three at least, all pods of which succeeded.
// What its author expects counts more, and his limit where it is sooner.
func TestLearnedEnds(t *testing.T) {
	now := time.Date(2026, 11, 18, 12, 0, 0, 0, time.UTC)
	pod := func(name, job, gang string, start time.Time, took time.Duration, phase corev1.PodPhase) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "t", Name: name, OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: job, Controller: new(true)}}}}
		if gang != "" {
			p.Annotations = map[string]string{"berth.dev/gang": gang}
		}
		p.Spec.NodeName = "n1"
		p.Status.Phase = phase
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(start)}}
		if phase != corev1.PodRunning {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(start.Add(took))}}}}
		}
		return p
	}
	begun := now.Add(-time.Hour)
	f := &facts.Facts{At: now}
	ran := func(job, gang string, pods int, took time.Duration, last corev1.PodPhase) {
		for i := range pods {
			phase := corev1.PodSucceeded
			if i == pods-1 {
				phase = last
			}
			f.Pods = append(f.Pods, pod(fmt.Sprintf("%s-%d", job, i), job, gang, now.Add(-20*time.Hour), took-time.Duration(i)*time.Minute, phase))
		}
	}
	for i, h := range []time.Duration{2, 3, 4} {
		ran(fmt.Sprintf("train-%d", i), fmt.Sprintf("g%d", i), 2, h*time.Hour, corev1.PodSucceeded)
		ran(fmt.Sprintf("fails-%d", i), "", 1, h*time.Hour, corev1.PodFailed)
		ran(fmt.Sprintf("half-%d", i), fmt.Sprintf("h%d", i), 2, h*time.Hour, corev1.PodFailed)
		ran(fmt.Sprintf("quick-%d", i), "", 1, time.Minute, corev1.PodSucceeded)
	}
	ran("rare-1", "", 1, 5*time.Hour, corev1.PodSucceeded)
	snap := engine.Snapshot{}
	runs := func(job, gang string, pods int, terms engine.Terms) {
		for i := range pods {
			name := fmt.Sprintf("%s-%d", job, i)
			f.Pods = append(f.Pods, pod(name, job, gang, begun, 0, corev1.PodRunning))
			p := engine.Pod{Key: "t/" + name, Node: "n1", Started: begun, Terms: terms, Spec: engine.Spec{Requests: engine.Resources{{Resource: "nvidia.com/gpu", Value: 1}}}}
			if gang != "" {
				p.Gang = "t/gang/" + gang
			}
			snap.Pods = append(snap.Pods, p)
		}
		if gang != "" {
			snap.Gangs = append(snap.Gangs, engine.Gang{Key: "t/gang/" + gang, Terms: terms})
		}
	}
	runs("train-8", "like", 2, engine.Terms{})
	runs("train-9", "expects", 2, engine.Terms{Expected: 90 * time.Minute})
	runs("train-10", "short", 2, engine.Terms{Max: 3 * time.Hour})
	runs("train-11", "long", 2, engine.Terms{Max: 9 * time.Hour})
	runs("train-12", "other-size", 3, engine.Terms{})
	runs("fails-9", "", 1, engine.Terms{})
	runs("half-9", "half", 2, engine.Terms{})
	runs("quick-9", "", 1, engine.Terms{Max: 5 * time.Hour})
	runs("rare-9", "", 1, engine.Terms{})
	type end struct {
		after   time.Duration // its start; 0: not known
		learned bool
	}
	got := make(map[string]end)
	for _, w := range worksOn([]string{"n1"}, snap, "nvidia.com/gpu", f) {
		e := end{learned: w.Learned}
		if !w.Ends.IsZero() {
			e.after = w.Ends.Sub(begun)
		}
		got[w.Key] = e
	}
	want := map[string]end{
		"t/gang/like": {4 * time.Hour, true}, "t/gang/expects": {90 * time.Minute, false}, "t/gang/short": {3 * time.Hour, false}, "t/gang/long": {4 * time.Hour, true},
		"t/gang/other-size": {}, "t/fails-9-0": {}, "t/gang/half": {}, "t/quick-9-0": {5 * time.Hour, false}, "t/rare-9-0": {},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(end{})); diff != "" {
		t.Errorf("ends (-want +got):\n%s", diff)
	}
}
