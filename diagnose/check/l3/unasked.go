package l3

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

// unasked says whether it is about a DaemonSet that no node asks for: no place is looked for, for pods that it does not make.
func unasked(c *check.Case) bool {
	d, ok := c.Top.(*appsv1.DaemonSet)
	return ok && c.State == facts.Absent && d.Status.DesiredNumberScheduled == 0 && d.Status.ObservedGeneration >= d.Generation && len(c.Nodes) > 0
}

// suitsNoNode is about such a DaemonSet where each label that it asks for exists: no node has all of them, or those that do have
// taints that it does not tolerate.
func suitsNoNode(c *check.Case) []check.Finding {
	if len(place.Unmet(c)) > 0 {
		return nil
	}
	var tainted []*corev1.Node
	by := make(map[string][]corev1.Taint)
	for _, n := range c.Nodes {
		if !podspec.Selects(c.Pod, n) {
			continue
		}
		taints := podspec.Untolerated(c.Pod, n)
		if len(taints) == 0 {
			return nil // the controller has yet to look
		}
		tainted = append(tainted, n)
		by[taintTexts(taints)] = taints
	}
	if len(tainted) == 0 {
		if place.Awaits(c) {
			return nil
		}
		return []check.Finding{{
			Message:  fmt.Sprintf("of %s none matches the node selector and affinity of %s", wording.Number(len(c.Nodes), "node"), facts.RefTo(c.Top)),
			Evidence: []facts.Evidence{noneDesired(c)},
			Advice:   "Compare the labels that it asks for together with those of the nodes that are meant.",
		}}
	}
	texts := slices.Sorted(maps.Keys(by))
	f := check.Finding{
		Message:  fmt.Sprintf("of %s %d %s its node selector and affinity, and %s does not tolerate %s", wording.Number(len(c.Nodes), "node"), len(tainted), wording.InNumber(len(tainted), "matches", "match"), facts.RefTo(c.Top), strings.Join(texts, " or ")),
		Evidence: append([]facts.Evidence{noneDesired(c)}, shown(tainted[0])...),
	}
	for _, text := range texts[:min(len(texts), 3)] {
		if !slices.ContainsFunc(by[text], func(t corev1.Taint) bool { return !place.MayTolerate(c, t) }) {
			f.Edits = append(f.Edits, place.Toleration(c, by[text]...))
		}
	}
	if len(f.Edits) == 0 {
		f.Owner, f.Advice = check.Platform, "Ask who runs the nodes whether it should be on them; if so, it has to tolerate the taint."
	}
	return []check.Finding{f}
}

func noneDesired(c *check.Case) facts.Evidence {
	return facts.Evidence{Object: facts.RefTo(c.Top).In(), Field: "status.desiredNumberScheduled", Value: "0"}
}

func shown(n *corev1.Node) []facts.Evidence {
	out := place.TaintsShown(n, func(string) bool { return true })
	for i := range out {
		out[i].Object = facts.RefTo(n).In()
	}
	return out
}

func taintTexts(taints []corev1.Taint) string {
	var out []string
	for _, t := range taints {
		out = append(out, podspec.TaintText(t))
	}
	slices.Sort(out)
	return strings.Join(out, " and ")
}
