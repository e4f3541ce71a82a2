package submit

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/engine/why"
)

// waitsFor notes what the plan has the workload wait for.
func (c *checker) waitsFor(s *submission) {
	r := &s.waits
	var first *corev1.Pod
	for _, p := range s.pods {
		if c.where[keyOf(p)] == "" {
			first = p
			break
		}
	}
	if first == nil {
		return
	}
	for _, w := range c.plan.Waiting {
		if w.Gang == c.full.model.WorkloadOf(keyOf(first)) && len(w.Gates) > 0 {
			r.Cause, r.Layer, r.Owner = w.Cause, check.L3, check.Scheduler
			r.Summary = clauses(w.Gates[0].Sentence(c.plan.Certificates), 2)
		}
	}
	if r.Summary == "" {
		r.Cause, r.Layer, r.Owner = cmp.Or(r.Cause, why.ClusterFull), check.L3, check.Scheduler
		r.Summary = "there is no room for it beside what runs and waits"
	}
	if device, n := podspec.Device(first); n > 0 {
		for _, h := range c.full.model.Holders(keyOf(first), device, c.now.At) {
			r.For = append(r.For, Holder{Workload: h.Workload, Resource: device, Amount: h.Amount})
		}
		r.For = append(r.For, c.before(first, device)...)
		r.For = r.For[:min(len(r.For), 5)]
	}
	if e, ok := c.full.model.Estimate(keyOf(first), c.now.At); ok {
		r.ETA = &facts.ETA{Earliest: e.Earliest, Likely: e.Likely, Because: e.Because}
	}
}

// before is who starts now, before the pod, on nodes that it could use: most first.
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
