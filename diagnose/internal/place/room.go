package place

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/convert"
)

// Stuck is what the engine says of a pod that waits and has no place. It is nil for facts that were edited: findings
// about places are not asked for there, the engine's own answer is.
func Stuck(c *check.Case) *check.Fit {
	f := c.Fit
	if f == nil || c.Unexplained || f.Verdict == why.Placed || c.Pod.DeletionTimestamp != nil {
		return nil
	}
	return f
}

// reach are the nodes that only room keeps the pod off. Where there are none, those that it could have by tolerating
// what is its to tolerate; else those which labels that no node has keep it off besides. Nodes without the device that
// the pod asks for do not count while others have it.
func reach(c *check.Case, f *check.Fit) []*check.NodeFit {
	var open, tainted, misnamed []*check.NodeFit
	dead := Unmet(c)
	device, _ := podspec.Device(c.Pod)
	for i := range f.Nodes {
		n := &f.Nodes[i]
		switch {
		case device != "" && CouldHave(n.Node, device) == 0:
		case n.Open():
			open = append(open, n)
		case OnlyTaintsToTolerate(c, n):
			tainted = append(tainted, n)
		case len(dead) > 0 && len(n.ExcludedBy) == 0 && !slices.ContainsFunc(n.Removed, func(r why.Clause) bool { return !mends(c, r, n, dead) }):
			misnamed = append(misnamed, n)
		}
	}
	if len(open) > 0 {
		return open
	}
	if len(tainted) > 0 {
		return tainted
	}
	return misnamed
}

// CouldHave is what the node has of the resource, or would have with all its devices in order.
func CouldHave(n *corev1.Node, name string) int64 {
	most := max(podspec.Amount(name, n.Status.Allocatable[corev1.ResourceName(name)]), 0)
	if !podspec.Extended(corev1.ResourceName(name)) {
		return most
	}
	most = max(most, podspec.Amount(name, n.Status.Capacity[corev1.ResourceName(name)]))
	if name == "nvidia.com/gpu" && !strings.Contains(n.Labels["nvidia.com/gpu.product"], "-MIG-") {
		if count, err := strconv.ParseInt(n.Labels["nvidia.com/gpu.count"], 10, 64); err == nil && most == 0 {
			most = count
		}
	}
	return most
}

// Unmatched says whether no node is open to the pod: of those that have the device it asks for, where any does.
func Unmatched(c *check.Case, f *check.Fit) bool {
	if f.Cause == why.NoMatchingNode {
		return true
	}
	device, _ := podspec.Device(c.Pod)
	if f.Cause != why.LargerThanAnyNode || device == "" {
		return false
	}
	has := func(n check.NodeFit) bool { return CouldHave(n.Node, device) > 0 }
	return slices.ContainsFunc(f.Nodes, has) && !slices.ContainsFunc(f.Nodes, func(n check.NodeFit) bool { return n.Open() && has(n) })
}

// mends says whether the clause goes away with taints that may be tolerated and labels that no node has.
func mends(c *check.Case, r why.Clause, n *check.NodeFit, dead []Need) bool {
	switch r.Kind {
	case why.ByTaint:
		i := slices.IndexFunc(n.Spec.Taints, func(t corev1.Taint) bool { return podspec.TaintText(t) == r.Detail })
		return i >= 0 && MayTolerate(c, n.Spec.Taints[i])
	case why.BySelector:
		return slices.ContainsFunc(dead, func(d Need) bool { return d.Term < 0 && d.Text() == r.Detail })
	case why.ByAffinity:
		return slices.ContainsFunc(dead, func(d Need) bool { return d.Term >= 0 })
	}
	return false
}

