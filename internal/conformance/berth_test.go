package conformance

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/convert"
)

var noon = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

// ours is how pods of the tests are read: those without a scheduler's name are Berth's.
var ours = convert.Options{SchedulerNames: []string{""}, Around: convert.Around{Namespaces: selectedSpaces}}

// berth is the engine with a fleet, fed the way the live scheduler feeds it.
type berth struct {
	state   *engine.State
	nodes   []*corev1.Node
	storage convert.Storage
	asked   uint64 // questions so far, which are the versions of the pods they are about
}

func newBerth(t rapid.TB, f fleet, s storage) *berth {
	snap := engine.Snapshot{Version: engine.SnapshotVersion}
	for _, n := range f.nodes {
		snap.Nodes = append(snap.Nodes, convert.Node(n, ours))
	}
	for _, p := range slices.Concat(f.bound, f.nominated) {
		snap.Pods = append(snap.Pods, convert.Pod(p, ours))
	}
	b := &berth{state: engine.Load(snap, engine.Config{}), nodes: f.nodes, storage: s.lookup(f.nodes)}
	for _, r := range b.state.Rejected() {
		t.Fatalf("berth rejects %s %s: %s", r.Kind, r.Key, r.Reason)
	}
	return b
}

// ask gives the engine the pod for the time of a question.
func (b *berth) ask(t rapid.TB, p *corev1.Pod, question func(key string)) {
	v := convert.Pod(p, ours)
	v.Node, v.NodeName = "", p.Spec.NodeName // spec.nodeName of a pod that waits is a rule, not a fact
	names, constrained, missing := b.storage.AllowedNodes(p, b.nodes)
	switch {
	case len(missing) > 0: // the live scheduler keeps such a pod back
		v.Nodes = []string{}
	case constrained:
		v.Nodes = names
	}
	b.asked++
	v.Version = b.asked
	for _, r := range b.state.Apply(engine.Change{Pod: &v}) {
		t.Fatalf("berth rejects %s: %s", r.Key, r.Reason)
	}
	question(v.Key)
	b.state.Apply(engine.Change{Gone: &engine.Ref{Kind: engine.KindPod, Key: v.Key, Version: v.Version}}, engine.Change{Settled: v.Version})
}

// feasible returns the nodes that Berth would have the pod on.
func (b *berth) feasible(t rapid.TB, p *corev1.Pod) map[string]bool {
	out := make(map[string]bool)
	b.ask(t, p, func(key string) {
		cert, _ := b.state.PerNode(key, noon)
		for _, d := range cert.Domains {
			if d.Fits > 0 {
				out[d.Name] = true
			}
		}
	})
	return out
}

// verdict returns the answer of a plan about the pod, and what it names.
func (b *berth) verdict(t rapid.TB, p *corev1.Pod) (v why.Verdict, names []string) {
	b.ask(t, p, func(key string) {
		e := b.state.Explain(key, noon, 0)
		v = e.Verdict
		for _, g := range e.Gates {
			names = append(names, g.Object)
		}
	})
	return v, names
}

// lookup is the storage as the live scheduler would have it.
func (s storage) lookup(nodes []*corev1.Node) convert.Storage {
	return convert.Storage{
		Claim:  func(_, name string) *corev1.PersistentVolumeClaim { return s.claims[name] },
		Volume: func(name string) *corev1.PersistentVolume { return s.volumes[name] },
		Class:  func(name string) *storagev1.StorageClass { return s.classes[name] },
		Free:   func(string, *corev1.Node) []*corev1.PersistentVolume { return nil },
		HasNode: func(name string) bool {
			return slices.ContainsFunc(nodes, func(n *corev1.Node) bool { return n.Name == name })
		},
	}
}
