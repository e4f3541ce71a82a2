package l3

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/internal/queue"
	"github.com/berth-dev/berth/diagnose/internal/supply"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/convert"
	"github.com/berth-dev/berth/kube/dialect/kubescheduler"
)

var noMatchingNodeCheck = check.Check{
	Cause: why.NoMatchingNode, Layer: check.L3, Owner: check.User, Stage: check.Place, Rank: 95,
	Title:   "No node meets everything that the pod asks for",
	Meaning: "Each thing that the pod asks for may exist, but selectors, affinity, taints and the rest leave no node that has all of it and takes the pod.",
	Remedy:  "Take away the requirement that excludes the nodes you want, or ask who runs the nodes.",
	Not:     "The cluster is full.",
	Find:    noMatchingNode,
}

func noMatchingNode(c *check.Case) []check.Finding {
	if unasked(c) {
		return suitsNoNode(c)
	}
	if c.Fit == nil {
		return unmatchedAsSaid(c)
	}
	f := place.Stuck(c)
	if f == nil {
		return undeclaredAsSaid(c)
	}
	if !place.Unmatched(c, f) || supply.NewNodeWouldSuit(c) || len(f.Nodes) == 0 && len(c.Foreign[gpustack.BerthPools]) > 0 && slices.ContainsFunc(facts.ExtendedOf(c.Pod), func(device string) bool { return place.Gap(c, device) }) {
		return nil
	}
	if empty, ok := emptyTerms(c); ok {
		return []check.Finding{empty}
	}
	if lacking, ok := undeclared(c, f); ok {
		return []check.Finding{lacking}
	}
	out := check.Finding{Fit: true, Edits: append(declaring(f), dropping(c, f)...)} // to have what was asked for goes before to ask for less
	out.Message = fmt.Sprintf("of %s none will do: %s", wording.Number(len(f.Nodes), "node"), strings.Join(clauseTable(c, f), "; "))
	if len(f.Nodes) == 0 {
		out.Message, out.Owner = "the cluster has no nodes", check.Platform
	}
	if len(out.Edits) == 0 {
		if place.Explained(c, f) {
			return nil
		}
		out.Probe = edit.Nothing("what excludes the nodes is for others to say")
		out.Owner = cmp.Or(out.Owner, check.Platform)
	}
	out.Evidence = place.SaidEvidence(c)
	return []check.Finding{out}
}

// emptyTerms is about a required node affinity whose terms all ask for nothing. People write it for "any node"; it means none.
func emptyTerms(c *check.Case) (check.Finding, bool) {
	terms := place.Terms(&place.Written(c).Spec)
	if len(terms) == 0 || slices.ContainsFunc(terms, func(t corev1.NodeSelectorTerm) bool { return len(t.MatchExpressions)+len(t.MatchFields) > 0 }) {
		return check.Finding{}, false
	}
	const field = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
	return check.Finding{
		Fit: true, Message: "the pod's required node affinity has an empty term in nodeSelectorTerms, and an empty term matches no node",
		Evidence: append([]facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: field, Value: "[{}]"}}, place.SaidEvidence(c)...),
		Advice:   "Write the matchExpressions that are meant, or take the affinity away.",
		Edits: []edit.Edit{{
			Side: edit.Workload, Cost: edit.CostSmall, Text: "take the empty node affinity away",
			Ops: []edit.Op{{Op: "remove", Path: place.AffinityPath}}, Assumes: "any node will do that meets the rest",
		}},
	}, true
}

// clauseTable says what excludes nodes, and how many, the most first.
func clauseTable(c *check.Case, f *check.Fit) []string {
	count := make(map[string]int)
	for i := range f.Nodes {
		n := &f.Nodes[i]
		for _, r := range n.Removed {
			count[clauseWords(r)]++
		}
		for _, b := range n.ExcludedBy {
			count[b]++
		}
		if len(n.Removed)+len(n.ExcludedBy) == 0 && n.Empty == 0 {
			count["too small"]++
		}
	}
	var keys []string
	for k := range count {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b string) int { return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b)) })
	var out []string
	for _, k := range keys[:min(len(keys), 6)] {
		out = append(out, fmt.Sprintf("%d %s", count[k], k))
	}
	return out
}

