package submit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

func (c *checker) nodesOf(s *submission) []NodePods {
	count := make(map[string]int)
	for _, p := range s.pods {
		if n := c.where[keyOf(p)]; n != "" {
			count[n]++
		}
	}
	var out []NodePods
	for _, n := range slices.Sorted(maps.Keys(count)) {
		out = append(out, NodePods{Node: n, Pods: count[n]})
	}
	return out
}

func (c *checker) terms(s *submission) *Terms {
	if len(s.pods) == 0 {
		return nil
	}
	p, model := s.pods[0], c.full.model
	t := &Terms{Scheduler: p.Spec.SchedulerName, Queue: model.QueueOf(keyOf(p)), Priority: model.PriorityOf(keyOf(p)), Preemptible: true}
	if value, _ := c.now.Inherited(p, v1alpha1.KeyPreemptible); value == "false" {
		t.Preemptible = false
	}
	seen := make(map[string]bool)
	for _, p := range s.pods {
		gang := c.full.model.WorkloadOf(keyOf(p))
		if seen[gang] {
			continue
		}
		seen[gang] = true
		for _, a := range c.borrowed[gang] {
			if t.Borrowed == nil {
				t.Borrowed = make(map[string]int64)
			}
			t.Borrowed[a.Resource] += a.Value
		}
		t.Evicts = append(t.Evicts, c.evicting[gang]...)
	}
	return t
}

func gpusOf(p *corev1.Pod) int64 {
	n := int64(0)
	for name, q := range podspec.Requests(p) {
		if strings.HasSuffix(string(name), "/gpu") || strings.Contains(string(name), "/mig-") {
			n += q.Value()
		}
	}
	return n
}

func startsText(r *Workload, placed int) string {
	text := "starts now"
	switch {
	case placed < r.Pods:
		text = fmt.Sprintf("starts now with %d of its %d pods", placed, r.Pods)
	}
	switch len(r.Nodes) {
	case 0:
	case 1:
		text += " on node " + r.Nodes[0].Node
	default:
		var names []string
		for _, n := range r.Nodes {
			names = append(names, n.Node)
		}
		text += fmt.Sprintf(" on %d nodes: %s", len(names), wording.AtMost(4, names))
	}
	return text + termsText(r.Terms)
}

// termsText is the terms in words.
func termsText(t *Terms) string {
	if t == nil {
		return ""
	}
	var out []string
	switch {
	case len(t.Borrowed) > 0:
		var all []string
		for _, name := range slices.Sorted(maps.Keys(t.Borrowed)) {
			all = append(all, fmt.Sprintf("%d %s", t.Borrowed[name], name))
		}
		out = append(out, fmt.Sprintf("beyond the quota of queue %s: %s are borrowed and may be reclaimed", t.Queue, strings.Join(all, ", ")))
	case t.Queue != "":
		out = append(out, "within the quota of queue "+t.Queue)
	}
	if len(t.Evicts) > 0 {
		out = append(out, wording.Pods(len(t.Evicts))+" evicted for it")
	}
	if len(out) == 0 {
		return ""
	}
	return ", " + strings.Join(out, ", ")
}
