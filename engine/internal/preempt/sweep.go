package preempt

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/place"
	"github.com/berth-dev/berth/engine/internal/quantity"
	"github.com/berth-dev/berth/engine/why"
)

// Among many candidates a set is found greedily. A sweep then looks for a cheaper one by counting, node by node: on each
// it takes one of the smallest sets of units that make room for so many more pods, and goes on to the next. What the
// nodes ahead cost at the least is known: each by itself is a small knapsack, in which a unit that is on several nodes
// counts with a part of its cost, and their costs are added up for every number of pods. Where each unit is on one node,
// and no budget or limit is in the way, that is what they do cost, and the first set that is found is the best.

const (
	sweepSteps = 20_000 // so many sets of one node's units are looked at for a claim
	sweepTests = 400    // so often the state is asked
	sweepPods  = 64     // a claim of more pods is left as it is
	sweepNodes = 32     // so many nodes of a region are looked at, the cheapest first
	sweepUnits = 16     // so many units of a node, the cheapest first
	sweepOther = 7      // so many pods of a second class, at the most
)

// unpayable is more than any set costs.
const unpayable = math.MaxInt64 / 4

// sweep is the search for a cheaper set.
type sweep struct {
	*claim
	cands []*unit // that alone cost less than the set at hand
	dear  int64   // what an eviction beyond a budget counts: more than all units cost
	limit int64   // what the set at hand costs
	tight []tight // the budgets that it breaks
	best  []*unit
	steps int
	asked int
}

// tight is a budget of which every eviction counts as one beyond it, and what it allows is taken off in the end: no set
// costs less than that says.
type tight struct {
	budget  string
	allowed int
}

// refine looks for a cheaper set of victims than the one that is lifted, or with found = false for any. It lifts and
// returns what is best.
func (c *claim) refine(found bool) []*unit {
	//mutate: victims-sweep
	if !c.moving && (!c.alike || len(c.orderOf(0).Pods) <= sweepPods) && c.sweep(found) {
		found = true
	}
	if !found {
		return nil
	}
	return c.taken()
}

// sweep puts a cheaper set in the place of the one that is lifted, if it finds one.
func (c *claim) sweep(found bool) bool {
	w := &sweep{claim: c, limit: unpayable, dear: 1}
	var at []*unit
	for _, u := range c.units {
		w.dear += u.cost
		if u.taken {
			at = append(at, u)
		}
	}
	if found {
		w.limit = w.price(at)
		//archtest:any-order budgets are added up
		for b, n := range c.disruption.of {
			if allowed := c.y.allowed(b); allowed > 0 && n > allowed {
				w.tight = append(w.tight, tight{b, allowed})
			}
		}
	}
	for _, u := range c.units {
		if u.whole()+w.dear*w.surely(u) < w.limit {
			w.cands = append(w.cands, u)
		}
	}
	if len(w.cands) == 0 {
		return false
	}
	for _, u := range at {
		c.restore(u)
	}
	if w.run(); w.best != nil {
		at = w.best
	}
	for _, u := range at {
		c.lift(u)
	}
	if w.best != nil {
		c.putBack()
	}
	return w.best != nil
}

// price is what the units cost, which are lifted and nobody else.
func (w *sweep) price(units []*unit) int64 {
	broken, _ := w.y.broken(&w.disruption)
	sum := w.dear * int64(broken)
	for _, u := range units {
		sum += u.cost
	}
	return sum
}

// surely is how many evictions beyond budgets the unit is, whatever else is evicted.
func (w *sweep) surely(u *unit) (sum int64) {
	if !u.budgeted {
		return 0
	}
	for _, p := range u.pods {
		for _, b := range p.Budgets {
			if w.y.allowed(b) == 0 {
				sum++
			}
		}
	}
	return sum
}

// strains is surely, and what it takes of budgets that are tight.
func (w *sweep) strains(u *unit) int64 {
	sum := w.surely(u)
	for _, t := range w.tight {
		for _, p := range u.pods {
			if slices.Contains(p.Budgets, t.budget) {
				sum++
			}
		}
	}
	return sum
}

// slack is what tight budgets allow beyond what is taken of them.
func (w *sweep) slack() (sum int64) {
	for _, t := range w.tight {
		sum += int64(max(0, t.allowed-w.disruption.of[t.budget]))
	}
	return sum
}

