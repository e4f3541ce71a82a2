package cluster

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
)

// arrivals are nodes that have come lately, and for which workload each is held. A gang that waits for nodes gets them one after the
// other; without a hold, smaller work takes the first before the last has come, and the autoscaler launches one more, and so on.
//
// An autoscaler that launched a node for a workload may say so on it (KeyLaunchedFor). On clusters whose autoscaler does not, a node is taken to be
// for a workload that was told before the node was made that it needs nodes: pods with the reason Unschedulable, the only ones that
// Karpenter and cluster-autoscaler make nodes for. Among several, the one that was told first comes first, as long as its pods may be on the
// node and are not covered by other nodes. That is for gangs alone: a pod by itself starts at once on a node that it can use.
//
// A hold ends when the workload has started, which the engine sees, or when the node is older than holdArrivals.
type arrivals struct {
	out     *output
	nodes   *nodes
	members *members
	now     func() time.Time
	young   map[string]bool        // nodes that may be held
	held    map[string]engine.Hold // by node, as last given, without version
	stale   bool                   // a young node changed
}

// holdArrivals is how long after it was made a node is held for its workload: as long as Karpenter gives a machine to register
// (registrationTimeout, 15 minutes, pkg/controllers/nodeclaim/lifecycle/liveness.go, Karpenter v1.6).
const holdArrivals = 15 * time.Minute

func newArrivals(out *output, n *nodes, m *members, now func() time.Time) *arrivals {
	return &arrivals{out: out, nodes: n, members: m, now: now, young: make(map[string]bool), held: make(map[string]engine.Hold)}
}

// saw takes note of a node that came or changed.
func (a *arrivals) saw(n *corev1.Node) {
	young := n.DeletionTimestamp == nil && a.now().Before(n.CreationTimestamp.Add(holdArrivals))
	if young {
		a.young[n.Name], a.stale = true, true
	}
}

func (a *arrivals) left(name string) {
	delete(a.young, name)
	delete(a.held, name) // the engine forgets it with the node
}

// give holds young nodes for those that they came for.
func (a *arrivals) give() {
	if !a.stale {
		return
	}
	a.stale = false
	nodes := a.candidates()
	if len(nodes) == 0 {
		return
	}
	free, covered := a.room(), make(map[*member]bool)
	asking := a.asking()
	next := make(map[string]engine.Hold)
	// Nodes that are held stay with their workload; the others follow in order of age.
	for _, kept := range []bool{true, false} {
		for _, n := range nodes {
			was, has := a.held[n.Name]
			if has != kept {
				continue
			}
			whom := asking
			if gang := n.Annotations[v1alpha1.KeyLaunchedFor]; gang != "" {
				whom = []string{gang}
			} else if has {
				whom = append([]string{was.Gang}, asking...)
			}
			if h, ok := a.hold(n, whom, free[n.Name], covered); ok {
				next[n.Name] = h
			}
		}
	}
	a.put(next)
}

// put gives the engine what changed.
func (a *arrivals) put(next map[string]engine.Hold) {
	for _, name := range sortedNames(a.held) {
		old := a.held[name]
		if h, ok := next[name]; !ok || h.Gang != old.Gang {
			a.out.drop(engine.KindHold, old.Gang+"@"+name, a.out.derived.next())
		}
	}
	for _, name := range sortedNames(next) {
		h := next[name]
		if old, ok := a.held[name]; !ok || !reflect.DeepEqual(old, h) {
			given := h
			given.Version = a.out.derived.next()
			a.out.put(engine.Change{Hold: &given})
		}
	}
	a.held = next
}

// candidates are the young nodes that work can be placed on, the oldest first. Those that have become old are forgotten.
func (a *arrivals) candidates() (out []*corev1.Node) {
	for _, name := range sortedNames(a.young) {
		n := a.nodes.objects[name]
		if n == nil || !a.now().Before(n.CreationTimestamp.Add(holdArrivals)) {
			delete(a.young, name)
			continue
		}
		if a.nodes.given[name] != nil && !n.Spec.Unschedulable {
			out = append(out, n)
		}
	}
	slices.SortStableFunc(out, func(x, y *corev1.Node) int { return x.CreationTimestamp.Compare(y.CreationTimestamp.Time) })
	return out
}

