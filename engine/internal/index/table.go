package index

import (
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/device"
	"github.com/berth-dev/berth/engine/internal/quantity"
	"github.com/berth-dev/berth/engine/why"
)

// bucketRows is the nodes of one bucket, one row for those that a class cannot tell apart: what certificates are
// added up from. Rows are kept until a node of the bucket changes, and not written to after they are made.
type bucketRows struct {
	rows []why.Row // sorted by class
	tally
	epoch   uint64 // proofs.epoch: classes have had these numbers since
	touched uint64 // Bucket.Touched
}

// tally is what else is counted of nodes that no clause excludes.
type tally struct {
	ifEvicted int64 // pods that would fit if everything that can go were gone
	matching  int64 // nodes
	largest   int64 // pods on an empty node
	gpuFree   int64
	gpuFits   int64 // pods, if GPUs were all they asked for
}

func (t *tally) add(o tally) {
	t.ifEvicted += o.ifEvicted
	t.matching += o.matching
	t.largest = max(t.largest, o.largest)
	t.gpuFree += o.gpuFree
	t.gpuFits += o.gpuFits
}

// rowsOf returns the rows of the bucket.
func (x *Index) rowsOf(c *Class, sh *cluster.Bucket) *bucketRows {
	f := &c.ByBucket[sh.ID]
	if !c.counted(sh) {
		f.rows = x.makeRows(c, sh, 0, len(sh.Nodes))
	}
	return f.rows
}

// counted says whether the rows of the bucket are up to date.
func (c *Class) counted(sh *cluster.Bucket) bool {
	r := c.ByBucket[sh.ID].rows
	return r != nil && r.epoch == c.proofs.epoch && r.touched == sh.Touched
}

// makeRows counts the nodes on some of the bucket's slots.
func (x *Index) makeRows(c *Class, sh *cluster.Bucket, from, to int) *bucketRows {
	f := &c.ByBucket[sh.ID]
	out := &bucketRows{rows: make([]why.Row, 0, 8)}
	kinds := make([]*kindProof, 0, 8)
	for slot := from; slot < to; slot++ {
		n := sh.Nodes[slot]
		k := x.kindProof(c, n)
		i := slices.Index(kinds, k)
		if i < 0 {
			i = len(kinds)
			kinds = append(kinds, k)
			out.rows = append(out.rows, why.Row{Example: n.Name})
		}
		x.countNode(c, n, k, int64(f.Cells[slot].Fits), &out.rows[i], &out.tally)
	}
	for i := range out.rows {
		out.rows[i].Class = kinds[i].number
		sortRow(&out.rows[i])
	}
	slices.SortFunc(out.rows, func(a, b why.Row) int { return a.Class - b.Class })
	out.epoch, out.touched = c.proofs.epoch, sh.Touched
	return out
}

// countNode adds one node to its row and to the tally.
func (x *Index) countNode(c *Class, n *cluster.Node, k *kindProof, fits int64, row *why.Row, sum *tally) {
	row.Nodes++
	row.Fits += fits
	clauses := k.clauses
	if c.look.masks[x.Kind(n).id].State == personal {
		clauses = x.clauses(c, n, x.MaskOf(c, n).State)
	}
	note(row, clauses)
	if x.special(c, n, fits) {
		note(row, x.localClauses(c, n))
	}
	for _, d := range c.Demands {
		if free := n.Free.At(d.Dim); free < d.Amount {
			noteShort(row, why.Short{Resource: x.m.Dims.Names[d.Dim], Nodes: 1, By: d.Amount - free})
		}
	}
	if len(clauses) > 0 || c.Local && c.Excludes(n) {
		return
	}
	t := tally{ifEvicted: ifEvicted(c, n), matching: 1, largest: k.class.PerEmpty}
	if c.Shape.GPUs > 0 {
		t.gpuFree, t.gpuFits = x.gpuRoom(c, n)
	}
	sum.add(t)
}

