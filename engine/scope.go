package engine

import (
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/place"
)

// scope is where members may go: on nodes that are in all of the domains, or on one of them.
type scope struct {
	domains []*cluster.Domain
	outside []int         // levels of which the nodes are in no domain
	node    *cluster.Node // nil: any
}

// in narrows the scope to a domain.
func (sc scope) in(d *cluster.Domain) scope {
	if len(sc.domains) == 0 {
		sc.domains = d.Only
		return sc
	}
	sc.domains = append(sc.domains[:len(sc.domains):len(sc.domains)], d)
	return sc
}

// on narrows the scope to a node.
func (sc scope) on(n *cluster.Node) scope {
	sc.node = n
	return sc
}

// beside narrows the scope to nodes that are in no domain of the level.
func (sc scope) beside(level int) scope {
	sc.outside = append(sc.outside[:len(sc.outside):len(sc.outside)], level)
	return sc
}

// holds says whether the shelf's nodes are in the scope, a single node aside.
func (sc scope) holds(sh *cluster.Bucket) bool {
	for _, d := range sc.domains {
		if sh.Domains[d.Level] != d {
			return false
		}
	}
	for _, l := range sc.outside {
		if sh.Domains[l] != nil {
			return false
		}
	}
	return true
}

// shelves visits the shelves that have nodes in the scope, in order.
func (s *State) shelves(sc scope, visit func(*cluster.Bucket)) {
	list := s.m.Topology.Buckets
	if sc.node != nil {
		if sc.node.Bucket == nil {
			return
		}
		list = []*cluster.Bucket{sc.node.Bucket}
	}
	for _, d := range sc.domains {
		if len(d.Buckets) < len(list) {
			list = d.Buckets
		}
	}
	for _, sh := range list {
		if (sc.node == nil || sh == sc.node.Bucket) && sc.holds(sh) {
			visit(sh)
		}
	}
}

// fits returns how many pods of the class fit in the scope.
func (s *State) fits(c *class, sc scope) int64 {
	if sc.node == nil && len(sc.outside) == 0 {
		switch len(sc.domains) {
		case 0:
			return c.total
		case 1:
			return c.sums[sc.domains[0].ID]
		}
	}
	var sum int64
	s.shelves(sc, func(sh *cluster.Bucket) {
		f := &c.byShelf[sh.ID]
		if sc.node != nil {
			sum += int64(f.cells[sc.node.Slot].fits)
			return
		}
		sum += f.sum
	})
	return sum
}

// best returns the best node for the class in the scope, the first of equals; nil: none fits.
func (s *State) best(c *class, sc scope) *cluster.Node {
	if sc.node != nil {
		if s.fits(c, sc) > 0 {
			return sc.node
		}
		return nil
	}
	var found *cluster.Bucket
	top := int64(noScore)
	ids := s.m.Topology.IDs()
	look := func(sh *cluster.Bucket) {
		if score := c.topOf(sh); score > top || score == top && found != nil && s.first(c, sh, found) {
			found, top = sh, score
		}
	}
	if len(sc.domains) == 0 && len(sc.outside) == 0 {
		for i, id := range ids {
			if bound := c.tops[id]; bound > top || bound == top && s.m.Topology.SharePaths {
				look(s.m.Topology.Buckets[i])
			}
		}
	} else {
		s.shelves(sc, look)
	}
	if found == nil {
		return nil
	}
	return found.Nodes[c.byShelf[found.ID].best]
}

// first says whether the best node of a shelf comes before that of one that is listed before it: only the
// names can say so, and only where nothing else sets the shelves apart.
func (s *State) first(c *class, sh, listed *cluster.Bucket) bool {
	return s.m.Topology.SharePaths && sh.Path == listed.Path &&
		sh.Nodes[c.byShelf[sh.ID].best].Name < listed.Nodes[c.byShelf[listed.ID].best].Name
}

// part is a domain, or a node, of a scope.
type part struct {
	scope
	name string
	fits int64
}

// parts lists the domains of the level in the scope, by name, with what they hold of the class. Single nodes
// are listed where something fits. Nodes in no domain of the level are left out.
func (s *State) parts(c *class, sc scope, level int) []part {
	if level == cluster.NodeLevel {
		return s.nodeParts(c, sc)
	}
	if level == cluster.AnyLevel {
		return []part{{scope: sc, fits: s.fits(c, sc)}}
	}
	if len(sc.domains) == 0 && len(sc.outside) == 0 && sc.node == nil {
		all := s.m.Topology.Sorted(level)
		out := make([]part, len(all))
		for i, d := range all {
			out[i] = part{scope: scope{domains: d.Only}, name: d.Name, fits: c.sums[d.ID]}
		}
		return out
	}
	var out []part
	at := make(map[*cluster.Domain]int)
	s.shelves(sc, func(sh *cluster.Bucket) {
		d := sh.Domains[level]
		if d == nil {
			return
		}
		i, ok := at[d]
		if !ok {
			i = len(out)
			at[d] = i
			out = append(out, part{scope: sc.in(d), name: d.Name})
		}
		if f := &c.byShelf[sh.ID]; sc.node != nil {
			out[i].fits += int64(f.cells[sc.node.Slot].fits)
		} else {
			out[i].fits += f.sum
		}
	})
	slices.SortFunc(out, func(a, b part) int { return strings.Compare(a.name, b.name) })
	return out
}

// nodeParts lists the nodes of the scope where something of the class fits.
func (s *State) nodeParts(c *class, sc scope) []part {
	return slices.DeleteFunc(s.everyNode(c, sc), func(p part) bool { return p.fits == 0 })
}

func (s *State) everyNode(c *class, sc scope) []part {
	var out []part
	s.shelves(sc, func(sh *cluster.Bucket) {
		f := &c.byShelf[sh.ID]
		for i, n := range sh.Nodes {
			if sc.node == nil || sc.node == n {
				out = append(out, part{scope: sc.on(n), name: n.Name, fits: int64(f.cells[i].fits)})
			}
		}
	})
	slices.SortFunc(out, func(a, b part) int { return cluster.ComparePlaces(a.node, b.node) })
	return out
}

// withRest adds the nodes of the scope that are in no domain of the level, as one more part.
func (s *State) withRest(c *class, sc scope, level int, parts []part) []part {
	if level < 0 {
		return parts
	}
	rest := sc.beside(level)
	if n := s.fits(c, rest); n > 0 {
		return append(parts, part{scope: rest, fits: n})
	}
	return parts
}

// counts turns parts into what package place divides. How much more than k a part holds still tells
// parts apart.
func counts(parts []part) []place.Domain {
	out := make([]place.Domain, len(parts))
	for i, p := range parts {
		out[i] = place.Domain{ID: int32(i), Cap: int(min(p.fits, 1<<31-1))}
	}
	return out
}
