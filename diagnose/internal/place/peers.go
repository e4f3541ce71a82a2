package place

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
)

// Exclusions are the rules that keep the pod from nodes. A pod without such rules costs a look at every other pod's
// affinity; one with them a look at every pod's labels, for each rule.
func Exclusions(f *facts.Facts, p *corev1.Pod) []check.Exclusion {
	all := slices.Concat(antiAffinityExclusions(f, p), othersRuleExclusions(f, p), podAffinityExclusions(f, p), spreadExclusions(f, p), attachExclusions(f, p), deviceExclusions(f, p))
	return slices.DeleteFunc(all, func(b check.Exclusion) bool { return len(b.Nodes) == 0 })
}

// ReasonsByNode says which nodes the exclusions keep the pod from, and why: by node.
func ReasonsByNode(exclusions []check.Exclusion) map[string][]string {
	out := make(map[string][]string)
	for _, b := range exclusions {
		for node, reason := range b.Nodes {
			out[node] = append(out[node], reason)
		}
	}
	return out
}

// PodNames are the pods' names, sorted, with their namespaces where that is not the given one.
func PodNames(pods []*corev1.Pod, namespace string) []string {
	seen := make(map[string]bool)
	for _, p := range pods {
		if p.Namespace == namespace {
			seen[p.Name] = true
		} else {
			seen[p.Namespace+"/"+p.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// OnlySaid goes by the scheduler's words alone, where nodes and the pods on them may not be seen: a finding for the
// first of the reasons, each with what it means, that was given for any node.
func OnlySaid(c *check.Case, reasons ...[2]string) []check.Finding {
	if c.State != facts.Pending || c.Sees("nodes", "") && c.Sees("pods", "") {
		return nil
	}
	said, ok := SaidOf(c)
	if !ok {
		return nil
	}
	for _, r := range reasons {
		if n := said.Count(r[0]); n > 0 || strings.Contains(said.Whole, r[0]) {
			return []check.Finding{{Fit: true, Message: r[1], Evidence: []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: "status.conditions[PodScheduled].message", Value: said.Text}}}}
		}
	}
	return nil
}
