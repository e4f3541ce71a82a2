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
		slices.Equal(s.GPU.Only, o.GPU.Only) && slices.Equal(s.GPU.Except, o.GPU.Except) && slices.Equal(s.GPU.NotModels, o.GPU.NotModels) &&
		(s.PodRules == o.PodRules || s.Rules().equal(o.Rules())) && s.Claims.equal(o.Claims) && s.Part.equal(o.Part) && s.Claimed == o.Claimed && slices.Equal(s.Features, o.Features)
}

// Rules are the rules between pods, to be read; of a spec without any it is one value for all.
func (s *Spec) Rules() *PodRules {
	if s.PodRules == nil {
		return &noRules
	}
	return s.PodRules
}

var noRules PodRules

// Any says whether there is a rule.
func (r *PodRules) Any() bool {
	return r != nil && len(r.PodAffinity)+len(r.PodAntiAffinity)+len(r.PodPreferred)+len(r.Spread) > 0
}

func (r *PodRules) equal(o *PodRules) bool {
	return slices.EqualFunc(r.PodAffinity, o.PodAffinity, PodTerm.Equal) && slices.EqualFunc(r.PodAntiAffinity, o.PodAntiAffinity, PodTerm.Equal) &&
		slices.EqualFunc(r.PodPreferred, o.PodPreferred, PodPreference.Equal) && slices.EqualFunc(r.Spread, o.Spread, Spread.Equal)
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
