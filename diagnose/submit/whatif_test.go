package submit

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/diagnose/facts"
)

// drawCluster is nodes of a pool, with pods of ReplicaSets and of nobody on some, and some that wait.
func drawCluster(t *rapid.T) *facts.Facts {
	f := clusterOf(rapid.IntRange(1, 5).Draw(t, "nodes"), 0)
	free := make(map[string]int64)
	for _, n := range f.Nodes {
		n.Labels["gpu-pool"] = "p"
		free[n.Name] = 8
	}
	for i := range rapid.IntRange(0, 8).Draw(t, "pods") {
		gpus := int64(rapid.IntRange(1, 8).Draw(t, "GPUs"))
		name := fmt.Sprintf("work-%d", i)
		rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID("rs-" + name)}}
		rs.Spec.Replicas = new(int32(1))
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name + "-x", UID: types.UID(name), CreationTimestamp: metav1.NewTime(now)}, Status: corev1.PodStatus{Phase: corev1.PodPending}}
		asks := corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(gpus, resource.DecimalSI)}
		p.Spec = corev1.PodSpec{SchedulerName: "default-scheduler", Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: asks, Limits: asks}}}}
		if rapid.IntRange(0, 3).Draw(t, "owned") > 0 {
			p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(rs, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
			f.ReplicaSets = append(f.ReplicaSets, rs)
		}
		if n := rapid.SampledFrom(f.Nodes).Draw(t, "node"); free[n.Name] >= gpus && rapid.Bool().Draw(t, "runs") {
			free[n.Name] -= gpus
			p.Spec.NodeName, p.Status.Phase = n.Name, corev1.PodRunning
		}
		f.Pods = append(f.Pods, p)
	}
	return f
}

func imagined(t *rapid.T, f *facts.Facts, ch Changes) WhatIf {
	out, err := Imagine(World{Facts: f}, "a", nil, ch)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestImaginedChanges holds laws of what-ifs on drawn clusters.
func TestImaginedChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawCluster(t)
		pods, nodes := len(f.Pods), len(f.Nodes)

		// What changes nothing changes nothing.
		for _, o := range imagined(t, f, Changes{AddNodes: []Count{{"p", 0}}}).Workloads {
			if !o.Before.Same(o.After) {
				t.Fatalf("no node was added, and %s: %+v, then %+v", o.Target, o.Before, o.After)
			}
		}

		// More nodes: as many GPUs more. All are of one priority and have their turns in the same order, so that who starts without
		// them and waits with them has made way for another that now starts: a large one that took what a small one had.
		n := int64(rapid.IntRange(1, 3).Draw(t, "more nodes"))
		w := imagined(t, f, Changes{AddNodes: []Count{{"p", n}}})
		if w.After.GPUs != w.Before.GPUs+8*n || w.After.Nodes != w.Before.Nodes+int(n) || w.After.Used != w.Before.Used || w.After.Waiting > w.Before.Waiting {
			t.Fatalf("%d more nodes: %+v, then %+v", n, w.Before, w.After)
		}
		more := slices.ContainsFunc(w.Workloads, func(o Outcome) bool { return o.Before.State != "starts" && o.After.State == "starts" })
		for _, o := range w.Workloads {
			if o.Before.State == "starts" && o.After.State != "starts" && !more {
				t.Fatalf("with %d more nodes %s no longer starts: %+v", n, o.Target, o.After)
			}
		}

		// A drained node: its pods are placed elsewhere, wait with a cause, or are gone; others' stay where they are.
		at := rapid.SampledFrom(f.Nodes).Draw(t, "drained").Name
		w = imagined(t, f, Changes{Drain: []string{at}})
		if w.After.GPUs != w.Before.GPUs-8 {
			t.Fatalf("drain %s: %+v, then %+v", at, w.Before, w.After)
		}
		for _, p := range f.Pods {
			if p.Spec.NodeName != at {
				continue
			}
			ref := facts.RefTo(p)
			if c := metav1.GetControllerOfNoCopy(p); c != nil {
				ref = facts.Ref{Kind: c.Kind, Namespace: p.Namespace, Name: c.Name}
			}
			i := slices.IndexFunc(w.Workloads, func(o Outcome) bool { return o.Target.Kind == ref.Kind && o.Target.Name == ref.Name })
			if i < 0 {
				t.Fatalf("drain %s: nothing is said of %s: %+v", at, ref, w.Workloads)
			}
			o := w.Workloads[i]
			owned := metav1.GetControllerOfNoCopy(p) != nil
			switch {
			case o.Before.State != "runs",
				!owned && o.After.State != "gone",
				owned && o.After.State != "starts" && (o.After.State != "waits" || o.After.Cause == ""),
				slices.Contains(o.After.Nodes, at):
				t.Fatalf("drain %s: %s was %+v, then %+v", at, ref, o.Before, o.After)
			}
		}

		// One node drained and one like it added is the same to those that wait.
		w = imagined(t, f, Changes{Drain: []string{at}, AddNodes: []Count{{"p", 1}}})
		if w.After.GPUs != w.Before.GPUs || w.After.Nodes != w.Before.Nodes {
			t.Fatalf("one for one: %+v, then %+v", w.Before, w.After)
		}

		if len(f.Pods) != pods || len(f.Nodes) != nodes || slices.ContainsFunc(f.Nodes, func(n *corev1.Node) bool { return n.Spec.Unschedulable || strings.Contains(n.Name, "-new-") }) {
			t.Fatal("the facts were written to")
		}
	})
}

// TestImaginedQuota sets the quota of a namespace, and of nothing else.
func TestImaginedQuota(t *testing.T) {
	f := clusterOf(2, 0)
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "q", UID: "q"}}
	q.Spec.Hard = corev1.ResourceList{"requests.nvidia.com/gpu": resource.MustParse("8")}
	q.Status.Hard = q.Spec.Hard
	f.ResourceQuotas = []*corev1.ResourceQuota{q}
	w, err := Imagine(World{Facts: f}, "a", nil, Changes{Quota: []Count{{"a", 16}}})
	if err != nil || len(w.Changes) != 1 || w.Changes[0] != "set the quota of namespace a to 16 requests.nvidia.com/gpu" {
		t.Errorf("%v %q", err, w.Changes)
	}
	if v := q.Spec.Hard["requests.nvidia.com/gpu"]; v.Value() != 8 {
		t.Error("the quota was changed")
	}
	states := func(ch Changes) (out []string) {
		w, err := Imagine(World{Facts: f}, "a", items(t, deployment("d", 1, 8, "")+"---\n"+deployment("e", 1, 8, "")), ch)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range w.Workloads {
			out = append(out, o.Target.Name+" "+o.After.State+" "+o.After.Cause)
		}
		return out
	}
	if got := states(Changes{}); !slices.Equal(got, []string{"d starts ", "e waits quota-exceeded"}) {
		t.Errorf("8 of 16 GPUs are allowed: %q", got)
	}
	if got := states(Changes{Quota: []Count{{"a", 16}}}); !slices.Equal(got, []string{"d starts ", "e starts "}) {
		t.Errorf("all are allowed: %q", got)
	}
	for _, ch := range []Changes{{Quota: []Count{{"b", 1}}}, {Drain: []string{"node-9"}}, {AddNodes: []Count{{"nowhere", 1}}}} {
		if _, err := Imagine(World{Facts: f}, "a", nil, ch); err == nil {
			t.Errorf("%+v: no error", ch)
		}
	}
}
