package place

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/engine/why"
)

// Wish gives a node without labels of feature discovery those that the pod asks for: nobody can tell yet that they
// are others.
func Wish(c *check.Case, n *corev1.Node) {
	wishParts(c, n)
	if n.Labels[gpustack.LabelProduct] != "" || gpustack.NodeNamed(c.Facts, n.Name) == nil {
		return
	}
	//archtest:any-order each label is set once
	for key, value := range c.Pod.Spec.NodeSelector {
		if strings.HasPrefix(key, "nvidia.com/") && n.Labels[key] == "" {
			n.Labels = gpustack.WithLabel(n.Labels, key, value)
		}
	}
}

// Offerless says whether the node offers nothing at all of a GPU resource that the pod asks for.
func Offerless(c *check.Case, n *corev1.Node) bool {
	return slices.ContainsFunc(facts.ExtendedOf(c.Pod), func(name string) bool {
		return strings.HasPrefix(name, "nvidia.com/") && gpustack.Offers(n, corev1.ResourceName(name)) == 0
	})
}

// Grant has the node offer the GPUs that the pod asks for.
func Grant(c *check.Case, n *corev1.Node) {
	for name, q := range podspec.Requests(c.Pod) {
		if strings.HasPrefix(string(name), "nvidia.com/") && gpustack.Offers(n, name) < q.Value() {
			n.Status.Allocatable, n.Status.Capacity = gpustack.WithQuantity(n.Status.Allocatable, name, q), gpustack.WithQuantity(n.Status.Capacity, name, q)
		}
	}
}

// excludedNodes are the nodes of the kind that would have room for the pod if nothing were wrong with them, by name.
func excludedNodes(c *check.Case, kind func(*corev1.Node) bool) []*check.NodeFit {
	f := Stuck(c)
	if f == nil || !check.AboutPlaces(f) {
		return nil
	}
	var out []*check.NodeFit
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if kind(n.Node) && Matters(c, n) {
			out = append(out, n)
		}
	}
	return out
}

// ClosedByState says whether the node would hold the pod but for its state, as a cordon: who closed it says why, and may open it again.
func ClosedByState(c *check.Case, n *check.NodeFit) bool {
	return n.Empty > 0 && len(n.ExcludedBy) == 0 && len(n.Short) == 0 && len(n.Removed) > 0 &&
		!slices.ContainsFunc(n.Removed, func(r why.Clause) bool { return r.Kind != why.ByCordon && r.Kind != why.ByTaint }) &&
		!slices.ContainsFunc(n.Untolerated(), func(t corev1.Taint) bool { return KindOfTaint(c.Facts, t) != TaintOfState })
}

// Matters says whether the pod could go to the node if it were sound: it matches, and there is room for one.
func Matters(c *check.Case, n *check.NodeFit) bool {
	if gpustack.WantsGPU(c.Pod) && gpustack.NodeNamed(c.Facts, n.Name) == nil || len(n.ExcludedBy) > 0 {
		return false
	}
	whole := gpustack.Repaired(c.Facts, n.Node)
	Wish(c, whole)
	if ok, err := nodeaffinity.GetRequiredNodeAffinity(c.Pod).Match(whole); err != nil || !ok {
		return false
	}
	if slices.ContainsFunc(n.Removed, func(r why.Clause) bool { return r.Kind == why.ByNodeName || r.Kind == why.ByNodeSet }) {
		return false
	}
	if room(c, whole) > 0 {
		return true
	}
	if gpustack.Repartitions(n.Node) { // it will have what its GPUs are being divided into
		return room(c, gpustack.ChangedNode(whole, func(n *corev1.Node) { gpustack.Partition(c.Facts, n) })) > 0
	}
	return false
}

// room is how many pods like this one the node would hold beside those that are on it.
func room(c *check.Case, n *corev1.Node) int64 {
	free := maps.Clone(n.Status.Allocatable)
	for _, p := range c.PodsOn(n.Name) {
		for name, q := range podspec.Requests(p) {
			left := free[name].DeepCopy()
			left.Sub(q)
			free[name] = left
		}
	}
	fits := int64(1 << 30)
	for name, q := range podspec.Requests(c.Pod) {
		if left := free[name]; !q.IsZero() {
			fits = min(fits, max(0, left.MilliValue())/max(1, q.MilliValue()))
		}
	}
	return fits
}

// Fewest are the nodes to repair so that the target's pods have places: as few as will do, the roomiest first.
func Fewest(c *check.Case, nodes []*check.NodeFit, mend func(*corev1.Node)) []*check.NodeFit {
	need := int64(c.Like)
	for i := range c.Fit.Nodes {
		if n := &c.Fit.Nodes[i]; n.Open() {
			need -= n.Fits
		}
	}
	type after struct {
		obstacles int // others need more than this repair
		room      int64
	}
	better := make(map[*check.NodeFit]after, len(nodes))
	for _, n := range nodes {
		m := gpustack.ChangedNode(n.Node, mend)
		better[n] = after{obstacles(c, m), room(c, m)}
	}
	sorted := slices.Clone(nodes)
	slices.SortStableFunc(sorted, func(a, b *check.NodeFit) int {
		return cmp.Or(cmp.Compare(better[a].obstacles, better[b].obstacles), cmp.Compare(better[b].room, better[a].room), strings.Compare(a.Name, b.Name))
	})
	for i, n := range sorted {
		if need -= better[n].room; need <= 0 {
			return sorted[:i+1]
		}
	}
	return sorted
}

