package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// sight is what the workloads of a cell show at one moment.
type sight struct {
	states map[string]string // of each workload: "" if it runs as wanted
	marks  string            // changes with every change of a pod that is worth waiting for
}

// ill names the workloads that do not run, "" if all do.
func (s *sight) ill() string {
	var out []string
	for name, state := range s.states {
		if state != "" {
			out = append(out, name+": "+state)
		}
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

// changed are the workloads that do not run, sorted.
func (s *sight) changed() (out []string) {
	for name, state := range s.states {
		if state != "" {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// look reads the outcome of every workload.
func (x *cell) look(ctx context.Context) (*sight, error) {
	list, err := x.pods(ctx)
	if err != nil {
		return nil, err
	}
	s := &sight{states: map[string]string{}}
	var marks []string
	for _, o := range x.objects {
		if !o.works() {
			continue
		}
		live, err := x.of(o.kind, o.space()).Get(ctx, o.name(), metav1.GetOptions{})
		if err != nil {
			s.states[o.String()] = "does not exist"
			continue
		}
		var pods []*corev1.Pod
		for i := range list {
			if !belongs(&list[i], o) {
				continue
			}
			p := &corev1.Pod{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list[i].Object, p); err != nil {
				return nil, err
			}
			pods = append(pods, p)
			marks = append(marks, mark(p))
		}
		s.states[o.String()] = state(o, live, pods)
	}
	slices.Sort(marks)
	s.marks = strings.Join(marks, "\n") + s.ill()
	return s, nil
}

// mark is what of a pod has to be at rest before the outcome is read. Restarts are not part of it: a program that crashes
// goes on crashing.
func mark(p *corev1.Pod) string {
	words := []string{string(p.Status.Phase), p.Status.Reason, fmt.Sprint(p.Spec.NodeName != "")}
	for _, c := range p.Status.Conditions {
		words = append(words, string(c.Type), string(c.Status), c.Reason)
	}
	return strings.Join(words, " ")
}

// state says what of a workload is not as wanted; "": it runs. A Job that is done is as good as one that runs.
func state(o object, live *unstructured.Unstructured, pods []*corev1.Pod) string {
	number := func(fields ...string) int64 {
		n, _, _ := unstructured.NestedInt64(live.Object, fields...)
		return n
	}
	ready := int64(0)
	for _, p := range pods {
		if p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		}) {
			ready++
		}
	}
	want := int64(1)
	switch o.kind.name {
	case "Deployment", "StatefulSet":
		want = number("spec", "replicas")
		if number("status", "observedGeneration") < live.GetGeneration() {
			return "not observed yet"
		}
		if updated := number("status", "updatedReplicas"); updated < want {
			return fmt.Sprintf("%d of %d pods updated", updated, want)
		}
		if now := number("status", "readyReplicas"); now < want {
			return fmt.Sprintf("%d of %d pods ready", now, want)
		}
		if total := number("status", "replicas"); total > want {
			return fmt.Sprintf("%d pods of the last revision", total-want)
		}
	case "Job":
		if number("status", "succeeded") > 0 {
			return ""
		}
		want = number("spec", "parallelism")
		if n, ok, _ := unstructured.NestedInt64(live.Object, "spec", "completions"); ok && n < want {
			want = n // its controller makes no more than are to complete
		}
	}
	if want == 0 {
		return "wants no pods"
	}
	if ready < want {
		return fmt.Sprintf("%d of %d pods ready", ready, want)
	}
	return ""
}

// settle waits until the outcome is clear: all workloads run, or nothing has changed for a while.
func (x *cell) settle(ctx context.Context) (*sight, error) {
	var last *sight
	start := time.Now()
	same := start
	for {
		s, err := x.look(ctx)
		if err != nil {
			return nil, err
		}
		if s.ill() == "" && time.Since(start) > well {
			return s, nil
		}
		if last == nil || last.marks != s.marks {
			same = time.Now()
		}
		last = s
		if now := time.Since(start); s.ill() != "" && time.Since(same) > still && now > shown || now > tooLong {
			return s, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(300 * time.Millisecond):
		}
	}
}

const (
	well    = time.Second      // old pods may still look healthy for a moment
	still   = 3 * time.Second  // without a change, an outcome is final
	shown   = 5 * time.Second  // before that, a slow start looks like a failure
	tooLong = 40 * time.Second // what changes all the time is read as it is
)

func equal(a, b any) bool {
	x, errA := json.Marshal(a)
	y, errB := json.Marshal(b)
	return errA == nil && errB == nil && string(x) == string(y)
}
