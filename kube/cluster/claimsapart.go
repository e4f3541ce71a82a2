package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A gang that must be in one zone may find its volumes in several: each was made where its pod was to go, and
// then the plan changed. No node helps it, so it does not wait for one.

// whole has all members of gangs that must be in one domain looked at, where one is.
func (s *gangs) whole(again map[string]bool) {
	for key := range maps.Clone(again) {
		if m := s.members.pods[key]; m != nil && m.inGang() && s.described[m.workload].Layout.Required != "" {
			for key := range s.members.gangs[m.workload] {
				again[key] = true
			}
		}
	}
}

// findApart enters in the allowances of a gang's members that they have no domain in common.
func (f *Feed) findApart(allowed []*allowance) {
	byGang := make(map[string][]*allowance)
	for _, a := range allowed {
		if a.m.inGang() && a.Nodes != nil {
			byGang[a.m.workload] = append(byGang[a.m.workload], a)
		}
	}
	//archtest:any-order each gang by itself: what is missing is entered in its own members alone
	for gang, members := range byGang {
		level := f.gangs.described[gang].Layout.Required
		if level == "" {
			continue
		}
		if reason := apart(level, f.parties(gang, members)); reason != "" {
			for _, a := range members {
				a.Missing = append(a.Missing, reason)
			}
		}
	}
}

// party is a member, or those that run, and the domains that it can be in.
type party struct {
	name    string
	domains map[string]bool
}

func (f *Feed) parties(gang string, members []*allowance) (out []party) {
	label := f.tiers.Label(f.gangs.described[gang].Layout.Required)
	add := func(name string, nodes []string) {
		if in := f.nodes.domains(label, nodes); len(in) > 0 {
			out = append(out, party{name, in})
		}
	}
	for _, m := range f.members.sorted(gang) {
		if m.pod.Spec.NodeName != "" {
			add(m.pod.Name, []string{m.pod.Spec.NodeName})
		}
	}
	for _, a := range members {
		add(a.m.pod.Name, a.Nodes)
	}
	return out
}

// apart says which party has no domain in common with those before it, "" if all have.
func apart(level string, parties []party) string {
	var common map[string]bool
	for _, p := range parties {
		if common == nil {
			common = maps.Clone(p.domains)
			continue
		}
		before := maps.Clone(common)
		maps.DeleteFunc(common, func(d string, _ bool) bool { return !p.domains[d] })
		if len(common) == 0 {
			return fmt.Sprintf("its gang must be in one %s, but its volumes are apart: pod %s can be in %s and pod %s in %s; delete the claims of one side to have them made anew",
				level, parties[0].name, listed(before), p.name, listed(p.domains))
		}
	}
	return ""
}

// domains are those in which the nodes are.
func (n *nodes) domains(label string, of []string) map[string]bool {
	out := make(map[string]bool)
	for _, name := range of {
		if n := n.objects[name]; n != nil && n.Labels[label] != "" {
			out[n.Labels[label]] = true
		}
	}
	return out
}

// listed names a few of them.
func listed(domains map[string]bool) string {
	names := slices.Sorted(maps.Keys(domains))
	if len(names) > 3 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:3], ", "), len(names)-3)
	}
	return strings.Join(names, ", ")
}
