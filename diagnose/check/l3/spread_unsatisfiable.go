package l3

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var spreadUnsatisfiableCheck = check.Check{
	Cause: "spread-unsatisfiable", Layer: check.L3, Owner: check.User, Stage: check.Place, Rank: 17,
	Title:   "A spread constraint leaves no node",
	Meaning: "The pod has to be spread evenly over zones, nodes or other domains. The domain that is next has no place for it, and in the others there are too many of its kind already; or nodes lack the label that says which domain they are in.",
	Remedy:  "Make room in the domain that is next, raise maxSkew, or let the constraint be a wish with whenUnsatisfiable: ScheduleAnyway.",
	Not:     "The cluster is full.",
	Find:    spreadUnsatisfiable,
}

func spreadUnsatisfiable(c *check.Case) []check.Finding {
	f := c.Fit
	if f == nil {
		return place.OnlySaid(c,
			[2]string{"node(s) didn't match pod topology spread constraints (missing required label)", "nodes lack the label over which it has to be spread"},
			[2]string{"node(s) didn't match pod topology spread constraints", "its spread constraint leaves no node: where there is room there are too many of its kind"},
		)
	}
	var out []check.Finding
	for _, s := range place.Spreads(c.Facts, c.Pod) {
		for i := range f.Exclusions {
			b := &f.Exclusions[i]
			if b.Term != s.Index || len(f.Held(b)) == 0 {
				continue
			}
			switch b.Kind {
			case check.BySpread:
				if !nextIsClosed(c) {
					out = append(out, tooMany(c, b, s))
				}
			case check.BySpreadLabel:
				out = append(out, noDomain(c, b, s))
			}
		}
	}
	return out
}

// nextIsClosed says whether a node of a domain that is next would hold the pod but for its state: the constraint is met as soon as
// the node is open again.
func nextIsClosed(c *check.Case) bool {
	for i := range c.Fit.Nodes {
		if place.ClosedByState(c, &c.Fit.Nodes[i]) {
			return true
		}
	}
	return false
}

func spreadEvidence(c *check.Case, s *place.Spread) []facts.Evidence {
	return []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: fmt.Sprintf("spec.topologySpreadConstraints[%d]", s.Index),
		Value: fmt.Sprintf("maxSkew %d over %s: %s", s.MaxSkew, s.TopologyKey, place.SelectorText(s.LabelSelector))}}
}

// tooMany words a constraint that other domains are too full for.
func tooMany(c *check.Case, b *check.Exclusion, s *place.Spread) check.Finding {
	held, word := c.Fit.Held(b), place.DomainWord(s.TopologyKey)
	found := check.Finding{
		Fit: true, Evidence: spreadEvidence(c, s),
		Message: fmt.Sprintf("it has to be spread over %ss with a skew of at most %d; %s that could hold it have too many of its kind, and %s %s, which has %d, is next",
			word, s.MaxSkew, wording.NodesInWords(len(held)), word, wording.Few(s.Empties()), s.Least()),
	}
	if len(s.Have) < int(ptr.Deref(s.MinDomains, 1)) {
		found.Message = fmt.Sprintf("it has to be spread over at least %d %ss with a skew of at most %d, and there are %d", *s.MinDomains, word, s.MaxSkew, len(s.Have))
	}
	at := edit.Pointer("spec", "topologySpreadConstraints", fmt.Sprint(s.Index))
	if ptr.Deref(s.NodeTaintsPolicy, corev1.NodeInclusionPolicyIgnore) == corev1.NodeInclusionPolicyIgnore && emptiesTainted(c, s) {
		found.Edits = append(found.Edits, edit.Edit{Side: edit.Workload, Cost: 1, Text: fmt.Sprintf("let the spread over %s not count nodes with taints that it does not tolerate (nodeTaintsPolicy: Honor)", s.TopologyKey),
			Ops: []edit.Op{{Op: "add", Path: at + "/nodeTaintsPolicy", Value: "Honor"}}})
	}
	if skew := skewNeeded(c, b, s); skew > s.MaxSkew && len(s.Have) >= int(ptr.Deref(s.MinDomains, 1)) {
		found.Edits = append(found.Edits, edit.Edit{Side: edit.Workload, Cost: 2, Text: fmt.Sprintf("raise maxSkew over %s from %d to %d", s.TopologyKey, s.MaxSkew, skew),
			Ops: []edit.Op{{Op: "replace", Path: at + "/maxSkew", Value: skew}}})
	}
	found.Edits = append(found.Edits, anyway(s, at))
	if e, ok := place.FewerPods(c); ok {
		found.Edits = append(found.Edits, e)
	}
	// That the rule does not hold any more stands for the blocker, whichever of the edits is the best.
	stands := anyway(s, at)
	found.Probe = &stands
	return found
}

