package inspect

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/facts"
)

// ran is a pod whose container has the statuses.
func ran(name string, statuses ...corev1.ContainerStatus) *corev1.Pod {
	p := pod("team-a", name)
	for i, s := range statuses {
		s.Name = fmt.Sprintf("c%d", i)
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, s)
	}
	return p
}

var (
	ended    = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}
	runs     = corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	again    = corev1.ContainerStatus{State: runs.State, LastTerminationState: ended, RestartCount: 1}
	backOff  = corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}, LastTerminationState: ended}
	creating = corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}}
)

func everyPod(f *facts.Facts) []*corev1.Pod { return f.Pods }

func logPath(pod, container, more string) string {
	return "/api/v1/namespaces/team-a/pods/" + pod + "/log?container=" + container + more + "&tailLines=40"
}

func TestLogs(t *testing.T) {
	w := &world{t: t, logs: map[string]string{
		logPath("a", "c0", ""): "runs", logPath("a", "c1", ""): "runs again", logPath("a", "c1", "&previous=true"): "crashed",
		logPath("a", "c2", ""): "crashed last", logPath("b", "c0", ""): strings.Repeat("x", logBytes) + "end",
	}}
	w.add(ran("a", runs, again, backOff, creating), ran("b", corev1.ContainerStatus{State: ended}))
	f := gather(t, Options{Config: w.start(), Targets: everyPod})
	want := map[string]string{
		"team-a/a/c0": "runs", "team-a/a/c1": "runs again", "team-a/a/c1/previous": "crashed", "team-a/a/c2": "crashed last",
		"team-a/b/c0": strings.Repeat("x", logBytes-3) + "end",
	}
	if diff := cmp.Diff(want, f.Logs); diff != "" || len(f.Unseen) > 0 {
		t.Errorf("unseen %v: %s", f.Unseen, diff)
	}
}

// Pods that never ran have no log, and do not count.
func TestLogsOfTheFirstPods(t *testing.T) {
	w := &world{t: t, logs: map[string]string{}}
	for i := range 3 * logPods {
		name := fmt.Sprintf("p%02d", i)
		w.logs[logPath(name, "c0", "")] = "hello"
		if i%2 == 0 {
			w.add(ran(name, creating))
			continue
		}
		w.add(ran(name, runs))
	}
	f := gather(t, Options{Config: w.start(), Targets: everyPod})
	if len(f.Logs) != logPods || f.Logs["team-a/p31/c0"] != "hello" || len(f.Unseen) > 0 {
		t.Errorf("%d logs, want %d: %v", len(f.Logs), logPods, f.Unseen)
	}
}

func TestLogsThatCannotBeRead(t *testing.T) {
	for reason, say := range map[string]func(http.ResponseWriter, *http.Request){
		"forbidden":         func(rw http.ResponseWriter, _ *http.Request) { deny(rw, "tenant") },
		"no answer in time": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	} {
		t.Run(reason, func(t *testing.T) {
			w := &world{t: t, logs: map[string]string{logPath("a", "c1", ""): "hello"}}
			w.say = func(rw http.ResponseWriter, r *http.Request) bool {
				if r.URL.Query().Get("container") != "c0" {
					return false
				}
				say(rw, r)
				return true
			}
			w.add(ran("a", runs, runs), ran("b", runs))
			start := time.Now()
			f := gather(t, Options{Config: w.start(), Targets: everyPod})
			if diff := cmp.Diff([]facts.Unseen{{Resource: "pods/log", Namespace: "team-a", Reason: reason}}, f.Unseen); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(map[string]string{"team-a/a/c1": "hello"}, f.Logs); diff != "" {
				t.Error(diff)
			}
			if took := time.Since(start); took > 5*logBudget {
				t.Errorf("took %s", took)
			}
		})
	}
}

// Two readings say the same, whichever log fails first.
func TestLogsThatFailAreInOrder(t *testing.T) {
	w := &world{t: t}
	for i := range 8 {
		w.add(ran(fmt.Sprintf("p%d", i), runs))
	}
	w.say = func(rw http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/log") {
			return false
		}
		name := strings.Split(r.URL.Path, "/")[6]
		time.Sleep(time.Duration('8'-name[1]) * 10 * time.Millisecond) // the first is the slowest
		http.Error(rw, name, http.StatusTeapot)
		return true
	}
	f := gather(t, Options{Config: w.start(), Targets: everyPod})
	var reasons []string
	for _, u := range f.Unseen {
		reasons = append(reasons, u.Reason)
	}
	if len(reasons) != 8 || !slices.IsSorted(reasons) {
		t.Errorf("unseen: %q", reasons)
	}
}
