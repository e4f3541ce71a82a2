package index

import (
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/divide"
)

// Questions to the counts of a class: how many pods fit in a scope (Fits), which node of it is best (Best), and how its
// domains divide it (Parts). Package place puts gangs together from these answers. They only read: a class must be up to
// date (Sync), and each answer is of that moment.
//
// For example, a gang of 16 pods must share a block, and each 4 of them a rack. Parts of the whole cluster at the level of
// blocks says which blocks hold 16; Parts of such a block at the level of racks, which racks hold how many fours; and Best
// of a rack, again and again, which node each pod takes.
//
// Costs. The sums of domains are kept, so that a question about a whole domain is a lookup. One about a narrower scope, such
// as the nodes of a block that are in no rack, visits the buckets of the smallest domain in it: all nodes of a bucket are in
// the same domains, so that a bucket is in the scope or out of it. Best compares one number for each bucket.

// Scope is a set of nodes: those that are in all of the domains and in none of the levels outside or, with Node, that one
// alone if it is among them. The zero scope is the whole cluster. Scopes are values: narrowing one leaves it as it was, and
// its lists are copied before they grow.
//
// A scope is no list of nodes but the description of one, because a search makes thousands: each is a few words, and what it holds is
// found by walking the buckets of its narrowest domain.
type Scope struct {
	Domains []*cluster.Domain // in the order in which the scope was narrowed
	outside []int             // levels of which the nodes are in no domain
	Node    *cluster.Node     // nil: any
}

// in narrows the scope to a domain, which lies within it. The first domain of a scope needs no list of its own: each domain
// has one with itself alone (Domain.Only).
func (sc Scope) in(d *cluster.Domain) Scope {
	if len(sc.Domains) == 0 {
		sc.Domains = d.Only
		return sc
	}
	sc.Domains = append(sc.Domains[:len(sc.Domains):len(sc.Domains)], d)
	return sc
}

// On narrows the scope to a node. Where the node is not in the scope, nothing is.
func (sc Scope) On(n *cluster.Node) Scope {
	sc.Node = n
	return sc
}

// beside narrows the scope to the nodes that are in no domain of the level.
func (sc Scope) beside(level int) Scope {
	// The capacity is cut to the length, so that append copies: other scopes may share the list.
	sc.outside = append(sc.outside[:len(sc.outside):len(sc.outside)], level)
	return sc
}

