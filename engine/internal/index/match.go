package index

import (
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/fit"
)

// Node selectors and node affinity: does a kind of nodes match what a shape of pods asks of labels? The semantics are those of
// Kubernetes (package fit). What is done here is to ask quickly: a shape may ask about dozens of labels, and where a label
// differs on every node there are as many kinds as nodes. So each label that a shape names is looked up once, by its place among
// all labels that are asked about (Index.asked), and a kind has its values in that order.
//
// For example, asked is gpu-pool, kubernetes.io/hostname and zone. A selector zone=a is {at: 2, value: "a"}, and to ask a kind
// is to compare its third value.
//
// A matcher holds while kinds are the same (Index.kindsMade): a label that is asked about for the first time moves the places of
// others. It is made once for each shape, and costs a comparison for each label and kind.

// matcher is what a shape asks of nodes' labels, by place in Index.asked.
type matcher struct {
	selector  []labelled  // by key; all must match
	affinity  []matchTerm // required; one must match, if there are any
	preferred []matchTerm // in the order of Spec.Preferred, which has their weights
	places    []int       // of all labels that it asks about and some node has, in Index.asked, sorted
	hopeless  bool        // the selector asks for a label that no node has
}

// labelled is a label that the node selector asks for. detail is the same as certificates tell it.
type labelled struct {
	at                 int // in Index.asked; -1: no node has it
	key, value, detail string
}

// matchTerm is a term of the affinity. All of its checks must match, and its fields, which are about the node's name.
type matchTerm struct {
	*fit.Term
	checks []matchCheck // of its labels
}

// matchCheck is one requirement of a term on a label.
type matchCheck struct {
	*fit.Requirement
	at  int             // in Index.asked; -1: no node has it
	set map[string]bool // of its values, where there are many; nil: few
}

// manyValues is the number of values beyond which a set is faster than a list.
const manyValues = 8

// newMatcher looks up the labels of the spec, as of the labels that are asked about now.
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

// labelAt is the node's value of the label at that place in Index.asked; at -1 it has none. A label that is the node's own name
// on nodes of the kind is read from this node.
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

// matches says whether the node has the label with that value.
func (l *labelled) matches(k *kindOf) bool {
	v, has := k.labelAt(l.at)
	return has && v == l.value
}

// matches says whether the node meets the requirement. A node without the label meets NotIn, as in Kubernetes.
func (c *matchCheck) matches(k *kindOf) bool {
	v, has := k.labelAt(c.at)
	if c.set != nil {
		return c.Op == fit.In && has && c.set[v] || c.Op == fit.NotIn && !(has && c.set[v])
	}
	return c.MatchesValue(v, has)
}

// matches says whether the node meets all requirements of the term. A term without any matches no node, as in Kubernetes.
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

// failing is the labels of the selector that the node does not have, as a set of bits by their place in the selector. Labels
// beyond the first 64 do not count.
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

// matcherOf returns the matcher of the look. When kinds have been made anew it is made anew too, and what the look has found out
// about kinds and nodes is dropped, since it was found with the old places.
func (x *Index) matcherOf(sh *look) *matcher {
	//mutate: index-masks-of-new-labels -> sh.matcher == nil
	if sh.matcher == nil || sh.matched != x.kindsMade {
		sh.matcher, sh.masks, sh.own, sh.matched = x.newMatcher(sh.shape.Spec), sh.masks[:0], nil, x.kindsMade
	}
	return sh.matcher
}
