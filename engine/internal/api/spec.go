package api

import (
	"maps"
	"slices"
)

// Equal compares field by field; requests in another order count as different, which costs a class and
// nothing else.
func (s *Spec) Equal(o *Spec) bool {
	return slices.Equal(s.Requests, o.Requests) && maps.Equal(s.Selector, o.Selector) &&
		(s.Affinity == nil) == (o.Affinity == nil) && slices.EqualFunc(s.Affinity, o.Affinity, equalTerms) &&
		slices.EqualFunc(s.Preferred, o.Preferred, func(a, b Preference) bool { return a.Weight == b.Weight && equalTerms(a.Term, b.Term) }) &&
		slices.Equal(s.Tolerations, o.Tolerations) && slices.Equal(s.Ports, o.Ports) && s.NodeName == o.NodeName &&
		(s.Nodes == nil) == (o.Nodes == nil) && slices.Equal(s.Nodes, o.Nodes) &&
		slices.Equal(s.GPU.Models, o.GPU.Models) && s.GPU.Clique == o.GPU.Clique && s.GPU.NUMA == o.GPU.NUMA &&
		slices.EqualFunc(s.PodAffinity, o.PodAffinity, PodTerm.Equal) && slices.EqualFunc(s.PodAntiAffinity, o.PodAntiAffinity, PodTerm.Equal) &&
		slices.EqualFunc(s.PodPreferred, o.PodPreferred, PodPreference.Equal) && slices.EqualFunc(s.Spread, o.Spread, Spread.Equal) &&
		slices.Equal(s.Features, o.Features)
}

func equalTerms(a, b Term) bool {
	return slices.EqualFunc(a.Labels, b.Labels, equalRequirements) && slices.EqualFunc(a.Fields, b.Fields, equalRequirements)
}

func equalRequirements(a, b Requirement) bool {
	return a.Key == b.Key && a.Op == b.Op && slices.Equal(a.Values, b.Values)
}

// Keys lists the label keys that the spec asks about, sorted.
func (s *Spec) Keys() []string {
	var out []string
	for k := range s.Selector {
		out = append(out, k)
	}
	for _, t := range s.Affinity {
		for _, r := range t.Labels {
			out = append(out, r.Key)
		}
	}
	for _, p := range s.Preferred {
		for _, r := range p.Term.Labels {
			out = append(out, r.Key)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
