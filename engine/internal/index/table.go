package index

import (
	"math"
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/device"
	"github.com/berth-dev/berth/engine/internal/quantity"
	"github.com/berth-dev/berth/engine/why"
)

// The counts of certificates: how a proof about thousands of nodes is brought up to date when one of them changes.
//
// From nodes to the sentence that a person reads there are four layers, and each is kept while its
// inputs are the same:
//
//	rows of a bucket   one pass over up to 256 nodes    while the bucket's number is the same (counted), or what is counted
//	sum of a domain    an addition for each bucket      while the rows are the very same ones (sum)
//	body of a level    a list of domains                while no bucket's rows are others (bodyOf)
//	certificate        the body, and what is needed     made for each answer
//
// A change on one node goes through all four: one bucket is counted, one part of one domain is added up, one entry of the
// list is replaced, and all else is shared with the body from before.
//
// For example, a bucket has 200 nodes of one pool, 40 of the same pool that are cordoned, and 16 of
// another pool that the class's selector excludes. Those are three kinds and three rows: 200 nodes
// where 3 pods fit in all, 40 that are cordoned, 16 that lack the label. What a person is told of
// 5,000 nodes is the sum of some 20 such lists.
//
// Everything that is made here is shared with the certificates that were handed out, and is not written to after it is made.
// All of it belongs to one class (proofs) and is dropped with it.

// bucketRows is the nodes of one bucket as certificates count them: one row for those that a class cannot tell apart. Rows
// are kept until a node of the bucket changes.
//
// Three numbers say whether rows still hold, one for each of their inputs: touched for what is free
// on the nodes and what they are, epoch for the numbers of classes, which rows name, and ruled for
// pods on other nodes, which matter to a class under rules alone.
type bucketRows struct {
	rows []why.Row // sorted by class
	tally
	epoch   uint64 // proofs.epoch: classes have had these numbers since
	touched uint64 // Bucket.Touched
	ruled   uint64 // Class.ruled; 0 of a class under no rules between pods
}

// tally is what else is counted of the nodes that no clause excludes. The cause of a refusal is found from it (body.cause).
// ifEvicted is a bound from above: where it is below the need, no eviction could help, and no victim is looked for
// (preempt.curable).
//
// For example, pods ask for 4 GPUs each, and three nodes of 8 GPUs match, of which 3, 3 and 6 are free. gpuFree is 12 and
// gpuFits is 0 + 0 + 1 = 1. For 3 pods the cluster is fragmented: 12 GPUs would do, and 1 pod fits.
type tally struct {
	ifEvicted int64 // pods that would fit if everything that can go were gone
	matching  int64 // nodes that no clause excludes
	largest   int64 // the most pods that an empty node of these holds
	gpuFree   int64 // whole GPUs that are free, of the model that the class asks for
	gpuFits   int64 // pods that would fit if GPUs were all they asked for
}

// add adds the other, which is of other nodes. The largest is a maximum and not a sum.
func (t *tally) add(o tally) {
	t.ifEvicted += o.ifEvicted
	t.matching += o.matching
	t.largest = max(t.largest, o.largest)
	t.gpuFree += o.gpuFree
	t.gpuFits += o.gpuFits
}

// rowsOf returns the rows of the bucket, up to date. They are made once for each state of a bucket. Where the new rows would
// say the same as the old ones, the old ones are returned and count as up to date: a pod that took the place of another mostly
// changes what is free of some resource, and not what a class lacks, and then no sum above changes either. It costs one look
// at each node where the bucket changed, and otherwise three comparisons.
func (x *Index) rowsOf(c *Class, sh *cluster.Bucket) *bucketRows {
	f := &c.ByBucket[sh.ID]
	if c.counted(sh) {
		return f.rows
	}
	old, now := f.rows, x.makeRows(c, sh, 0, len(sh.Nodes))
	//mutate: index-rows-say-the-same -> old != nil && old.epoch == now.epoch
	if old != nil && old.epoch == now.epoch && old.says(now) {
		old.touched, old.ruled = now.touched, now.ruled
		return old
	}
	f.rows = now
	c.proofs.made++
	return now
}

// says whether the rows count the same as the others. Both must be of one epoch, since they name classes by number.
func (r *bucketRows) says(o *bucketRows) bool {
	return r.tally == o.tally && slices.EqualFunc(r.rows, o.rows, func(a, b why.Row) bool { return a.Class == b.Class && sameRow(&a, &b) })
}