// run walks through the regions, those first that could be cheapest.
func (w *sweep) run() {
	for i := range w.kins {
		wants := w.wants(i)
		if len(wants) == 0 || len(wants[0].Pods) > sweepPods {
			continue
		}
		v := w.survey(wants[0])
		for _, u := range w.cands {
			v.enter(u)
		}
		for _, u := range w.cands {
			v.free(u, 1)
		}
		regions := v.regions(wants[0])
		if _, ok := w.y.placer.ChooseScope(wants[0]); ok && w.alike {
			regions = []*region{{}} // only limits are in the way
		}
		var walks []*walk
		for _, r := range regions {
			if x := w.prepare(v, r, wants); x.least(0, x.lacks) < w.limit {
				walks = append(walks, x)
			}
		}
		for _, u := range w.cands {
			v.free(u, -1)
		}
		slices.SortStableFunc(walks, func(a, b *walk) int {
			return cmp.Or(cmp.Compare(a.least(0, a.lacks), b.least(0, b.lacks)), strings.Compare(a.name, b.name))
		})
		for _, x := range walks {
			x.begin()
		}
	}
}

// wants lists what must have room with the i-th GPU model: of like members all of them; of unlike ones the class that
// lacks most, and one more that must be in the same domain.
func (c *claim) wants(i int) []place.Order {
	if c.alike {
		return []place.Order{c.orderOf(i)}
	}
	all := place.Certain(c.g, c.kins[i])
	if len(all) == 0 {
		return nil
	}
	size := func(o place.Order) int64 { return int64(len(o.Pods)) * max(1, o.Class.Shape.GPUs) }
	lead, lacks := all[0], false
	for _, o := range all {
		_, ok := c.y.placer.ChooseScope(o)
		if !ok && !lacks || ok == !lacks && size(o) > size(lead) {
			lead, lacks = o, !ok
		}
	}
	out := []place.Order{lead}
	if lead.Layout.Required != c.g.Layout().Required {
		return out
	}
	for _, o := range all {
		n := len(o.Pods)
		if o.Class == lead.Class || o.Layout.Required != lead.Layout.Required || n > sweepOther || n*len(lead.Pods) > sweepPods {
			continue
		}
		if len(out) == 1 || size(o) > size(out[1]) {
			out = append(out[:1], o)
		}
	}
	return out
}

// walk is the search in one region.
type walk struct {
	*sweep
	v     *scan
	name  string
	wants []place.Order
	most  room // that is wanted
	lacks room // of that, what the nodes must have
	dim   int  // the resource that its nodes are compared by
	turn  uint64
	nodes []*sweepNode
	ahead [][]int64            // by node and room: what it costs at the least from that node on
	parts map[*unit]int64      // of a unit: how much it gives in all of the region
	on    map[*unit][]partCost // where it counts
	paid  []int64              // by node: what counts there of the units that are chosen

	relief *relief // what could open a gate that is shut; nil: none is
	short  int64   // what that gate lacks

	chosen  []*unit
	cost    int64
	choices []choice // a stack
}

// room is for so many pods of the first class that is wanted, and of the second.
type room [2]int64

func (r room) less(o room) room { return room{max(0, r[0]-o[0]), max(0, r[1]-o[1])} }

// code numbers the rooms up to what is wanted.
func (x *walk) code(r room) int { return int(r[0]*(x.most[1]+1) + r[1]) }

// roomBeside is, by number of pods of the second class on a node, how many of the first have room beside them; -1: none, as
// those have no room themselves.
type roomBeside [sweepOther + 1]int64

// sweepNode is a node of the region.
type sweepNode struct {
	*candidateNode
	has   room       // pods that go there already
	may   [2]bool    // which of the classes may be there
	units []*unit    // the cheapest first
	top   room       // with all of them gone
	costs []int64    // by room: what it costs at the least
	rate  int64      // the same for each pod
	now   roomBeside // with none of them gone
	used  int        // how many of its units are chosen
	bound bool       // some of its units are on other nodes too, or covered by budgets
}

// partCost is what counts of a unit's cost on a node.
type partCost struct {
	node int
	cost int64
}

// choice is some of the units of a node, by position, and the room that it then has.
type choice struct {
	set   uint32
	room  room
	least int64
}