func anyway(s *place.Spread, at string) edit.Edit {
	return edit.Edit{Side: edit.Workload, Cost: 3, Text: fmt.Sprintf("let the spread over %s be a wish (whenUnsatisfiable: ScheduleAnyway)", s.TopologyKey),
		Ops: []edit.Op{{Op: "replace", Path: at + "/whenUnsatisfiable", Value: "ScheduleAnyway"}}}
}

// emptiesTainted says whether the domains that are next have only nodes that the pod does not tolerate.
func emptiesTainted(c *check.Case, s *place.Spread) bool {
	next := s.Empties()
	for _, n := range c.Nodes {
		if slices.Contains(next, n.Labels[s.TopologyKey]) && len(podspec.Untolerated(c.Pod, n)) == 0 {
			return false
		}
	}
	return len(next) > 0
}

// skewNeeded is the smallest skew that would open a node with room, 0 for none.
func skewNeeded(c *check.Case, b *check.Exclusion, s *place.Spread) int32 {
	least := int32(0)
	for i := range c.Fit.Nodes {
		n := &c.Fit.Nodes[i]
		if b.Nodes[n.Name] == "" || len(n.Removed) > 0 || len(n.Short) > 0 {
			continue
		}
		skew := int32(s.Have[n.Labels[s.TopologyKey]] + s.Self - s.Least())
		if least == 0 || skew < least {
			least = skew
		}
	}
	return least
}

// noDomain words a constraint over a label that nodes do not have.
func noDomain(c *check.Case, b *check.Exclusion, s *place.Spread) check.Finding {
	held := c.Fit.Held(b)
	at := edit.Pointer("spec", "topologySpreadConstraints", fmt.Sprint(s.Index))
	stands := anyway(s, at)
	found := check.Finding{
		Fit: true, Owner: check.Platform, Probe: &stands, Edits: []edit.Edit{stands},
		Message:  fmt.Sprintf("it has to be spread over %s, and %s that could hold it, such as %s, have no label %s", s.TopologyKey, wording.NodesInWords(len(held)), held[0], s.TopologyKey),
		Evidence: append(spreadEvidence(c, s), facts.Evidence{Object: facts.RefTo(c.NodeNamed(held[0])).In(), Field: fmt.Sprintf("metadata.labels[%q]", s.TopologyKey), Value: ""}),
		Advice:   fmt.Sprintf("Label the nodes with %s, as their place says, or spread over a label that they have.", s.TopologyKey),
	}
	key, near := otherKey(c, s)
	if near {
		found.Owner = check.User
		found.Message += fmt.Sprintf("; all have %s", key)
	}
	twice := slices.ContainsFunc(c.Pod.Spec.TopologySpreadConstraints, func(o corev1.TopologySpreadConstraint) bool {
		return o.TopologyKey == key && o.WhenUnsatisfiable == s.WhenUnsatisfiable
	})
	switch {
	case key == "":
	case twice: // the API server allows one of a kind
		found.Edits = append([]edit.Edit{{Side: edit.Workload, Cost: 1, Text: fmt.Sprintf("take the spread over %s out: it is spread over %s already", s.TopologyKey, key),
			Ops: []edit.Op{{Op: "remove", Path: at}}}}, found.Edits...)
	default:
		found.Edits = append([]edit.Edit{{Side: edit.Workload, Cost: 1, Text: fmt.Sprintf("spread over %s, which the nodes have, instead of %s", key, s.TopologyKey),
			Ops: []edit.Op{{Op: "replace", Path: at + "/topologyKey", Value: key}}}}, found.Edits...)
	}
	return found
}

// otherKey is a label by which the nodes have domains, for one that none of them has; "" if there is none. near: it is written
// nearly like it.
func otherKey(c *check.Case, s *place.Spread) (key string, near bool) {
	has := func(key string) bool {
		return !slices.ContainsFunc(c.Nodes, func(n *corev1.Node) bool { return n.Labels[key] == "" })
	}
	for _, n := range c.Nodes {
		if n.Labels[s.TopologyKey] != "" {
			return "", false
		}
	}
	keys := make(map[string]int)
	for _, n := range c.Nodes {
		for key := range n.Labels {
			keys[key]++
		}
	}
	if key, ok := place.Nearest(s.TopologyKey, keys, place.Misspelt); ok && has(key) {
		return key, true
	}
	for _, key := range []string{corev1.LabelTopologyZone, corev1.LabelHostname} {
		if has(key) {
			return key, false
		}
	}
	return "", false
}
