package convert_test

import (
	"fmt"
	"maps"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
)

// A fleet of 500 nodes in racks of 16, of five GPU models, each node with 8 GPUs and 70 labels; and 1,000 pods, or 1,000
// members of gangs, each at every limit at once and different from all others, so that nothing is shared.

var limitNow = time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)

var limitModels = []string{"A100", "H100", "H200", "B200", "L40S"}

const limitNodes, limitPods = 500, 1000

// limitNode is node i, with as many labels as a pod may select by.
func limitNode(i int) *corev1.Node {
	labels := map[string]string{
		"kubernetes.io/hostname": fmt.Sprintf("node-%04d", i), "topology.example/rack": fmt.Sprintf("rack-%02d", i/16),
		"nvidia.com/gpu.product": limitModels[i%5], "nvidia.com/gpu.count": "8", "example.com/serial": fmt.Sprint(90000 + i),
	}
	maps.Copy(labels, fleetLabels())
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%04d", i), Labels: labels, ResourceVersion: "1"},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			"cpu": resource.MustParse("192"), "memory": resource.MustParse("2Ti"), "pods": resource.MustParse("110"), "nvidia.com/gpu": resource.MustParse("8"),
		}},
	}
}

// fleetLabels are those that all nodes have.
func fleetLabels() map[string]string {
	out := make(map[string]string)
	for i := range convert.MaxSelectorLabels {
		out[fmt.Sprintf("fleet.example/l%d", i)] = "v"
	}
	return out
}

// limitPod is pod i of the shape: at every limit, and different from all others. Known means that what it asks for is
// such as the fleet has, so that nothing but room keeps it from running.
func limitPod(i int, known bool) *corev1.Pod {
	name := fmt.Sprintf("p%d", i)
	own := func(kind string, n int) string { // short: all of it has to be within MaxPodBytes
		if known {
			return fmt.Sprintf("fleet.example/l%d", n%convert.MaxSelectorLabels)
		}
		return fmt.Sprintf("%s/%s%d", name, kind, n)
	}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "tenant", Name: name, UID: types.UID(name), ResourceVersion: fmt.Sprint(1000 + i), CreationTimestamp: metav1.NewTime(limitNow),
			Annotations: map[string]string{v1alpha1.KeyGPUModel: models(name, known), v1alpha1.KeyUser: strings.Repeat("u", convert.MaxNameBytes-10) + name},
		},
		Spec: corev1.PodSpec{SchedulerName: "berth", NodeSelector: make(map[string]string)},
	}
	for n := range convert.MaxSelectorLabels {
		p.Spec.NodeSelector[own("s", n)] = "v"
	}
	for n := range convert.MaxTolerations {
		p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: fmt.Sprintf("%s/t%d", name, n), Operator: corev1.TolerationOpExists})
	}
	p.Spec.Affinity = &corev1.Affinity{NodeAffinity: affinity(name, own)}
	for n := range convert.MaxContainers {
		c := corev1.Container{Name: fmt.Sprintf("c%d", n), Image: "x"}
		c.Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("10m"), "memory": resource.MustParse(fmt.Sprintf("%dMi", 1+i%7))}
		if n == 0 {
			c.Resources.Requests["nvidia.com/gpu"] = resource.MustParse("1")
		}
		if n < convert.MaxResources-3 && !known {
			c.Resources.Requests[corev1.ResourceName(fmt.Sprintf("%s/r%d", name, n))] = resource.MustParse("1")
		}
		if n < convert.MaxHostPorts {
			c.Ports = append(c.Ports, corev1.ContainerPort{HostPort: int32(1 + (i*convert.MaxHostPorts+n)%65535), ContainerPort: 80})
		}
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
	for n := range convert.MaxVolumes {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: fmt.Sprintf("v%d", n)})
	}
	return p
}

func models(name string, known bool) string {
	var out []string
	for n := range convert.MaxGPUModels - len(limitModels) {
		out = append(out, fmt.Sprintf("%s-m%d", name, n))
	}
	if !known {
		return strings.Join(append(out, "Q1", "Q2", "Q3", "Q4", "Q5"), ",")
	}
	return strings.Join(append(out, limitModels...), ",")
}

// affinity has as many terms, expressions and values as there may be. Each term asks about the node's own name and serial
// number too, by which all nodes differ.
func affinity(name string, own func(string, int) string) *corev1.NodeAffinity {
	out := &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{}}
	perTerm, values := convert.MaxAffinityExpressions/convert.MaxAffinityTerms, convert.MaxAffinityValues/convert.MaxAffinityExpressions
	for n := range convert.MaxAffinityTerms {
		var term corev1.NodeSelectorTerm
		for e := range perTerm {
			r := corev1.NodeSelectorRequirement{Key: own("a", n*perTerm+e), Operator: corev1.NodeSelectorOpNotIn}
			switch e {
			case 0:
				r.Key = "kubernetes.io/hostname"
			case 1:
				r.Key = "example.com/serial"
			}
			for v := range values {
				r.Values = append(r.Values, fmt.Sprintf("%s-%d-%d", name, n, v))
			}
			term.MatchExpressions = append(term.MatchExpressions, r)
		}
		if n%2 == 0 {
			out.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms = append(out.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms, term)
		} else {
			out.PreferredDuringSchedulingIgnoredDuringExecution = append(out.PreferredDuringSchedulingIgnoredDuringExecution, corev1.PreferredSchedulingTerm{Weight: 1, Preference: term})
		}
	}
	return out
}