// RoomCause says how room is short on the nodes in reach, and gives them; "" where it is not, or where something else
// comes before. The engine's word counts where it has looked at the same nodes.
func RoomCause(c *check.Case) (why.Cause, []*check.NodeFit) {
	f := Stuck(c)
	if f == nil {
		return "", nil
	}
	nodes := reach(c, f)
	if !Unmatched(c, f) {
		switch f.Cause {
		case why.ClusterFull, why.Fragmented, why.Stranded:
			return f.Cause, orAll(c, f, nodes)
		case why.LargerThanAnyNode:
			if full := fullAndBroken(c, nodes); len(full) > 0 {
				return why.ClusterFull, full
			}
			return f.Cause, orAll(c, f, nodes)
		}
		return "", nil
	}
	if len(nodes) > 0 {
		return shortage(c.Pod, nodes), nodes
	}
	if all := orAll(c, f, nil); len(all) > 0 && !slices.ContainsFunc(all, func(n *check.NodeFit) bool { return n.Empty > 0 }) {
		return why.LargerThanAnyNode, all
	}
	return "", nil
}

// fullAndBroken are nodes that offer no device at the moment, would be large enough if they did, and are taken by others
// all the same: to repair them would give the pod no place. None where a repair would.
func fullAndBroken(c *check.Case, nodes []*check.NodeFit) []*check.NodeFit {
	device, ask := podspec.Device(c.Pod)
	var out []*check.NodeFit
	for _, n := range nodes {
		whole := gpustack.Repaired(c.Facts, n.Node)
		if device == "" || CouldHave(n.Node, device) < ask || !podspec.Fits(podspec.Requests(c.Pod), whole.Status.Allocatable) {
			continue
		}
		if room(c, whole) > 0 {
			return nil
		}
		out = append(out, n)
	}
	return out
}

// orAll is, where there are no nodes, those that only a taken port closes, or else all.
func orAll(c *check.Case, f *check.Fit, nodes []*check.NodeFit) []*check.NodeFit {
	if len(nodes) > 0 {
		return nodes
	}
	for i := range f.Nodes {
		taken := func(r why.Clause) bool { return r.Kind == why.ByPort }
		if n := &f.Nodes[i]; len(n.ExcludedBy) == 0 && slices.ContainsFunc(n.Removed, taken) && !slices.ContainsFunc(n.Removed, func(r why.Clause) bool { return !taken(r) }) {
			nodes = append(nodes, n)
		}
	}
	if len(nodes) > 0 {
		return nodes
	}
	for i := range f.Nodes {
		nodes = append(nodes, &f.Nodes[i])
	}
	return nodes
}

// shortage is how room for one pod is short on the nodes.
func shortage(p *corev1.Pod, nodes []*check.NodeFit) why.Cause {
	device, ask := podspec.Device(p)
	largest, free := int64(0), int64(0)
	stranded := false
	for _, n := range nodes {
		if len(n.Short) == 0 {
			return ""
		}
		largest = max(largest, n.Empty)
		by := n.ShortOf(device)
		free += max(0, ask-by)
		stranded = stranded || device != "" && by == 0
	}
	switch {
	case largest == 0:
		return why.LargerThanAnyNode
	case stranded:
		return why.Stranded
	case device != "" && free >= ask:
		return why.Fragmented
	}
	return why.ClusterFull
}