// gpuRoom is how many GPUs of its model are free for the class, and how many pods they hold, other resources
// aside.
func (x *Index) gpuRoom(c *Class, n *cluster.Node) (free, fits int64) {
	free = n.Free.At(quantity.DimGPU)
	if len(n.Nominated) > 0 {
		free = n.LessNominated(c.Priority).At(quantity.DimGPU)
	}
	if len(n.Devices) > 0 {
		one := Class{ClassKey: c.ClassKey, Wants: device.Want{Count: 1, Model: c.Model}}
		free = min(free, deviceRoom(&one, n))
	}
	if free <= 0 {
		return 0, 0
	}
	if (x.m.WholeNodeGangs > 0 || c.Whole != "") && x.sharesWith(c, n) != "" {
		return free, 0
	}
	return free, min(free/c.Shape.GPUs, deviceRoom(c, n))
}

// special says whether more than the node's kind and its free resources may exclude it.
func (x *Index) special(c *Class, n *cluster.Node, fits int64) bool {
	return c.Local || len(c.Shape.Spec.Ports) > 0 || len(n.Nominated) > 0 ||
		c.Shape.GPUs > 0 && (x.m.WholeNodeGangs > 0 || c.Whole != "" || fits == 0 && n.Free.At(quantity.DimGPU) >= c.Shape.GPUs)
}

// note counts the clauses, each of one node, in the row.
func note(row *why.Row, clauses []why.Clause) {
	for _, c := range clauses {
		c.Nodes = 1
		noteClause(row, c)
	}
}

func noteClause(row *why.Row, c why.Clause) {
	for i := range row.Removed {
		if r := &row.Removed[i]; r.Kind == c.Kind && r.Detail == c.Detail {
			r.Nodes += c.Nodes
			return
		}
	}
	row.Removed = append(row.Removed, c)
}

// noteShort counts a shortage in the row.
func noteShort(row *why.Row, short why.Short) {
	for i := range row.Short {
		if s := &row.Short[i]; s.Resource == short.Resource {
			s.Nodes += short.Nodes
			s.By = min(s.By, short.By)
			return
		}
	}
	row.Short = append(row.Short, short)
}

// ifEvicted is how many pods the node's resources would hold if everything that can go were gone.
func ifEvicted(c *Class, n *cluster.Node) int64 {
	if len(n.Yield) == 0 {
		return Quotient(n.Free, c.Demands)
	}
	var buf [8]int64
	free := append(quantity.Vector(buf[:0]), n.Free...)
	for i, v := range n.Yield {
		free.Add(i, v)
	}
	return Quotient(free, c.Demands)
}

func sortRow(row *why.Row) {
	slices.SortFunc(row.Removed, func(a, b why.Clause) int {
		if c := strings.Compare(string(a.Kind), string(b.Kind)); c != 0 {
			return c
		}
		return strings.Compare(a.Detail, b.Detail)
	})
	slices.SortFunc(row.Short, func(a, b why.Short) int { return strings.Compare(a.Resource, b.Resource) })
}

// table adds rows of buckets up into the domains of a certificate.
type table struct {
	c       *Class
	level   int
	domains []*tableDomain
	at      map[*cluster.Domain]*tableDomain
	tally
}

// tableDomain is a domain in the making.
type tableDomain struct {
	name      string
	rows      []why.Row // sorted by class; a bucket's own until sum is made
	sum       []why.Row // by class, where there are several buckets; Nodes 0: none
	ifEvicted int64
	counts    bool // is a domain of the level; nodes outside any are counted in one that is not
}

// makeTable counts every node, bucket by bucket; buckets where nothing changed were counted before.
func (x *Index) makeTable(c *Class, level int) *table {
	x.meetKinds(c)
	for x.renumber(c) {
	}
	t := &table{c: c, level: level, at: make(map[*cluster.Domain]*tableDomain)}
	for _, sh := range x.m.Topology.Buckets {
		if level == cluster.NodeLevel {
			for i, n := range sh.Nodes {
				t.add(t.newDomain(n.Name, true), x.makeRows(c, sh, i, i+1))
			}
			continue
		}
		t.add(t.domainOf(sh), x.rowsOf(c, sh))
	}
	return t
}

// meetKinds numbers the kinds of the nodes that have to be counted, all before the first row is made: rows would have
// to be made anew for each that came.
func (x *Index) meetKinds(c *Class) {
	for _, sh := range x.m.Topology.Buckets {
		if c.counted(sh) {
			continue
		}
		for _, n := range sh.Nodes {
			x.kindProof(c, n)
		}
	}
}

