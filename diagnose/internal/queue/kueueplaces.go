package queue

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/kube/dialect"
	"github.com/berth-dev/berth/kube/dialect/kueue"
)

// What Kueue's quotas and topologies mean on nodes.

// kueuePromise is a flavor of which ClusterQueues together hand out more than its nodes have.
type kueuePromise struct {
	Flavor, Resource string
	Quota, Have      int64
	Nodes            int
}

// KueuePromised is the first such flavor of the ClusterQueue, devices only; nil where there is none, or nodes cannot be
// seen.
func KueuePromised(f *facts.Facts, cluster *unstructured.Unstructured) *kueuePromise {
	if cluster == nil || !f.Sees("nodes", "") {
		return nil
	}
	for _, group := range dialect.Items(cluster.Object, "spec", "resourceGroups") {
		for _, flavor := range dialect.Items(group, "flavors") {
			for _, r := range dialect.Items(flavor, "resources") {
				p := kueuePromise{Flavor: dialect.Text(flavor, "name"), Resource: dialect.Text(r, "name")}
				if !strings.Contains(p.Resource, "/") {
					continue
				}
				for _, other := range f.Foreign[kueue.ClusterQueues] {
					p.Quota += KueueQuota(f, other, p.Flavor, p.Resource).Nominal
				}
				for _, n := range kueueNodes(f, p.Flavor) {
					p.Nodes++
					p.Have += podspec.Amount(p.Resource, n.Status.Allocatable[corev1.ResourceName(p.Resource)])
				}
				if p.Quota > p.Have {
					return &p
				}
			}
		}
	}
	return nil
}

// kueueNodes are the nodes that the flavor's labels select.
func kueueNodes(f *facts.Facts, flavor string) []*corev1.Node {
	u := f.ForeignNamed(kueue.ResourceFlavors, "", flavor)
	if u == nil {
		return nil
	}
	want := dialect.StringMap(u.Object, "spec", "nodeLabels")
	var out []*corev1.Node
	for _, n := range f.Nodes {
		matches := true
		for k, v := range want {
			matches = matches && n.Labels[k] == v
		}
		if matches {
			out = append(out, n)
		}
	}
	return out
}

// KueueLevels are the node labels of the topologies that the ClusterQueue's flavors have, the widest first.
func KueueLevels(f *facts.Facts, cluster *unstructured.Unstructured) []string {
	if cluster == nil {
		return nil
	}
	var out []string
	for _, group := range dialect.Items(cluster.Object, "spec", "resourceGroups") {
		for _, flavor := range dialect.Items(group, "flavors") {
			u := f.ForeignNamed(kueue.ResourceFlavors, "", dialect.Text(flavor, "name"))
			if u == nil {
				continue
			}
			topology := f.ForeignNamed("Topology.kueue.x-k8s.io", "", dialect.Text(u.Object, "spec", "topologyName"))
			if topology == nil {
				continue
			}
			for _, level := range dialect.Items(topology.Object, "spec", "levels") {
				if key := dialect.Text(level, "nodeLabel"); !slices.Contains(out, key) {
					out = append(out, key)
				}
			}
		}
	}
	return out
}

// KueueMost is how many such pods the best domain of the level has room for.
func KueueMost(f *facts.Facts, level string, spec *corev1.PodSpec) int64 {
	rooms := make(map[string]int64)
	var most int64
	for _, n := range f.Nodes {
		domain := n.Labels[level]
		if domain == "" || n.Spec.Unschedulable {
			continue
		}
		rooms[domain] += holdsPods(f, n, spec)
		most = max(most, rooms[domain])
	}
	return most
}

// holdsPods is how many such pods what is free on the node has room for.
func holdsPods(f *facts.Facts, n *corev1.Node, spec *corev1.PodSpec) int64 {
	free := make(map[string]int64)
	for name, q := range n.Status.Allocatable {
		free[string(name)] = podspec.Amount(string(name), q)
	}
	free[string(corev1.ResourcePods)] -= int64(len(f.PodsOn(n.Name)))
	for _, p := range f.PodsOn(n.Name) {
		for name, v := range podspec.Amounts(&p.Spec) {
			free[name] -= v
		}
	}
	return int64(podspec.Holds(free, spec))
}

// KueuePods is how many pods of the target's Workload have to be together.
func KueuePods(c *check.Case, v *KueueView) int64 {
	var n int64
	for _, set := range kueuePodSets(c.Facts, v.Work) {
		n = max(n, set.count)
	}
	return n
}

// KueueTopology is the level that the pods must be together at, as they were written, and a way to change it: to
// another level, or with preferred to a wish.
func KueueTopology(c *check.Case) string { return place.Written(c).Annotations[kueue.RequiredTopology] }

// KueueRelevel asks for another topology level.
func KueueRelevel(c *check.Case, level string) edit.Edit {
	return edit.Edit{Side: edit.Workload, Cost: 2, Ops: []edit.Op{{Op: "replace", Path: edit.Pointer("metadata", "annotations", kueue.RequiredTopology), Value: level}}, Text: "require one domain of " + level + " instead of " + KueueTopology(c)}
}

// KueueRelax asks for the topology level as a preference.
func KueueRelax(c *check.Case) edit.Edit {
	return edit.Edit{
		Side: edit.Workload, Cost: 2, Text: "prefer one domain of " + KueueTopology(c) + " instead of requiring it",
		Ops: []edit.Op{
			{Op: "remove", Path: edit.Pointer("metadata", "annotations", kueue.RequiredTopology)},
			{Op: "add", Path: edit.Pointer("metadata", "annotations", kueue.PreferredTopology), Value: KueueTopology(c)},
		},
	}
}
