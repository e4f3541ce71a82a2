package engine_test

import (
	"fmt"
	"slices"

	"github.com/berth-dev/berth/engine"
)

// Rules between pods in the worlds of the soak, and the law that no start breaks one. It looks at every pod for every start, and
// shares nothing with the engine or the oracle.

// rule gives some of the jobs labels and a rule, by their number.
func (w *soakWorld) rule(p *engine.Pod) {
	app := func(name string) []engine.Requirement {
		return []engine.Requirement{{Key: "app", Op: engine.In, Values: []string{name}}}
	}
	mine := string(rune('a' + w.born%3))
	p.Labels = map[string]string{"app": mine}
	switch w.born % 11 {
	case 1:
		p.PodRules = &engine.PodRules{PodAntiAffinity: []engine.PodTerm{{Topology: hostname, Namespaces: []string{"ns"}, Labels: app(mine)}}}
	case 4:
		p.PodRules = &engine.PodRules{PodAntiAffinity: []engine.PodTerm{{Topology: "rack", Labels: app("a")}}}
	case 6:
		p.PodRules = &engine.PodRules{PodAffinity: []engine.PodTerm{{Topology: "block", Labels: app(mine)}}}
	case 8:
		p.PodRules = &engine.PodRules{Spread: []engine.Spread{{Topology: "rack", Namespace: "ns", Labels: app(mine), MaxSkew: 2}}}
	case 9:
		p.PodRules = &engine.PodRules{PodPreferred: []engine.PodPreference{{Weight: -10, PodTerm: engine.PodTerm{Topology: hostname, Labels: app(mine)}}}}
	}
}

// soakRules is what portraits say of a pod's labels and rules.
func soakRules(p *engine.Pod) string {
	b := fmt.Sprintf(" labels %v", p.Labels)
	if len(p.Rules().PodAffinity) > 0 {
		b += fmt.Sprintf(" near %+v", p.Rules().PodAffinity)
	}
	if len(p.Rules().PodAntiAffinity) > 0 {
		b += fmt.Sprintf(" apart %+v", p.Rules().PodAntiAffinity)
	}
	if len(p.Rules().PodPreferred) > 0 {
		b += fmt.Sprintf(" wishes %+v", p.Rules().PodPreferred)
	}
	if len(p.Rules().Spread) > 0 {
		b += fmt.Sprintf(" spread %+v", p.Rules().Spread)
	}
	return b
}

// checkRules checks, start by start, that what starts breaks no rule of its own and none of what is there. Who spreads is
// counted when it comes, and not again when another comes after it: members that start together do so in one order, whichever,
// in which each may come. Which of them are counted is not the same for all: one may be of a flavor that another is not.
func (w *soakWorld) checkRules(plan engine.Plan) {
	if len(plan.Starts) == 0 {
		return
	}
	at := map[string]string{} // node by pod
	for key, p := range w.pods {
		at[key], _ = w.seatOf(p)
	}
	for _, s := range plan.Starts {
		for _, x := range s.Placements {
			delete(at, x.Pod)
		}
	}
	for _, s := range plan.Starts {
		before := map[string]bool{}
		for key, node := range at {
			before[key] = node != ""
		}
		for _, x := range s.Placements {
			at[x.Pod] = x.Node
		}
		for _, x := range s.Placements {
			w.checkRulesOf(w.pods[x.Pod], at, before)
		}
		for _, x := range s.Placements {
			delete(at, x.Pod)
		}
		if !w.mayCome(s.Placements, at) {
			w.fail("spread", "%v start in no order in which each may come", s.Placements)
		}
	}
}

func (w *soakWorld) checkRulesOf(p *soakPod, at map[string]string, before map[string]bool) {
	near := func(o *soakPod, key string) bool {
		mine, has := w.nodes[at[p.Key]].Labels[key]
		theirs, have := w.nodes[at[o.Key]].Labels[key]
		return at[o.Key] != "" && has && have && mine == theirs
	}
	is := func(o *soakPod, labels []engine.Requirement) bool {
		return slices.Contains(labels[0].Values, o.Labels["app"])
	}
	for _, o := range w.pods {
		for _, t := range p.Rules().PodAntiAffinity {
			if o != p && near(o, t.Topology) && is(o, t.Labels) {
				w.fail("apart", "%s starts on %s, and keeps away from %s on %s", p.Key, at[p.Key], o.Key, at[o.Key])
			}
		}
		for _, t := range o.Rules().PodAntiAffinity {
			if o != p && near(o, t.Topology) && is(p, t.Labels) {
				w.fail("apart", "%s starts on %s, and %s on %s keeps away from it", p.Key, at[p.Key], o.Key, at[o.Key])
			}
		}
	}
	for _, t := range p.Rules().PodAffinity {
		found, others := false, false
		for _, o := range w.pods {
			found = found || o != p && is(o, t.Labels) && near(o, t.Topology)
			others = others || before[o.Key] && is(o, t.Labels) && w.nodes[at[o.Key]].Labels[t.Topology] != ""
		}
		if !found && (others || !is(p, t.Labels)) {
			w.fail("near", "%s starts on %s, and nothing that it needs is near", p.Key, at[p.Key])
		}
	}
}

// mayCome says whether the pods may come to their places one after another, in one order or another. They are there then.
func (w *soakWorld) mayCome(pending []engine.Placement, at map[string]string) bool {
	for i, x := range pending {
		if at[x.Pod] = x.Node; w.even(w.pods[x.Pod], at) && w.mayCome(slices.Delete(slices.Clone(pending), i, i+1), at) {
			return true
		}
		delete(at, x.Pod)
	}
	return len(pending) == 0
}

// even says whether the pod's place is right by its rules about spreading.
func (w *soakWorld) even(p *soakPod, at map[string]string) bool {
	is := func(o *soakPod, labels []engine.Requirement) bool {
		return slices.Contains(labels[0].Values, o.Labels["app"])
	}
	for _, c := range p.Rules().Spread {
		counts := map[string]int{}
		for _, n := range w.nodes {
			if v, ok := n.Labels[c.Topology]; ok && w.alikeFor(p, at[p.Key], n.Name) {
				counts[v] += 0
			}
		}
		for _, o := range w.pods {
			if v, ok := w.nodes[at[o.Key]].Labels[c.Topology]; ok && w.alikeFor(p, at[p.Key], at[o.Key]) && at[o.Key] != "" && !o.Terminating && is(o, c.Labels) {
				counts[v]++
			}
		}
		fewest := -1
		for _, n := range counts {
			if fewest < 0 || n < fewest {
				fewest = n
			}
		}
		if n := counts[w.nodes[at[p.Key]].Labels[c.Topology]]; is(p, c.Labels) && n-fewest > int(c.MaxSkew) {
			return false
		}
	}
	return true
}