// Shortest sorts nodes that would hold the pod if they were empty: the one that lacks least first, by the device, then
// by the rest.
func Shortest(p *corev1.Pod, nodes []*check.NodeFit) []*check.NodeFit {
	device, _ := podspec.Device(p)
	out := slices.DeleteFunc(slices.Clone(nodes), func(n *check.NodeFit) bool { return n.Empty == 0 })
	slices.SortFunc(out, func(a, b *check.NodeFit) int {
		return cmp.Or(cmp.Compare(a.ShortOf(device), b.ShortOf(device)), cmp.Compare(len(a.Short), len(b.Short)),
			cmp.Compare(a.ShortOf("cpu"), b.ShortOf("cpu")), cmp.Compare(a.ShortOf("memory"), b.ShortOf("memory")), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// covers says whether the pods hold what is short.
func covers(pods []*corev1.Pod, short []why.Short) bool {
	for _, s := range short {
		sum := int64(0)
		for _, p := range pods {
			if s.Resource == string(corev1.ResourcePods) {
				sum++
				continue
			}
			sum += podspec.Requested(p, s.Resource)
		}
		if sum < s.By {
			return false
		}
	}
	return true
}

// fewest is a small set of the pods that hold what is short, none of them to spare; nil where all are too few. The
// pods are tried in their order.
func fewest(pods []*corev1.Pod, short []why.Short) []*corev1.Pod {
	for _, p := range pods { // one is fewest
		if covers([]*corev1.Pod{p}, short) {
			return []*corev1.Pod{p}
		}
	}
	if len(short) == 0 || !covers(pods, short) {
		return nil
	}
	set := slices.Clone(pods)
	for i := len(set) - 1; i >= 0; i-- {
		if less := slices.Delete(slices.Clone(set), i, i+1); covers(less, short) {
			set = less
		}
	}
	return set
}

// endOf is when the pod ends by its own word or its Job's, or is gone; zero where nothing says so. how says by which.
func endOf(f *facts.Facts, p *corev1.Pod) (at time.Time, how string) {
	sooner := func(t time.Time, why string) {
		if t.After(f.At) && (at.IsZero() || t.Before(at)) {
			at, how = t, why
		}
	}
	if p.DeletionTimestamp != nil {
		sooner(p.DeletionTimestamp.Time, "is being deleted")
	}
	if !endsForGood(f, p) {
		return at, how
	}
	start := p.CreationTimestamp.Time
	if p.Status.StartTime != nil {
		start = p.Status.StartTime.Time
	}
	if s := p.Spec.ActiveDeadlineSeconds; s != nil {
		sooner(start.Add(time.Duration(*s)*time.Second), "has a deadline")
	}
	for _, key := range []string{v1alpha1.KeyMaxRun, "sim.berth.dev/run"} {
		if d, err := time.ParseDuration(p.Annotations[key]); err == nil && d > 0 {
			sooner(start.Add(d), "says so by "+key)
		}
	}
	if j, ok := f.Controller(p).(*batchv1.Job); ok && j.Spec.ActiveDeadlineSeconds != nil && j.Status.StartTime != nil {
		sooner(j.Status.StartTime.Add(time.Duration(*j.Spec.ActiveDeadlineSeconds)*time.Second), "has a deadline")
	}
	return at, how
}

// endsForGood says whether no other pod takes the place of this one when it ends.
func endsForGood(f *facts.Facts, p *corev1.Pod) bool {
	by := f.Controller(p)
	if by == nil {
		return p.Spec.RestartPolicy != corev1.RestartPolicyAlways || p.Spec.ActiveDeadlineSeconds != nil
	}
	j, ok := by.(*batchv1.Job)
	if !ok {
		return false
	}
	return j.Spec.Completions == nil || int(*j.Spec.Completions)-int(j.Status.Succeeded) <= int(j.Status.Active)
}

// PartText is the part of GPUs that the pod asks for, in words; "": none.
func PartText(p *corev1.Pod) string {
	part := convert.PartOf(p)
	if part == nil {
		return ""
	}
	of := "of a GPU"
	if part.Cards > 1 {
		of = fmt.Sprintf("of each of %d GPUs", part.Cards)
	}
	amount := fmt.Sprintf("%d MiB of memory", part.Memory)
	if part.Memory == 0 {
		amount = fmt.Sprintf("%g%% of the memory", float64(part.Share)/10)
	}
	if part.Compute > 0 {
		amount += fmt.Sprintf(" and %g%% of the compute", float64(part.Compute)/10)
	}
	return amount + " " + of
}

// AskText is what the pod asks for, in words.
func AskText(p *corev1.Pod) string {
	var out []string
	if part := PartText(p); part != "" {
		out = append(out, part)
	}
	all := podspec.TotalRequests(p)
	for _, name := range podspec.Names(all) {
		q := all[name]
		out = append(out, q.String()+" "+string(name))
	}
	return strings.Join(out, " + ")
}

// Explained says whether labels that no node has, or taints that the pod may tolerate, are what keeps it off nodes.
func Explained(c *check.Case, f *check.Fit) bool {
	dead := Unmet(c)
	if len(c.Foreign["NodePool.karpenter.sh"]) > 0 || slices.ContainsFunc(dead, func(n Need) bool { return OnlyPartitioned(c, n) }) {
		return false
	}
	return len(dead) > 0 || len(reach(c, f)) > 0
}