// prepare gets the search in a region ready: all candidates are counted as gone.
func (w *sweep) prepare(v *scan, r *region, wants []place.Order) *walk {
	w.y.scans++
	x := &walk{sweep: w, v: v, name: r.name, wants: wants, turn: w.y.scans, dim: quantity.DimGPU,
		parts: make(map[*unit]int64), on: make(map[*unit][]partCost)}
	if v.class.Shape.GPUs == 0 {
		x.dim = v.class.Demands[len(v.class.Demands)-1].Dim
	}
	for i, o := range wants {
		x.most[i] = int64(len(o.Pods))
	}
	if len(wants) > 1 {
		x.addContested(r)
	}
	for _, t := range r.nodes {
		if l := x.node(t); x.roomBeside(l) != l.now || l.contested() {
			x.nodes = append(x.nodes, l)
			for _, u := range t.units {
				x.parts[u] += x.gives(u, l)
			}
		}
	}
	for _, l := range x.nodes {
		l.top = x.roomBeside(l).top()
		l.used = 0
		x.appraise(l)
	}
	if len(x.nodes) > sweepNodes {
		slices.SortFunc(x.nodes, func(a, b *sweepNode) int {
			return cmp.Or(cmp.Compare(a.rate, b.rate), strings.Compare(a.node.Name, b.node.Name))
		})
		x.nodes = x.nodes[:sweepNodes]
	}
	for i, o := range wants {
		if r.nodes == nil {
			break // there is room already
		}
		elsewhere := r.fits(w.y.Candidates, o.Class)
		for _, l := range x.nodes {
			elsewhere -= l.has[i]
		}
		x.lacks[i] = max(0, x.most[i]-elsewhere)
	}
	x.arrange()
	return x
}

// node makes a node of a node whose units are counted as gone.
func (x *walk) node(t *candidateNode) *sweepNode {
	l := &sweepNode{candidateNode: t, has: x.has(t.node)}
	for i, o := range x.wants {
		l.may[i] = x.v.admits(o.Class, t.node)
	}
	if len(x.wants) == 1 {
		l.now = x.roomBeside(l)
	} else {
		for _, u := range t.units {
			x.v.free(u, -1)
		}
		l.now = x.roomBeside(l)
		for _, u := range t.units {
			x.v.free(u, 1)
		}
	}
	l.used = 1
	return l
}

// has is what has room on the node already, of either class by itself.
func (x *walk) has(n *cluster.Node) (r room) {
	for i, o := range x.wants {
		r[i] = int64(o.Class.ByBucket[n.Bucket.ID].Cells[n.Slot].Fits)
	}
	return r
}

// contested says whether there is room already for either class.
func (l *sweepNode) contested() bool { return l.has[0] > 0 && l.has[1] > 0 }

// addContested adds to the region the nodes without candidates that have room for either class: not for both at once.
func (x *walk) addContested(r *region) {
	for _, sh := range x.y.m.Topology.Buckets {
		if r.domain != nil && !slices.Contains(sh.Domains, r.domain) || r.node != nil {
			continue
		}
		for _, n := range sh.Nodes {
			if has := x.has(n); has[0] == 0 || has[1] == 0 {
				continue
			}
			if t := x.v.candidate(n); t != nil && len(t.units) == 0 {
				r.nodes = append(r.nodes[:len(r.nodes):len(r.nodes)], t)
			}
		}
	}
}

// roomBeside counts what has room on the node as it is: where none of its units is chosen, no more than the state says.
func (x *walk) roomBeside(l *sweepNode) roomBeside {
	out := roomBeside{-1, -1, -1, -1, -1, -1, -1, -1}
	for b := range x.most[1] + 1 {
		if b > 0 && (!l.may[1] || l.used == 0 && b > l.has[1]) {
			break
		}
		a := x.beside(l, b)
		if a < 0 {
			break
		}
		if l.used == 0 {
			a = min(a, l.has[0])
		}
		out[b] = min(a, x.most[0])
	}
	return out
}

// beside is how many pods of the first class have room on the node beside so many of the second, by resources; -1: those
// have none.
func (x *walk) beside(l *sweepNode, others int64) int64 {
	if others == 0 {
		return x.v.slots(l.candidateNode)
	}
	if l.spoils > 0 {
		return -1
	}
	for _, d := range x.wants[1].Class.Demands {
		if l.free.At(d.Dim) < others*d.Amount {
			return -1
		}
	}
	k := x.most[0]
	for _, d := range x.wants[0].Class.Demands {
		left := l.free.At(d.Dim)
		for _, o := range x.wants[1].Class.Demands {
			if o.Dim == d.Dim {
				left -= others * o.Amount
			}
		}
		k = min(k, left/d.Amount)
	}
	return k
}