func clauseWords(r why.Clause) string {
	switch r.Kind {
	case why.ByWholeOnly:
		return "without parts of GPUs to give"
	case why.BySelector:
		if by, ok := strings.CutPrefix(r.Detail, convert.KeySharing+"="); ok {
			return "on which nobody gives parts of GPUs as " + by + " does"
		}
		if feature := featureOf(r); feature != "" {
			return "that do not declare feature " + feature
		}
		return "without the label " + r.Detail
	case why.ByAffinity:
		return "that the node affinity excludes"
	case why.ByTaint:
		return "with the taint " + r.Detail + ", which the pod does not tolerate"
	case why.ByCordon:
		return "cordoned"
	case why.ByNodeName:
		return "other than node " + r.Detail
	case why.ByNodeSet:
		return "that cannot have the pod's volumes"
	case why.ByPort:
		return "with host port " + r.Detail + " taken"
	case why.ByModel:
		return "without a GPU of model " + r.Detail
	}
	if r.Kind == why.ByNamed {
		return "without a GPU that the pod may use (" + r.Detail + ")"
	}
	return strings.TrimSpace("excluded by " + string(r.Kind) + " " + r.Detail)
}

// dropping are edits that take away what the pod asks of labels although nodes meet it one by one: of all nodes that
// would hold the pod, those that fewest such things exclude count.
func dropping(c *check.Case, f *check.Fit) []edit.Edit {
	dead := place.Unmet(c)
	by := make(map[string]edit.Edit)
	room := make(map[string]bool)
	fewestNeeds := 3
	for i := range f.Nodes {
		n := &f.Nodes[i]
		edits, ok := ownExclusions(c, n, dead)
		if !ok || n.Empty == 0 || len(edits) > fewestNeeds {
			continue
		}
		if len(edits) < fewestNeeds {
			fewestNeeds = len(edits)
			clear(by)
		}
		e := asOne(edits)
		by[e.Text] = e
		room[e.Text] = room[e.Text] || len(n.Short) == 0
	}
	var out []edit.Edit
	for _, e := range by {
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b edit.Edit) int {
		if room[a.Text] != room[b.Text] {
			return map[bool]int{true: -1, false: 1}[room[a.Text]]
		}
		return cmp.Or(cmp.Compare(a.Cost, b.Cost), cmp.Compare(a.Text, b.Text))
	})
	return out[:min(len(out), 6)]
}

// ownExclusions are edits that together open the node to the pod, where nothing but what the pod asks of labels
// excludes it, and other checks do not speak of that.
func ownExclusions(c *check.Case, n *check.NodeFit, dead []place.Need) ([]edit.Edit, bool) {
	if len(n.ExcludedBy) > 0 || len(n.Removed) == 0 || len(dead) > 0 {
		return nil, false
	}
	var out []edit.Edit
	for _, r := range n.Removed {
		switch r.Kind {
		case why.BySelector:
			if feature := featureOf(r); feature != "" {
				e, fields := needless(c, feature)
				if len(fields) == 0 {
					return nil, false
				}
				out = append(out, e)
				continue
			}
			key, value, _ := strings.Cut(r.Detail, "=")
			e, ok := suiting(c, place.Need{Key: key, Values: []string{value}, Term: -1, Expr: -1}, n.Node)
			if !ok || key == corev1.LabelHostname {
				return nil, false
			}
			out = append(out, e)
		case why.ByAffinity:
			edits, ok := affinitySuiting(c, n.Node)
			if !ok {
				return nil, false
			}
			out = append(out, edits...)
		default:
			return nil, false
		}
	}
	return out, len(out) > 0
}

// suiting has the pod ask for what the node has, or for nothing where it has no such label.
func suiting(c *check.Case, n place.Need, node *corev1.Node) (edit.Edit, bool) {
	if v := node.Labels[n.Key]; v != "" && len(n.Values) > 0 {
		e, ok := place.Renames(c, n, n.Key, v)
		e.Cost = edit.CostSmall
		return e, ok
	}
	return place.Drops(c, n)
}

