package l2

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
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
	g := groups{needs: place.NeedsOf(&c.Pod.Spec), pools: place.PoolsByNode(c.Facts), members: make(map[string][]*corev1.Node), values: make(map[string]map[labelled]int)}
	for _, n := range c.Nodes {
		if key := groupKey(n); key != "" {
			of := key + "=" + n.Labels[key]
			g.members[of] = append(g.members[of], n)
		}
	}
	var nodes []*check.NodeFit
	differs := make(map[string]difference)
	for i := range fit.Nodes {
		n := &fit.Nodes[i]
		if d, ok := g.differenceOf(n); ok {
			nodes = append(nodes, n)
			differs[n.Name] = d
		}
	}
	if len(nodes) == 0 {
		return nil
	}
	// A node that lost what its GPU stack goes by has lost its GPUs, too. Whether they come back with the labels cannot be tried.
	bare := func(n *corev1.Node) bool {
		_, pooled := g.pools[n.Name]
		return pooled && len(differs[n.Name].labels) > 0 && place.Offerless(c, n)
	}
	mend := func(n *corev1.Node) {
		if bare(n) { // its pool says what it would have: a topology's labels, and GPUs for more than one pod
			at := g.pools[n.Name]
			differs[n.Name].mend(n)
			for k, v := range at.Pool.NodeLabels(at.Index) {
				n.Labels[k] = v
			}
			place.Grant(c, n)
			if units, _ := gpustack.PooledGPUs(c.Facts, at.Pool.Name); units > gpustack.Offers(n, gpustack.WholeGPU) {
				q := *resource.NewQuantity(units, resource.DecimalSI)
				n.Status.Allocatable, n.Status.Capacity = gpustack.WithQuantity(n.Status.Allocatable, gpustack.WholeGPU, q), gpustack.WithQuantity(n.Status.Capacity, gpustack.WholeGPU, q)
			}
			return
		}
		differs[n.Name].mend(n)
	}
	first := differs[nodes[0].Name]
	f := check.Finding{
		Fit: true, Probe: place.NodeProbe(nodes, mend),
		Message: fmt.Sprintf("%s: %s", place.NamesOf(nodes), first.text()),
		Evidence: place.NodesShow(nodes, func(n *corev1.Node) []facts.Evidence {
			return differs[n.Name].evidence(n)
		}),
	}
	if slices.ContainsFunc(nodes, func(n *check.NodeFit) bool { return bare(n.Node) }) {
		f.Message += "; without its labels the node offers no GPUs"
		f.Advice = fmt.Sprintf("Give the node its labels again (%s), and those by which the GPU stack knows it, or delete the Node so that it registers anew.", first.wanted())
		return []check.Finding{f}
	}
	few := place.Fewest(c, nodes, mend)
	f.Edits = []edit.Edit{{
		Side: edit.Cluster, Set: place.Mended(few, mend),
		Text:    fmt.Sprintf("give %s what %s says again: %s", place.NamesOf(few), first.from, first.wanted()),
		Command: commandsFor(few, differs),
	}}
	return []check.Finding{f}
}

// groups are what nodes belong to, read once: a cluster has thousands of nodes, and each is compared with all of its group.
type groups struct {
	needs   []place.Need
	pools   map[string]place.PoolPlace
	members map[string][]*corev1.Node   // by label: "agentpool=gpu"
	values  map[string]map[labelled]int // of a label in a group, how many nodes have it how
}

// labelled is how a node has a label: with a value, or not at all.
type labelled struct {
	value string
	has   bool
}

// differenceOf is false for a node that is like its group in all that the pod asks for.
func (g *groups) differenceOf(n *check.NodeFit) (difference, bool) {
	d := difference{labels: make(map[string]string)}
	unmet := slices.DeleteFunc(slices.Clone(g.needs), func(need place.Need) bool { return need.Met(n.Labels) })
	if len(unmet) == 0 && len(n.Untolerated()) == 0 {
		return d, false
	}
	var want func(key string) labelled
	if at, ok := g.pools[n.Name]; ok {
		labels := at.Pool.NodeLabels(at.Index)
		want, d.from = func(key string) labelled { v, ok := labels[key]; return labelled{v, ok} }, "pool "+at.Pool.Name
		d.taints(n, at.Pool.NodeTaints())
	} else if key := groupKey(n.Node); key != "" {
		of := key + "=" + n.Labels[key]
		want, d.from = func(key string) labelled { return g.common(of, key, n.Node) }, "the rest of "+of
		if len(g.members[of]) < 3 {
			return d, false
		}
	} else {
		return d, false
	}
	for _, need := range unmet {
		if w := want(need.Key); w.has && need.Met(map[string]string{need.Key: w.value}) {
			d.labels[need.Key] = w.value
		}
	}
	return d, len(d.labels) > 0 || len(d.drop) > 0
}

// common is how all other nodes of the group have the label; not at all where they differ.
func (g *groups) common(group, key string, but *corev1.Node) labelled {
	at := group + "\x00" + key
	counts := g.values[at]
	if counts == nil {
		counts = make(map[labelled]int)
		for _, n := range g.members[group] {
			v, ok := n.Labels[key]
			counts[labelled{v, ok}]++
		}
		g.values[at] = counts
	}
	others := len(g.members[group]) - 1
	own, ok := but.Labels[key]
	//archtest:any-order at most one is that of all others
	for l, n := range counts {
		if l == (labelled{own, ok}) {
			n--
		}
		if n == others && others > 0 {
			return l
		}
	}
	return labelled{}
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

// groupKey is the label that names the node's group; "": it has none.
func groupKey(n *corev1.Node) string {
	for _, key := range poolLabels {
		if n.Labels[key] != "" {
			return key
		}
	}
	return ""
}
