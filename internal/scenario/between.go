package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/engine"
)

// between is what a pod is called by in rules between pods, and its own. A rule is about pods of its own namespace.
func between() map[string]reader[engine.Pod] {
	return map[string]reader[engine.Pod]{
		"label": parsed(pair, func(p *engine.Pod, kv [2]string) {
			p.Labels = maps.Clone(p.Labels)
			if p.Labels == nil {
				p.Labels = map[string]string{}
			}
			p.Labels[kv[0]] = kv[1]
		}),
		"near": parsed(podTerm, func(p *engine.Pod, t engine.PodTerm) {
			t.Namespaces = []string{namespaceOf(p)}
			r := rulesOf(p)
			r.PodAffinity = append(r.PodAffinity, t)
		}),
		"apart": parsed(podTerm, func(p *engine.Pod, t engine.PodTerm) {
			t.Namespaces = []string{namespaceOf(p)}
			r := rulesOf(p)
			r.PodAntiAffinity = append(r.PodAntiAffinity, t)
		}),
		"rather": parsed(podPreference, func(p *engine.Pod, t engine.PodPreference) {
			t.Namespaces = []string{namespaceOf(p)}
			r := rulesOf(p)
			r.PodPreferred = append(r.PodPreferred, t)
		}),
		"skew": parsed(spread, func(p *engine.Pod, c engine.Spread) {
			c.Namespace = namespaceOf(p)
			r := rulesOf(p)
			r.Spread = append(r.Spread, c)
		}),
	}
}

// rulesOf makes a copy of the pod's rules, to be added to: pods of one line begin with the same.
func rulesOf(p *engine.Pod) *engine.PodRules {
	r := p.Rules()
	p.PodRules = &engine.PodRules{
		PodAffinity: slices.Clone(r.PodAffinity), PodAntiAffinity: slices.Clone(r.PodAntiAffinity),
		PodPreferred: slices.Clone(r.PodPreferred), Spread: slices.Clone(r.Spread),
	}
	return p.PodRules
}

func namespaceOf(p *engine.Pod) string {
	namespace, _, _ := strings.Cut(p.Key, "/")
	return namespace
}

// podTerm reads "app=web and tier per rack": pods with the labels, in one domain of the node label.
func podTerm(text string) (engine.PodTerm, error) {
	labels, key, ok := strings.Cut(text, " per ")
	if !ok {
		return engine.PodTerm{}, fmt.Errorf("expected labels of pods and a label of nodes, like app=web per rack")
	}
	t, err := term(labels)
	return engine.PodTerm{Topology: key, Labels: t.Labels}, err
}

// podPreference reads "10 app=web per rack"; a weight below 0 keeps apart.
func podPreference(text string) (engine.PodPreference, error) {
	weight, rest, _ := strings.Cut(text, " ")
	n, err := strconv.ParseInt(weight, 10, 32)
	if err != nil {
		return engine.PodPreference{}, fmt.Errorf("expected a weight and a rule, like 10 app=web per rack")
	}
	t, err := podTerm(rest)
	return engine.PodPreference{Weight: int32(n), PodTerm: t}, err
}

// spread reads "1 app=web per rack", with "soft" behind it where it is a wish, or the number of domains that there must be.
func spread(text string) (engine.Spread, error) {
	var c engine.Spread
	number, rest, _ := strings.Cut(text, " ")
	n, err := strconv.ParseInt(number, 10, 32)
	if err != nil {
		return c, fmt.Errorf("expected the largest skew and a rule, like 1 app=web per rack")
	}
	rule, more, _ := strings.Cut(rest, ", ")
	t, err := podTerm(rule)
	c = engine.Spread{Topology: t.Topology, Labels: t.Labels, MaxSkew: int32(n), Soft: more == "soft"}
	if more != "" && !c.Soft && err == nil {
		var domains int
		if domains, err = strconv.Atoi(strings.TrimPrefix(more, "domains ")); err != nil {
			err = fmt.Errorf("expected soft, or domains and their number, behind the comma")
		}
		c.MinDomains = int32(domains)
	}
	return c, err
}