// top is the most of either class.
func (s roomBeside) top() (r room) {
	for b, a := range s {
		if a >= 0 {
			r[0], r[1] = max(r[0], a), int64(b)
		}
	}
	return r
}

// holds says whether there is that room.
func (s roomBeside) holds(r room) bool { return s[r[1]] >= r[0] }

// more says whether there is more room anywhere than in the other.
func (s roomBeside) more(o roomBeside) bool {
	for b := range s {
		if s[b] > o[b] {
			return true
		}
	}
	return false
}

// gives is how much of the resource the unit's pods leave on the node, at least 1.
func (x *walk) gives(u *unit, l *sweepNode) int64 {
	var sum int64
	for _, p := range u.pods {
		if p.Host == l.node {
			sum += p.Amount(x.dim)
		}
	}
	return max(1, sum)
}

// share is what of the unit's cost counts on the node.
func (x *walk) share(u *unit, l *sweepNode) int64 {
	cost := u.cost + x.dear*x.strains(u)
	if part := x.gives(u, l); part < x.parts[u] {
		return int64(float64(cost) * (float64(part) / float64(x.parts[u])))
	}
	return cost
}

// appraise decides the node by itself, by the one resource: a knapsack.
func (x *walk) appraise(l *sweepNode) {
	type load struct{ amount, cost int64 }
	idle := l.free.At(x.dim)
	for _, u := range l.candidateNode.units {
		idle -= x.gives(u, l)
	}
	l.units = slices.Clone(l.candidateNode.units)
	slices.SortFunc(l.units, func(a, b *unit) int {
		each := cmp.Compare(float64(x.share(a, l))*float64(x.gives(b, l)), float64(x.share(b, l))*float64(x.gives(a, l)))
		return cmp.Or(each, compareUnits(b, a))
	})
	l.units = l.units[:min(len(l.units), sweepUnits)]
	loads := []load{{}}
	for _, u := range l.units {
		amount, cost := x.gives(u, l), x.share(u, l)
		l.bound = l.bound || u.budgeted || amount < x.parts[u] || len(u.spare) > 0 || u.rest != nil
		for _, have := range loads[:len(loads):len(loads)] {
			loads = append(loads, load{have.amount + amount, have.cost + cost})
		}
		slices.SortFunc(loads, func(a, b load) int {
			return cmp.Or(cmp.Compare(a.cost, b.cost), -cmp.Compare(a.amount, b.amount))
		})
		kept := loads[:0]
		for _, n := range loads {
			if len(kept) == 0 || n.amount > kept[len(kept)-1].amount {
				kept = append(kept, n)
			}
		}
		loads = kept
	}
	l.costs, l.rate = slices.Repeat([]int64{unpayable}, x.code(l.top)+1), unpayable
	x.rooms(l.top, func(r room) {
		if r == (room{}) {
			l.costs[0] = 0 // nobody need go, also where less is free than nothing
			return
		}
		need := -idle
		for i, o := range x.wants {
			for _, d := range o.Class.Demands {
				if d.Dim == x.dim {
					need += r[i] * d.Amount
				}
			}
		}
		for _, n := range loads {
			if n.amount >= need && (n.amount > 0 || l.now.holds(r)) {
				l.costs[x.code(r)] = n.cost
				if n.cost > 0 {
					l.rate = min(l.rate, n.cost/(r[0]+r[1]))
				}
				break
			}
		}
	})
}

// rooms visits all up to this one.
func (x *walk) rooms(top room, visit func(room)) {
	for a := range top[0] + 1 {
		for b := range top[1] + 1 {
			visit(room{a, b})
		}
	}
}

// arrange puts the nodes in order, those first whose units are not theirs alone, and adds up what they cost.
func (x *walk) arrange() {
	slices.SortFunc(x.nodes, func(a, b *sweepNode) int {
		if a.bound != b.bound {
			return cluster.Before(a.bound)
		}
		return cmp.Or(cmp.Compare(a.rate, b.rate), strings.Compare(a.node.Name, b.node.Name))
	})
	x.paid = make([]int64, len(x.nodes))
	x.ahead = make([][]int64, len(x.nodes)+1)
	x.ahead[len(x.nodes)] = slices.Repeat([]int64{unpayable}, x.code(x.most)+1)
	x.ahead[len(x.nodes)][0] = 0
	for i := len(x.nodes) - 1; i >= 0; i-- {
		l := x.nodes[i]
		for _, u := range l.units {
			x.on[u] = append(x.on[u], partCost{i, x.share(u, l)})
		}
		x.ahead[i] = slices.Clone(x.ahead[i+1])
		x.rooms(x.lacks, func(r room) {
			least := x.ahead[i+1][x.code(r)]
			for a := int64(0); a <= min(r[0], l.top[0]); a++ {
				for b := int64(0); b <= min(r[1], l.top[1]); b++ {
					n := room{a, b}
					least = min(least, l.costs[x.code(n)]+x.ahead[i+1][x.code(r.less(n))])
				}
			}
			x.ahead[i][x.code(r)] = least
		})
	}
}

