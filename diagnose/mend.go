package diagnose

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/engine/why"
)

// This file has nodes as they would be without a fault, and finds those that could matter to a pod.

// sound is the node with everything that is wrong with itself repaired: open, Ready, and with all its GPUs.
func sound(f *facts.Facts, n *corev1.Node) *corev1.Node {
	return changedNode(n, func(n *corev1.Node) { partition(f, n) }, func(n *corev1.Node) { clearState(f, n) }, uncordon, wake, func(n *corev1.Node) { giveGPUs(f, n) })
}

// changedNode is a copy of the node on which the changes are made.
func changedNode(n *corev1.Node, changes ...func(*corev1.Node)) *corev1.Node {
	n = n.DeepCopy()
	for _, change := range changes {
		change(n)
	}
	return n
}

func uncordon(n *corev1.Node) {
	n.Spec.Unschedulable = false
	dropTaints(n, func(key string) bool { return key == corev1.TaintNodeUnschedulable })
}

func dropTaints(n *corev1.Node, kind func(key string) bool) {
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return kind(t.Key) })
}

// clearState takes taints, conditions, labels and annotations of a state from the node. The cordon stays.
func clearState(f *facts.Facts, n *corev1.Node) {
	applied := appliedTaint(n)
	dropTaints(n, func(key string) bool {
		return key != corev1.TaintNodeUnschedulable && (isStateTaint(f, key) || applied(key))
	})
	n.DeletionTimestamp = nil
	for _, key := range []string{sentinelEvent, sentinelCordon, sentinelTaints} {
		delete(n.Annotations, key)
	}
	if upgrades(n) {
		n.Labels[labelUpgrade] = "upgrade-done"
	}
	if repartitions(n) {
		n.Labels[labelMIGState] = "success"
	}
	for c := sickness(n); c != nil; c = sickness(n) {
		c.Reason = ""
		if c.Status == corev1.ConditionFalse {
			c.Status = corev1.ConditionTrue
		} else {
			c.Status = corev1.ConditionFalse
		}
	}
}

// wake gives the node a kubelet that is content.
func wake(n *corev1.Node) {
	for i := range n.Status.Conditions {
		switch c := &n.Status.Conditions[i]; c.Type {
		case corev1.NodeReady:
			c.Status, c.Reason = corev1.ConditionTrue, "KubeletReady"
		case corev1.NodeDiskPressure, corev1.NodeMemoryPressure, corev1.NodePIDPressure, corev1.NodeNetworkUnavailable:
			c.Status = corev1.ConditionFalse
		}
	}
	dropTaints(n, func(key string) bool { return unreadyTaint(key) || pressureTaint(key) })
}

// giveGPUs is the work of GPU software that is well: the node offers what it should, and has the labels that nodes of
// its make have. A node that offers parts of GPUs stays as it is.
func giveGPUs(f *facts.Facts, n *corev1.Node) {
	g := gpuNodeNamed(f, n.Name)
	if g == nil || offersMIG(n) || stack(f).byClaim(n) {
		return
	}
	units := *resource.NewQuantity(max(g.Units, offers(n, wholeGPU)), resource.DecimalSI)
	n.Status.Capacity, n.Status.Allocatable = withQuantity(n.Status.Capacity, wholeGPU, units), withQuantity(n.Status.Allocatable, wholeGPU, units)
	if n.Labels[labelProduct] == "" {
		labelLike(f, n)
	}
}

func withQuantity(list corev1.ResourceList, name corev1.ResourceName, q resource.Quantity) corev1.ResourceList {
	list = maps.Clone(list)
	if list == nil {
		list = corev1.ResourceList{}
	}
	list[name] = q
	return list
}

// labelLike gives the node the labels of feature discovery that a node of the same make has.
func labelLike(f *facts.Facts, n *corev1.Node) {
	for _, pool := range poolsOf(n) {
		kin := stack(f).kin[pool]
		if kin == nil {
			continue
		}
		for key, value := range kin.Labels {
			if (strings.HasPrefix(key, "nvidia.com/gpu.") || strings.HasPrefix(key, "nvidia.com/cuda.")) && !strings.HasPrefix(key, labelDeploy) && n.Labels[key] == "" && key != "nvidia.com/gpu.clique" {
				n.Labels = withLabel(n.Labels, key, value)
			}
		}
		return
	}
}

