package l3

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/internal/supply"
)

var gpuTaintNotToleratedCheck = check.Check{
	Cause: "gpu-taint-not-tolerated", Layer: check.L3, Owner: check.User, Stage: check.Place, Rank: 12,
	Title:   "The pod does not tolerate the taint of the GPU nodes",
	Meaning: "GPU nodes carry a taint that keeps work without GPUs off them, or work that does not expect them to be taken back (spot machines) or to have another architecture. The pod asks for GPUs and lacks the toleration.",
	Remedy:  "Add the toleration to the workload.",
	Not:     "There are no GPUs.",
	Find:    gpuTaint,
}

func gpuTaint(c *check.Case) []check.Finding {
	if c.Fit == nil {
		return gpuTaintAsSaid(c)
	}
	f := place.Stuck(c)
	if f == nil {
		return nil
	}
	open := slices.ContainsFunc(f.Nodes, func(n check.NodeFit) bool { return n.Open() && n.Empty > 0 }) || supply.NewNodeWouldSuit(c)
	sets := taintSets(c, f, open)
	if len(sets) == 0 {
		return nil
	}
	var out check.Finding
	var texts []string
	nodes, gave := 0, ""
	for _, s := range sets[:min(len(sets), 3)] {
		nodes += len(s.nodes)
		e := place.Toleration(c, s.taints...)
		texts = append(texts, strings.TrimPrefix(e.Text, "add a toleration for "))
		if class, had := place.ToleratedByClass(c, s.taints); class != nil && out.Owner == "" {
			out.Owner, gave = check.Platform, fmt.Sprintf("; RuntimeClass %s gave the toleration to pod %s, and gives it no more", class.Name, had.Name)
			out.Evidence = append(out.Evidence, facts.Evidence{Object: facts.RefTo(class).In(), Field: "scheduling.tolerations", Value: "none for " + texts[0]})
			if e, ok := place.ToleratesInClass(c, class, s.taints); ok {
				out.Edits = append(out.Edits, e)
			}
		}
		out.Edits = append(out.Edits, e)
		for _, t := range s.taints {
			out.Evidence = append(out.Evidence, facts.Evidence{Object: "node/" + s.nodes[0], Field: fmt.Sprintf("spec.taints[key=%q]", t.Key), Value: podspec.TaintText(t)})
		}
	}
	out.Fit = true
	out.Message = fmt.Sprintf("%s with the taint %s, which marks %s, and the pod does not tolerate it", nodesHave(nodes), strings.Join(texts, " or "), marked(sets[0].taints)) + gave
	for _, t := range sets[0].taints {
		if near := place.NearToleration(c.Pod, t); near != "" {
			out.Message += "; it tolerates " + near
			out.Evidence = append(out.Evidence, facts.Evidence{Object: facts.RefTo(c.Pod).In(), Field: "spec.tolerations", Value: near})
			break
		}
	}
	return []check.Finding{out}
}

// marked is what taints that the pod's owner may tolerate stand for.
func marked(taints []corev1.Taint) string {
	if place.TermsOf(taints) != "" {
		return "machines that work has to be made for"
	}
	return "what the pod asks for"
}

// taintSet is what a pod has to tolerate to have some nodes.
type taintSet struct {
	taints []corev1.Taint
	nodes  []string
	empty  int64
	only   bool // on one of the nodes at least nothing else is in the way
}

// taintSets are the sets that the pod's owner may tolerate, the one with the most nodes to gain first. Where other
// nodes are open to the pod, those count that have room now.
func taintSets(c *check.Case, f *check.Fit, open bool) []*taintSet {
	by := make(map[string]*taintSet)
	for i := range f.Nodes {
		n := &f.Nodes[i]
		taints := n.Untolerated()
		if len(taints) == 0 || slices.ContainsFunc(taints, func(t corev1.Taint) bool { return !place.MayTolerate(c, t) }) {
			continue
		}
		if open && place.TermsOf(taints) != "" {
			continue // the pod waits for the nodes that are open to it
		}
		only := place.OnlyTaintsToTolerate(c, n)
		if open && (!only || len(n.Short) > 0) || n.Spec.Unschedulable && !only {
			continue
		}
		key := ""
		for _, t := range taints {
			key += podspec.TaintText(t) + "\x00"
		}
		if by[key] == nil {
			by[key] = &taintSet{taints: taints}
		}
		s := by[key]
		s.nodes, s.empty, s.only = append(s.nodes, n.Name), s.empty+n.Empty, s.only || only
	}
	var out []*taintSet
	for _, s := range by {
		out = append(out, s)
	}
	if slices.ContainsFunc(out, func(s *taintSet) bool { return s.only }) {
		out = slices.DeleteFunc(out, func(s *taintSet) bool { return !s.only })
	}
	slices.SortFunc(out, func(a, b *taintSet) int {
		return cmp.Or(cmp.Compare(b.empty, a.empty), cmp.Compare(len(a.taints), len(b.taints)), cmp.Compare(a.nodes[0], b.nodes[0]))
	})
	return out
}

func nodesHave(n int) string {
	if n == 1 {
		return "there is 1 node"
	}
	return fmt.Sprintf("there are %d nodes", n)
}

// gpuTaintAsSaid goes by the scheduler's words, which name the taint up to 1.33.
func gpuTaintAsSaid(c *check.Case) []check.Finding {
	s, ok := place.SaidOf(c)
	device, _ := podspec.Device(c.Pod)
	if !ok || c.State != facts.Pending || device == "" || s.Evicting.Nobody > 0 && s.Short(device) > 0 {
		return nil
	}
	for _, t := range s.Taints() {
		if k := place.KindOfTaint(c.Facts, t); k == place.TaintOfHardware || k == place.TaintOfTerms {
			return []check.Finding{{
				Message:  fmt.Sprintf("nodes have the taint %s=%s, which marks %s, and the pod does not tolerate it", t.Key, t.Value, marked([]corev1.Taint{t})),
				Evidence: place.SaidEvidence(c), Advice: "Add the toleration to the workload. It could not be tried: the nodes cannot be seen.",
			}}
		}
	}
	return nil
}
