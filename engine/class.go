package engine

import (
	"math"
	"slices"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/device"
	"github.com/berth-dev/berth/engine/internal/fit"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// class is a class of pods: everything about them, and about their gang, that decides where they fit. For
// each it is kept how many fit on each node, and their sum in each domain: built when the class is first
// used, then followed along the log of touched nodes.
type class struct {
	classKey
	look     *look
	demands  []quantity.Demand
	want     device.Want
	local    bool            // it may only be on some nodes by name, or was refused by some
	names    bool            // its affinity looks at nodes' names
	allowed  map[string]bool // nodes that its volumes allow; nil: all
	barred   map[string]int  // nodes that refused its gang; index in the refusals
	refusals []*api.Refusal

	byShelf []shelfFit // by shelf; without a shelf: not looked at
	tops    []int64    // by shelf: the best node's score, or more while the shelf is stale; noScore: none fits
	sums    []int64    // by domain
	total   int64
	cursor  uint64          // in the log: nodes touched since are not looked at yet
	redo    []*cluster.Node // nodes to look at again, besides
	seen    uint64          // topology.shape
	met     uint64          // touchLog.moment of its last sync
	dropped bool            // it is not kept any more
	used    uint64          // classes.clock at its last use
	proofs  proofs
}

type classKey struct {
	shape    *cluster.Shape
	priority int32
	model    string // of its GPUs; "": any
	whole    string // the gang, if it wants whole nodes
	refused  string // the nodes that refused the gang, joined
}

// mask is what a node kind means to a class.
type mask struct {
	state maskState
	wish  int64 // how much the pod wants nodes of this kind
}

type maskState uint8

const (
	unknown  maskState = iota
	welcome            // fits, as far as the kind goes
	removed            // does not
	personal           // depends on the node's own name
)

// ownMask is what one node means to a class, since it became of its kind.
type ownMask struct {
	mask
	born uint64
}

// shelfFit is how the nodes of a shelf take a class.
type shelfFit struct {
	shelf *cluster.Bucket
	epoch uint64
	cells []cell // by slot
	sum   int64
	best  int        // slot of the best node, the first of equals; -1: none
	stale bool       // best got worse: another may be best now
	rows  *shelfRows // of certificates; nil: not made yet
}

// cell is how one node takes a class.
type cell struct {
	score int64 // how good a place it is; only where fits > 0
	fits  int32 // pods
}

// classes keeps the classes used last.
type classes struct {
	byKey  map[classKey]*class
	clock  uint64
	active []*class // used since the log was last rewound; some more than once
}

func (t *classes) forgetMasks() {
	for _, c := range t.byKey {
		c.proofs = proofs{}
		for i := range c.byShelf {
			c.byShelf[i].rows = nil
		}
	}
}

// classOf returns the class, up to date.
func (s *State) classOf(key classKey, refusals []*api.Refusal) *class {
	t := &s.classes
	c := t.byKey[key]
	if c == nil {
		if t.byKey == nil {
			t.byKey = make(map[classKey]*class)
		}
		if len(t.byKey) >= s.m.Config.Classes {
			t.drop()
			s.dropLooks()
		}
		c = s.newClass(key, refusals)
		t.byKey[key] = c
	}
	c.refusals = refusals
	s.use(c)
	return c
}

// use brings the class up to date.
func (s *State) use(c *class) {
	t := &s.classes
	t.clock++
	c.used = t.clock
	if len(t.active) == 0 || t.active[len(t.active)-1] != c {
		t.active = append(t.active, c)
	}
	s.sync(c)
}

// drop forgets the quarter of the classes that was used longest ago.
func (t *classes) drop() {
	used := make([]uint64, 0, len(t.byKey))
	for _, c := range t.byKey {
		used = append(used, c.used)
	}
	slices.Sort(used)
	limit := used[len(used)/4]
	for key, c := range t.byKey {
		if c.used <= limit {
			c.dropped = true
			delete(t.byKey, key)
		}
	}
}

// look is what nodes mean to pods of a shape, as of State.kindsMade.
type look struct {
	shape   *cluster.Shape
	matched uint64
	matcher *matcher
	masks   []mask    // by node kind
	own     []ownMask // by node.index, for kinds to which the node's name matters
}

// dropLooks forgets those of shapes that no class is of.
func (s *State) dropLooks() {
	clear(s.looks)
	for _, c := range s.classes.byKey {
		s.looks[c.shape] = c.look
	}
}

// lookOf returns the look that all classes of the shape share.
func (s *State) lookOf(sh *cluster.Shape) *look {
	l := s.looks[sh]
	if l == nil {
		l = &look{shape: sh}
		s.looks[sh] = l
	}
	return l
}

// rewind is model.rewind, and lets classes that the plan used look again at the nodes that it touched.
func (s *State) rewind(to uint64) {
	redo, ok := s.m.Rewind(to)
	if !ok {
		return
	}
	for _, c := range s.classes.active {
		if c.cursor > to {
			c.cursor, c.redo = to, redo
		}
	}
	clear(s.classes.active) // classes that are not kept any more are large
	s.classes.active = s.classes.active[:0]
}

func (s *State) newClass(key classKey, refusals []*api.Refusal) *class {
	sh := key.shape
	s.ask(sh.Keys)
	c := &class{classKey: key, look: s.lookOf(sh), demands: sh.Demands, names: namesNodes(sh.Spec), local: sh.Spec.NodeName != "" || sh.Spec.Nodes != nil || len(refusals) > 0}
	c.want = device.Want{Count: int(sh.GPUs), Model: key.model, Clique: deviceWish(sh.Spec.GPU.Clique), NUMA: deviceWish(sh.Spec.GPU.NUMA)}
	if sh.Spec.Nodes != nil {
		c.allowed = make(map[string]bool, len(sh.Spec.Nodes))
		for _, n := range sh.Spec.Nodes {
			c.allowed[n] = true
		}
	}
	if len(refusals) > 0 {
		c.barred = make(map[string]int, len(refusals))
		for i, r := range refusals {
			c.barred[r.Node] = i
		}
	}
	return c
}

func deviceWish(w api.Wish) device.Wish {
	switch w {
	case api.Prefer:
		return device.Prefer
	case api.Require:
		return device.Require
	}
	return device.Any
}

// sync brings the class up to date with every node touched since its last use.
func (s *State) sync(c *class) {
	if c.cursor < s.m.Log.Base {
		c.byShelf, c.tops, c.sums, c.total, c.seen, c.redo = nil, nil, nil, 0, 0, nil
	}
	if c.seen != s.m.Topology.Shape {
		s.reshape(c)
	}
	//mutate: index-redo-after-a-plan
	for _, n := range c.redo {
		if n.Bucket != nil && !s.skips(c, n.Index) {
			s.refit(c, n)
		}
	}
	c.redo = nil
	if c.cursor == s.m.Log.End() {
		c.met = s.m.Log.Moment
		return
	}
	from := max(c.cursor, s.m.Log.Base)
	for i, e := range s.m.Log.Entries[from-s.m.Log.Base:] {
		if s.m.Log.Touches[e.Index] == from+uint64(i)+1 && !s.skips(c, e.Index) && e.Node.Bucket != nil {
			s.refit(c, e.Node)
		}
	}
	c.cursor, c.met = s.m.Log.End(), s.m.Log.Moment
}

// skips says whether no pod of the class fitted on the node when it was last looked at, and none does: the
// node's kind excludes it.
func (s *State) skips(c *class, node int32) bool {
	sh, k := c.look, &s.kindsOf[node]
	return k.born <= c.met && sh.matched == s.kindsMade && int(k.id) < len(sh.masks) && sh.masks[k.id].state == removed
}

// reshape takes up shelves that came or changed, and drops those taken down.
func (s *State) reshape(c *class) {
	t := &s.m.Topology
	c.seen = t.Shape
	c.byShelf = append(c.byShelf, make([]shelfFit, int(t.Made)-len(c.byShelf))...)
	c.tops = append(c.tops, make([]int64, int(t.Made)-len(c.tops))...)
	c.sums = append(c.sums, make([]int64, len(t.Domains)-len(c.sums))...)
	for i := range c.byShelf {
		//mutate: index-shelves-that-changed
		if f := &c.byShelf[i]; f.shelf != nil && f.epoch != f.shelf.Epoch {
			c.add(f.shelf, -f.sum)
			*f = shelfFit{}
		}
	}
	for _, sh := range t.Buckets {
		if c.byShelf[sh.ID].shelf == nil {
			s.fitShelf(c, sh)
		}
	}
}

// fitShelf looks at all nodes of a shelf.
func (s *State) fitShelf(c *class, sh *cluster.Bucket) {
	f := shelfFit{shelf: sh, epoch: sh.Epoch, cells: make([]cell, len(sh.Nodes))}
	for i, n := range sh.Nodes {
		f.cells[i] = s.measure(c, n)
		f.sum += int64(f.cells[i].fits)
	}
	f.findBest()
	c.tops[sh.ID] = f.top()
	c.byShelf[sh.ID] = f
	c.add(sh, f.sum)
}

// add moves the sums of all domains of the shelf.
func (c *class) add(sh *cluster.Bucket, by int64) {
	if by == 0 {
		return
	}
	c.total += by
	for _, d := range sh.Domains {
		if d != nil {
			//mutate: index-domain-sum
			c.sums[d.ID] += by
		}
	}
}

// refit looks again at one node.
func (s *State) refit(c *class, n *cluster.Node) {
	f := &c.byShelf[n.Bucket.ID]
	i := n.Slot
	had, now := f.cells[i], s.measure(c, n)
	f.cells[i] = now
	if by := int64(now.fits - had.fits); by != 0 {
		//mutate: index-sum
		f.sum += by
		c.add(f.shelf, by)
	}
	switch {
	case f.stale: // whoever it is, the one that was best too: only what is above the bound is sure to be best
		if now.fits == 0 || now.score <= c.tops[n.Bucket.ID] {
			return
		}
		f.best, f.stale = i, false
	case i == f.best:
		// While it gets no worse the best stays the best: equals come after it. Else its shelf is looked
		// through when the question comes; until then its old score is a bound.
		//mutate: index-best-of-shelf
		if now.fits == 0 || now.score < had.score {
			f.stale = true
			return
		}
	case now.fits > 0 && (f.best < 0 || now.score > f.cells[f.best].score || now.score == f.cells[f.best].score && i < f.best):
		f.best = i
	default:
		return
	}
	//mutate: index-top-of-shelf
	c.tops[n.Bucket.ID] = f.top()
}

// topOf returns the score of the shelf's best node, noScore if none fits.
func (c *class) topOf(sh *cluster.Bucket) int64 {
	if f := &c.byShelf[sh.ID]; f.stale {
		f.findBest()
		f.stale = false
		c.tops[sh.ID] = f.top()
	}
	return c.tops[sh.ID]
}

const noScore = math.MinInt64

func (f *shelfFit) top() int64 {
	if f.best < 0 {
		return noScore
	}
	return f.cells[f.best].score
}

func (f *shelfFit) findBest() {
	f.best = -1
	top := int64(math.MinInt64)
	for i, c := range f.cells {
		if c.fits > 0 && c.score > top {
			f.best, top = i, c.score
		}
	}
}

// measure returns how many pods of the class fit on the node, and how good a place it is.
func (s *State) measure(c *class, n *cluster.Node) cell {
	m := s.maskOf(c, n)
	if m.state == removed || c.local && c.bars(n) {
		return cell{}
	}
	k := s.room(c, n)
	if k == 0 {
		return cell{}
	}
	return cell{fits: int32(min(k, math.MaxInt32)), score: s.score(c, n, m.wish)}
}

// maskOf returns what the node means to the class, free room aside.
func (s *State) maskOf(c *class, n *cluster.Node) mask {
	kind, sh := &s.kindsOf[n.Index], c.look
	id, match := int(kind.id), s.matcherOf(sh)
	if id >= len(sh.masks) {
		sh.masks = append(sh.masks, make([]mask, len(s.kinds)-len(sh.masks))...)
	}
	m := &sh.masks[id]
	if m.state == unknown {
		own := !match.hopeless && (c.names || match.asksForName(kind.kind))
		*m = c.judge(kind, match, own)
	}
	//mutate: filter-own-name
	if m.state == personal {
		return s.ownMask(c, n, match)
	}
	return *m
}

// ownMask is what a node means to the class where that depends on its name.
func (s *State) ownMask(c *class, n *cluster.Node, match *matcher) mask {
	sh, born := c.look, s.kindsOf[n.Index].born
	if int(n.Index) >= len(sh.own) {
		sh.own = append(sh.own, make([]ownMask, len(s.kindsOf)-len(sh.own))...)
	}
	o := &sh.own[n.Index]
	if o.state == unknown || o.born != born {
		*o = ownMask{c.judge(&s.kindsOf[n.Index], match, false), born}
	}
	return o.mask
}

// asksForName says whether the shape asks about a label that, on nodes of the kind, is the node's name.
func (m *matcher) asksForName(k *nodeKind) bool {
	return slices.ContainsFunc(k.owns, func(at int) bool { _, ok := slices.BinarySearch(m.places, at); return ok })
}

// namesNodes says whether affinity terms look at the node's name itself.
func namesNodes(spec *api.Spec) bool {
	return slices.ContainsFunc(spec.Affinity, func(t api.Term) bool { return len(t.Fields) > 0 }) ||
		slices.ContainsFunc(spec.Preferred, func(p api.Preference) bool { return len(p.Term.Fields) > 0 })
}

// judge applies every rule that does not depend on what is free. With own, it only says that the answer
// differs from node to node.
func (c *class) judge(k *kindOf, match *matcher, own bool) mask {
	if own {
		return mask{state: personal}
	}
	spec, node := c.shape.Spec, k.node.Spec
	if !match.selects(k) {
		return mask{state: removed}
	}
	//mutate: filter-affinity
	if spec.Affinity != nil && !match.likes(k) {
		return mask{state: removed}
	}
	var buf [4]api.Taint
	//mutate: filter-taint
	if len(fit.Untolerated(node.Taints, spec.Tolerations, buf[:0])) > 0 {
		return mask{state: removed}
	}
	//mutate: filter-cordon
	if node.Cordoned && !toleratesCordon(spec) {
		return mask{state: removed}
	}
	return mask{state: welcome, wish: match.wish(k, spec.Preferred) - 100*int64(fit.Discouraging(node.Taints, spec.Tolerations))}
}

func toleratesCordon(spec *api.Spec) bool {
	taint := fit.Unschedulable()
	return slices.ContainsFunc(spec.Tolerations, func(t api.Toleration) bool { return t.Tolerates(taint) })
}

// bars says whether the class may not be on this very node.
func (c *class) bars(n *cluster.Node) bool {
	spec := c.shape.Spec
	//mutate: filter-node-name
	if spec.NodeName != "" && spec.NodeName != n.Name {
		return true
	}
	//mutate: filter-allowed-nodes
	if c.allowed != nil && !c.allowed[n.Name] {
		return true
	}
	_, refused := c.barred[n.Name]
	return refused
}