// Holds says whether the bucket's nodes are in the scope, a single node aside. The nodes of a
// bucket are in the same domains of every level, so that one answer is for all of them.
func (sc Scope) Holds(sh *cluster.Bucket) bool {
	for _, d := range sc.Domains {
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

// Buckets visits the buckets that have nodes in the scope, in the order of the topology. It looks at the shortest list that
// contains them all, which is that of the domain with the fewest buckets. Of a scope with a node the bucket of that node is
// visited, whose other nodes are not in the scope.
func (x *Index) Buckets(sc Scope, visit func(*cluster.Bucket)) {
	list := x.m.Topology.Buckets
	if sc.Node != nil {
		if sc.Node.Bucket == nil { // it has left the cluster
			return
		}
		list = []*cluster.Bucket{sc.Node.Bucket}
	}
	// All domains must contain the bucket, so that the list of any one of them will do: the shortest is taken.
	for _, d := range sc.Domains {
		if len(d.Buckets) < len(list) {
			list = d.Buckets
		}
	}
	for _, sh := range list {
		if (sc.Node == nil || sh == sc.Node.Bucket) && sc.Holds(sh) {
			visit(sh)
		}
	}
}

// Fits returns how many pods of the class, which is up to date, fit in the scope. For the whole
// cluster and a single domain it is a lookup; for narrower scopes it adds up buckets.
func (x *Index) Fits(c *Class, sc Scope) int64 {
	// Sync keeps these two sums.
	if sc.Node == nil && len(sc.outside) == 0 {
		switch len(sc.Domains) {
		case 0:
			return c.Total
		case 1:
			return c.Sums[sc.Domains[0].ID]
		}
	}
	var sum int64
	x.Buckets(sc, func(sh *cluster.Bucket) {
		f := &c.ByBucket[sh.ID]
		if sc.Node != nil {
			sum += int64(f.Cells[sc.Node.Slot].Fits)
			return
		}
		sum += f.sum
	})
	return sum
}

// Best returns the node of the scope with the highest score for the class (room.go), the first by place and name of equals;
// nil: no pod fits on any. It compares the tops of the buckets.
//
// For the whole cluster these are one list of numbers. The top of a stale bucket is an upper bound:
// it is looked through only if the bound beats the best found so far, and so most stale buckets
// never are. The result is the same as if all were, because a bucket that is passed over has no
// better node than its bound.
func (x *Index) Best(c *Class, sc Scope) *cluster.Node {
	if sc.Node != nil {
		if x.Fits(c, sc) > 0 {
			return sc.Node
		}
		return nil
	}
	// found is the bucket with the best node so far, top the score of that node.
	var found *cluster.Bucket
	top := int64(noScore)
	ids := x.m.Topology.IDs()
	// look makes a stale bucket exact (topOf) before it is compared.
	look := func(sh *cluster.Bucket) {
		if score := c.topOf(sh); score > top || score == top && found != nil && x.first(c, sh, found) {
			found, top = sh, score
		}
	}
	if len(sc.Domains) == 0 && len(sc.outside) == 0 {
		// A bucket with an equal bound comes later, and so loses, unless buckets share a path and
		// names must be compared.
		for i, id := range ids {
			if bound := c.tops[id]; bound > top || bound == top && x.m.Topology.SharePaths {
				look(x.m.Topology.Buckets[i])
			}
		}
	} else {
		x.Buckets(sc, look)
	}
	if found == nil {
		return nil
	}
	return found.Nodes[c.ByBucket[found.ID].best]
}

// first says whether the best node of the bucket sh comes before that of one that is listed before sh. It does only where
// the two buckets have one path, because more than 256 nodes are in the same domains, and the name of its node comes first.
func (x *Index) first(c *Class, sh, listed *cluster.Bucket) bool {
	return x.m.Topology.SharePaths && sh.Path == listed.Path &&
		sh.Nodes[c.ByBucket[sh.ID].best].Name < listed.Nodes[c.ByBucket[listed.ID].best].Name
}

// Part is a domain, or a node, of a scope, with how many pods of a class fit in it. Scope is the whole scope, narrowed to
// the part. Name is "" for the nodes in no domain of a level (WithRest), and for a scope that is not divided.
type Part struct {
	Scope
	Name string
	Fits int64
}

// Parts lists the domains of the level in the scope, by name, with how many pods of the class fit in each, 0 included.
// Single nodes are listed where something fits. AnyLevel does not divide: the scope is the only part. Nodes in no domain of
// the level are left out; WithRest adds them. The list is the caller's own.
//
// It costs one entry for each domain where the scope is the whole cluster, and a visit of its
// buckets otherwise.
func (x *Index) Parts(c *Class, sc Scope, level int) []Part {
	if level == cluster.NodeLevel {
		return x.nodeParts(c, sc)
	}
	if level == cluster.AnyLevel {
		return []Part{{Scope: sc, Fits: x.Fits(c, sc)}}
	}
	if len(sc.Domains) == 0 && len(sc.outside) == 0 && sc.Node == nil {
		all := x.m.Topology.Sorted(level)
		out := make([]Part, len(all))
		for i, d := range all {
			out[i] = Part{Scope: Scope{Domains: d.Only}, Name: d.Name, Fits: c.Sums[d.ID]}
		}
		return out
	}
	// The buckets of the scope are added up by domain, in the order in which they come; at is where each domain is in out.
	var out []Part
	at := make(map[*cluster.Domain]int)
	x.Buckets(sc, func(sh *cluster.Bucket) {
		d := sh.Domains[level]
		if d == nil {
			return
		}
		i, ok := at[d]
		if !ok {
			i = len(out)
			at[d] = i
			out = append(out, Part{Scope: sc.in(d), Name: d.Name})
		}
		if f := &c.ByBucket[sh.ID]; sc.Node != nil {
			out[i].Fits += int64(f.Cells[sc.Node.Slot].Fits)
		} else {
			out[i].Fits += f.sum
		}
	})
	slices.SortFunc(out, func(a, b Part) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Nodes lists the nodes of the scope on which a pod of the class fits, in the order of places (cluster.ComparePlaces). It costs
// a look at each node of the buckets in which one fits.
func (x *Index) Nodes(c *Class, sc Scope) (out []*cluster.Node) {
	x.Buckets(sc, func(sh *cluster.Bucket) {
		f := &c.ByBucket[sh.ID]
		if f.sum == 0 {
			return
		}
		for i, n := range sh.Nodes {
			if f.Cells[i].Fits > 0 && (sc.Node == nil || sc.Node == n) {
				out = append(out, n)
			}
		}
	})
	slices.SortFunc(out, cluster.ComparePlaces)
	return out
}

// nodeParts lists the same as parts of the scope. Places are compared before names, so that nodes that are near each other are next to each
// other in the list, and what is taken from its front is together.
func (x *Index) nodeParts(c *Class, sc Scope) []Part {
	var out []Part
	for _, n := range x.Nodes(c, sc) {
		out = append(out, Part{Scope: sc.On(n), Name: n.Name, Fits: int64(c.ByBucket[n.Bucket.ID].Cells[n.Slot].Fits)})
	}
	return out
}

// EveryNode lists all nodes of the scope, in the order of places, also those where no pod of the class fits.
func (x *Index) EveryNode(c *Class, sc Scope) []Part {
	var out []Part
	x.Buckets(sc, func(sh *cluster.Bucket) {
		f := &c.ByBucket[sh.ID]
		for i, n := range sh.Nodes {
			if sc.Node == nil || sc.Node == n {
				out = append(out, Part{Scope: sc.On(n), Name: n.Name, Fits: int64(f.Cells[i].Fits)})
			}
		}
	})
	slices.SortFunc(out, func(a, b Part) int { return cluster.ComparePlaces(a.Node, b.Node) })
	return out
}

// WithRest adds the nodes of the scope that are in no domain of the level, as one more part without a name, if a pod fits
// there. Members that need not share a domain may go there, too. All parts together then hold what the scope holds. At the
// level of nodes, and at AnyLevel, no node is left out, and nothing is added.
func (x *Index) WithRest(c *Class, sc Scope, level int, parts []Part) []Part {
	if level < 0 {
		return parts
	}
	rest := sc.beside(level)
	if n := x.Fits(c, rest); n > 0 {
		return append(parts, Part{Scope: rest, Fits: n})
	}
	return parts
}

// Counts turns parts into what package divide divides, with the position of each part as its ID.
// Counts beyond what an int32 holds are cut: no gang is so large, and how much more than k a part
// holds still tells most parts apart.
func Counts(parts []Part) []divide.Domain {
	out := make([]divide.Domain, len(parts))
	for i, p := range parts {
		out[i] = divide.Domain{ID: int32(i), Cap: int(min(p.Fits, 1<<31-1))}
	}
	return out
}

// Same says whether the scope is the domain, or the node, that the other is. The other must have a node, or one domain that
// counts; this one may be any. Of that one the first domain alone is compared.
func (sc Scope) Same(o *Scope) bool {
	if o.Node != nil {
		return sc.Node == o.Node
	}
	return len(sc.Domains) == 1 && sc.Domains[0] == o.Domains[0]
}

// Name is that of the node, or of the first domain. The scope must have one of them.
func (sc Scope) Name() string {
	if sc.Node != nil {
		return sc.Node.Name
	}
	return sc.Domains[0].Name
}
