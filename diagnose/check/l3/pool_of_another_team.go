package l3

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var poolOfAnotherTeamCheck = check.Check{
	Cause: "pool-of-another-team", Layer: check.L3, Owner: check.Scheduler, Stage: check.Place, Rank: 85,
	Title:   "The nodes that have room are kept for others",
	Meaning: "Nodes that would do carry a taint that keeps them for a team or a purpose, and the pod is not of it. That is a rule, and not a mistake of the pod.",
	Remedy:  "Ask whoever gives out nodes for a share of them, or wait for the nodes that are open to everybody.",
	Not:     "Add the toleration: the nodes are others'.",
	Find:    poolOfAnotherTeam,
}

func poolOfAnotherTeam(c *check.Case) []check.Finding {
	f := place.Stuck(c)
	if f == nil {
		return nil
	}
	probe := edit.Edit{Side: edit.Cluster, Text: "open the nodes that are kept for others"}
	kept, said := make(map[string]bool), make(map[string]bool)
	keeps := func(t corev1.Taint) bool {
		key := podspec.TaintText(t)
		if _, ok := said[key]; !ok {
			said[key] = place.KeptForOthers(c, t)
		}
		return said[key]
	}
	var evidence []facts.Evidence
	theirs, enough := 0, f.PodsLacking()+8 // thousands of nodes need not be opened to see whether it would help
	for i := range f.Nodes {
		n := &f.Nodes[i]
		taints := n.Untolerated()
		if len(n.ExcludedBy) > 0 || n.Empty == 0 || len(n.Short) > 0 || !slices.ContainsFunc(taints, keeps) || len(taints) != len(n.Removed) {
			continue
		}
		if slices.ContainsFunc(taints, func(t corev1.Taint) bool { return !keeps(t) && !place.MayTolerate(c, t) }) {
			continue // something else closes it too
		}
		theirs++
		if len(probe.Set) < enough {
			probe.Set = append(probe.Set, without(n.Node, taints))
		}
		at := taints[slices.IndexFunc(taints, keeps)]
		if !kept[podspec.TaintText(at)] {
			kept[podspec.TaintText(at)] = true
			evidence = append(evidence, facts.Evidence{Object: "node/" + n.Name, Field: fmt.Sprintf("spec.taints[key=%q]", at.Key), Value: podspec.TaintText(at)})
		}
	}
	if len(probe.Set) == 0 {
		return nil
	}
	nodes := "1 node that has room is kept for others"
	if theirs > 1 {
		nodes = fmt.Sprintf("%d nodes that have room are kept for others", theirs)
	}
	return []check.Finding{{
		Fit: true, Probe: &probe, Evidence: evidence,
		Message: fmt.Sprintf("%s by the taint %s", nodes, wording.AtMost(3, slices.Sorted(maps.Keys(kept)))),
	}}
}

// without is the node without the taints.
func without(n *corev1.Node, taints []corev1.Taint) *corev1.Node {
	out := n.DeepCopy()
	out.Spec.Taints = slices.DeleteFunc(out.Spec.Taints, func(t corev1.Taint) bool {
		return slices.ContainsFunc(taints, func(u corev1.Taint) bool { return u.MatchTaint(&t) })
	})
	return out
}