// counted says whether the rows of the bucket are up to date.
func (c *Class) counted(sh *cluster.Bucket) bool {
	r := c.ByBucket[sh.ID].rows
	return r != nil && r.epoch == c.proofs.epoch && r.touched == sh.Touched && r.ruled == c.ruled()
}

// counting is scratch memory to count the nodes of a bucket in, or to add rows up. It is kept between uses so that they
// allocate little. Between uses its content means nothing, but sums is zero.
type counting struct {
	proofs  []*kindProof  // by row
	rowOf   []int         // by kind of the view; -1: none yet
	shorts  []why.Short   // by row, then by demand
	sums    []why.Row     // by class; Nodes 0: none
	changed []int         // classes
	parts   []*bucketRows // the rows of the buckets of a domain

	// Memory for rows that are handed out, and so is not used again. While all buckets of a class are counted, slab says for
	// how many rows it is allocated at once.
	slab  int
	sets  []bucketRows
	rows  []why.Row
	short []why.Short
}

// makeRows counts the nodes in the bucket's slots from and up to, but not with, to. Nodes of one kind look alike to the class
// in everything but what is free, so a row is a kind, with counts. The class must be up to date: how many pods fit is read
// from its cells. It costs one pass over the nodes and, for each, one over the demands.
func (x *Index) makeRows(c *Class, sh *cluster.Bucket, from, to int) *bucketRows {
	// rowOf is by kind of the view, of which there are at most as many as nodes in a bucket: the inner loop looks
	// nothing up in a map. Two kinds that the class cannot tell apart have one row, so that there is room enough.
	f, v, w := &c.ByBucket[sh.ID], x.viewOf(sh), &x.counting
	out := w.newRows(len(v.kinds))
	w.proofs, w.shorts, w.rowOf = w.proofs[:0], w.shorts[:0], w.rowOf[:0]
	for range v.kinds {
		w.rowOf = append(w.rowOf, -1)
	}
	for slot := from; slot < to; slot++ {
		i := w.rowOf[v.of[slot]]
		// A kind is looked up in the class's own numbering once for each bucket; after that rowOf has it.
		if i < 0 {
			i = w.row(c, x.kindProof(c, v.kinds[v.of[slot]]), out, sh.Nodes[slot].Name)
			w.rowOf[v.of[slot]] = i
		}
		fits := int64(f.Cells[slot].Fits)
		out.rows[i].Nodes++
		out.rows[i].Fits += fits
		for j, d := range c.Demands {
			// Short counts the nodes that lack the resource, and how little is lacking on the best of them: what a person would
			// free first.
			if free := v.free[d.Dim*v.nodes+slot]; free < d.Amount {
				short := &w.shorts[i*len(c.Demands)+j]
				if short.Nodes++; short.Nodes == 1 || d.Amount-free < short.By {
					short.By = d.Amount - free
				}
			}
		}
		x.countNode(c, sh.Nodes[slot], w.proofs[i], v, slot, fits, &out.rows[i], &out.tally)
	}
	// The rows are finished after the loop, when it is known of how many nodes each is: what is true of the whole kind is
	// entered once, times that number.
	for i := range out.rows {
		x.finishRow(c, &out.rows[i], w.proofs[i], w.shorts[i*len(c.Demands):(i+1)*len(c.Demands)])
	}
	slices.SortFunc(out.rows, func(a, b why.Row) int { return a.Class - b.Class })
	out.epoch, out.touched, out.ruled = c.proofs.epoch, sh.Touched, c.ruled()
	return out
}

// newRows allocates bucketRows with memory for n rows. The memory is cut from a larger piece and has the capacity n, so that
// an append beyond it would move to memory of its own and never write into that of others.
//
// A piece has w.slab rows while all buckets of a class are counted, and otherwise those of one bucket: a piece lives as
// long as any row of it, and one that is large would be kept for the sake of a few.
func (w *counting) newRows(n int) *bucketRows {
	if len(w.sets) == 0 {
		w.sets = make([]bucketRows, max(1, w.slab))
	}
	if len(w.rows) < n {
		w.rows = make([]why.Row, max(n, w.slab))
	}
	out := &w.sets[0]
	out.rows = w.rows[:0:n]
	w.sets, w.rows = w.sets[1:], w.rows[n:]
	return out
}