func withLabel(labels map[string]string, key, value string) map[string]string {
	labels = maps.Clone(labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[key] = value
	return labels
}

// wish gives a node without labels of feature discovery those that the pod asks for: nobody can tell yet that they
// are others.
func (c *Case) wish(n *corev1.Node) {
	c.wishParts(n)
	if n.Labels[labelProduct] != "" || gpuNodeNamed(c.Facts, n.Name) == nil {
		return
	}
	for key, value := range c.Pod.Spec.NodeSelector {
		if strings.HasPrefix(key, "nvidia.com/") && n.Labels[key] == "" {
			n.Labels = withLabel(n.Labels, key, value)
		}
	}
}

// grant has the node offer the GPUs that the pod asks for.
func (c *Case) grant(n *corev1.Node) {
	for name, q := range askOf(c.Pod) {
		if strings.HasPrefix(string(name), "nvidia.com/") && offers(n, name) < q.Value() {
			n.Status.Allocatable, n.Status.Capacity = withQuantity(n.Status.Allocatable, name, q), withQuantity(n.Status.Capacity, name, q)
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
	if wantsGPU(c.Pod) && gpuNodeNamed(c.Facts, n.Name) == nil || len(n.Barred) > 0 {
		return false
	}
	whole := sound(c.Facts, n.Node)
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
		for name, q := range askOf(p) {
			left := free[name].DeepCopy()
			left.Sub(q)
			free[name] = left
		}
	}
	fits := int64(1 << 30)
	for name, q := range askOf(c.Pod) {
		if left := free[name]; !q.IsZero() {
			fits = min(fits, max(0, left.MilliValue())/max(1, q.MilliValue()))
		}
	}
	return fits
}

// askOf is what the scheduler counts for the pod, the pod itself among it.
func askOf(p *corev1.Pod) corev1.ResourceList {
	sum := total(p, func(r *corev1.ResourceRequirements) corev1.ResourceList {
		return filled(maps.Clone(r.Requests), r.Limits)
	})
	sum[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	return sum
}

// fewest are the nodes to repair so that the target's pods have places: as few as will do, the roomiest first.
func (c *Case) fewest(nodes []*NodeFit, mend func(*corev1.Node)) []*NodeFit {
	need := int64(c.Like)
	for i := range c.Fit().Nodes {
		if n := &c.Fit().Nodes[i]; n.Open() {
			need -= n.Fits
		}
	}
	type after struct {
		obstacles int // others need more than this repair
		room      int64
	}
	better := make(map[*NodeFit]after, len(nodes))
	for _, n := range nodes {
		m := changedNode(n.Node, mend)
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
		if m := changedNode(n.Node, mend); c.obstacles(m) == 0 {
			need -= c.room(m)
		}
	}
	return need <= 0
}

// obstacles counts what else keeps the pod off the node.
func (c *Case) obstacles(n *corev1.Node) int {
	out := len(untolerated(c.Pod, n))
	if n.Spec.Unschedulable {
		out++
	}
	return out
}

// mended are the nodes as the repair leaves them, to be set by an edit.
func mended(nodes []*NodeFit, mend func(*corev1.Node)) []facts.Object {
	out := make([]facts.Object, len(nodes))
	for i, n := range nodes {
		out[i] = changedNode(n.Node, mend)
	}
	return out
}

// nodeProbe stands for the repair of all the nodes, by hands that nobody can advise.
func nodeProbe(nodes []*NodeFit, mend func(*corev1.Node)) *Edit {
	return &Edit{Side: Cluster, Text: "repair " + namesOf(nodes), Set: mended(nodes, mend)}
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
	return []facts.Evidence{quantityShown(n.Status.Capacity, "status.capacity", wholeGPU), quantityShown(n.Status.Allocatable, "status.allocatable", wholeGPU)}
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