// limitSite is the fleet as the engine sees it, full or empty.
func limitSite(full bool) *engine.State {
	snap := engine.Snapshot{Version: engine.SnapshotVersion}
	for i := range limitNodes {
		snap.Nodes = append(snap.Nodes, convert.Node(limitNode(i), convert.Options{}))
		if full {
			snap.Pods = append(snap.Pods, engine.Pod{
				Key: fmt.Sprintf("run/p%d", i), Version: 1, Node: fmt.Sprintf("node-%04d", i), Created: limitNow,
				Spec: engine.Spec{Requests: engine.Resources{{Resource: "nvidia.com/gpu", Value: 8}}},
			})
		}
	}
	return engine.Load(snap, engine.Config{Levels: []engine.Level{{Name: "rack", Label: "topology.example/rack"}}})
}

// atLimits converts the objects of 1,000 pods.
func atLimits(tb testing.TB, known bool) []engine.Change {
	tb.Helper()
	var out []engine.Change
	for i := range limitPods {
		v := convert.Pod(limitPod(i, known), convert.Options{})
		if v.Invalid != "" {
			tb.Fatal(v.Invalid)
		}
		out = append(out, engine.Change{Pod: &v})
	}
	return out
}

// gangsAtLimits are as many pods in gangs, each with as many subgroups as there may be and levels of its own.
func gangsAtLimits(tb testing.TB, known bool) []engine.Change {
	tb.Helper()
	var out []engine.Change
	for g := 0; g*convert.MaxSubgroups < limitPods; g++ {
		var pods []*corev1.Pod
		for n := range convert.MaxSubgroups {
			p := limitPod(g*convert.MaxSubgroups+n, known)
			p.Annotations[v1alpha1.KeyGang], p.Annotations[v1alpha1.KeySubgroup] = fmt.Sprintf("g%d", g), fmt.Sprintf("s%d", n)
			level := fmt.Sprintf("g%d/l%d", g, n%convert.MaxLevels)
			if known {
				level = fmt.Sprintf("fleet.example/l%d", n%convert.MaxLevels)
			}
			p.Annotations[v1alpha1.KeyTopologyPreferred] = level
			pods = append(pods, p)
			v := convert.Pod(p, convert.Options{})
			out = append(out, engine.Change{Pod: &v})
		}
		v := convert.NativeGang(pods, nil, nil)
		if v.Invalid != "" {
			tb.Fatal(v.Invalid)
		}
		out = append(out, engine.Change{Gang: &v})
	}
	return out
}

// BenchmarkCycleAtLimits tells the engine of 1,000 pods at all limits and plans. unknown asks for what no node has, full
// for what all nodes have and none has free, and empty for what is free.
func BenchmarkCycleAtLimits(b *testing.B) {
	for _, c := range []struct {
		name        string
		known, full bool
		pods        func(testing.TB, bool) []engine.Change
	}{
		{"unknown", false, true, atLimits}, {"full", true, true, atLimits}, {"empty", true, false, atLimits},
		{"gangs-unknown", false, true, gangsAtLimits}, {"gangs-full", true, true, gangsAtLimits}, {"gangs-empty", true, false, gangsAtLimits},
	} {
		b.Run(c.name, func(b *testing.B) {
			pods := c.pods(b, c.known)
			for b.Loop() {
				b.StopTimer()
				s := limitSite(c.full)
				b.StartTimer()
				if bad := s.Apply(pods...); len(bad) > 0 {
					b.Fatal(bad[0])
				}
				start := time.Now()
				plan := s.Plan(limitNow)
				first := time.Since(start)
				s.Apply(plan.Changes...)
				start = time.Now()
				plan = s.Plan(limitNow.Add(time.Second))
				b.ReportMetric(float64(first.Milliseconds()), "ms/first")
				b.ReportMetric(float64(time.Since(start).Milliseconds()), "ms/second")
				b.ReportMetric(float64(len(plan.Waiting)), "waiting")
				b.StopTimer()
				runtime.KeepAlive(s)
				b.StartTimer()
			}
		})
	}
}

// BenchmarkMemoryAtLimits measures what is kept of a pod at all limits: the trimmed object, the engine's value, and the
// engine's own after two plans.
func BenchmarkMemoryAtLimits(b *testing.B) {
	const many = 4 * limitPods
	heap := func() float64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	for b.Loop() {
		s := limitSite(true)
		before := heap()
		var objects []*corev1.Pod
		for i := range many {
			p := limitPod(i, false)
			convert.Trim(p)
			objects = append(objects, p)
		}
		read := heap()
		for _, p := range objects {
			v := convert.Pod(p, convert.Options{})
			s.Apply(engine.Change{Pod: &v})
		}
		s.Apply(s.Plan(limitNow).Changes...)
		plan := s.Plan(limitNow.Add(time.Second))
		b.ReportMetric((read-before)/many/1024, "KiB/object")
		b.ReportMetric((heap()-read)/many/1024, "KiB/engine")
		runtime.KeepAlive(objects)
		runtime.KeepAlive(plan)
		runtime.KeepAlive(s)
	}
}