// least is what any set costs that is chosen so far and makes that room from the i-th node on.
func (x *walk) least(i int, lacks room) int64 {
	more := x.ahead[i][x.code(lacks)]
	if more >= unpayable {
		return unpayable
	}
	for _, paid := range x.paid[i:] {
		more -= paid
	}
	so := x.so()
	least := max(so, so-x.dear*x.slack()+max(0, more))
	if x.relief != nil {
		least = max(least, so+x.relief.ahead[0][max(0, x.short)])
	}
	return min(unpayable, least)
}

// so is what the units cost that are chosen so far.
func (x *walk) so() int64 {
	if len(x.disruption.of) == 0 {
		return x.cost
	}
	broken, never := x.y.broken(&x.disruption)
	if never {
		return unpayable
	}
	return x.cost + x.dear*int64(broken)
}

// choose counts the unit as gone, with what goes before it.
func (x *walk) choose(u *unit) {
	for _, o := range u.spare {
		if o.gone != x.turn {
			x.chooseOne(o)
		}
	}
	x.chooseOne(u)
}

func (x *walk) chooseOne(u *unit) {
	u.gone = x.turn
	x.v.free(u, 1)
	x.disruption.count(u, 1)
	x.cost += u.cost
	x.chosen = append(x.chosen, u)
	if x.relief != nil {
		x.short -= x.relief.gives[u]
	}
	for _, s := range x.on[u] {
		x.paid[s.node] += s.cost
		x.nodes[s.node].used++
	}
}

// back undoes what was chosen since there were so many.
func (x *walk) back(to int) {
	for i := len(x.chosen) - 1; i >= to; i-- {
		u := x.chosen[i]
		u.gone = 0
		x.v.free(u, -1)
		x.disruption.count(u, -1)
		x.cost -= u.cost
		if x.relief != nil {
			x.short += x.relief.gives[u]
		}
		for _, s := range x.on[u] {
			x.paid[s.node] -= s.cost
			x.nodes[s.node].used--
		}
	}
	x.chosen = x.chosen[:to]
}

// spent says whether the search has been long enough.
func (x *walk) spent() bool { return x.steps > sweepSteps || x.asked > sweepTests }

// begin searches the region: node by node, and then for what opens the gates.
func (x *walk) begin() {
	if x.gated {
		if gates := x.y.Gates(x.g); len(gates) > 0 {
			x.relief = x.findRelief(gates[0])
			x.short = x.relief.short
		}
	}
	x.settle(0, x.lacks)
}

// relief is what could open a gate that is shut.
type relief struct {
	short   int64 // what it lacks
	gives   map[*unit]int64
	helpers []helper
	ahead   [][]int64 // by helper and amount: what that costs at the least from that helper on
}

// helper is a unit that gives at most so much of what a gate lacks.
type helper struct {
	*unit
	gives, cost int64
}

// reliefParts is how finely it is counted what a gate lacks.
const reliefParts = 128

// findRelief finds what could open the gate.
func (x *walk) findRelief(g why.Gate) *relief {
	r := &relief{short: g.Have + g.Need - g.Limit, gives: make(map[*unit]int64)}
	switch {
	case g.Cause == why.NotLent:
		r.short = g.Need - g.Have
	case g.Resource == "": // a number of workloads
		r.short++
	}
	part := 1 + max(0, r.short-1)/reliefParts
	r.short /= part
	for _, u := range x.cands {
		h := helper{u, 1, u.cost + x.dear*x.surely(u)}
		if g.Resource != "" {
			h.gives = (u.charged(x.y.m.Dims.ID(g.Resource)) + part - 1) / part
		}
		if h.gives > 0 && (g.Cause == why.NotLent || u.of.payer.Top() == x.q.Top()) {
			r.helpers = append(r.helpers, h)
			r.gives[u] = h.gives
		}
	}
	slices.SortFunc(r.helpers, func(a, b helper) int {
		each := cmp.Compare(float64(a.cost)*float64(b.gives), float64(b.cost)*float64(a.gives))
		return cmp.Or(each, compareUnits(b.unit, a.unit))
	})
	r.ahead = make([][]int64, len(r.helpers)+1)
	r.ahead[len(r.helpers)] = slices.Repeat([]int64{unpayable}, int(r.short)+1)
	r.ahead[len(r.helpers)][0] = 0
	for i := len(r.helpers) - 1; i >= 0; i-- {
		h := r.helpers[i]
		r.ahead[i] = slices.Clone(r.ahead[i+1])
		for k := range r.ahead[i] {
			r.ahead[i][k] = min(r.ahead[i][k], h.cost+r.ahead[i+1][max(0, k-int(h.gives))])
		}
	}
	return r
}