// room is what is free on the young nodes.
func (a *arrivals) room() map[string]map[string]int64 {
	out := make(map[string]map[string]int64)
	for _, name := range sortedNames(a.young) {
		left := make(map[string]int64)
		if v := a.nodes.given[name]; v != nil {
			for _, r := range v.Allocatable {
				left[r.Resource] = r.Value
			}
		}
		out[name] = left
	}
	for _, m := range a.members.pods { //archtest:any-order they are added up
		if left := out[m.pod.Spec.NodeName]; left != nil {
			for _, r := range m.takes {
				left[r.Resource] -= r.Value
			}
			left[engine.Pods]--
		}
	}
	return out
}

// asking are the workloads that were told that they need nodes, in the order in which they were told.
func (a *arrivals) asking() []string {
	since := make(map[string]time.Time)
	for _, m := range a.members.pods { //archtest:any-order the earliest counts, and they are sorted below
		at, told := unschedulable(m.pod)
		if !m.pays() || !m.given || !m.waiting() || !told || !m.inGang() {
			continue
		}
		if was, ok := since[m.workload]; !ok || at.Before(was) {
			since[m.workload] = at
		}
	}
	out := sortedNames(since)
	slices.SortStableFunc(out, func(x, y string) int { return cmp.Or(since[x].Compare(since[y]), strings.Compare(x, y)) })
	return out
}

// unschedulable is since when the pod is marked as one that needs nodes.
func unschedulable(p *corev1.Pod) (time.Time, bool) {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			return c.LastTransitionTime.Time, c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
		}
	}
	return time.Time{}, false
}

// hold is the node held for the first of the workloads that has pods for it: as many as there is room for.
func (a *arrivals) hold(n *corev1.Node, whom []string, left map[string]int64, covered map[*member]bool) (engine.Hold, bool) {
	named := n.Annotations[v1alpha1.KeyLaunchedFor] != ""
	for _, gang := range whom {
		var sum engine.Resources
		for _, m := range a.members.of(gang) {
			if covered[m] || !m.pays() || !m.given || !m.waiting() || !named && !asked(m.pod, n) || !a.suits(m, n) || !takes(left, m.takes) {
				continue
			}
			covered[m] = true
			sum = addAll(sum, m.takes)
		}
		if len(sum) > 0 {
			return engine.Hold{Gang: gang, Node: n.Name, Requests: sum, Until: n.CreationTimestamp.Add(holdArrivals).UTC()}, true
		}
	}
	return engine.Hold{}, false
}

// asked says whether the pod was told that it needs nodes before the node was made. Times of both are whole seconds.
func asked(p *corev1.Pod, n *corev1.Node) bool {
	at, told := unschedulable(p)
	return told && !at.After(n.CreationTimestamp.Time)
}

// suits says whether the pod may be on the node by selector, affinity and taints. Kubernetes' own taints say what is so for now.
func (a *arrivals) suits(m *member, n *corev1.Node) bool {
	if ok, err := nodeaffinity.GetRequiredNodeAffinity(m.pod).Match(n); err != nil || !ok {
		return false
	}
	return !slices.ContainsFunc(a.nodes.given[n.Name].Taints, func(t engine.Taint) bool {
		if string(t.Effect) == string(corev1.TaintEffectPreferNoSchedule) || strings.HasPrefix(t.Key, "node.kubernetes.io/") || strings.HasPrefix(t.Key, "node.cloudprovider.kubernetes.io/") {
			return false
		}
		return !slices.ContainsFunc(m.value.Tolerations, func(o engine.Toleration) bool { return o.Tolerates(t) })
	})
}

// takes takes what a pod asks for from what is left, if all of it is there.
func takes(left map[string]int64, what engine.Resources) bool {
	for _, r := range what {
		if r.Value > left[r.Resource] {
			return false
		}
	}
	if left[engine.Pods] < 1 {
		return false
	}
	for _, r := range what {
		left[r.Resource] -= r.Value
	}
	left[engine.Pods]--
	return true
}

// addAll adds what one more pod asks for, and its place among the node's pods. The sum is in order of resources.
func addAll(sum, more engine.Resources) engine.Resources {
	out := slices.Clone(sum)
	for _, r := range append(slices.Clone(more), engine.Amount{Resource: engine.Pods, Value: 1}) {
		i, ok := slices.BinarySearchFunc(out, r.Resource, func(x engine.Amount, name string) int { return strings.Compare(x.Resource, name) })
		if ok {
			out[i].Value += r.Value
		} else {
			out = slices.Insert(out, i, r)
		}
	}
	return out
}
