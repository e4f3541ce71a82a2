package scheduler

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/cluster"
)

// facts are what diagnosis reads of the world, with what the scheduler answers about the pods that wait.
func (w *world) facts(s *scheduler) *facts.Facts {
	w.t.Helper()
	ctx := context.Background()
	f := &facts.Facts{At: time.Now(), Kubernetes: "v1.37.1"}
	pods, err := w.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range pods.Items {
		f.Pods = append(f.Pods, &pods.Items[i])
	}
	nodes, _ := w.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	for i := range nodes.Items {
		f.Nodes = append(f.Nodes, &nodes.Items[i])
	}
	jobs, _ := w.client.BatchV1().Jobs("").List(ctx, metav1.ListOptions{})
	for i := range jobs.Items {
		f.Jobs = append(f.Jobs, &jobs.Items[i])
	}
	config := s.Configuration()
	f.Served = &facts.Served{Scheduler: config.Name, Names: config.SchedulerNames, Levels: config.Engine.Levels, Workloads: make(map[string]facts.ServedWorkload)}
	for _, p := range f.Pods {
		if p.Spec.NodeName != "" {
			continue
		}
		name := f.WorkloadOf(p)
		if a, err := s.Workload(ctx, p.Namespace, name); err == nil && a.Cause != "" {
			f.Served.Workloads[p.Namespace+"/"+name] = facts.ServedWorkload{Explanation: why.Explanation{Verdict: a.Verdict, Cause: a.Cause, Gates: a.Gates, Certificates: a.Certificates}, Sentence: a.Sentence}
		}
	}
	return f
}

// Diagnosis names the cause that the live scheduler names, or says what is behind it: under every policy, with levels of
// the cluster's own, and also where no object shows what the scheduler remembers.
func TestDiagnosisAgreesWithTheScheduler(t *testing.T) {
	limit := func(name string, gpus int64) *v1alpha1.BerthQueue {
		return &v1alpha1.BerthQueue{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.QueueSpec{
			Resources: []v1alpha1.QueueResource{{Name: "nvidia.com/gpu", Limit: resource.NewQuantity(gpus, resource.DecimalSI)}},
		}}
	}
	list := func(all ...any) (out []runtime.Object) {
		for _, o := range all {
			switch o := o.(type) {
			case []runtime.Object:
				out = append(out, o...)
			case runtime.Object:
				out = append(out, o)
			}
		}
		return out
	}
	strict := func(o *Options) { o.Engine.Policy = engine.Strict }
	halls := func(o *Options) { o.Engine.Levels = []engine.Level{{Name: "hall", Label: "rack"}} }
	for name, c := range map[string]struct {
		set   func(*Options)
		first []runtime.Object // that run
		then  []runtime.Object
		want  map[string]why.Cause // by pod; the diagnosis names the same
	}{
		"behind a head": {
			strict, list(node("n1", "r1", 8), limit("q", 64), pod("runs", 1, "queue", "q")),
			list(pod("a-large", 8, "queue", "q"), pod("b-small", 1, "queue", "q")),
			map[string]why.Cause{"a-large": why.ClusterFull, "b-small": why.BehindTheHead},
		},
		"by default it passes": {nil, list(node("n1", "r1", 8), limit("q", 64), pod("runs", 1, "queue", "q")), list(pod("a-large", 8, "queue", "q")), map[string]why.Cause{"a-large": why.ClusterFull}},
		"a limit":              {nil, list(node("n1", "r1", 8), limit("q", 2), pod("runs", 2, "queue", "q")), list(pod("more", 1, "queue", "q"), pod("much", 3, "queue", "q")), map[string]why.Cause{"more": why.OverQueueLimit, "much": why.ExceedsQueueMaximum}},
		"no such queue":        {nil, list(node("n1", "r1", 8)), list(pod("lost", 1, "queue", "nowhere")), map[string]why.Cause{"lost": why.QueueMissing}},
		"a level of its own": {
			halls, list(node("n1", "r1", 1), node("n2", "r2", 1)), list(gang("wide", 2, "topology-required", "hall")),
			map[string]why.Cause{"wide-0": why.TopologyFragmented},
		},
		"an unknown level": {halls, list(node("n1", "r1", 8)), list(gang("wide", 2, "topology-required", "rock")), nil},
		"too large":        {nil, list(node("n1", "r1", 8)), list(pod("huge", 16)), map[string]why.Cause{"huge": why.LargerThanAnyNode}},
		"in pieces":        {nil, list(node("n1", "r1", 2), node("n2", "r2", 2), pod("runs", 1), pod("too", 2)), list(pod("two", 2)), nil},
		"half a gang":      {nil, list(node("n1", "r1", 8)), list(gang("half", 4)[:2]), map[string]why.Cause{"half-0": why.GangIncomplete}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, c.first...)
				var set []func(*Options)
				if c.set != nil {
					set = append(set, c.set)
				}
				s := w.source(set...)
				for _, o := range c.then {
					w.add(o)
				}
				w.after(10 * time.Second)
				f := w.facts(s)
				queues, _ := w.queues.List(context.Background(), metav1.ListOptions{})
				for i := range queues.Items {
					u, _ := runtime.DefaultUnstructuredConverter.ToUnstructured(&queues.Items[i])
					o := &unstructured.Unstructured{Object: u}
					o.SetAPIVersion("berth.dev/v1alpha1")
					o.SetKind(v1alpha1.QueueKind)
					facts.KindOf("berth.dev", v1alpha1.QueueKind).Add(&f.Objects, o)
				}
				d := diagnose.New(f, cluster.NewModel(cluster.ModelOptions{Engine: s.Configuration().Engine, For: s.Configuration().SchedulerNames}))
				asked := 0
				for _, p := range f.Pods {
					if p.Spec.NodeName != "" {
						continue
					}
					asked++
					got, err := d.Why(facts.Ref{Kind: "Pod", Namespace: p.Namespace, Name: p.Name})
					if err != nil {
						t.Fatal(err)
					}
					said := fmt.Sprintf("%s: the scheduler says %+v, berth why %s %s: %s", p.Name, got.Scheduler, got.Layer, got.Cause, got.Summary)
					if got.Scheduler == nil || got.Scheduler.Cause == "" || !got.Scheduler.Answers || got.Cause == diagnose.Healthy || got.Cause == diagnose.Unknown {
						t.Error(said)
					}
					if want := c.want[p.Name]; want != "" && (got.Scheduler == nil || got.Scheduler.Cause != want || got.Cause != want) {
						t.Errorf("%s; want %s", said, want)
					}
				}
				if asked == 0 {
					t.Error("nothing waits")
				}
				for name := range c.want {
					if w.pod(name).Spec.NodeName != "" {
						t.Errorf("%s runs", name)
					}
				}
			})
		})
	}
}
