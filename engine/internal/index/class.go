package index

import (
	"math"
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/device"
	"github.com/berth-dev/berth/engine/internal/fit"
	"github.com/berth-dev/berth/engine/internal/fragment"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// Class is a class of pods: everything about them, and about their gang, that decides where they
// fit. For each it is kept how many fit on each node, and their sum in each domain: built when the
// class is first used, then followed by the numbers of their room.
//
// The idea: a number stands for a state. Each node has the number of the last change of its room, and
// so have its bucket and all nodes together; no number is ever given twice, and a rollback gives the
// old ones back (cluster/room.go). Each count of the class is kept with the number that it was counted
// at, and is right as long as the node still has that number. So a class is not told that something
// changed: it compares numbers, from all nodes to buckets to nodes, and goes down only where they
// differ. A trial that was rolled back has left the numbers as they were, and costs a class that
// was not asked meanwhile nothing.
//
// Invariants, after Sync: Cells has what measure says of each node; sum of a bucket is the sum of
// its cells; Sums of a domain and Total are the sums of their buckets; tops of a bucket is the
// score of its best node or, while it is stale, at least that. Check recounts all of them.
//
// For example, 5,120 nodes in racks of 32 are 160 buckets. A gang asks for 8 pods of one class in a
// rack: Sums says which racks hold 8, without a look at any node. When it has been placed on 8 nodes
// of one rack, that bucket has another number. The next question about another class finds one
// bucket of which the number differs, and measures 8 nodes in it:
//
//	                   class's numbers      model's numbers
//	all nodes          now 4100             4108: something changed
//	bucket 17          touched 3977         4108: its nodes are compared, one by one
//	  node r17-03      number 3977          4101: measured
//	  node r17-20      number 3512          3512: as it was
//	159 other buckets                       equal: one comparison each, or none where Room.Since names the one
//
// The opposite way, to tell all classes of each change of a node, would cost as many updates as there are classes for every
// change, and twice as many for those of a trial.
type Class struct {
	ClassKey
	look      *look
	Demands   []quantity.Demand
	Wants     device.Want
	named     bool            // it may have some of a node's devices only, by their names or models
	kind      fragment.Kind   // what it asks for, as far as prices go
	Local     bool            // it may only be on some nodes by name, or by the names of their devices, or was refused by some
	names     bool            // its affinity looks at nodes' names
	allowed   map[string]bool // nodes that its volumes allow; nil: all
	refusedBy map[string]int  // nodes that refused its gang; index in the refusals
	refusals  []*api.Refusal

	ByBucket []bucketFit // by bucket; without a bucket: not looked at
	tops     []int64     // by bucket: the best node's score, or more while the bucket is stale; noScore: none fits
	Sums     []int64     // by domain
	Total    int64
	now      uint64 // Room.Now that all counts are of
	seen     uint64 // Topology.Shape
	respecs  uint64 // Index.respecs of its last sync
	Dropped  bool   // it is not kept any more
	used     uint64 // classes.clock at its last use
	proofs   proofs
	rules    *classRules // between pods; nil: it is under none
	far      bool        // its claims can be met with devices that several nodes reach: what nodes admit does not add up
	chained  bool        // of such, whether placing one after the other is complete
	compared *comparison // of what it prefers; nil: of one kind at most
	images   []classImage
	pulled   int64 // how many images it has
	mostNear int64 // the weight of all its preferred terms of node affinity; 1: it has none
}

// ClassKey tells classes apart. Whatever else pods differ in, such as their names, decides nothing
// about where they fit. A field that is missing here would let two pods share counts that are right
// for one of them only; one too many costs a class more, and nothing else.
type ClassKey struct {
	Shape    *cluster.Shape
	Priority int32
	Model    string          // of its GPUs; "": any
	Whole    string          // the gang, if it wants whole nodes
	Packing  api.Packing     // that its queue asks for; "": each node its own
	Refused  string          // the nodes that refused the gang, joined
	Images   string          // that some node has, with the number of all, joined; "": none
	Stance   *cluster.Stance // in rules between pods; nil: none concerns it
}

// mask is what a node kind means to a class.
type mask struct {
	State  maskState
	near   int32 // the weight of the preferred terms that nodes of this kind match
	taints int32 // of the kind, that discourage the pod
}

// maskState is what a node kind, or a node, means to a class, free room aside.
type maskState uint8

const (
	unknown  maskState = iota
	allowed            // fits, as far as the kind goes
	Excluded           // does not
	personal           // depends on the node's own name
)

// ownMask is what one node means to a class, since it became of its kind.
type ownMask struct {
	mask
	born uint64
}

// bucketFit is how the nodes of a bucket take a class. With Cells, it is what a class costs in
// memory: some 24 bytes a node.
type bucketFit struct {
	bucket  *cluster.Bucket
	epoch   uint64
	touched uint64 // Bucket.Touched when its nodes were last looked at
	Cells   []cell // by slot
	shared  bool   // Cells are of Index.shut, which others have too: no node of the bucket is for the class
	wishes  []wish // by slot, of a class that compares; only where Cells has Fits > 0
	sum     int64
	best    int         // slot of the best node, the first of equals; -1: none
	stale   bool        // best got worse: another may be best now, and the bucket's entry in tops is only a bound from above
	rows    *bucketRows // of certificates; nil: not made yet
}

// cell is how one node takes a class, as of the number of the node's room. It has 24 bytes: 300 classes on 5,000 nodes
// have 36 MB of them, which is why what can be kept by kind or by bucket is not here.
type cell struct {
	number uint64 // of the node's room when it was looked at
	score  int64  // how good a place it is; only where fits > 0
	Fits   int32  // pods
	// The node's spec excludes it, whatever is free. It holds at Index.respecs, and of a node whose number is the same: one
	// that was told another spec has another.
	excluded bool
}

// classes keeps the classes used last. clock counts uses, and orders them.
type classes struct {
	byKey map[ClassKey]*Class
	clock uint64
}

// forgetMasks lets all certificates be made anew, because node kinds have been.
func (t *classes) forgetMasks() {
	//archtest:any-order each class is by itself
	for _, c := range t.byKey {
		c.forgetProofs()
	}
}

// forgetProofs drops what certificates of the class share, with the rows of all buckets.
func (c *Class) forgetProofs() {
	c.proofs = proofs{}
	for i := range c.ByBucket {
		c.ByBucket[i].rows = nil
	}
}

// ClassOf returns the class, up to date. A class that is not kept is made, which costs a look at
// each node that has the GPUs it asks for; if there are too many, the quarter used longest ago goes
// first, so that not every new class drops one. A caller that still has a dropped class may use it, and sees by Dropped that
// it is not kept.
func (x *Index) ClassOf(key ClassKey, refusals []*api.Refusal) *Class {
	t := &x.classes
	c := t.byKey[key]
	//mutate: rules-outlived
	if c != nil && c.outlived() {
		c.Dropped, c = true, nil
	}
	if c == nil {
		if t.byKey == nil {
			t.byKey = make(map[ClassKey]*Class)
		}
		// Looks are shared by classes, so that they go only after it is known which classes are left.
		if len(t.byKey) >= x.m.Config.Classes {
			t.drop()
			x.dropLooks()
		}
		c = x.newClass(key, refusals)
		t.byKey[key] = c
	}
	c.refuse(refusals)
	x.Use(c)
	return c
}

// refuse takes note of the refusals, which name the nodes that they named before. What certificates
// tell of their reasons is forgotten where these changed.
func (c *Class) refuse(refusals []*api.Refusal) {
	if !slices.EqualFunc(c.refusals, refusals, func(a, b *api.Refusal) bool { return a.Reason == b.Reason }) {
		c.forgetProofs()
	}
	c.refusals = refusals
}

// Use brings the class up to date, and notes that it was used.
func (x *Index) Use(c *Class) {
	t := &x.classes
	t.clock++
	c.used = t.clock
	x.Sync(c)
}

// drop forgets the quarter of the classes that was used longest ago. Which go depends on the
// numbers of their last uses, which are all different, and not on the order of the map. A class is
// derived and can be made again at any time, so that what goes costs time and changes no answer.
//
// The classes used longest ago are found by sorting all of them, which is cheap because a quarter is dropped at once. Where more
// classes are in use than are kept, and are asked about in turns, the next one is always among those that went, and every
// question makes a class.
func (t *classes) drop() {
	used := make([]uint64, 0, len(t.byKey))
	for _, c := range t.byKey {
		used = append(used, c.used)
	}
	slices.Sort(used)
	// Classes that were used since stay.
	limit := used[len(used)/4]
	for key, c := range t.byKey {
		if c.used <= limit {
			c.Dropped = true
			delete(t.byKey, key)
		}
	}
}

// look is what nodes mean to pods of a shape, as of Index.kindsMade. All classes of a shape share
// it: they differ in priority, model and rules, and not in selectors and tolerations.
type look struct {
	shape   *cluster.Shape
	groups  *groups
	matched uint64
	matcher *matcher
	masks   []mask    // by group of node kinds
	own     []ownMask // by Node.Index, for kinds to which the node's name matters
}

// dropLooks forgets those of shapes that no class is of.
func (x *Index) dropLooks() {
	clear(x.looks)
	clear(x.groups)
	//archtest:any-order classes of a shape have one look
	for _, c := range x.classes.byKey {
		x.looks[c.Shape] = c.look
		x.groups[strings.Join(c.Shape.Keys, "\x00")] = c.look.groups
	}
}

// lookOf returns the look that all classes of the shape share.
func (x *Index) lookOf(sh *cluster.Shape) *look {
	l := x.looks[sh]
	if l == nil {
		l = &look{shape: sh, groups: x.groupsOf(sh.Keys)}
		x.looks[sh] = l
	}
	return l
}

// newClass makes the class of the key. It has looked at no bucket yet.
func (x *Index) newClass(key ClassKey, refusals []*api.Refusal) *Class {
	sh := key.Shape
	x.ask(sh.Keys)
	c := &Class{ClassKey: key, look: x.lookOf(sh), Demands: sh.Demands, names: namesNodes(sh.Spec), Local: sh.Spec.NodeName != "" || sh.Spec.Nodes != nil || len(refusals) > 0}
	c.Wants = device.Want{Count: int(sh.GPUs), Model: key.Model, Clique: deviceWish(sh.Spec.GPU.Clique), NUMA: deviceWish(sh.Spec.GPU.NUMA)}
	c.named = sh.HasGPU && sh.Spec.GPU.Names()
	c.Local = c.Local || c.named
	c.kind = kindOfRequest(sh)
	if sh.Spec.Nodes != nil {
		c.allowed = make(map[string]bool, len(sh.Spec.Nodes))
		for _, n := range sh.Spec.Nodes {
			c.allowed[n] = true
		}
	}
	if len(refusals) > 0 {
		c.refusedBy = make(map[string]int, len(refusals))
		for i, r := range refusals {
			c.refusedBy[r.Node] = i
		}
	}
	c.rules = x.newRules(key)
	for i := range sh.Spec.Preferred {
		c.mostNear += int64(sh.Spec.Preferred[i].Weight)
	}
	c.mostNear = max(1, c.mostNear) // it is divided by
	c.setImages(key.Images)
	return c
}

// deviceWish is the wish in the terms of package device.
func deviceWish(w api.Wish) device.Wish {
	switch w {
	case api.Prefer:
		return device.Prefer
	case api.Require:
		return device.Require
	}
	return device.Any
}

// Sync brings the class up to date: it looks again at nodes whose room has another number than when
// it last looked. It costs one comparison where nothing changed; else one for each bucket that
// changed since, if these are known, and for each bucket if not.
//
// The order of its steps matters. What the class prefers and which devices count far is decided
// first, because measure uses it. Then the shape of the topology, which says which buckets there
// are. Then rules between pods, because what a node admits depends on other nodes. Then buckets are
// followed, and at last scores are stretched over what was found (weigh).
func (x *Index) Sync(c *Class) {
	// Equal numbers mean equal room, also after a rollback. The shape is compared apart: a node that moves to another
	// domain changes sums, and need not change any room.
	if c.now == x.m.Room.Now && c.seen == x.m.Topology.Shape {
		return
	}
	// Most classes are some steps behind: the buckets of these steps fit on the stack.
	var buf [cluster.MostSteps]*cluster.Bucket
	// Since lists the buckets that changed after that state, if so few steps back are remembered;
	// else all are compared.
	changed, known := x.m.Room.Since(c.now, buf[:0])
	c.far, c.chained = x.m.Far(c.Shape.Spec.Claims)
	x.recompare(c)
	moved := x.rateImages(c)
	// Counts by domain are of domains that may be gone: of a class under rules everything is
	// counted anew.
	if c.seen != x.m.Topology.Shape {
		if c.rules != nil {
			x.forgetBuckets(c)
			x.recountRules(c)
		}
		x.reshape(c)
		known = false
	}
	if !known {
		changed = x.m.Topology.Buckets
	}
	// A pod that starts here can open or close a domain far away. followRules measures the nodes of such domains, whose own
	// numbers are as they were.
	if c.rules != nil {
		x.followRules(c, changed)
	}
	// Since may name a bucket twice, or one that a rollback has brought back: the numbers decide, and the second time they
	// are equal.
	for _, b := range changed {
		//mutate: index-follow-buckets
		if f := &c.ByBucket[b.ID]; f.touched != b.Touched {
			x.follow(c, f, b)
		}
	}
	for _, name := range moved {
		x.refitImage(c, name)
	}
	x.weigh(c)
	c.now, c.respecs = x.m.Room.Now, x.respecs
}

// forgetBuckets lets all buckets be looked at anew. A class under rules counts pods by domain, so
// that another topology is another count everywhere.
func (x *Index) forgetBuckets(c *Class) {
	for i := range c.ByBucket {
		if f := &c.ByBucket[i]; f.bucket != nil {
			c.add(f.bucket, -f.sum)
			*f = bucketFit{}
		}
	}
	if c.compared != nil {
		c.compared = &comparison{}
	}
}

// follow looks again at the nodes of a bucket whose room changed: at those of which the number
// differs. A node that the class was found to be excluded from, by its spec, gets its new number
// and is not measured.
func (x *Index) follow(c *Class, f *bucketFit, b *cluster.Bucket) {
	// same: no node was told another spec since the last sync, so that what the specs exclude still
	// holds without a look at their kinds.
	same := c.respecs == x.respecs
	// Shared cells stay shared as long as no node of the bucket is for the class. They have no numbers of their own: once one
	// is, all nodes are looked at.
	//mutate: index-shut-bucket-opens -> f.shared
	if f.shared && (same || x.closed(c, x.viewOf(b))) {
		f.touched = b.Touched
		return
	}
	for i, number := range b.Numbers {
		at := &f.Cells[i]
		if at.number == number {
			continue
		}
		//mutate: index-fitted-before -> same && at.excluded || x.skips(c, b.Nodes[i].Index)
		//mutate: index-excluded-by-spec -> at.excluded || at.Fits == 0 && x.skips(c, b.Nodes[i].Index)
		if same && at.excluded || at.Fits == 0 && x.skips(c, b.Nodes[i].Index) {
			f.own()
			at = &f.Cells[i]
			at.number, at.excluded = number, true
		} else {
			x.refit(c, b.Nodes[i])
		}
	}
	f.touched = b.Touched
}

// skips says whether the node's kind is known to exclude the class. It is a shortcut: a no means
// only that the node has to be measured. A yes is about the node as it is now: where pods fitted on
// it before, its spec has changed, and the sums have to be moved too.
func (x *Index) skips(c *Class, node int32) bool {
	sh := c.look
	if sh.matched != x.kindsMade { // masks of older kinds mean nothing
		return false
	}
	g := x.group(sh.groups, x.kindsOf[node].kind)
	return g.id < len(sh.masks) && sh.masks[g.id].State == Excluded
}

// reshape takes up buckets that came or changed, and drops those taken down. The cells of all new
// buckets are one allocation.
func (x *Index) reshape(c *Class) {
	// Buckets and domains are numbered for good, and lists by number only grow. A bucket that was taken down keeps its
	// entry, which is empty; one that has other nodes has another epoch.
	t := &x.m.Topology
	c.seen = t.Shape
	c.ByBucket = append(c.ByBucket, make([]bucketFit, int(t.Made)-len(c.ByBucket))...)
	c.tops = append(c.tops, make([]int64, int(t.Made)-len(c.tops))...)
	c.Sums = append(c.Sums, make([]int64, len(t.Domains)-len(c.Sums))...)
	// What left is taken off the sums with f.sum, which is what was added for it: the nodes themselves may be in other
	// domains by now.
	for i := range c.ByBucket {
		//mutate: index-buckets-that-changed
		if f := &c.ByBucket[i]; f.bucket != nil && f.epoch != f.bucket.Epoch {
			c.add(f.bucket, -f.sum)
			c.leave(f)
			*f = bucketFit{}
		}
	}
	// Buckets of which no node is for the class take no cells of their own. The others are counted
	// first, to allocate once.
	news := 0
	for _, sh := range t.Buckets {
		if c.ByBucket[sh.ID].bucket == nil && !x.takeShut(c, sh) {
			news += len(sh.Nodes)
		}
	}
	cells := make([]cell, news)
	for _, sh := range t.Buckets {
		if n := len(sh.Nodes); c.ByBucket[sh.ID].bucket == nil {
			x.fitBucket(c, sh, cells[:n:n])
			cells = cells[n:]
		}
	}
}

// takeShut takes up a bucket of which no node is for the class, and says whether it is one. A class may
// use one pool of a thousand, and all classes that cannot use a pool see the same of it: they share
// its cells.
func (x *Index) takeShut(c *Class, sh *cluster.Bucket) bool {
	if c.rules != nil || !x.closed(c, x.viewOf(sh)) {
		return false
	}
	f := bucketFit{bucket: sh, epoch: sh.Epoch, touched: sh.Touched, Cells: x.shutCells(len(sh.Nodes)), shared: true, best: -1}
	if c.compared != nil {
		f.wishes = make([]wish, len(f.Cells))
	}
	c.tops[sh.ID], c.ByBucket[sh.ID] = f.top(), f
	return true
}

// shutCells are cells of so many nodes none of which is for a class. All classes and buckets share them, and they are never
// written to: who has to write takes a copy (bucketFit.own).
func (x *Index) shutCells(nodes int) []cell {
	for len(x.shut) < nodes {
		x.shut = append(x.shut, cell{excluded: true})
	}
	return x.shut[:nodes:nodes]
}

// own makes cells that are shared the class's own, so that they can be written to.
func (f *bucketFit) own() {
	if f.shared {
		f.Cells, f.shared = slices.Clone(f.Cells), false
	}
}

// leave takes the nodes of the bucket out of what wishes are compared with.
func (c *Class) leave(f *bucketFit) {
	for i := range f.wishes {
		if f.Cells[i].Fits > 0 {
			c.compared.enter(f.wishes[i], -1)
		}
	}
}

// fitBucket looks at all nodes of a bucket, and keeps what it sees in the cells. Nodes with fewer
// free GPUs than a pod asks for are not measured: one number of a short list says so, and on a full
// cluster it is most of them.
func (x *Index) fitBucket(c *Class, sh *cluster.Bucket, cells []cell) {
	f := bucketFit{bucket: sh, epoch: sh.Epoch, touched: sh.Touched, Cells: cells, best: -1}
	v := x.viewOf(sh)
	gpus := v.freeOf(quantity.DimGPU)
	// Wishes are kept only to be compared.
	if c.compared != nil {
		f.wishes = make([]wish, len(cells))
	}
	// A cell that is not measured says that nothing fits, which is right, and not that the spec excludes the node, which
	// is not known: excluded stays false, and when GPUs become free the node has another number and is measured.
	for i, n := range sh.Nodes {
		//mutate: index-gpus-first
		if gpus[i] >= c.Shape.GPUs || c.Shape.GPUs == 0 {
			var w wish
			f.Cells[i], w = x.measure(c, n)
			c.compare(&f, n, i, 0, f.Cells[i].Fits, w)
			f.sum += int64(f.Cells[i].Fits)
		}
		f.Cells[i].number = sh.Numbers[i]
	}
	if f.sum > 0 {
		f.findBest()
	}
	c.tops[sh.ID] = f.top()
	c.ByBucket[sh.ID] = f
	c.add(sh, f.sum)
}

// closed says whether no node of the bucket is for the class, whatever is free: of a thousand pools a class may use few,
// and nodes of one pool lie together. It looks at one node of each kind. A no may be wrong, where each node is excluded
// for its own name: the cells are the class's own then, and say so one by one.
func (x *Index) closed(c *Class, v *view) bool {
	x.matcherOf(c.look) // masks are of the labels that are asked about
	groups, masks := c.look.groups.of, c.look.masks
	if c.look.groups.made != x.kindsMade {
		groups = nil
	}
	for i, n := range v.kinds {
		// Most kinds were judged before: of a thousand classes each asks about each kind.
		if id := int(v.ids[i]); id < len(groups) && groups[id] != nil && groups[id].id < len(masks) && masks[groups[id].id].State == Excluded {
			continue
		}
		if x.maskOfKind(c, &x.kindsOf[n.Index]).State != Excluded {
			return false
		}
	}
	return true
}

// add moves the sums of all domains of the bucket by the difference. It costs one addition for each
// level.
func (c *Class) add(sh *cluster.Bucket, by int64) {
	if by == 0 {
		return
	}
	c.Total += by
	for _, d := range sh.Domains {
		if d != nil {
			//mutate: index-domain-sum
			c.Sums[d.ID] += by
		}
	}
}

// refit looks again at one node, and moves the sums by the difference.
//
// The best node of the bucket is kept as far as one comparison can tell. A node that gets better
// than the best takes its place. A best node that gets worse leaves the question open: the bucket
// is stale, its old score is an upper bound, and it is looked through only if a question comes for
// which the bound is not too low (topOf).
//
// For example, nodes a, b and c of a bucket score 9, 7 and 5. The top is 9, by a.
//
//	a falls to 6     stale, the top stays 9 as a bound: b with 7 is the best now, which is not known yet
//	c rises to 8     stale still: 8 is below the bound, and proves nothing
//	c rises to 10    above the bound, so above all others too: c is the best, and the bucket is not stale
//
// On a cluster that fills up it is the best node that changes, in every bucket in turn. Without the bound each placement
// would look through up to 256 nodes.
func (x *Index) refit(c *Class, n *cluster.Node) {
	f := &c.ByBucket[n.Bucket.ID]
	f.own()
	// had must be read before the cell is written: sums move by the difference, and are never made anew here.
	i := n.Slot
	had := f.Cells[i]
	now, w := x.measure(c, n)
	c.compare(f, n, i, had.Fits, now.Fits, w)
	now.number = n.Bucket.Numbers[i]
	f.Cells[i] = now
	if by := int64(now.Fits - had.Fits); by != 0 {
		//mutate: index-sum
		f.sum += by
		c.add(f.bucket, by)
	}
	switch {
	case f.stale: // whichever node it is, also the one that was best: only a score above the bound is sure to be the best
		if now.Fits == 0 || now.score <= c.tops[n.Bucket.ID] {
			return
		}
		f.best, f.stale = i, false
	case i == f.best:
		// While it gets no worse the best stays the best: equals come after it. Else its bucket is looked
		// through when the question comes; until then its old score is a bound.
		//mutate: index-best-of-bucket
		if now.Fits == 0 || now.score < had.score {
			f.stale = true
			return
		}
	// Another node is better than the best, or as good and before it: ties go to the lower slot, as in findBest, so that
	// the answer does not depend on which of the two changed last.
	case now.Fits > 0 && (f.best < 0 || now.score > f.Cells[f.best].score || now.score == f.Cells[f.best].score && i < f.best):
		f.best = i
	default:
		return
	}
	//mutate: index-top-of-bucket
	c.tops[n.Bucket.ID] = f.top()
}

// compare notes what the class finds on the node, where had pods of it fitted and fits do now. Only
// nodes on which a pod fits are compared with.
func (c *Class) compare(f *bucketFit, n *cluster.Node, i int, had, fits int32, w wish) {
	if c.compared == nil {
		return
	}
	// A node is counted at most once: its old wish is taken out before the new one is entered. Wishes of a node on which
	// nothing fits are not in the count, and what f.wishes says of it means nothing.
	if had > 0 {
		//mutate: score-leaves
		c.compared.enter(f.wishes[i], -1)
	}
	if fits > 0 {
		f.wishes[i] = w
		c.compared.enter(w, 1)
	}
	if c.rules != nil {
		c.rules.noteFit(n, fits > 0)
	}
}

// topOf returns the score of the bucket's best node, noScore if none fits. A stale bucket is looked
// through here.
func (c *Class) topOf(sh *cluster.Bucket) int64 {
	if f := &c.ByBucket[sh.ID]; f.stale {
		f.findBest()
		f.stale = false
		c.tops[sh.ID] = f.top()
	}
	return c.tops[sh.ID]
}

// noScore is below every score.
const noScore = math.MinInt64

// top is the score of the best node, noScore if there is none.
func (f *bucketFit) top() int64 {
	if f.best < 0 {
		return noScore
	}
	return f.Cells[f.best].score
}

// findBest looks for the best node among all cells, the first of equals: slots are in the order of
// names.
func (f *bucketFit) findBest() {
	f.best = -1
	top := int64(math.MinInt64)
	for i, c := range f.Cells {
		if c.Fits > 0 && c.score > top {
			f.best, top = i, c.score
		}
	}
}

// measure returns how many pods of the class fit on the node, how good a place it is, and what of
// its preferences it finds there. Rules that do not depend on what is free come first, since they
// are a lookup by kind; then room; then rules between pods, which can only lower it. It is
// the dearest step of the index, and everything else is there to call it seldom.
func (x *Index) measure(c *Class, n *cluster.Node) (cell, wish) {
	m := x.MaskOf(c, n)
	if m.State == Excluded || c.Local && c.Excludes(n) {
		return cell{excluded: true}, wish{}
	}
	// Room is how many pods of the class the node holds at once by resources, devices, claims and ports.
	k := x.Room(c, n)
	if c.rules != nil && k > 0 {
		//mutate: filter-rules
		k = min(k, c.rules.limit(n))
	}
	if k == 0 {
		return cell{}, wish{}
	}
	// The rest is for nodes that have room, which on a full cluster are few: what the pod prefers, and the score.
	w := wish{near: m.near, taints: m.taints}
	if c.rules != nil && c.rules.soft {
		c.rules.wish(n, &w)
	}
	if c.images != nil {
		w.images = c.locality(n)
	}
	if claims := c.ClaimsOn(n); claims.Alternatives() {
		w.rank = n.Offers.Rank(claims)
	}
	// The count is cut to what a cell holds. It is far above the pods of any gang.
	return cell{Fits: int32(min(k, math.MaxInt32)), score: x.score(c, n, c.points(w))}, w
}

// MaskOf returns what the node means to the class, free room aside.
func (x *Index) MaskOf(c *Class, n *cluster.Node) mask {
	m := x.maskOfKind(c, &x.kindsOf[n.Index])
	//mutate: filter-own-name
	if m.State == personal {
		return x.ownMask(c, n, c.look.matcher)
	}
	return m
}

// Matches says whether pods of the class may be on the node, whatever is free there and whatever other pods are on it.
func (x *Index) Matches(c *Class, n *cluster.Node) bool {
	return x.MaskOf(c, n).State != Excluded && !(c.Local && c.Excludes(n))
}

// maskOfKind returns what nodes of the kind mean to the class, or that it differs from node to
// node. It is worked out once for each group of kinds that pods of the shape cannot tell apart.
func (x *Index) maskOfKind(c *Class, kind *kindOf) mask {
	sh := c.look
	match, id := x.matcherOf(sh), x.group(sh.groups, kind.kind).id
	if id >= len(sh.masks) {
		sh.masks = append(sh.masks, make([]mask, id+1-len(sh.masks))...)
	}
	m := &sh.masks[id]
	if m.State == unknown {
		// Where the selector asks for a label that no node has, names change nothing: the kind is excluded as a whole.
		own := !match.hopeless && (c.names || match.asksForName(kind.kind))
		*m = c.judge(kind, match, own)
	}
	return *m
}

// ownMask is what a node means to the class where that depends on its name. It holds as long as the
// node is of the kind that it was judged with.
func (x *Index) ownMask(c *Class, n *cluster.Node, match *matcher) mask {
	sh, born := c.look, x.kindsOf[n.Index].born
	if int(n.Index) >= len(sh.own) {
		sh.own = append(sh.own, make([]ownMask, len(x.kindsOf)-len(sh.own))...)
	}
	o := &sh.own[n.Index]
	if o.State == unknown || o.born != born {
		*o = ownMask{c.judge(&x.kindsOf[n.Index], match, false), born}
	}
	return o.mask
}

// asksForName says whether the shape asks about a label that, on nodes of the kind, is the node's name.
func (m *matcher) asksForName(k *NodeKind) bool {
	return slices.ContainsFunc(k.owns, func(at int) bool { _, ok := slices.BinarySearch(m.places, at); return ok })
}

// namesNodes says whether affinity terms look at the node's name itself.
func namesNodes(spec *api.Spec) bool {
	return slices.ContainsFunc(spec.Affinity, func(t api.Term) bool { return len(t.Fields) > 0 }) ||
		slices.ContainsFunc(spec.Preferred, func(p api.Preference) bool { return len(p.Term.Fields) > 0 })
}

// judge applies every rule that does not depend on what is free. With own, it only says that the
// answer differs from node to node. The cheapest rules come first; which one excludes the node
// makes no difference here, and certificates list them all.
func (c *Class) judge(k *kindOf, match *matcher, own bool) mask {
	if own {
		return mask{State: personal}
	}
	// k.node is one node of the kind. What is read of it below is the same on all of them.
	spec, node := c.Shape.Spec, k.node.Spec
	if !match.selects(k) {
		return mask{State: Excluded}
	}
	//mutate: filter-affinity
	if spec.Affinity != nil && !match.likes(k) {
		return mask{State: Excluded}
	}
	var buf [4]api.Taint
	//mutate: filter-taint
	if len(fit.Untolerated(node.Taints, spec.Tolerations, buf[:0])) > 0 {
		return mask{State: Excluded}
	}
	//mutate: filter-cordon
	if node.Cordoned && !toleratesCordon(spec) {
		return mask{State: Excluded}
	}
	return mask{State: allowed, near: match.near(k, spec.Preferred), taints: int32(fit.Discouraging(node.Taints, spec.Tolerations))}
}

// Closed says whether taints or a cordon keep the spec off the node.
func Closed(node *api.Node, spec *api.Spec) bool {
	return node.Cordoned && !toleratesCordon(spec) || len(fit.Untolerated(node.Taints, spec.Tolerations, nil)) > 0
}

// toleratesCordon says whether the spec tolerates the taint that a cordon stands for.
func toleratesCordon(spec *api.Spec) bool {
	taint := fit.Unschedulable()
	return slices.ContainsFunc(spec.Tolerations, func(t api.Toleration) bool { return t.Tolerates(taint) })
}

// Excludes says whether the class may not be on this very node: by its name, its volumes, the names
// of its devices, or because it was refused there.
func (c *Class) Excludes(n *cluster.Node) bool {
	spec := c.Shape.Spec
	//mutate: filter-node-name
	if spec.NodeName != "" && spec.NodeName != n.Name {
		return true
	}
	//mutate: filter-allowed-nodes
	if c.allowed != nil && !c.allowed[n.Name] {
		return true
	}
	//mutate: filter-named-missing
	if c.named && c.lacksNamed(n) {
		return true
	}
	_, refused := c.refusedBy[n.Name]
	return refused
}
