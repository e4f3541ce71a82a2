package index

import (
	"fmt"
	"strings"
)

// Kinds are as fine as all that any class asks about makes them. One class asks about a few of these labels, and cannot tell most kinds apart.
// For example, training asks about zone, and a hundred notebooks about a label that each user has nodes of: there are 200 kinds, and two
// groups of them for training. Its masks are kept for two, and each is worked out once.

// groups sorts node kinds as pods see them that ask about the same label keys: kinds that differ in other labels alone are
// one group. Hundreds of shapes ask about a few sets of keys, so what selectors, affinities and tolerations come to is
// worked out per group, not per kind. It is derived from the kinds, and holds as long as they (Index.kindsMade). Where more
// keys are asked about than certificates tell, each kind is a group by itself: finding out which are alike would cost more
// than it saves.
type groups struct {
	keys []string // sorted
	made uint64   // Index.kindsMade
	of   []*group // by node kind; nil: not met yet
	met  map[string]*group
}

// group is node kinds that shapes with the same keys cannot tell apart.
type group struct {
	id   int
	told []string // labels that the kinds have of those asked about; nil also where nobody would read as many

	// What certificates sort by: told, and what the kinds have in common beside labels; personal where what excludes a node
	// depends on its name.
	plain, personal string
}

func newGroup(id int, told []string, beside string) group {
	text := fmt.Sprintf("%q", told) + " " + beside
	return group{id: id, told: told, plain: text + " false", personal: text + " true"}
}

// groupsOf returns the groups of all shapes that ask about the keys.
func (x *Index) groupsOf(keys []string) *groups {
	name := strings.Join(keys, "\x00")
	g := x.groups[name]
	if g == nil {
		g = &groups{keys: keys}
		x.groups[name] = g
	}
	return g
}

// group returns the kind's group. It costs a lookup by the number of the kind where the kind was met before. The number of a group is its
// place in lists by group (look.masks); a group of its own, of a kind, has the kind's number, so that of one set of keys all groups
// are numbered in one way.
func (x *Index) group(gs *groups, k *NodeKind) *group {
	if len(gs.keys) > mostTold {
		return &k.alone
	}
	if gs.made != x.kindsMade || gs.met == nil {
		gs.made, gs.of, gs.met = x.kindsMade, nil, make(map[string]*group)
	}
	if k.id >= len(gs.of) {
		gs.of = append(gs.of, make([]*group, len(x.kinds)-len(gs.of))...)
	}
	g := gs.of[k.id]
	if g == nil {
		g = x.findGroup(gs, k)
		gs.of[k.id] = g
	}
	return g
}

// findGroup finds the group of a kind that was not met before, or makes it: kinds of one profile with the same values of the keys
// are one group. A label whose value is the node's own name is the same on all of them. The name of a group is the text of what the
// shapes can see; a label that is there is marked with =, so that none and an empty one differ.
func (x *Index) findGroup(gs *groups, k *NodeKind) *group {
	var name strings.Builder
	fmt.Fprint(&name, k.profile.id)
	for _, key := range gs.keys {
		name.WriteByte(0)
		if v, ok := k.labels[key]; ok {
			name.WriteByte('=')
			name.WriteString(v)
		}
	}
	g := gs.met[name.String()]
	if g == nil {
		var told []string
		for _, key := range gs.keys {
			if v, ok := k.labels[key]; ok && v != ownName {
				told = append(told, key+"="+v)
			}
		}
		made := newGroup(len(gs.met), told, k.profile.told)
		g = &made
		gs.met[name.String()] = g
	}
	return g
}
