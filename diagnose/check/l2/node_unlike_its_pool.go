package l2

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/place"
)

var nodeUnlikeItsPoolCheck = check.Check{
	Cause: "node-unlike-its-pool", Layer: check.L2, Owner: check.Platform, Stage: check.Place, Rank: 9,
	Title:   "A node's label or taint is not what its pool gives it",
	Meaning: "The pod asks for a label that the node's pool gives all its nodes, or tolerates the taint that the pool gives them, and this node has another one: somebody changed the node by hand.",
	Remedy:  "Give the node the label or taint of its pool again.",
	Not:     "The pod asks for the wrong label.",
	Find:    nodeUnlikeItsPool,
}

func nodeUnlikeItsPool(c *check.Case) []check.Finding {
	fit := place.Stuck(c)
	if fit == nil {
		return nil
	}
	pools := place.Pools(c.Facts)
	var nodes []*check.NodeFit
	differs := make(map[string]difference)
	for i := range fit.Nodes {
		n := &fit.Nodes[i]
		if d, ok := differenceOf(c, pools, n); ok {
			nodes = append(nodes, n)
			differs[n.Name] = d
		}
	}
	if len(nodes) == 0 {
		return nil
	}
	mend := func(n *corev1.Node) { differs[n.Name].mend(n) }
	few := place.Fewest(c, nodes, mend)
	first := differs[nodes[0].Name]
	return []check.Finding{{
		Fit: true, Probe: place.NodeProbe(nodes, mend),
		Message: fmt.Sprintf("%s: %s", place.NamesOf(nodes), first.text()),
		Evidence: place.NodesShow(nodes, func(n *corev1.Node) []facts.Evidence {
			return differs[n.Name].evidence(n)
		}),
		Edits: []edit.Edit{{
			Side: edit.Cluster, Set: place.Mended(few, mend),
			Text:    fmt.Sprintf("give %s what %s says again: %s", place.NamesOf(few), first.from, first.wanted()),
			Command: commandsFor(few, differs),
		}},
	}}
}

func differenceOf(c *check.Case, pools []*v1alpha1.Pool, n *check.NodeFit) (difference, bool) {
	d := difference{labels: make(map[string]string)}
	want := map[string]string{}
	if p, i := place.PoolOfNode(pools, n.Node); p != nil {
		want, d.from = p.NodeLabels(i), "pool "+p.Name
		d.taints(n, p.NodeTaints())
	} else if key, siblings := siblingsOf(c, n.Node); len(siblings) >= 2 {
		want, d.from = common(siblings), "the rest of "+key+"="+n.Labels[key]
	}
	for _, need := range place.NeedsOf(&c.Pod.Spec) {
		if value := want[need.Key]; !need.Met(n.Labels) && need.Met(want) {
			d.labels[need.Key] = value
		}
	}
	return d, len(d.labels) > 0 || len(d.drop) > 0
}

// taints compares those of the same key: one that has another value or effect than the pool's, and that the pod does not
// tolerate.
func (d *difference) taints(n *check.NodeFit, want []corev1.Taint) {
	for _, t := range n.Untolerated() {
		same := slices.ContainsFunc(want, func(w corev1.Taint) bool { return w.MatchTaint(&t) && w.Value == t.Value })
		of := slices.IndexFunc(want, func(w corev1.Taint) bool { return w.Key == t.Key })
		if same || of < 0 {
			continue
		}
		d.drop, d.add = append(d.drop, t), append(d.add, want[of])
	}
}

func siblingsOf(c *check.Case, n *corev1.Node) (key string, out []*corev1.Node) {
	for _, key := range poolLabels {
		if n.Labels[key] == "" {
			continue
		}
		for _, o := range c.Nodes {
			if o.Name != n.Name && o.Labels[key] == n.Labels[key] {
				out = append(out, o)
			}
		}
		return key, out
	}
	return "", nil
}

// common are the labels that all nodes have alike.
func common(nodes []*corev1.Node) map[string]string {
	out := make(map[string]string)
	for k, v := range nodes[0].Labels {
		if !slices.ContainsFunc(nodes, func(n *corev1.Node) bool { return n.Labels[k] != v }) {
			out[k] = v
		}
	}
	return out
}
