package index

import (
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/fit"
)

// matcher is what a shape asks of nodes' labels, with every label by its place among those that are asked about, so that a
// node kind is judged without looking a key up: a shape may ask about dozens of labels, and where a label differs on every
// node there are as many kinds as nodes.
type matcher struct {
	selector  []labelled
	affinity  []matchTerm
	preferred []matchTerm
	places    []int // of all labels that it asks about, in Index.asked, sorted
	hopeless  bool  // the selector asks for a label that no node has
}

// labelled is a label that the node selector asks for.
type labelled struct {
	at                 int // in Index.asked; -1: no node has it
	key, value, detail string
}

// matchTerm is a term of the affinity.
type matchTerm struct {
	*fit.Term
	checks []matchCheck // of its labels
}

type matchCheck struct {
	*fit.Requirement
	at  int             // in Index.asked; -1: no node has it
	set map[string]bool // of its values, where there are many; nil: few
}

// manyValues is from how many values on a set is faster than a list.
const manyValues = 8

func (x *Index) newMatcher(spec *api.Spec) *matcher {
	place := func(key string) int {
		at, ok := slices.BinarySearch(x.asked, key)
		if !ok {
			return -1
		}
		return at
	}
	m := &matcher{}
	for _, key := range spec.Keys() {
		if at := place(key); at >= 0 {
			m.places = append(m.places, at)
		}
	}
	for key, value := range spec.Selector {
		m.selector = append(m.selector, labelled{place(key), key, value, key + "=" + value})
		m.hopeless = m.hopeless || place(key) < 0
	}
	slices.SortFunc(m.selector, func(a, b labelled) int { return strings.Compare(a.key, b.key) })
	term := func(t *fit.Term) matchTerm {
		out := matchTerm{Term: t}
		for i := range t.Labels {
			c := matchCheck{Requirement: &t.Labels[i], at: place(t.Labels[i].Key)}
			if len(c.Values) > manyValues && (c.Op == fit.In || c.Op == fit.NotIn) {
				c.set = make(map[string]bool, len(c.Values))
				for _, v := range c.Values {
					c.set[v] = true
				}
			}
			out.checks = append(out.checks, c)
		}
		return out
	}
	for i := range spec.Affinity {
		m.affinity = append(m.affinity, term(&spec.Affinity[i]))
	}
	for i := range spec.Preferred {
		m.preferred = append(m.preferred, term(&spec.Preferred[i].Term))
	}
	return m
}

// labelAt is the node's value of the label at that place among those asked about.
func (k *kindOf) labelAt(at int) (value string, has bool) {
	if at < 0 {
		return "", false
	}
	v := &k.kind.values[at]
	if v.own {
		return k.node.Name, true
	}
	return v.text, v.has
}

func (l *labelled) matches(k *kindOf) bool {
	v, has := k.labelAt(l.at)
	return has && v == l.value
}

func (c *matchCheck) matches(k *kindOf) bool {
	v, has := k.labelAt(c.at)
	if c.set != nil {
		return c.Op == fit.In && has && c.set[v] || c.Op == fit.NotIn && !(has && c.set[v])
	}
	return c.MatchesValue(v, has)
}

func (t *matchTerm) matches(k *kindOf) bool {
	for i := range t.checks {
		if !t.checks[i].matches(k) {
			return false
		}
	}
	return len(t.checks) > 0 && len(t.Fields) == 0 || len(t.Fields) > 0 && (fit.Term{Fields: t.Fields}).Matches(nil, k.node.Name)
}

// selects says whether the node has all labels of the selector.
func (m *matcher) selects(k *kindOf) bool {
	for i := range m.selector {
		//mutate: filter-selector
		if !m.selector[i].matches(k) {
			return false
		}
	}
	return true
}

// failing are the labels of the selector, the first 64, that the node has not, as a set of bits.
func (m *matcher) failing(k *kindOf) (bits uint64) {
	for i := range m.selector[:min(len(m.selector), 64)] {
		if !m.selector[i].matches(k) {
			bits |= 1 << i
		}
	}
	return bits
}

// likes says whether one of the affinity's terms matches the node.
func (m *matcher) likes(k *kindOf) bool {
	return slices.ContainsFunc(m.affinity, func(t matchTerm) bool { return t.matches(k) })
}

// near is the weight of the preferences that the node matches.
func (m *matcher) near(k *kindOf, weights []api.Preference) (sum int32) {
	for i := range m.preferred {
		if m.preferred[i].matches(k) {
			sum += weights[i].Weight
		}
	}
	return sum
}

// matcherOf is the look's, made anew when other labels are asked about.
func (x *Index) matcherOf(sh *look) *matcher {
	//mutate: index-masks-of-new-labels -> sh.matcher == nil
	if sh.matcher == nil || sh.matched != x.kindsMade {
		sh.matcher, sh.masks, sh.own, sh.matched = x.newMatcher(sh.shape.Spec), sh.masks[:0], nil, x.kindsMade
	}
	return sh.matcher
}