// newShorts allocates memory for n shortages of a row, in the same way.
func (w *counting) newShorts(n int) []why.Short {
	if len(w.short) < n {
		w.short = make([]why.Short, max(n, w.slab))
	}
	out := w.short[:0:n]
	w.short = w.short[n:]
	return out
}

// row returns the number of the row for nodes of the kind, and begins one if there is none. example is the name of the first
// such node, by which a certificate shows what it means. Kinds of a bucket are few, so that proofs are searched one by one.
func (w *counting) row(c *Class, k *kindProof, out *bucketRows, example string) int {
	if i := slices.Index(w.proofs, k); i >= 0 {
		return i
	}
	w.proofs = append(w.proofs, k)
	for range c.Demands {
		w.shorts = append(w.shorts, why.Short{})
	}
	out.rows = append(out.rows, why.Row{Example: example})
	return len(out.rows) - 1
}

// finishRow enters in the row what holds for all of its nodes: the number of the class, the shortages, which were counted by
// demand, and the clauses of the kind. Lists are sorted, so that rows of equal content are equal.
func (x *Index) finishRow(c *Class, row *why.Row, k *kindProof, shorts []why.Short) {
	row.Class = k.number
	short := 0
	for j := range shorts {
		if shorts[j].Nodes > 0 {
			short++
		}
	}
	if short > 0 {
		row.Short = x.counting.newShorts(short)
		for j, d := range c.Demands {
			if shorts[j].Nodes > 0 {
				row.Short = append(row.Short, why.Short{Resource: x.m.Dims.Names[d.Dim], Nodes: shorts[j].Nodes, By: shorts[j].By})
			}
		}
	}
	// Three cases: nothing is said of single nodes, and the shared list will do; the kind's clauses
	// are added to what is; or, of kinds whose clauses depend on names, all has been entered node
	// by node.
	switch {
	case row.Removed == nil && !k.personal:
		row.Removed = k.removes(row.Nodes)
	case !k.personal:
		note(row, k.clauses, row.Nodes)
		fallthrough
	default:
		sortClauses(row.Removed)
	}
	sortShorts(row.Short)
}

// countNode adds what is about this very node to its row, and the node to the tally. Most nodes add
// nothing of their own: what excludes them is true of their whole kind, and finishRow enters it for
// all at once.
func (x *Index) countNode(c *Class, n *cluster.Node, k *kindProof, v *view, slot int, fits int64, row *why.Row, sum *tally) {
	gpus := v.free[quantity.DimGPU*v.nodes+slot]
	// Reasons are of three kinds: what is true of all nodes of the kind (finishRow), what depends on the node's name
	// (personal), and what depends on what is on the node now (rules between pods, localClauses).
	clauses := k.clauses
	if k.personal {
		clauses = x.clauses(c, n, x.MaskOf(c, n).State)
		note(row, clauses, 1)
	}
	// A rule between pods is named only on nodes where no pod fits: elsewhere it limits how many, and excludes nothing.
	if c.rules != nil && fits == 0 {
		x.noteRules(c, n, row)
	}
	if x.special(c, fits, gpus) || v.nominated && len(n.Nominated) > 0 {
		note(row, x.localClauses(c, n), 1)
	}
	// What would fit if others were evicted is asked only of nodes that the class may be on.
	if len(clauses) > 0 || c.Local && c.Excludes(n) {
		return
	}
	t := tally{ifEvicted: v.evictedQuotient(slot, c.Demands), matching: 1, largest: k.class.PerEmpty}
	if c.Shape.GPUs > 0 && gpus > 0 {
		t.gpuFree, t.gpuFits = x.gpuRoom(c, n)
	}
	sum.add(t)
}