// renumber makes the rows of all buckets, and reports whether classes got other numbers by it: because some
// came that were not met before, or went.
func (x *Index) renumber(c *Class) bool {
	p := &c.proofs
	epoch := p.epoch
	present := make([]bool, len(p.numbers))
	for _, sh := range x.m.Topology.Buckets {
		rows := x.rowsOf(c, sh).rows
		if p.epoch != epoch {
			return true
		}
		for i := range rows {
			present[rows[i].Class] = true
		}
	}
	if !slices.Contains(present, false) {
		return false
	}
	p.keep(present)
	return true
}

func (t *table) domainOf(sh *cluster.Bucket) *tableDomain {
	var in *cluster.Domain
	name := ""
	if t.level >= 0 {
		if in = sh.Domains[t.level]; in != nil {
			name = in.Name
		}
	}
	d := t.at[in]
	if d == nil {
		d = t.newDomain(name, in != nil || t.level == cluster.AnyLevel)
		t.at[in] = d
	}
	return d
}

func (t *table) newDomain(name string, counts bool) *tableDomain {
	d := &tableDomain{name: name, counts: counts}
	t.domains = append(t.domains, d)
	return d
}

func (t *table) add(d *tableDomain, r *bucketRows) {
	t.tally.add(r.tally)
	d.ifEvicted += r.ifEvicted
	if d.rows == nil {
		d.rows = r.rows
		return
	}
	if d.sum == nil {
		d.sum = make([]why.Row, len(t.c.proofs.numbers))
		d.merge(d.rows)
	}
	d.merge(r.rows)
}

// merge adds rows to the sum. The rows stay as they are.
func (d *tableDomain) merge(rows []why.Row) {
	for i := range rows {
		r := &rows[i]
		sum := &d.sum[r.Class]
		if sum.Nodes == 0 {
			*sum = *r
			sum.Removed, sum.Short = slices.Clone(r.Removed), slices.Clone(r.Short)
			continue
		}
		sum.Nodes += r.Nodes
		sum.Fits += r.Fits
		sum.Example = min(sum.Example, r.Example)
		for _, c := range r.Removed {
			noteClause(sum, c)
		}
		for _, s := range r.Short {
			noteShort(sum, s)
		}
	}
}

// finish puts the domains, in canonical order, into the certificate.
func (t *table) finish(cert *why.Certificate) {
	cert.Classes = make([]why.Class, len(t.c.proofs.numbers))
	for i, k := range t.c.proofs.numbers {
		cert.Classes[i] = k.class
	}
	slices.SortFunc(t.domains, func(a, b *tableDomain) int {
		if c := strings.Compare(a.name, b.name); c != 0 || a.counts == b.counts {
			return c
		}
		return cluster.Before(b.counts)
	})
	cert.Domains = make([]why.Domain, len(t.domains))
	for i, d := range t.domains {
		cert.Domains[i] = d.finish()
	}
}

func (d *tableDomain) finish() why.Domain {
	if d.sum != nil {
		d.rows = slices.DeleteFunc(d.sum, func(r why.Row) bool { return r.Nodes == 0 })
		for i := range d.rows {
			sortRow(&d.rows[i])
		}
	}
	out := why.Domain{Name: d.name, Rows: d.rows}
	for i := range d.rows {
		out.Fits += d.rows[i].Fits
	}
	return out
}

// mostEvicted is the most that could fit in one domain, or in the pinned one, if all that can go were gone.
func (t *table) mostEvicted(pinned string) int64 {
	var most int64
	for _, d := range t.domains {
		if d.counts && (pinned == "" || pinned == d.name) {
			most = max(most, d.ifEvicted)
		}
	}
	return most
}

// cause names what the counts amount to.
func (t *table) cause(cert *why.Certificate) why.Cause {
	need, gpus := int64(cert.Need), t.c.Shape.GPUs
	switch {
	case t.matching == 0:
		return why.NoMatchingNode
	case t.largest == 0:
		return why.LargerThanAnyNode
	case cert.Total >= need:
		return why.TopologyFragmented
	case gpus > 0 && t.gpuFits >= need:
		return why.Stranded
	case gpus > 0 && t.gpuFree >= need*gpus:
		return why.Fragmented
	}
	return why.ClusterFull
}
