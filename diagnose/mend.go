package diagnose

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/engine/why"
)

// wish gives a node without labels of feature discovery those that the pod asks for: nobody can tell yet that they
// are others.
func (c *Case) wish(n *corev1.Node) {
	c.wishParts(n)
	if n.Labels[gpustack.LabelProduct] != "" || gpustack.NodeNamed(c.Facts, n.Name) == nil {
		return
	}
	for key, value := range c.Pod.Spec.NodeSelector {
		if strings.HasPrefix(key, "nvidia.com/") && n.Labels[key] == "" {
			n.Labels = gpustack.WithLabel(n.Labels, key, value)
		}
	}
}

// grant has the node offer the GPUs that the pod asks for.
func (c *Case) grant(n *corev1.Node) {
	for name, q := range podspec.Requests(c.Pod) {
		if strings.HasPrefix(string(name), "nvidia.com/") && gpustack.Offers(n, name) < q.Value() {
			n.Status.Allocatable, n.Status.Capacity = gpustack.WithQuantity(n.Status.Allocatable, name, q), gpustack.WithQuantity(n.Status.Capacity, name, q)
		}
	}
}

// aboutPlaces says whether the engine looked for a place and found none: no gate before that is shut.
func aboutPlaces(f *Fit) bool {
	switch f.Cause {
	case why.ClusterFull, why.Fragmented, why.TopologyFragmented, why.LargerThanAnyNode, why.Stranded, why.NoMatchingNode, why.SearchBudget:
		return !f.Placed()
	}
	return false
}

// barredNodes are the nodes of the kind that would have room for the pod if nothing were wrong with them, by name.
func (c *Case) barredNodes(kind func(*corev1.Node) bool) []*NodeFit {
	f := c.stuck()
	if f == nil || !aboutPlaces(f) {
		return nil
	}
	var out []*NodeFit
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if kind(n.Node) && c.matters(n) {
			out = append(out, n)
		}
	}
	return out
}

// matters says whether the pod could go to the node if it were sound: it matches, and there is room for one.
func (c *Case) matters(n *NodeFit) bool {
	if gpustack.WantsGPU(c.Pod) && gpustack.NodeNamed(c.Facts, n.Name) == nil || len(n.Barred) > 0 {
		return false
	}
	whole := gpustack.Repaired(c.Facts, n.Node)
	c.wish(whole)
	if ok, err := nodeaffinity.GetRequiredNodeAffinity(c.Pod).Match(whole); err != nil || !ok {
		return false
	}
	if slices.ContainsFunc(n.Removed, func(r why.Clause) bool { return r.Kind == why.ByNodeName || r.Kind == why.ByNodeSet }) {
		return false
	}
	return c.room(whole) > 0
}

// room is how many pods like this one the node would hold beside those that are on it.
func (c *Case) room(n *corev1.Node) int64 {
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

// fewest are the nodes to repair so that the target's pods have places: as few as will do, the roomiest first.
func (c *Case) fewest(nodes []*NodeFit, mend func(*corev1.Node)) []*NodeFit {
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
	better := make(map[*NodeFit]after, len(nodes))
	for _, n := range nodes {
		m := gpustack.ChangedNode(n.Node, mend)
		better[n] = after{c.obstacles(m), c.room(m)}
	}
	sorted := slices.Clone(nodes)
	slices.SortStableFunc(sorted, func(a, b *NodeFit) int {
		return cmp.Or(cmp.Compare(better[a].obstacles, better[b].obstacles), cmp.Compare(better[b].room, better[a].room), strings.Compare(a.Name, b.Name))
	})
	for i, n := range sorted {
		if need -= better[n].room; need <= 0 {
			return sorted[:i+1]
		}
	}
	return sorted
}

// comes says whether the nodes, once they are as they will be, have places for all pods that are like this one.
func (c *Case) comes(nodes []*NodeFit, mend func(*corev1.Node)) bool {
	need := int64(c.Like)
	for _, n := range nodes {
		if m := gpustack.ChangedNode(n.Node, mend); c.obstacles(m) == 0 {
			need -= c.room(m)
		}
	}
	return need <= 0
}

// obstacles counts what else keeps the pod off the node.
func (c *Case) obstacles(n *corev1.Node) int {
	out := len(podspec.Untolerated(c.Pod, n))
	if n.Spec.Unschedulable {
		out++
	}
	return out
}

// mended are the nodes as the repair leaves them, to be set by an edit.
func mended(nodes []*NodeFit, mend func(*corev1.Node)) []facts.Object {
	out := make([]facts.Object, len(nodes))
	for i, n := range nodes {
		out[i] = gpustack.ChangedNode(n.Node, mend)
	}
	return out
}

// nodeProbe stands for the repair of all the nodes, by hands that nobody can advise.
func nodeProbe(nodes []*NodeFit, mend func(*corev1.Node)) *edit.Edit {
	return &edit.Edit{Side: edit.Cluster, Text: "repair " + namesOf(nodes), Set: mended(nodes, mend)}
}

// namesOf lists the nodes, the first few by name: "node a", "nodes a and b", "nodes a, b, c and 4 more".
func namesOf(nodes []*NodeFit) string {
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

// nodeWords are the nodes' names for a command line.
func nodeWords(nodes []*NodeFit) string {
	out := make([]string, len(nodes))
	for i, n := range nodes {
		out[i] = n.Name
	}
	return strings.Join(out, " ")
}

// verb chooses the verb for the nodes.
func verb(nodes []*NodeFit, one, many string) string {
	if len(nodes) == 1 {
		return one
	}
	return many
}

// nodesShow is evidence from the first few of the nodes.
func nodesShow(nodes []*NodeFit, show func(*corev1.Node) []facts.Evidence) []facts.Evidence {
	var out []facts.Evidence
	for _, n := range nodes[:min(len(nodes), 3)] {
		for _, e := range show(n.Node) {
			e.Object = facts.RefTo(n.Node).In()
			out = append(out, e)
		}
	}
	return out
}

// gpusShown is evidence of what the node says of its GPUs.
func gpusShown(n *corev1.Node) []facts.Evidence {
	return []facts.Evidence{quantityShown(n.Status.Capacity, "status.capacity", gpustack.WholeGPU), quantityShown(n.Status.Allocatable, "status.allocatable", gpustack.WholeGPU)}
}

func quantityShown(list corev1.ResourceList, field string, name corev1.ResourceName) facts.Evidence {
	value := "not there"
	if q, ok := list[name]; ok {
		value = q.String()
	}
	return facts.Evidence{Field: fmt.Sprintf("%s[%q]", field, name), Value: value}
}

// lasting is how long a condition has held, for people; "" where nobody noted it.
func (c *Case) lasting(t metav1.Time) string {
	if t.IsZero() {
		return ""
	}
	return " for " + wording.Minutes(c.Now.Sub(t.Time))
}

// taintsShown is evidence of the node's taints of the kind.
func taintsShown(n *corev1.Node, kind func(key string) bool) []facts.Evidence {
	var out []facts.Evidence
	for _, t := range n.Spec.Taints {
		if kind(t.Key) {
			out = append(out, facts.Evidence{Field: "spec.taints", Value: taintText(t)})
		}
	}
	return out
}

func nodesWhere(nodes []*NodeFit, is func(*corev1.Node) bool) []*NodeFit {
	return slices.DeleteFunc(slices.Clone(nodes), func(n *NodeFit) bool { return !is(n.Node) })
}

func allNodes(nodes []*NodeFit, are func(*corev1.Node) bool) bool {
	return len(nodesWhere(nodes, are)) == len(nodes)
}