// gpuRoom is how many GPUs of its model are free on the node for the class, and how many pods they hold, other resources
// aside. The difference between the two tells a cluster that is full from one that is fragmented. The class must ask for
// whole GPUs.
func (x *Index) gpuRoom(c *Class, n *cluster.Node) (free, fits int64) {
	// free is counted by resources and by devices, and the lower one holds: of the GPUs that are free by count some may be
	// of another model.
	free = n.Free.At(quantity.DimGPU)
	if len(n.Nominated) > 0 {
		free = n.LessNominated(c.Priority).At(quantity.DimGPU)
	}
	// one asks for a single GPU, of the model and without wishes as to where: how many of those there is room for is how
	// many GPUs are free.
	if len(n.Devices) > 0 {
		one := Class{ClassKey: c.ClassKey, named: c.named, Wants: device.Want{Count: 1, Model: c.Model}}
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

// special says whether more than its kind and its free resources may exclude a node on which so many pods fit and so many
// GPUs are free: names, ports, claims, parts, whole nodes, or GPUs that are free and yet will not do. A yes costs a look at the
// node (localClauses), and may add nothing.
func (x *Index) special(c *Class, fits, gpus int64) bool {
	return c.Local || len(c.Shape.Spec.Ports) > 0 || c.Shape.Spec.Claims != nil && fits == 0 || c.Shape.Spec.Part != nil && (fits == 0 || x.m.WholeNodeGangs > 0) ||
		c.Shape.GPUs > 0 && (x.m.WholeNodeGangs > 0 || c.Whole != "" || fits == 0 && gpus >= c.Shape.GPUs)
}

// note counts the clauses, each of so many nodes, in the row. A node that several clauses exclude
// counts for each.
func note(row *why.Row, clauses []why.Clause, nodes int) {
	for _, c := range clauses {
		c.Nodes = nodes
		noteClause(row, c)
	}
}

// noteClause counts the clause in the row: with those of its kind and detail, if there are any.
func noteClause(row *why.Row, c why.Clause) {
	for i := range row.Removed {
		if r := &row.Removed[i]; r.Kind == c.Kind && r.Detail == c.Detail {
			r.Nodes += c.Nodes
			return
		}
	}
	row.Removed = append(row.Removed, c)
}

// noteShort counts a shortage in the row: nodes are added, and of what is lacking the least counts.
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

// sortClauses sorts by kind and detail, which no two clauses of a row share.
func sortClauses(list []why.Clause) {
	slices.SortFunc(list, func(a, b why.Clause) int {
		if c := strings.Compare(string(a.Kind), string(b.Kind)); c != 0 {
			return c
		}
		return strings.Compare(a.Detail, b.Detail)
	})
}

// sortShorts sorts by the name of the resource, which no two shortages of a row share.
func sortShorts(list []why.Short) {
	slices.SortFunc(list, func(a, b why.Short) int { return strings.Compare(a.Resource, b.Resource) })
}

// layout is the domains of a level, as certificates list them, with the buckets that each is made
// of. It holds at Topology.Shape, and is shared by all classes.
type layout struct {
	level   int
	shape   uint64
	domains []layoutDomain
}

// layoutDomain is one domain of a layout.
type layoutDomain struct {
	name    string // "" for the whole cluster, and for the nodes that are in no domain of the level
	buckets []*cluster.Bucket
	counts  bool // it can hold a gang; false for the nodes that are in no domain of the level
}

// layoutOf returns the domains of the level, by name. Nodes that are in none are in one more,
// without a name, so that a certificate accounts for all nodes.
func (x *Index) layoutOf(level int) *layout {
	// Levels are few, and are searched one by one.
	i := slices.IndexFunc(x.layouts, func(l layout) bool { return l.level == level })
	if i < 0 {
		i = len(x.layouts)
		x.layouts = append(x.layouts, layout{level: level})
	}
	l := &x.layouts[i]
	if l.shape == x.m.Topology.Shape {
		return l
	}
	*l = layout{level: level, shape: x.m.Topology.Shape}
	// All nodes of a bucket are in the same domains, so that it is enough to sort buckets. The key nil is for those that
	// are in no domain of the level.
	at := make(map[*cluster.Domain]int)
	for _, sh := range x.m.Topology.Buckets {
		var in *cluster.Domain
		name := ""
		if level >= 0 {
			if in = sh.Domains[level]; in != nil {
				name = in.Name
			}
		}
		i, ok := at[in]
		if !ok {
			i = len(l.domains)
			at[in] = i
			l.domains = append(l.domains, layoutDomain{name: name, counts: in != nil || level == cluster.AnyLevel})
		}
		l.domains[i].buckets = append(l.domains[i].buckets, sh)
	}
	slices.SortFunc(l.domains, func(a, b layoutDomain) int {
		if c := strings.Compare(a.name, b.name); c != 0 || a.counts == b.counts {
			return c
		}
		return cluster.Before(b.counts)
	})
	return l
}

// body is the part of a certificate that any need of the class shares. It is kept, one for each
// level, while the room on nodes has its number: a trial that was rolled back leaves it as it is.
// When room changed, the domains are added up anew whose buckets have other rows.
type body struct {
	level   int
	at      position
	epoch   uint64 // proofs.epoch
	made    uint64 // proofs.made
	layout  *layout
	classes []why.Class
	domains []why.Domain // never written to: certificates share them
	sums    []sum        // by domain
	tally
}

// bodyOf returns the body for the level. There are three depths of reuse: at the same position, or
// where no rows were made since that say something else, the body is as it was; at the same shape
// only the domains whose rows changed are added up; at another shape all of it is made anew.
func (x *Index) bodyOf(c *Class, level int) *body {
	at := position{room: x.m.Room.Now, shape: x.m.Topology.Shape}
	p := &c.proofs
	i := slices.IndexFunc(p.bodies, func(b *body) bool { return b.level == level })
	//mutate: index-body-of-certificate
	if i >= 0 && p.bodies[i].at == at {
		return p.bodies[i]
	}
	// recount comes before p.epoch is read: it may renumber the classes, and then what the old body says of them by number
	// is of no use.
	x.recount(c, at)
	b := &body{level: level, at: at, epoch: p.epoch, made: p.made}
	if level == cluster.NodeLevel {
		x.bodyOfNodes(c, b)
	} else {
		// At another shape the domains are others, and at another epoch the numbers of classes mean others.
		var old *body
		if i >= 0 && p.bodies[i].at.shape == at.shape && p.bodies[i].epoch == p.epoch {
			old = p.bodies[i]
		}
		//mutate: index-body-of-rows -> old != nil
		if old != nil && old.made == p.made {
			old.at = at
			return old
		}
		x.addUp(c, b, old)
	}
	if i < 0 {
		p.bodies = append(p.bodies, b)
	} else {
		p.bodies[i] = b
	}
	return b
}

// addUp adds the rows of buckets up into domains. Those of the old body are taken where the rows
// are the same. old is used up: its sums are brought up to date in place, and its lists only where
// no certificate shares them.
func (x *Index) addUp(c *Class, b, old *body) {
	// The body has a copy of the layout, because layoutOf writes the next one in its place.
	l := x.layoutOf(b.level)
	b.layout = &layout{level: l.level, shape: l.shape, domains: l.domains}
	if old != nil {
		b.classes, b.domains, b.sums = old.classes, old.domains, old.sums
	} else {
		b.classes, b.domains, b.sums = c.proofs.classes(), make([]why.Domain, len(l.domains)), make([]sum, len(l.domains))
	}
	for i := range l.domains {
		parts := x.counting.parts[:0]
		for _, sh := range l.domains[i].buckets {
			parts = append(parts, c.ByBucket[sh.ID].rows)
		}
		x.counting.parts = parts
		// The rows of the domain are the same as in the old body: so is its sum.
		if !x.addTo(&b.sums[i], parts) {
			b.tally.add(b.sums[i].total.tally)
			continue
		}
		// Certificates that were handed out share the old list, so that it is copied before the first domain in it changes.
		if old != nil {
			b.domains, old = slices.Clone(b.domains), nil
		}
		b.domains[i] = b.sums[i].domain(l.domains[i].name)
		b.tally.add(b.sums[i].total.tally)
	}
}

// bodyOfNodes lists single nodes as domains, by name. It is the dearest body, with a row for each
// node, and is not reused from state to state.
func (x *Index) bodyOfNodes(c *Class, b *body) {
	b.classes, b.domains, b.layout = c.proofs.classes(), []why.Domain{}, &layout{level: b.level}
	for _, sh := range x.m.Topology.Buckets {
		for i, n := range sh.Nodes {
			b.layout.domains = append(b.layout.domains, layoutDomain{name: n.Name, counts: true})
			b.sums = append(b.sums, sum{total: x.makeRows(c, sh, i, i+1)})
			b.domains = append(b.domains, b.sums[len(b.sums)-1].domain(n.Name))
			b.tally.add(b.sums[len(b.sums)-1].total.tally)
		}
	}
	slices.SortStableFunc(b.domains, func(a, b why.Domain) int { return strings.Compare(a.Name, b.Name) })
}

// classes describes the kinds by number, as certificates list them.
func (p *proofs) classes() []why.Class {
	out := make([]why.Class, len(p.numbers))
	for i, k := range p.numbers {
		out[i] = k.class
	}
	return out
}

// recount brings the rows of all buckets up to date, and the numbers of classes in them. At the end
// all rows are of one epoch: a row says of each class what the list of classes says.
//
// The short way looks at the buckets that changed. Where that is not enough, all buckets are gone
// over: kinds are met first, so that most numbers are given before any row is made, and then rows
// are made until no number changes. Each turn either gives numbers to new kinds or drops kinds, and
// kinds that are present are not dropped, so that it comes to an end.
//
// For example, classes 0, 1 and 2 are known. The last node of class 1 is relabelled, and is of a new kind by that. To
// meet the new kind gives it a number among the others, by its key, so that all rows are made anew. None of them is of
// class 1: it is dropped, the numbers after it change, and all rows are made once more.
func (x *Index) recount(c *Class, at position) {
	p := &c.proofs
	if p.counted == at {
		return
	}
	//mutate: index-rows-under-rules -> p.counted.shape != at.shape || !x.recountChanged(c)
	if p.counted.shape != at.shape || p.ruled != c.ruled() || !x.recountChanged(c) {
		// While all buckets are counted, room is made for up to 256 rows at once.
		x.counting.slab = min(256, x.meetKinds(c))
		for x.renumber(c) {
		}
		w := &x.counting
		w.slab, w.sets, w.rows, w.short = 0, nil, nil, nil
	}
	p.counted, p.ruled = at, c.ruled()
}

// recountChanged brings the rows of those buckets up to date in which room changed since all were, and says whether that was
// enough: it is known which buckets these are, and the classes are the same. A class that has gone from one bucket may have
// gone from all, which only a look at all buckets can tell.
func (x *Index) recountChanged(c *Class) bool {
	// A no leaves some buckets counted and others not. That is harmless: each has its own numbers, by which the long way
	// sees which are up to date.
	p := &c.proofs
	var buf [cluster.MostSteps]*cluster.Bucket
	changed, known := x.m.Room.Since(p.counted.room, buf[:0])
	if !known {
		return false
	}
	for _, sh := range changed {
		if c.counted(sh) {
			continue
		}
		// Kinds are met before rows are made: one that is new gets a number, which raises the epoch.
		old := c.ByBucket[sh.ID].rows
		for _, n := range x.viewOf(sh).kinds {
			x.kindProof(c, n)
		}
		//mutate: index-classes-come
		if old == nil || old.epoch != p.epoch { // a class came, or came before
			return false
		}
		//mutate: index-classes-go
		if !x.rowsOf(c, sh).holds(old) {
			return false
		}
	}
	return true
}

// holds says whether there is a row of each class that there is one of in the other. Both are
// sorted by class.
func (r *bucketRows) holds(o *bucketRows) bool {
	at := 0
	for i := range o.rows {
		for at < len(r.rows) && r.rows[at].Class < o.rows[i].Class {
			at++
		}
		if at == len(r.rows) || r.rows[at].Class != o.rows[i].Class {
			return false
		}
	}
	return true
}

// meetKinds numbers the kinds of the nodes that have to be counted, all before the first row is made: rows would have
// to be made anew for each that came. It returns how many rows there will be at the most: one for each kind of each bucket.
func (x *Index) meetKinds(c *Class) (rows int) {
	for _, sh := range x.m.Topology.Buckets {
		if c.counted(sh) {
			continue
		}
		kinds := x.viewOf(sh).kinds
		for _, n := range kinds {
			x.kindProof(c, n)
		}
		rows += len(kinds)
	}
	return rows
}

// renumber makes the rows of all buckets, and reports whether classes got other numbers by it:
// because some came that were not met before, or went. Then rows are of several epochs, and have to
// be made again.
func (x *Index) renumber(c *Class) bool {
	// present is by number, and means something only as long as the numbers stay: hence the way out in the loop.
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

// sum is the rows of several buckets added up. Where there are many it is made of parts: when the rows of one bucket change,
// its part is added up again, and then the parts, and in both only the classes that changed. Its inputs are the rows (of), by
// address, since rows are never written to, and the numbers of classes (proofs.epoch): see bodyOf.
//
// For example, 400 buckets are 20 parts of 20. When one bucket changes, its part is added up from
// 20 rows and the total from 20 parts: 40 additions, where there would be 400.
//
// Why not subtract the old rows and add the new ones: counts of nodes could be taken back, but the smallest shortage and
// the first name could not. If the node that lacked least has gone, only the others can say which one is next.
type sum struct {
	of    []*bucketRows
	parts []sum         // nil: few
	added []*bucketRows // what the total was made of: of, or the totals of the parts
	total *bucketRows
}

// fewRows is how many buckets are added up without parts.
const fewRows = 32

// addTo brings the sum of the rows up to date, and says whether it changed. Rows are compared by
// their address: rows that were made anew are others, even if they say the same.
func (x *Index) addTo(s *sum, rows []*bucketRows) bool {
	//mutate: index-sum-of-rows
	if slices.Equal(s.of, rows) {
		return false
	}
	s.of = append(s.of[:0], rows...)
	// The sum of one is that one, with no addition.
	if len(rows) == 1 {
		s.total = rows[0]
		return true
	}
	if len(rows) > fewRows {
		rows = x.addParts(s)
	}
	s.total = x.merge(rows, s.added, s.total)
	s.added = append(s.added[:0], rows...)
	return true
}

// addParts brings the parts of the sum up to date and returns their totals. The size of a part is
// the square root of their number, at which a part and the list of parts are equally long. The
// number only depends on that of the buckets: parts keep their places.
func (x *Index) addParts(s *sum) []*bucketRows {
	// Up to some fewRows^2 buckets the parts have no parts of their own. Beyond that addTo divides them in the same way.
	size := int(math.Sqrt(float64(len(s.of))))
	n := (len(s.of) + size - 1) / size
	if len(s.parts) != n {
		s.parts = make([]sum, n)
	}
	totals := make([]*bucketRows, n)
	for i := range s.parts {
		x.addTo(&s.parts[i], s.of[i*size:min((i+1)*size, len(s.of))])
		totals[i] = s.parts[i].total
	}
	return totals
}

// merge returns the sum of all. had is the sum of was, or nil: of classes whose rows are the same in both, the sum is taken
// over. Classes that have changed are added up anew from all rows, since minima cannot be taken back (sum). It costs a copy of
// the sum and, for each class that changed, a binary search in each list of rows.
func (x *Index) merge(all, was []*bucketRows, had *bucketRows) *bucketRows {
	w := &x.counting
	if had == nil || len(was) != len(all) {
		return w.mergeAll(all)
	}
	// The tally is added up from all: it is five numbers for each. Rows have lists, and those of classes that did not
	// change are taken over as they are. Both lists are sorted by class: kept is what of the old sum is still ahead.
	changed := w.changes(all, was)
	out := &bucketRows{rows: make([]why.Row, 0, len(had.rows)+len(changed))}
	for _, b := range all {
		out.tally.add(b.tally)
	}
	kept := had.rows
	for _, class := range changed {
		at, found := place(kept, class)
		out.rows = append(out.rows, kept[:at]...)
		if kept = kept[at:]; found {
			kept = kept[1:]
		}
		var sum why.Row
		for _, b := range all {
			if i, ok := place(b.rows, class); ok {
				addRow(&sum, &b.rows[i])
			}
		}
		out.add(&sum)
	}
	out.rows = append(out.rows, kept...)
	return out
}

// mergeAll adds up rows of which no sum is known yet: one addition for each row.
func (w *counting) mergeAll(all []*bucketRows) *bucketRows {
	// sums is by class, with one entry for each that there is, and empty between uses. n is how many got a row.
	out, n := &bucketRows{}, 0
	for _, b := range all {
		out.tally.add(b.tally)
		for i := range b.rows {
			r := &b.rows[i]
			if more := r.Class + 1 - len(w.sums); more > 0 {
				w.sums = append(w.sums, make([]why.Row, more)...)
			}
			if w.sums[r.Class].Nodes == 0 {
				n++
			}
			addRow(&w.sums[r.Class], r)
		}
	}
	// Classes are numbered in the order of certificates, so that the rows come out sorted.
	out.rows = make([]why.Row, 0, n)
	for i := range w.sums {
		out.add(&w.sums[i])
	}
	clear(w.sums)
	return out
}

// add appends the sum of a class, whose number must be above those that are there. One without nodes is dropped: the class
// has gone from all buckets.
func (r *bucketRows) add(sum *why.Row) {
	if sum.Nodes > 0 {
		sortClauses(sum.Removed)
		sortShorts(sum.Short)
		r.rows = append(r.rows, *sum)
	}
}

// place is where the row of the class is among the rows, or would be.
func place(rows []why.Row, class int) (int, bool) {
	return slices.BinarySearchFunc(rows, class, func(r why.Row, class int) int { return r.Class - class })
}

// changes are the classes of which some rows differ, in order. Most lists are the very ones that were
// added before, and one comparison of addresses passes over each. Lists are of the same length, and are
// compared place by place; rows in them are sorted by class, so that one walk over both finds those
// that came, went or differ. The result is good until the next call.
func (w *counting) changes(all, was []*bucketRows) []int {
	out := w.changed[:0]
	for i := range all {
		if all[i] == was[i] {
			continue
		}
		now, old := all[i].rows, was[i].rows
		for len(now)+len(old) > 0 {
			switch {
			case len(old) == 0 || len(now) > 0 && now[0].Class < old[0].Class:
				out = append(out, now[0].Class)
				now = now[1:]
			case len(now) == 0 || old[0].Class < now[0].Class:
				out = append(out, old[0].Class)
				old = old[1:]
			default:
				//mutate: index-merge-changed
				if !sameRow(&now[0], &old[0]) {
					out = append(out, now[0].Class)
				}
				now, old = now[1:], old[1:]
			}
		}
	}
	slices.Sort(out)
	w.changed = out
	return slices.Compact(out)
}

// sameRow says whether two rows of one class count the same.
func sameRow(a, b *why.Row) bool {
	return a.Nodes == b.Nodes && a.Fits == b.Fits && a.Example == b.Example && slices.Equal(a.Removed, b.Removed) && slices.Equal(a.Short, b.Short)
}

// addRow adds the row to a sum of its class; one without nodes is empty. The sum has lists of its
// own from its first row on, because it writes to them, and rows share theirs. Its example is the first of all by name.
//
// For example, a row of 200 nodes lacks 4 GPUs at the least and 16 cores, another of 40 nodes lacks 2 GPUs. Their sum is
// 240 nodes, of which 240 lack GPUs, 2 at the least, and 200 lack cores.
func addRow(sum, r *why.Row) {
	if sum.Nodes == 0 {
		*sum = *r
		sum.Removed, sum.Short = slices.Clone(r.Removed), slices.Clone(r.Short)
		return
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

// domain is the sum as a domain of a certificate. Fits is what the rows add up to, and so cannot
// differ from them.
func (s *sum) domain(name string) why.Domain {
	out := why.Domain{Name: name, Rows: s.total.rows}
	for i := range out.Rows {
		out.Fits += out.Rows[i].Fits
	}
	return out
}

// mostEvicted is the most that could fit in one domain, or in the pinned one, if all that can go
// were gone. It is an upper bound, by resources alone: more than that never fits, and less may
// still not.
func (b *body) mostEvicted(pinned string) int64 {
	// Nodes outside any domain of the level hold no gang that requires one, and do not count.
	var most int64
	for i, d := range b.layout.domains {
		if d.counts && (pinned == "" || pinned == d.name) {
			most = max(most, b.sums[i].total.ifEvicted)
		}
	}
	return most
}

// cause names what the counts amount to: the first of these that is true. The order is from what no end of work ever
// changes to what passes by itself, and from the narrow to the wide: enough GPUs in places of the right size is said
// before enough GPUs in all.
//
//	NoMatchingNode      no node is for the class: the request must change, or nodes must come
//	LargerThanAnyNode   an empty node would be too small
//	TopologyFragmented  there is room for all pods, but not in one domain
//	Stranded            there would be room by GPUs, and CPU or memory is short beside them
//	Fragmented          enough GPUs are free, on nodes with too few each
//	ClusterFull         too few GPUs are free
func (b *body) cause(c *Class, cert *why.Certificate) why.Cause {
	need, gpus := int64(cert.Need), c.Shape.GPUs
	switch {
	case b.matching == 0:
		return why.NoMatchingNode
	case b.largest == 0:
		return why.LargerThanAnyNode
	case cert.Total >= need:
		return why.TopologyFragmented
	case gpus > 0 && b.gpuFits >= need:
		return why.Stranded
	case gpus > 0 && b.gpuFree >= need*gpus:
		return why.Fragmented
	}
	return why.ClusterFull
}
