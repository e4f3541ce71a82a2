package engine

import (
	"slices"

	"github.com/berth-dev/berth/engine/internal/api"
)

// presence is which label keys and GPU models nodes have, with the number of nodes that have each. What no node has needs no
// place in any table: a label key that pods ask about, a level that a gang names and a model in a list are names that any
// tenant makes up, as many as it likes, and each in a table would cost something on every node.
type presence struct {
	labels map[string]int
	models map[string]int
	fresh  []string // label keys that the first node has got, and that nobody has looked for yet
}

// count adds, or with by = -1 takes away, what the node has.
func (c *presence) count(n *api.Node, by int) {
	if n == nil {
		return
	}
	if c.labels == nil {
		c.labels, c.models = make(map[string]int), make(map[string]int)
	}
	for key := range n.Labels {
		if c.labels[key] += by; c.labels[key] == 0 {
			delete(c.labels, key)
		} else if by > 0 && c.labels[key] == 1 {
			c.fresh = append(c.fresh, key)
		}
	}
	for _, model := range modelsOf(n.Devices) {
		if c.models[model] += by; c.models[model] == 0 {
			delete(c.models, model)
		}
	}
}

// meetLabels looks for the label keys that nodes have got: classes that ask about one tell nodes apart by it from now on,
// and gangs that name one as a level have that level.
func (s *State) meetLabels() {
	fresh := s.presence.fresh
	if len(fresh) == 0 {
		return
	}
	s.presence.fresh = nil
	slices.Sort(fresh)
	var asked []string
	for _, key := range fresh {
		for _, c := range s.classes.byKey {
			if _, ok := slices.BinarySearch(c.shape.keys, key); ok {
				asked = append(asked, key)
				break
			}
		}
	}
	s.ask(asked)
	for _, g := range s.gangs {
		if g.spec != nil && !s.isRejected(api.KindGang, g.key) && slices.ContainsFunc(levelsOf(g.spec), func(name string) bool { _, ok := slices.BinarySearch(fresh, name); return ok }) {
			s.meetLevels(g.spec)
			g.plain = plain{}
			s.restale(g)
		}
	}
}
