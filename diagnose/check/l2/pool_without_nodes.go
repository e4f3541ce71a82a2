package l2

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var poolWithoutNodesCheck = check.Check{
	Cause: "pool-without-nodes", Layer: check.L2, Owner: check.Platform, Stage: check.Place, Rank: 5,
	Title:   "The pool that is asked for has no nodes",
	Meaning: "The pod asks for nodes of a Pool that exists and has none: its specification cannot be carried out, or it asks for no nodes.",
	Remedy:  "Correct the field of the Pool that its condition Valid names, or give it nodes.",
	Not:     "The pod asks for a pool that does not exist.",
	Find:    poolWithoutNodes,
}

func poolWithoutNodes(c *check.Case) []check.Finding {
	if place.Stuck(c) == nil {
		return nil
	}
	var out []check.Finding
	for _, p := range place.Pools(c.Facts) {
		if p.Spec.Launch != nil || p.Spec.Selects != nil || !asksFor(c, p) || slices.ContainsFunc(c.Nodes, func(n *corev1.Node) bool { return isOf(n, p) }) {
			continue
		}
		object := "pool/" + p.Name
		f := check.Finding{
			Message:  fmt.Sprintf("the pod asks for nodes of pool %s, which has none: it asks for %s", p.Name, wording.Number(place.PoolSize(p), "node")),
			Evidence: []facts.Evidence{{Object: object, Field: "spec.nodes", Value: fmt.Sprint(place.PoolSize(p))}},
		}
		if place.PoolSize(p) == 0 {
			f.Edits = asSibling(c, p, "spec.nodes")
		}
		if valid := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.PoolValid); valid != nil && valid.Status != "True" {
			f.Message = fmt.Sprintf("the pod asks for nodes of pool %s, which has none because it cannot be carried out: %s", p.Name, strings.TrimSuffix(valid.Message, "."))
			f.Evidence = []facts.Evidence{{Object: object, Field: "status.conditions[type=Valid]", Value: valid.Message}}
			f.Advice = fmt.Sprintf("Correct pool %s: %s.", p.Name, strings.TrimSuffix(valid.Message, "."))
			f.Edits = asSibling(c, p, valid.Message)
		}
		out = append(out, f)
	}
	return out
}

// faultyField is the field of a Pool that its condition says is wrong: "gpus" of "spec.gpus[1].model: Invalid value".
var faultyField = regexp.MustCompile(`^spec\.(\w+)`)

// asSibling has the pool's faulty field be as a pool has it that differs in nothing else but its nodes and their place. The nodes
// that come are like those of the sibling.
func asSibling(c *check.Case, p *v1alpha1.Pool, message string) []edit.Edit {
	m := faultyField.FindStringSubmatch(message)
	own := c.ForeignNamed("Pool.berth.dev", "", p.Name)
	if m == nil || own == nil {
		return nil
	}
	for _, o := range place.Pools(c.Facts) {
		other := c.ForeignNamed("Pool.berth.dev", "", o.Name)
		at := slices.IndexFunc(c.Nodes, func(n *corev1.Node) bool { return isOf(n, o) })
		if o.Name == p.Name || at < 0 || !forSameWork(o, p, m[1]) {
			continue
		}
		is, _, _ := unstructured.NestedFieldNoCopy(own.Object, "spec", m[1])
		value, has, _ := unstructured.NestedFieldNoCopy(other.Object, "spec", m[1])
		op := edit.Op{Op: "remove", Path: edit.Pointer("spec", m[1])}
		if has {
			op = edit.Op{Op: "add", Path: edit.Pointer("spec", m[1]), Value: value}
		}
		if reflect.DeepEqual(is, value) {
			continue
		}
		e := edit.Edit{Side: edit.Cluster, Cost: edit.CostWord, Text: fmt.Sprintf("have spec.%s of pool %s be as pool %s has it", m[1], p.Name, o.Name), Command: edit.PatchLine(own, "json", []edit.Op{op}), Assumes: fmt.Sprintf("the nodes are like those of pool %s", o.Name)}
		size := place.PoolSize(p)
		if m[1] == "nodes" {
			size = place.PoolSize(o)
			e.Text = fmt.Sprintf("give pool %s %s, as pool %s has", p.Name, wording.Number(size, "node"), o.Name)
		}
		for i := range size {
			n := c.Nodes[at].DeepCopy()
			n.Name, n.UID = p.NodeName(i), types.UID("to come "+p.NodeName(i))
			maps.Copy(n.Labels, p.NodeLabels(i))
			n.Labels[corev1.LabelHostname] = n.Name
			e.Set = append(e.Set, n)
		}
		return []edit.Edit{e}
	}
	return nil
}

// forSameWork says whether two pools are for the same work: they have the same labels and taints. In the faulty field, values may differ.
func forSameWork(a, b *v1alpha1.Pool, faulty string) bool {
	labels, taints := maps.Equal(a.Spec.Labels, b.Spec.Labels), slices.Equal(a.Spec.Taints, b.Spec.Taints)
	switch faulty {
	case "labels":
		labels = len(b.Spec.Labels) > 0 && slices.Equal(slices.Sorted(maps.Keys(a.Spec.Labels)), slices.Sorted(maps.Keys(b.Spec.Labels)))
	case "taints":
		taints = len(b.Spec.Taints) > 0 && slices.EqualFunc(a.Spec.Taints, b.Spec.Taints, func(x, y v1alpha1.Taint) bool { return x.Key == y.Key && x.Effect == y.Effect })
		taints = taints && len(b.Spec.Labels) > 0 // else nothing tells them from other pools
	}
	return labels && taints
}

// asksFor says whether a node of the pool, and no node that exists, would meet what the pod asks for by labels that the pool
// gives.
func asksFor(c *check.Case, p *v1alpha1.Pool) bool {
	labels := p.NodeLabels(0)
	asks := false
	for _, n := range place.NeedsOf(&c.Pod.Spec) {
		asks = asks || n.Met(labels) && !slices.ContainsFunc(c.Nodes, func(o *corev1.Node) bool { return n.Met(o.Labels) })
		if _, own := labels[n.Key]; own && n.Term < 0 && !n.Met(labels) {
			return false
		}
	}
	return asks
}