// Comes says whether the nodes, once they are as they will be, have places for all pods that are like this one.
func Comes(c *check.Case, nodes []*check.NodeFit, mend func(*corev1.Node)) bool {
	need := int64(c.Like)
	for _, n := range nodes {
		if m := gpustack.ChangedNode(n.Node, mend); obstacles(c, m) == 0 {
			need -= room(c, m)
		}
	}
	return need <= 0
}

// obstacles counts what else keeps the pod off the node.
func obstacles(c *check.Case, n *corev1.Node) int {
	out := len(podspec.Untolerated(c.Pod, n))
	if n.Spec.Unschedulable {
		out++
	}
	return out
}

// Mended are the nodes as the repair leaves them, to be set by an edit.
func Mended(nodes []*check.NodeFit, mend func(*corev1.Node)) []facts.Object {
	out := make([]facts.Object, len(nodes))
	for i, n := range nodes {
		out[i] = gpustack.ChangedNode(n.Node, mend)
	}
	return out
}

// NodeProbe stands for the repair of all the nodes, by means that no advice can name.
func NodeProbe(nodes []*check.NodeFit, mend func(*corev1.Node)) *edit.Edit {
	return &edit.Edit{Side: edit.Cluster, Text: "repair " + NamesOf(nodes), Set: Mended(nodes, mend)}
}

// NamesOf lists the nodes, the first few by name: "node a", "nodes a and b", "nodes a, b, c and 4 more".
func NamesOf(nodes []*check.NodeFit) string {
	const most = 3
	names := make([]string, 0, most)
	for _, n := range nodes[:min(len(nodes), most)] {
		names = append(names, n.Name)
	}
	switch more := len(nodes) - most; {
	case len(nodes) == 1:
		return "node " + names[0]
	case more > 0:
		return fmt.Sprintf("nodes %s and %d more", strings.Join(names, ", "), more)
	}
	return "nodes " + strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

// NodeWords are the nodes' names for a command line.
func NodeWords(nodes []*check.NodeFit) string {
	out := make([]string, len(nodes))
	for i, n := range nodes {
		out[i] = n.Name
	}
	return strings.Join(out, " ")
}

// Verb chooses the verb for the nodes.
func Verb(nodes []*check.NodeFit, one, many string) string {
	if len(nodes) == 1 {
		return one
	}
	return many
}

// NodesShow is evidence from the first few of the nodes.
func NodesShow(nodes []*check.NodeFit, show func(*corev1.Node) []facts.Evidence) []facts.Evidence {
	var out []facts.Evidence
	for _, n := range nodes[:min(len(nodes), 3)] {
		for _, e := range show(n.Node) {
			if e.Object == "" {
				e.Object = facts.RefTo(n.Node).In()
			}
			out = append(out, e)
		}
	}
	return out
}

// GpusShown is evidence of what the node says of its GPUs.
func GpusShown(n *corev1.Node) []facts.Evidence {
	return []facts.Evidence{QuantityShown(n.Status.Capacity, "status.capacity", gpustack.WholeGPU), QuantityShown(n.Status.Allocatable, "status.allocatable", gpustack.WholeGPU)}
}

// QuantityShown is a resource of a node as evidence.
func QuantityShown(list corev1.ResourceList, field string, name corev1.ResourceName) facts.Evidence {
	value := "not there"
	if q, ok := list[name]; ok {
		value = q.String()
	}
	return facts.Evidence{Field: fmt.Sprintf("%s[%q]", field, name), Value: value}
}

// Lasting is how long a condition has held, for people; "" where that was not noted.
func Lasting(c *check.Case, t metav1.Time) string {
	if t.IsZero() {
		return ""
	}
	return " for " + wording.Minutes(c.Now.Sub(t.Time))
}

// TaintsShown is evidence of the node's taints of the kind.
func TaintsShown(n *corev1.Node, kind func(key string) bool) []facts.Evidence {
	var out []facts.Evidence
	for _, t := range n.Spec.Taints {
		if kind(t.Key) {
			out = append(out, facts.Evidence{Field: "spec.taints", Value: podspec.TaintText(t)})
		}
	}
	return out
}

// NodesWhere are the nodes of which it is true.
func NodesWhere(nodes []*check.NodeFit, is func(*corev1.Node) bool) []*check.NodeFit {
	return slices.DeleteFunc(slices.Clone(nodes), func(n *check.NodeFit) bool { return !is(n.Node) })
}

// AllNodes reports whether it is true of every node.
func AllNodes(nodes []*check.NodeFit, are func(*corev1.Node) bool) bool {
	return len(NodesWhere(nodes, are)) == len(nodes)
}