// charged is what the unit's pods are charged of the resource.
func (u *unit) charged(dim int) (sum int64) {
	for _, p := range u.pods {
		for _, d := range p.Charge {
			if d.Dim == dim {
				sum += d.Amount
			}
		}
	}
	return sum
}

// relieve proposes what is chosen, with the smallest sets of helpers from the i-th on that open the gates.
func (x *walk) relieve(i int) {
	if x.spent() || x.so() >= x.limit || x.short <= 0 && x.propose() || x.relief == nil {
		return
	}
	for ; i < len(x.relief.helpers) && x.so()+x.relief.ahead[i][max(0, x.short)] < x.limit; i++ {
		if h := x.relief.helpers[i]; h.gone != x.turn {
			x.steps++
			was := len(x.chosen)
			x.choose(h.unit)
			x.relieve(i + 1)
			x.back(was)
		}
	}
}

// settle makes room from the i-th node on.
func (x *walk) settle(i int, lacks room) {
	if x.least(i, lacks) >= x.limit || x.spent() {
		return
	}
	if lacks == (room{}) {
		x.relieve(0)
		return
	}
	l := x.nodes[i]
	from := len(x.choices)
	is := x.roomBeside(l)
	x.offer(i, lacks, 0, is)
	x.list(i, lacks, 0, 0, is)
	mine := x.choices[from:]
	slices.SortStableFunc(mine, func(a, b choice) int { return cmp.Compare(a.least, b.least) })
	for _, o := range mine {
		if o.least >= x.limit {
			break
		}
		was := len(x.chosen)
		for j, u := range l.units {
			if o.set>>j&1 == 1 && u.gone != x.turn {
				x.choose(u)
			}
		}
		x.settle(i+1, lacks.less(o.room))
		x.back(was)
	}
	x.choices = x.choices[:from]
}

// list lists the sets of the node's units from the j-th on that make more room, with those of the set, which are chosen,
// than without their last.
func (x *walk) list(i int, lacks room, set uint32, j int, is roomBeside) {
	l := x.nodes[i]
	for ; j < len(l.units) && !x.spent(); j++ {
		u := l.units[j]
		if u.gone == x.turn {
			continue
		}
		x.steps++
		was := len(x.chosen)
		x.choose(u)
		if x.least(i, lacks) < x.limit {
			with := x.roomBeside(l)
			if with.more(is) {
				x.offer(i, lacks, set|1<<j, with)
			}
			if !with.holds(lacks) {
				x.list(i, lacks, set|1<<j, j+1, with)
			}
		}
		x.back(was)
	}
}

// offer lists the set, which is chosen, with each room that the node can have then.
func (x *walk) offer(i int, lacks room, set uint32, is roomBeside) {
	for b := lacks[1]; b >= 0; b-- {
		if b < lacks[1] && is[b] <= is[b+1] {
			continue // more of the one at no loss of the other
		}
		if is[b] < 0 {
			continue
		}
		r := room{is[b], b}
		x.choices = append(x.choices, choice{set, r, x.least(i+1, lacks.less(r))})
	}
}

// propose asks the state about the units that are chosen, which cost less than what is at hand.
func (x *walk) propose() bool {
	x.asked++
	if !x.alike {
		x.asked += 9 // to place unlike members is a search by itself
	}
	cost := x.so()
	for _, u := range x.chosen {
		x.lift(u)
	}
	open := x.opens()
	if open {
		x.limit, x.best = cost, slices.Clone(x.chosen)
	}
	for _, u := range x.chosen {
		x.restore(u)
	}
	return open
}