// affinitySuiting opens the node in the pod's only affinity term: the expressions that it does not meet go.
func affinitySuiting(c *check.Case, node *corev1.Node) ([]edit.Edit, bool) {
	all := place.Terms(&c.Pod.Spec)
	if len(all) != 1 || len(all[0].MatchFields) > 0 {
		return nil, false
	}
	var unmet []int
	for i, e := range all[0].MatchExpressions {
		if !meets(node, e) {
			unmet = append(unmet, i)
		}
	}
	if len(unmet) != 1 {
		return nil, false
	}
	e := all[0].MatchExpressions[unmet[0]]
	n := place.Need{Key: e.Key, Values: e.Values, Term: 0, Expr: unmet[0]}
	if e.Operator == corev1.NodeSelectorOpIn {
		change, ok := suiting(c, n, node)
		return []edit.Edit{change}, ok
	}
	if !place.AsksIn(c, n) {
		return nil, false
	}
	what := strings.TrimSpace(fmt.Sprintf("%s %s %s", e.Key, e.Operator, strings.Join(e.Values, ", ")))
	return []edit.Edit{{Side: edit.Workload, Cost: edit.CostSmall, Text: "take the rule that " + what + " out of the node affinity", Assumes: "the work runs as well on nodes that do not meet it", Ops: []edit.Op{place.WithoutExpression(c, 0, unmet[0])}}}, true
}

// meets says whether the node meets one expression.
func meets(node *corev1.Node, e corev1.NodeSelectorRequirement) bool {
	p := &corev1.Pod{Spec: corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{e}}},
	}}}}}
	open := node.DeepCopy()
	open.Spec = corev1.NodeSpec{}
	return podspec.Suits(p, open)
}

// asOne does several edits as one. Expressions are taken out one at most, so that positions stay right.
func asOne(edits []edit.Edit) edit.Edit {
	if len(edits) == 1 {
		return edits[0]
	}
	out := edit.Edit{Side: edit.Workload, Cost: edit.CostSmall + 1}
	var texts []string
	for _, e := range edits {
		texts = append(texts, e.Text)
		out.Ops = append(out.Ops, e.Ops...)
	}
	out.Text = strings.Join(texts, " and ")
	return out
}

// unmatchedAsSaid goes by the scheduler's words where nodes cannot be seen.
func unmatchedAsSaid(c *check.Case) []check.Finding {
	s, ok := place.SaidOf(c)
	if !ok {
		return queue.BerthSaid(c, why.NoMatchingNode)
	}
	if c.State != facts.Pending || len(s.Lacks()) > 0 && (s.Evicting.Nobody > 0 || !s.Evicting.Known || place.TellsSize(c.Facts)) {
		return nil
	}
	if s.Whole == kubescheduler.NoNodes {
		return []check.Finding{{Owner: check.Platform, Message: "the cluster has no nodes", Evidence: place.SaidEvidence(c)}}
	}
	closed, cordons := place.ClosedAsSaid(c)
	if s.Whole != "" || cordons > 0 {
		return nil // node-cordoned
	}
	var parts []string
	for _, r := range s.Reasons {
		words, ok := saidWords(r.Text)
		if !ok {
			return nil // of rules between pods, volumes and the like, others speak
		}
		parts = append(parts, fmt.Sprintf("%d %s", r.Nodes, words))
	}
	if closed {
		return []check.Finding{{
			Layer: check.L2, Owner: check.Platform, Evidence: place.SaidEvidence(c),
			Message: fmt.Sprintf("of %s none will do: %s; which they are cannot be seen", wording.Number(s.Nodes, "node"), strings.Join(parts, "; ")),
			Advice:  "The taints say that the nodes are not to be used now: ask who runs them, by when they are.",
		}}
	}
	return []check.Finding{{
		Message: fmt.Sprintf("of %s none will do: %s; which they are cannot be seen", wording.Number(s.Nodes, "node"), strings.Join(parts, "; ")), Evidence: place.SaidEvidence(c),
		Advice: "Compare the node selector, affinity and tolerations with the nodes, or ask somebody who may see them.",
	}}
}

// saidWords are the scheduler's words about one pod and a node in plainer ones.
func saidWords(reason string) (string, bool) {
	switch {
	case strings.HasPrefix(reason, "node(s) had untolerated taint(s)"):
		return "with a taint that the pod does not tolerate", true
	case strings.HasPrefix(reason, "node(s) had untolerated taint {"):
		return "with the taint " + strings.TrimPrefix(reason, "node(s) had untolerated taint ") + ", which the pod does not tolerate", true
	case strings.HasPrefix(reason, "node(s) didn't match Pod's node affinity/selector"), strings.HasPrefix(reason, "node(s) didn't satisfy plugin(s) [NodeAffinity]"):
		return "without the labels that the pod asks for", true
	case strings.HasPrefix(reason, "Insufficient "):
		return "with too little " + strings.TrimPrefix(reason, "Insufficient "), true
	case reason == "node(s) were unschedulable":
		return "cordoned", true
	}
	return "", false
}
