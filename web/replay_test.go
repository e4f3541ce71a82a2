package web

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/capacity/bill"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/engine"
)

func amount(n int64) engine.Resources {
	return engine.Resources{{Resource: "nvidia.com/gpu", Value: n}}
}

func toldNode(name, block, rack string) engine.Change {
	return engine.Change{Node: &engine.Node{Name: name, Version: 1, Labels: map[string]string{v1alpha1.LabelBlock: block, v1alpha1.LabelRack: rack, "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}, Allocatable: amount(8)}}
}

func toldPod(gang, key, queue, node string, gpus int64, version uint64) engine.Change {
	p := &engine.Pod{Key: key, UID: key, Gang: gang, Queue: queue, Node: node, Version: version}
	p.Requests = amount(gpus)
	return engine.Change{Pod: p}
}

// told is a history of some hours: gangs of four that come at random, wait for room, run for some time and are preempted now and then.
func told(nodes int, from, to time.Time) (steps []bill.Step) {
	random := rand.New(rand.NewPCG(1, 2))
	first := bill.Step{Now: from, Fresh: true}
	broken := min(1, nodes/16) // racks of four at the end that nothing runs on
	for i := range nodes {
		n := toldNode(fmt.Sprintf("gpu-%04d", i), fmt.Sprintf("block-%d", i/64), fmt.Sprintf("rack-%d", i/4))
		n.Node.Labels["nvidia.com/gpu.count"] = "8"
		switch nodes - i {
		case 4 * broken:
			n.Node.Taints = []engine.Taint{{Key: "node.kubernetes.io/not-ready", Effect: engine.NoExecute}}
		case 4*broken - 1:
			n.Node.Cordoned = true
		case 4*broken - 2:
			n.Node.Allocatable = amount(6)
		}
		first.Changes = append(first.Changes, n)
	}
	steps = append(steps, first)
	type gang struct {
		key, queue string
		at         int
		until      time.Time
	}
	var running, waiting []gang
	free := map[int]bool{}
	for i := range nodes/4 - broken {
		free[i] = true
	}
	version := uint64(2)
	pods := func(g gang, node func(i int) string) (out []engine.Change) {
		version++
		for i := range 4 {
			out = append(out, toldPod("", fmt.Sprintf("%s-%d", g.key, i), g.queue, node(i), 8, version))
		}
		return out
	}
	for now, n := from, 0; now.Before(to); now = now.Add(2 * time.Minute) {
		s := bill.Step{Now: now}
		keep := running[:0]
		for _, g := range running {
			preempted := random.IntN(400) == 0
			if now.Before(g.until) && !preempted {
				keep = append(keep, g)
				continue
			}
			version++
			for i := range 4 {
				key := fmt.Sprintf("%s-%d", g.key, i)
				s.Changes = append(s.Changes, engine.Change{Gone: &engine.Ref{Kind: engine.KindPod, Key: key, Version: version}})
				if preempted {
					steps[len(steps)-1].Evictions = append(steps[len(steps)-1].Evictions, engine.Eviction{Pod: key, Cause: engine.Preempted})
				}
			}
			free[g.at] = true
		}
		running = keep
		for range random.IntN(max(1, nodes/32)) {
			g := gang{key: fmt.Sprintf("team-%d/train-%d", n%3, n), queue: []string{"vision", "language", "serving"}[n%3]}
			n++
			waiting = append(waiting, g)
			s.Changes = append(s.Changes, pods(g, func(int) string { return "" })...)
		}
		for at := range nodes / 4 {
			if len(waiting) == 0 || !free[at] {
				continue
			}
			g := waiting[0]
			waiting, free[at] = waiting[1:], false
			g.at, g.until = at, now.Add(time.Duration(20+random.IntN(200))*time.Minute)
			running = append(running, g)
			s.Changes = append(s.Changes, pods(g, func(i int) string { return fmt.Sprintf("gpu-%04d", 4*at+i) })...)
		}
		steps = append(steps, s)
	}
	return steps
}

// TestReplay reads a moment, a span and a difference of a short history.
func TestReplay(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	ago := func(minutes int) time.Time { return now.Add(-time.Duration(minutes) * time.Minute) }
	cordoned := toldNode("b", "block-0", "rack-1")
	cordoned.Node.Cordoned = true
	fewer := toldNode("d", "block-1", "rack-9")
	fewer.Node.Labels["nvidia.com/gpu.count"], fewer.Node.Allocatable = "8", amount(6)
	away := toldNode("e", "block-1", "rack-9")
	away.Node.Taints = []engine.Taint{{Key: "node.kubernetes.io/unreachable", Effect: engine.NoExecute}}
	q := &scripted{steps: []bill.Step{
		{Now: ago(60), Fresh: true, Changes: []engine.Change{toldNode("a", "block-0", "rack-0"), cordoned, toldPod("x/gang/g", "x/1", "q", "", 3, 1), toldPod("x/gang/g", "x/2", "q", "", 3, 1)}},
		{Now: ago(30), Changes: []engine.Change{toldPod("x/gang/g", "x/1", "q", "a", 3, 2), toldPod("x/gang/g", "x/2", "q", "a", 3, 2), toldNode("c", "block-1", "rack-9"), fewer, away, toldPod("", "x/3", "q", "d", 5, 2)}},
	}}
	_, get := serve(t, newAPIServer(t), q)
	read := func(path string, into any) {
		t.Helper()
		r := get(path)
		if err := json.NewDecoder(r.Body).Decode(into); err != nil || r.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %v", path, r.StatusCode, err)
		}
	}
	var m momentRow
	read(fmt.Sprintf("/api/moment?at=%d", ago(20).UnixMilli()), &m)
	want := map[string]*node{
		"a": {Block: "block-0", Rack: "rack-0", Model: "NVIDIA-H100-80GB-HBM3", GPUs: []run{
			{N: 3, Stage: "allocated", Pods: []string{"x/1"}, Work: "x/gang/g"}, {N: 3, Stage: "allocated", Pods: []string{"x/2"}, Work: "x/gang/g"}, {N: 2, Stage: "schedulable"},
		}},
		"b": {Block: "block-0", Rack: "rack-1", Model: "NVIDIA-H100-80GB-HBM3", GPUs: []run{{N: 8, Stage: "healthy", Cause: "node-cordoned"}}},
		"c": {Block: "block-1", Rack: "rack-9", Model: "NVIDIA-H100-80GB-HBM3", GPUs: []run{{N: 8, Stage: "schedulable"}}},
		"d": {Block: "block-1", Rack: "rack-9", Model: "NVIDIA-H100-80GB-HBM3", GPUs: []run{
			{N: 5, Stage: "allocated", Pods: []string{"x/3"}, Work: "x/3"}, {N: 1, Stage: "schedulable"}, {N: 2, Stage: "ready", Cause: "device-not-advertised"},
		}},
		"e": {Block: "block-1", Rack: "rack-9", Model: "NVIDIA-H100-80GB-HBM3", GPUs: []run{{N: 8, Stage: "registered", Cause: "node-not-ready"}}},
	}
	if diff := cmp.Diff(want, m.Nodes); diff != "" {
		t.Error(diff)
	}
	if m.Sum.GPUs != 40 || m.Sum.Held != 11 || m.Workloads["x/gang/g"].Nodes != 1 {
		t.Errorf("%+v %+v", m.Sum, m.Workloads)
	}
	var d struct {
		Before, After sumRow
		Work          []struct{ Key, What string }
		Came, Went    []string
	}
	read(fmt.Sprintf("/api/difference?from=%d&to=%d", ago(40).UnixMilli(), ago(10).UnixMilli()), &d)
	if len(d.Work) != 2 || d.Work[0].What != "starts" || d.Before.Waiting != 6 || d.After.Held != 11 || cmp.Diff(d.Came, []string{"c", "d", "e"}) != "" || len(d.Went) != 0 {
		t.Errorf("%+v", d)
	}
	var p struct {
		Points []pastRow
		Waits  waited
	}
	read(fmt.Sprintf("/api/past?from=%d&to=%d&parts=4", ago(120).UnixMilli(), now.UnixMilli()), &p)
	if len(p.Points) != 4 || p.Points[0].Held == nil || *p.Points[0].Held != 0 || *p.Points[0].Waiting != 6 || *p.Points[3].Held != 11 || *p.Points[3].GPUs != 40 || p.Waits.N != 1 || p.Waits.P95 != 1800 {
		t.Errorf("%+v", p)
	}
	for _, bad := range []string{"/api/past?from=9&to=3&parts=4", "/api/past?from=1&to=3&parts=0", "/api/past?from=3&to=3&parts=2", "/api/moment?at=x", "/api/difference?from=5", "/api/cost?from=1"} {
		if r := get(bad); r.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d", bad, r.StatusCode)
		}
	}
}

// TestMIG counts the instances of a node whose GPUs are divided, and those that pods hold; those that ended hold none.
func TestMIG(t *testing.T) {
	n := gpuNode("m", "b", "r", 2)
	n.Status.Allocatable = corev1.ResourceList{"nvidia.com/mig-3g.40gb": resource.MustParse("2"), "nvidia.com/mig-1g.10gb": resource.MustParse("8"), "nvidia.com/mig-0": resource.MustParse("1"), "nvidia.com/gpu": resource.MustParse("0")}
	pod := func(phase corev1.PodPhase) *corev1.Pod {
		p := gpuPod("x", "p"+string(phase), "m", 1)
		p.Status.Phase = phase
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"nvidia.com/mig-1g.10gb": resource.MustParse("3")}
		return p
	}
	f := &facts.Facts{At: time.Now()}
	f.Nodes, f.Pods = []*corev1.Node{n}, []*corev1.Pod{pod(corev1.PodRunning), pod(corev1.PodSucceeded)}
	want := []part{{Profile: "3g.40gb", Slices: 3, N: 2}, {Profile: "1g.10gb", Slices: 1, N: 8, Held: 3}}
	if diff := cmp.Diff(want, fleetOf(f)["m"].MIG); diff != "" {
		t.Error(diff)
	}
}
