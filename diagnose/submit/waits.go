package submit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/engine/why"
)

// waitsFor notes what the plan has the workload wait for, and for whom.
func (c *checker) waitsFor(s *submission) {
	r := &s.waits
	i := slices.IndexFunc(s.pods, func(p *corev1.Pod) bool { return c.where[keyOf(p)] == "" })
	if i < 0 {
		return
	}
	s.first = s.pods[i]
	if w := c.waiting[c.full.model.WorkloadOf(keyOf(s.first))]; w != nil && len(w.Gates) > 0 {
		r.Cause, r.Layer, r.Owner = w.Cause, check.L3, check.Scheduler
		r.Summary = clauses(w.Gates[0].Sentence(c.plan.Certificates), 2)
	}
	if r.Summary == "" {
		r.Cause, r.Layer, r.Owner = cmp.Or(r.Cause, why.ClusterFull), check.L3, check.Scheduler
		r.Summary = "there is no room for it beside what runs and waits"
	}
	if v := c.evicted(s.first); v != nil {
		r.Summary += fmt.Sprintf("; scheduler %s may evict pods of lower priority for it, such as %s", s.first.Spec.SchedulerName, keyOf(v))
	}
	r.For = c.whom(s)
}

// evicted is a pod that another scheduler than Berth may evict for the one that waits, as its priority is lower: one of a node on which it has
// room beside all whose priority is not. The plan evicts nothing for pods that are not Berth's. nil: there is none.
func (c *checker) evicted(p *corev1.Pod) *corev1.Pod {
	if slices.Contains(oursOf(c.world.Model), p.Spec.SchedulerName) || ptr.Deref(p.Spec.PreemptionPolicy, "") == corev1.PreemptNever {
		return nil
	}
	for _, n := range c.now.Nodes {
		if n.Spec.Unschedulable || !podspec.Suits(p, n) {
			continue
		}
		free := n.Status.Allocatable.DeepCopy()
		var lower *corev1.Pod
		for _, o := range c.now.PodsOn(n.Name) {
			if ptr.Deref(o.Spec.Priority, 0) >= ptr.Deref(p.Spec.Priority, 0) {
				podspec.Subtract(free, podspec.Requests(o))
			} else if lower == nil || keyOf(o) < keyOf(lower) {
				lower = o
			}
		}
		if lower != nil && podspec.Fits(podspec.Requests(p), free) {
			return lower
		}
	}
	return nil
}

// mostHolders is how many of those that a workload waits for are named.
const mostHolders = 5

// whom lists the workloads that have what the workload waits for, or start before it: most first.
func (c *checker) whom(s *submission) []Holder {
	device, n := podspec.Device(s.first)
	if n == 0 {
		return nil
	}
	shape := s.shape()
	out, known := c.holders[shape]
	if !known {
		for _, h := range c.full.model.Holders(keyOf(s.first), device, c.now.At) {
			out = append(out, Holder{Workload: h.Workload, Resource: device, Amount: h.Amount})
		}
		out = append(out, c.before(s.first, device)...)
		c.holders[shape] = out
	}
	return slices.Clone(out[:min(len(out), mostHolders)])
}

// before lists the workloads that start now, before the pod, on nodes that it could use: most first.
func (c *checker) before(p *corev1.Pod, device string) []Holder {
	sums := make(map[string]int64)
	for _, start := range c.plan.Starts {
		for _, at := range start.Placements {
			n := c.now.NodeNamed(at.Node)
			if n == nil || !podspec.Suits(p, n) {
				continue
			}
			if q := c.podNamed(at.Pod); q != nil {
				sums[start.Gang] += podspec.Requested(q, device)
			}
		}
	}
	var out []Holder
	for _, key := range slices.Sorted(maps.Keys(sums)) {
		if sums[key] > 0 {
			out = append(out, Holder{Workload: key, Resource: device, Amount: sums[key], Starts: true})
		}
	}
	slices.SortStableFunc(out, func(a, b Holder) int { return cmp.Compare(b.Amount, a.Amount) })
	return out
}

// podNamed is a pod that waits, of the manifests or of the cluster, by namespace/name.
func (c *checker) podNamed(key string) *corev1.Pod {
	if c.byKey == nil {
		c.byKey = make(map[string]*corev1.Pod)
		for _, s := range c.subs {
			for _, p := range s.pods {
				c.byKey[keyOf(p)] = p
			}
		}
	}
	if p := c.byKey[key]; p != nil {
		return p
	}
	namespace, name, _ := strings.Cut(key, "/")
	return c.now.PodNamed(namespace, name)
}

// clauses are the first parts of a sentence that has many.
func clauses(sentence string, n int) string {
	parts := strings.Split(sentence, "; ")
	return strings.Join(parts[:min(n, len(parts))], "; ")
}
