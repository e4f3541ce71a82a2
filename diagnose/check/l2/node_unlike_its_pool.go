package l2

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
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

// difference is what a node lacks of what its pool, or all its siblings, have.
type difference struct {
	from   string // "pool a", "the other nodes of a"
	labels map[string]string
	drop   []corev1.Taint // on the node
	add    []corev1.Taint // of the pool
}

// poolLabels name a node's group, at the providers that have such groups.
var poolLabels = []string{v1alpha1.LabelPool, "cloud.google.com/gke-nodepool", "eks.amazonaws.com/nodegroup", "karpenter.sh/nodepool", "agentpool", "kubernetes.azure.com/agentpool"}

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

func (d difference) mend(n *corev1.Node) {
	if n.Labels == nil && len(d.labels) > 0 {
		n.Labels = make(map[string]string)
	}
	for k, v := range d.labels {
		n.Labels[k] = v
	}
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		return slices.ContainsFunc(d.drop, func(o corev1.Taint) bool { return o.MatchTaint(&t) && o.Value == t.Value })
	})
	n.Spec.Taints = append(n.Spec.Taints, d.add...)
}

func (d difference) text() string {
	var words []string
	for _, k := range sortedLabels(d.labels) {
		words = append(words, fmt.Sprintf("label %s=%s, which the pod asks for and %s has, is missing", k, d.labels[k], d.from))
	}
	for i, t := range d.drop {
		words = append(words, fmt.Sprintf("taint %s is not the one of %s, %s, which the pod is written for", podspec.TaintText(t), d.from, podspec.TaintText(d.add[i])))
	}
	return strings.Join(words, "; ")
}

func (d difference) wanted() string {
	var words []string
	for _, k := range sortedLabels(d.labels) {
		words = append(words, "label "+k+"="+d.labels[k])
	}
	for i, t := range d.add {
		words = append(words, fmt.Sprintf("taint %s in place of %s", podspec.TaintText(t), podspec.TaintText(d.drop[i])))
	}
	return strings.Join(words, ", ")
}

func (d difference) evidence(n *corev1.Node) (out []facts.Evidence) {
	for _, k := range sortedLabels(d.labels) {
		value := n.Labels[k]
		if value == "" {
			value = "absent"
		}
		out = append(out, facts.Evidence{Field: fmt.Sprintf("metadata.labels[%q]", k), Value: fmt.Sprintf("%s, where %s has %s", value, d.from, d.labels[k])})
	}
	for i, t := range d.drop {
		out = append(out, facts.Evidence{Field: fmt.Sprintf("spec.taints[key=%q]", t.Key), Value: fmt.Sprintf("%s, where %s has %s", podspec.TaintText(t), d.from, podspec.TaintText(d.add[i]))})
	}
	return out
}

func sortedLabels(m map[string]string) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// commandsFor are the commands for each node, joined.
func commandsFor(nodes []*check.NodeFit, differs map[string]difference) string {
	var out []string
	for _, n := range nodes {
		d := differs[n.Name]
		for _, k := range sortedLabels(d.labels) {
			out = append(out, fmt.Sprintf("kubectl label node %s %s=%s --overwrite", n.Name, k, d.labels[k]))
		}
		for i, t := range d.drop {
			if t.Effect != d.add[i].Effect {
				out = append(out, fmt.Sprintf("kubectl taint node %s %s:%s-", n.Name, t.Key, t.Effect))
			}
			out = append(out, fmt.Sprintf("kubectl taint node %s %s --overwrite", n.Name, podspec.TaintText(d.add[i])))
		}
	}
	return strings.Join(out, " && ")
}
