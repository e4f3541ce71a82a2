package index

import (
	"fmt"
	"slices"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
)

// What is kept is checked in two ways. Check adds up: it trusts cells, and finds a sum that was not moved with them. CheckNodes measures: it
// trusts no cell, and finds a number that stayed when what it stands for changed. Each alone is blind to the faults of the other. Both
// first bring the class up to date, because a class that lags is no fault.
//
// A fault is told as a discrepancy and not mended: what is derived follows from the model, and a class that does not is a
// mistake in this package.

// Check recounts what classes keep of buckets and domains: each bucket is the sum of its nodes, each domain the sum of its
// buckets, and each bucket's best node is the first of those with the highest score. It costs the cells of every class.
// Single nodes are for CheckNodes.
func (x *Index) Check(found []api.Discrepancy) []api.Discrepancy {
	//archtest:any-order Audit sorts what is found
	for _, c := range x.classes.byKey {
		if c.outlived() {
			continue
		}
		x.Sync(c)
		total, sums := int64(0), make([]int64, len(c.Sums))
		for _, b := range x.m.Topology.Buckets {
			f, sum := &c.ByBucket[b.ID], int64(0)
			for i := range f.Cells {
				sum += int64(f.Cells[i].Fits)
			}
			found = differ(found, "bucket", b.Nodes[0].Name, c, f.sum, sum)
			found = c.checkBest(found, b)
			total += sum
			for _, d := range b.Domains {
				if d != nil {
					sums[d.ID] += sum
				}
			}
		}
		found = differ(found, "cluster", "", c, c.Total, total)
		found = x.checkBodies(found, c)
		for _, b := range x.m.Topology.Buckets {
			for _, d := range b.Domains {
				if d != nil {
					found = differ(found, "domain", d.Name, c, c.Sums[d.ID], sums[d.ID])
				}
			}
		}
	}
	return found
}

// checkBest looks for the best node of the bucket again. While the bucket is stale, its top must be at least that node's
// score: Best passes over buckets by it.
func (c *Class) checkBest(found []api.Discrepancy, b *cluster.Bucket) []api.Discrepancy {
	again := c.ByBucket[b.ID]
	again.findBest()
	f, top := &c.ByBucket[b.ID], c.tops[b.ID]
	if f.stale {
		return differ(found, "top of bucket", b.Nodes[0].Name, c, top, max(top, again.top()))
	}
	found = differ(found, "top of bucket", b.Nodes[0].Name, c, top, again.top())
	return differ(found, "best of bucket", b.Nodes[0].Name, c, int64(f.best), int64(again.best))
}

// checkRows counts the bucket's rows again, if they are kept.
func (x *Index) checkRows(found []api.Discrepancy, c *Class, b *cluster.Bucket) []api.Discrepancy {
	if kept := c.ByBucket[b.ID].rows; c.counted(b) && !kept.says(x.makeRows(c, b, 0, len(b.Nodes))) {
		return differ(found, "rows of bucket", b.Nodes[0].Name, c, -1, 0)
	}
	return found
}

// checkBodies adds up anew what is kept of certificates that are up to date.
func (x *Index) checkBodies(found []api.Discrepancy, c *Class) []api.Discrepancy {
	p, at := &c.proofs, position{room: x.m.Room.Now, shape: x.m.Topology.Shape}
	for _, b := range p.bodies {
		if b.at != at || b.level == cluster.NodeLevel {
			continue
		}
		// A trial that was rolled back may have left rows of its own. A body is compared with rows only if it was made of
		// these: its epoch is that of the rows.
		if x.recount(c, at); b.epoch != p.epoch {
			continue
		}
		for i, d := range b.layout.domains {
			var rows []*bucketRows
			for _, sh := range d.buckets {
				rows = append(rows, c.ByBucket[sh.ID].rows)
			}
			if now := (&counting{}).mergeAll(rows); !b.sums[i].total.says(now) {
				found = differ(found, "certificate", d.name, c, -1, 0)
			}
		}
	}
	return found
}

// CheckNodes looks again, for every class, at how many pods fit on the nodes. It costs classes times nodes, each a measurement, and is
// given some nodes at a time where a scheduler runs (package audit). It trusts neither the counts nor what is kept
// of how a node's kind looks to the class: what the class asks of labels is read anew, once for all of the nodes.
func (x *Index) CheckNodes(found []api.Discrepancy, nodes []*cluster.Node) []api.Discrepancy {
	nodes = slices.DeleteFunc(slices.Clone(nodes), func(n *cluster.Node) bool { return n.Bucket == nil })
	if len(nodes) == 0 {
		return found
	}
	for _, n := range nodes {
		if kept, made := x.Kind(n), x.kinds[x.makeKind(n).key(x.asked)]; kept != made {
			d := api.Discrepancy{Kind: "node", Key: n.Name, Account: "kind", Kept: int64(kept.id), Counted: -1}
			if made != nil {
				d.Counted = int64(made.id)
			}
			found = append(found, d)
		}
	}
	//archtest:any-order Audit sorts what is found
	for _, c := range x.classes.byKey {
		if c.outlived() {
			continue
		}
		x.Sync(c)
		match := x.newMatcher(c.Shape.Spec)
		for _, n := range nodes {
			found = x.checkNode(found, c, match, n)
			if n.Slot == 0 { // each bucket once
				found = x.checkRows(found, c, n.Bucket)
			}
		}
	}
	return found
}

// checkNode measures one node for the class. The order is that of measure in class.go: what the spec excludes, then the refusals and names
// that are the class's own, then what is free, then rules. A cell that says excluded must be of a node that is. The
// other way round is not asked: excluded is a shortcut, and a node whose cell is without it is measured.
func (x *Index) checkNode(found []api.Discrepancy, c *Class, match *matcher, n *cluster.Node) []api.Discrepancy {
	kept, counted := x.MaskOf(c, n), c.judge(&x.kindsOf[n.Index], match, false)
	found = differ(found, "node", n.Name, c, int64(kept.State), int64(counted.State))
	at := &c.ByBucket[n.Bucket.ID].Cells[n.Slot]
	var fits int64
	if counted.State != Excluded && !(c.Local && c.Excludes(n)) {
		fits = x.Room(c, n)
		if c.rules != nil && fits > 0 {
			fits = min(fits, c.rules.limit(n))
		}
		if at.excluded {
			found = differ(found, "node", n.Name, c, int64(Excluded), int64(counted.State))
		}
	}
	return differ(found, "node", n.Name, c, int64(at.Fits), fits)
}

// differ notes what is kept where it is not what was counted. The class is told by what it requests, since it has no name.
func differ(found []api.Discrepancy, kind, key string, c *Class, kept, counted int64) []api.Discrepancy {
	if kept == counted {
		return found
	}
	of := fmt.Sprintf("%v %s, priority %d", c.Shape.Spec.Requests, c.Model, c.Priority)
	return append(found, api.Discrepancy{Kind: kind, Key: key, Account: "fits", Resource: of, Kept: kept, Counted: counted})
}
