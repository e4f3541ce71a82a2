package engine_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
)

// A node has room for the pod exactly when the pod, told to go there and nowhere else, starts.
func TestPerNodeIsWhereThePodWouldStart(t *testing.T) {
	often(t, 10, func(t *rapid.T) {
		cfg, snap := anyConfig(t), anyCluster(t)
		p := engine.Pod{Key: "pod", UID: "u", Spec: anySpec(t), Priority: pick[int32](t, 0, 5)}
		p.GPU.Models = p.GPU.Models[:min(1, len(p.GPU.Models))]
		anyMemory(t, &snap, engine.Gang{Key: "pod"}, []engine.Pod{p})
		var want []string
		for _, n := range snap.Nodes {
			only := p
			only.NodeName = n.Name
			if p.NodeName != "" && p.NodeName != n.Name {
				continue
			}
			if verdict(engine.Schedule(plus(snap, only), noon, cfg), "pod") == why.Placed {
				want = append(want, n.Name)
			}
		}
		cert, _ := engine.Load(plus(snap, p), cfg).PerNode("pod", noon)
		if diff := cmp.Diff(want, withRoom(cert)); diff != "" {
			t.Fatalf("nodes with room (-where it starts +PerNode):\n%s\n%s", diff, text(t, plus(snap, p)))
		}
	})
}

// withRoom lists the domains of the certificate that the pod fits in.
func withRoom(cert why.Certificate) (names []string) {
	for _, d := range cert.Domains {
		if d.Fits > 0 {
			names = append(names, d.Name)
		}
	}
	return names
}

// plus is the snapshot with one more pod.
func plus(snap engine.Snapshot, p engine.Pod) engine.Snapshot {
	snap.Pods = append(slices.Clone(snap.Pods), p)
	return snap
}

// Asking where a pod could be changes no other answer.
func TestAskingForNodesChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := lived(anyConfig(t), anyHistory(t))
		before := answers(t, s, noon)
		for _, key := range workloads(s.Dump()) {
			s.PerNode(key, soon(t))
			s.Try(key, soon(t))
		}
		if diff := cmp.Diff(before, answers(t, s, noon)); diff != "" {
			t.Fatalf("after asking:\n%s", diff)
		}
	})
}

// In the certificate per node every node is once, and a node without room says why.
func TestPerNodeHasEveryNodeOnce(t *testing.T) {
	often(t, 10, func(t *rapid.T) {
		snap := anyCluster(t)
		p := engine.Pod{Key: "pod", UID: "u", Spec: anySpec(t), Priority: pick[int32](t, 0, 5)}
		p.GPU.Models = p.GPU.Models[:min(1, len(p.GPU.Models))]
		anyMemory(t, &snap, engine.Gang{Key: "pod"}, []engine.Pod{p})
		s := engine.Load(plus(snap, p), anyConfig(t))
		cert, ok := s.PerNode("pod", noon)
		if !ok {
			return
		}
		var all []string
		for _, d := range cert.Domains {
			all = append(all, d.Name)
			if len(d.Rows) != 1 || d.Rows[0].Nodes != 1 || d.Rows[0].Example != d.Name {
				t.Fatalf("rows of %s: %s", d.Name, text(t, d.Rows))
			}
			if d.Fits == 0 && len(d.Rows[0].Removed)+len(d.Rows[0].Short) == 0 {
				t.Fatalf("no reason on %s\n%s\n%s", d.Name, text(t, cert), text(t, plus(snap, p)))
			}
		}
		var names []string
		for _, n := range accepted(s).Nodes {
			names = append(names, n.Name)
		}
		if diff := cmp.Diff(names, all); diff != "" {
			t.Fatalf("nodes (-known +counted):\n%s", diff)
		}
	})
}

func TestPerNode(t *testing.T) {
	gpus := func(n int64) engine.Resources { return engine.Resources{{Resource: "nvidia.com/gpu", Value: n}} }
	node := func(name string, change func(*engine.Node)) engine.Node {
		n := engine.Node{Name: name, Labels: map[string]string{"zone": "a"}, Allocatable: append(gpus(8), engine.Amount{Resource: engine.Pods, Value: 10})}
		change(&n)
		return n
	}
	snap := engine.Snapshot{
		Nodes: []engine.Node{
			node("cordoned", func(n *engine.Node) { n.Cordoned = true }),
			node("elsewhere", func(n *engine.Node) { n.Labels["zone"] = "b" }),
			node("free", func(*engine.Node) {}),
			node("full", func(*engine.Node) {}),
			node("tainted", func(n *engine.Node) { n.Taints = []engine.Taint{{Key: "k", Effect: engine.NoSchedule}} }),
		},
		Pods: []engine.Pod{
			{Key: "holder", Node: "full", Spec: engine.Spec{Requests: gpus(6)}},
			{Key: "pod", Gang: "missing", Spec: engine.Spec{Requests: gpus(4), Selector: map[string]string{"zone": "a"}, Features: []why.Feature{why.PodAffinity}}},
		},
	}
	s := engine.Load(snap, engine.Config{})
	cert, ok := s.PerNode("pod", noon)
	if !ok || cert.Need != 1 || cert.Level != engine.NodeLevel || cert.Total != 2 {
		t.Errorf("%v %s", ok, text(t, cert))
	}
	want := []string{
		"cordoned 0: 1 node cordoned", "elsewhere 0: selector zone=a excludes 1 node", "free 2:",
		"full 0: nvidia.com/gpu short by 2 on 1 node", "tainted 0: taint k:NoSchedule excludes 1 node",
	}
	var got []string
	for _, d := range cert.Domains {
		line := fmt.Sprintf("%s %d:", d.Name, d.Fits)
		for _, c := range d.Rows[0].Removed {
			line += " " + c.Text()
		}
		for _, s := range d.Rows[0].Short {
			line += " " + s.Text()
		}
		got = append(got, line)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, key := range []string{"holder", "nobody"} {
		if _, ok := s.PerNode(key, noon); ok {
			t.Errorf("%s is to be placed", key)
		}
	}
}
