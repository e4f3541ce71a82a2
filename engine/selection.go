package engine

import (
	"math"
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/quantity"
	"github.com/berth-dev/berth/engine/internal/queue"
)

// The line of a cycle. Each queue has a queue order of its workloads: those to repair first, then by priority, age and key.
// Which queue order moves next is decided from the top of the tree down, at every level between the queues there: by the
// best head that a queue has, then by how far it is from its fair share, then by what it used in the past, then by the
// head's age. A start changes the standing of its queue and of those above it and nobody else's, so that the next choice
// costs the depth of the tree.

// queueEntry is a queue that has something waiting in it or below it, or one user's part of such a queue.
type queueEntry struct {
	queue  *cluster.Queue // nil: of workloads without a queue
	user   string         // whose part of the queue it is, where users are treated fairly
	parent *queueEntry
	order  []queued       // its own workloads that have not had their turn
	waits  int            // of queue order, at first
	below  []*queueEntry  // a heap: the first goes first
	place  int            // in parent.below
	head   *queued        // the one of queue order, or of those below, that goes next; nil: nothing is left
	front  uint64         // what decides first between heads: see rate
	excess queue.Fraction // how far it is above its share
	past   queue.Fraction // what the queue used in the past, for its weight, or the user
	depth  int            // of the queue in the tree: those at the top are at 1

	searched bool // somebody owed a place was looked for behind the head
	rest     int  // of the queue order from that one on; 0: there is none

	answers []answer // that its workloads were given in this cycle
	dues    []due
}

// before says whether a goes before b: by what its head is, then by its excess and its past use, then by its head's age
// and key.
func (a *queueEntry) before(b *queueEntry, p api.Policy) bool {
	if a.head == nil || b.head == nil {
		return a.head != nil
	}
	if a.front != b.front {
		return a.front > b.front
	}
	if p != api.FIFO {
		if c := a.excess.Compare(b.excess); c != 0 {
			return c < 0
		}
		if c := a.used().Compare(b.used()); c != 0 {
			return c < 0
		}
	}
	return a.head.younger(b.head) < 0
}

// rate is what decides first between heads, the highest before all others: whether there is something to repair, whether
// it, or somebody behind it, is owed the place, its priority.
func (s *queueEntry) rate(p api.Policy) (front uint64) {
	if s.head.Repair {
		front = 1 << 63
	}
	if p == api.FIFO {
		return front
	}
	//mutate: order-owed-first
	if s.owes(s.head.owed) || s.old() {
		front |= 1 << 62
	}
	//mutate: order-owed-behind-first
	if s.owes(s.head.hides) && !s.old() {
		front |= 1 << 61
	}
	return front | uint64(int64(s.head.rank)-math.MinInt32)
}

// old says whether a user's head has waited for as long as it may be passed. It then goes with those who are owed their
// place, or small work of other users that the quota has room for would always go before a large gang of his; and what he
// used is not held against it.
func (s *queueEntry) old() bool {
	return s.head.aged && s.parent != nil && s.parent.queue == s.queue
}

// used is what was used in the past, as far as it is held against the head.
func (s *queueEntry) used() queue.Fraction {
	if s.old() {
		return queue.Fraction{Num: 0, Den: 1}
	}
	return s.past
}

// owes says whether who is owed a place that far up, from the queue of the head, is owed it by the queues beside this one.
func (s *queueEntry) owes(reach int) bool { return reach > 0 && s.head.depth-reach < s.depth }

// younger compares age, then key; a pod by itself goes before a gang of the same.
func (q *queued) younger(o *queued) int {
	if c := q.Created.Compare(o.Created); c != 0 {
		return c
	}
	if c := strings.Compare(q.Key, o.Key); c != 0 || q.Lone == o.Lone {
		return c
	}
	return cluster.Before(q.Lone)
}

// selection decides who goes next.
type selection struct {
	y      *cycle
	policy api.Policy
	root   queueEntry
	stands map[*cluster.Queue]*queueEntry
	latest *queueEntry // asked for
	past   queue.Past

	passers map[*cluster.Queue]map[string]*passers // by user; see passersOf
}

// newSelection makes up the queue orders of what is in line, or takes those that are kept.
func newSelection(y *cycle, line []queued, kept bool) *selection {
	c := &selection{y: y, policy: y.s.m.Config.Policy}
	c.stands, c.latest = make(map[*cluster.Queue]*queueEntry), &queueEntry{}
	if len(y.s.m.Queues) > 0 {
		c.past = y.s.ledger.PastAt(y.Now)
	}
	//mutate: order-past-fades
	if next := c.past.Next; !next.IsZero() {
		y.Wake(next)
	}
	switch alone := len(y.s.m.Queues) == 0; { // nobody to weigh against anybody
	case kept && alone:
		//archtest:any-order there is one at the most
		for _, l := range y.s.orders.byKey {
			c.root.order = l.line
		}
	case kept:
		//archtest:any-order settle sorts the entries
		for _, l := range y.s.orders.byKey {
			c.standAt(l.orderKey).order = l.line
		}
	case alone:
		c.root.order = line
	default:
		c.divide(line)
	}
	//archtest:any-order each order by itself
	for _, s := range c.stands {
		c.promote(s)
	}
	c.settle(&c.root)
	return c
}

// divide makes the queue orders.
func (c *selection) divide(line []queued) {
	at := make([]*queueEntry, len(line))
	for i := range line {
		at[i] = c.standOf(&line[i])
		at[i].waits++
	}
	room := make([]queued, len(line)) // of all queue orders
	for i, s := range at {
		if s.order == nil {
			s.order, room = room[:0:s.waits], room[s.waits:]
		}
		s.order = append(s.order, line[i])
	}
}

// standOf returns the queue entry whose queue order the gang is in. Age alone decides in one queue order for all.
func (c *selection) standOf(q *queued) *queueEntry {
	if c.policy == api.FIFO {
		return &c.root
	}
	return c.standAt(orderKeyOf(q.gang))
}

// standAt returns the queue entry of the queue order, making it if it is not there.
func (c *selection) standAt(key orderKey) *queueEntry {
	s := c.stand(key.queue)
	if s.queue == nil || s.queue.Spec == nil || !s.queue.Spec.FairUsers {
		return s
	}
	for _, b := range s.below {
		if b.queue == s.queue && b.user == key.user {
			return b
		}
	}
	b := &queueEntry{queue: s.queue, user: key.user, parent: s, depth: s.depth, past: c.past.OfUser(s.queue, key.user)}
	s.below = append(s.below, b)
	return b
}

// stand returns the queue's, making it and those above it if they are not there.
func (c *selection) stand(q *cluster.Queue) *queueEntry {
	if q == c.latest.queue && c.latest.parent != nil {
		return c.latest
	}
	if s := c.stands[q]; s != nil {
		c.latest = s
		return s
	}
	s := &queueEntry{queue: q, parent: &c.root, past: c.past.Per(q)}
	c.stands[q] = s
	if q != nil && q.Parent != nil {
		s.parent = c.stand(q.Parent)
	}
	s.depth = s.parent.depth + 1
	s.parent.below = append(s.parent.below, s)
	return s
}

// promote puts workloads that waited longer than their queue lets them before higher priorities of the queue.
func (c *selection) promote(s *queueEntry) {
	if s.queue == nil || s.queue.Spec == nil || s.queue.Spec.PromoteAfter == 0 {
		return
	}
	s.order = slices.Clone(s.order) // it may be kept
	top := int32(0)
	for i := range s.order {
		if i == 0 || s.order[i].rank > top {
			top = s.order[i].rank
		}
	}
	for i := range s.order {
		q := &s.order[i]
		if q.Repair || q.rank == top {
			continue
		}
		due := q.Created.Add(s.queue.Spec.PromoteAfter)
		//mutate: order-promote
		if c.y.Now.Before(due) {
			c.y.Wake(due)
			continue
		}
		q.rank, q.promoted = top, true
	}
	slices.SortStableFunc(s.order, func(a, b queued) int { return a.compare(&b) })
}

// compare is the order within a queue order.
func (q *queued) compare(o *queued) int {
	if q.Repair != o.Repair {
		return cluster.Before(q.Repair)
	}
	if q.rank != o.rank {
		return cluster.Before(q.rank > o.rank)
	}
	return q.younger(o)
}

// settle works out the queue entry and all below it.
func (c *selection) settle(s *queueEntry) {
	for _, b := range s.below {
		c.settle(b)
	}
	slices.SortFunc(s.below, func(a, b *queueEntry) int {
		if a.before(b, c.policy) {
			return -1
		}
		return 1
	})
	for i, b := range s.below {
		b.place = i
	}
	if c.policy == api.FIFO {
		slices.SortStableFunc(s.order, func(a, b queued) int {
			if a.Repair != b.Repair {
				return cluster.Before(a.Repair)
			}
			return a.younger(&b)
		})
	}
	c.measure(s)
	c.lead(s)
}

// measure works out how far the queue entry is above its share. What a user's workloads hold that passed his head, which has
// waited for as long as it may be passed, is not held against it.
func (c *selection) measure(s *queueEntry) {
	users := s.queue != nil && s.parent.queue == s.queue
	s.excess = c.y.s.ledger.Excess(s.queue, s.user, users)
	//mutate: order-passers-of-an-old-head
	if users && len(s.order) > 0 && c.y.times.Aged(s.order[0].Turn) {
		s.excess.Num = max(0, s.excess.Num-c.passersOf(s).behind(s.order[0].Turn))
	}
}

// passers is what the workloads of one user held in a queue when the cycle began, in the order in which they were in line.
type passers struct {
	turns []cluster.Turn
	gpus  []int64 // held by the workload and all those after it
}

// behind is how many GPUs those hold who were in line after the turn.
func (p *passers) behind(t cluster.Turn) int64 {
	if p == nil {
		return 0
	}
	t.Repair = false
	i, _ := slices.BinarySearchFunc(p.turns, t, cluster.Turn.Compare)
	if i == len(p.turns) {
		return 0
	}
	return p.gpus[i]
}

// passersOf returns those of the queue entry's user, nil if he has none. It looks at all pods of the queue once in a cycle, before
// anything starts.
func (c *selection) passersOf(s *queueEntry) *passers {
	if c.passers[s.queue] == nil {
		if c.passers == nil {
			c.passers = make(map[*cluster.Queue]map[string]*passers)
		}
		c.passers[s.queue] = passersIn(c.y.s.m, s.queue)
	}
	return c.passers[s.queue][s.user]
}

// passersIn finds the passers of all users of the queue.
func passersIn(m *cluster.Model, q *cluster.Queue) map[string]*passers {
	type held struct {
		cluster.Turn
		gpus int64
	}
	by := make(map[string][]held)
	for _, p := range q.Pods {
		for _, d := range p.Charge {
			if d.Dim == quantity.DimGPU {
				user := m.UserOf(p)
				by[user] = append(by[user], held{m.TurnOf(p), d.Amount})
			}
		}
	}
	out := make(map[string]*passers, len(by))
	for user, all := range by { //archtest:any-order each user's are sorted by themselves
		slices.SortFunc(all, func(a, b held) int { return a.Compare(b.Turn) })
		p := &passers{turns: make([]cluster.Turn, len(all)), gpus: make([]int64, len(all))}
		var sum int64
		for i := len(all) - 1; i >= 0; i-- {
			sum += all[i].gpus
			p.turns[i], p.gpus[i] = all[i].Turn, sum
		}
		out[user] = p
	}
	return out
}

// lead finds the queue entry's head: of its own queue order and the best below it, what comes first in any queue order.
func (c *selection) lead(s *queueEntry) {
	s.head = nil
	if len(s.order) > 0 {
		s.head = &s.order[0]
		s.head.owed, s.head.hides, s.head.depth = c.owes(s, s.head), 0, s.depth
		if s.queue != nil && s.parent.queue == s.queue {
			c.ages(s.head)
			c.measure(s) // it depends on whose turn it is
		}
		if s.head.owed == 0 && s.queue != nil {
			s.head.hides = c.hidden(s)
		}
	}
	if len(s.below) > 0 && s.below[0].head != nil {
		if h := s.below[0].head; s.head == nil || h.compare(s.head) < 0 {
			s.head = h
		}
	}
	if s.head != nil {
		s.front = s.rate(c.policy)
	}
}

// ages finds out whether the head of a user's queue order has waited for as long as it may be passed.
func (c *selection) ages(q *queued) {
	if q.aged = c.y.times.Aged(q.Turn); !q.aged {
		c.y.times.WakeAged(q.Turn)
	}
}

// due is how far up who asks so could take that back, at a standing.
type due struct {
	ask   ask
	at    uint64
	reach int
}

// owes is quota.Limits.Owed, of one of the queue entry's queue order. Those that ask the same get the same answer while nothing changes.
func (c *selection) owes(s *queueEntry, q *queued) int {
	y := c.y
	if !y.repeats || q.special == y.s.cycles || q.ask.class == nil || q.ask.class.Dropped {
		return y.limits.Owed(q.gang)
	}
	at := y.s.m.Standing()
	i := slices.IndexFunc(s.dues, func(d due) bool { return d.ask == q.ask })
	if i < 0 {
		i = len(s.dues)
		s.dues = append(s.dues, due{ask: q.ask, at: at, reach: y.limits.Owed(q.gang)})
	}
	if d := &s.dues[i]; d.at != at {
		d.at, d.reach = at, y.limits.Owed(q.gang)
	}
	return s.dues[i].reach
}

// hidden is how far up somebody in the queue order behind its head, who borrows, is owed a place. It has its turn once the head has
// had its own, and before those of other queue orders who borrow. While nobody is evicted a queue has ever less quota left, so
// that who was not owed a place before need not be asked again.
func (c *selection) hidden(s *queueEntry) int {
	i := 1
	if s.searched {
		if s.rest == 0 {
			return 0
		}
		i = max(1, len(s.order)-s.rest)
	}
	s.searched, s.rest = true, 0
	for ; i < len(s.order); i++ {
		if q := &s.order[i]; q.ask.class != nil || !q.gang.Done { // who is done asks for nothing
			if reach := c.owes(s, q); reach > 0 {
				s.rest = len(s.order) - i
				return reach
			}
		}
	}
	return 0
}

// next takes the one that goes next out of its queue order; false when nothing is left.
func (c *selection) next() (*queued, *queueEntry, bool) {
	s := &c.root
	if s.head == nil {
		return nil, nil, false
	}
	for len(s.order) == 0 || s.head != &s.order[0] {
		s = s.below[0]
	}
	q := &s.order[0]
	s.order = s.order[1:]
	return q, s, true
}

// moved works out the standing of a queue entry whose queue order moved on and, with started, whose queue's account changed, and of
// those above it.
func (c *selection) moved(s *queueEntry, started bool) {
	for ; s != nil; s = s.parent {
		if started {
			c.measure(s)
		}
		c.lead(s)
		if s.parent != nil {
			c.sift(s.parent.below, s.place)
		}
	}
}

// sift puts the i-th of the heap where it belongs. Most go far down: so it first goes down as if it came last, and from
// there up.
func (c *selection) sift(heap []*queueEntry, i int) {
	x, top := heap[i], i
	if i > 0 && x.before(heap[(i-1)/2], c.policy) {
		top = 0
	} else {
		for {
			child := 2*i + 1
			if child >= len(heap) {
				break
			}
			if child+1 < len(heap) && heap[child+1].before(heap[child], c.policy) {
				child++
			}
			if i == top && x.before(heap[child], c.policy) { // it stays
				return
			}
			heap[i] = heap[child]
			heap[i].place = i
			i = child
		}
	}
	for i > top && x.before(heap[(i-1)/2], c.policy) {
		heap[i] = heap[(i-1)/2]
		heap[i].place = i
		i = (i - 1) / 2
	}
	heap[i] = x
	x.place = i
}

// makeLine is the cycle's line, with gangs that lost allocations to time put where they now belong. kept: it is as it was told,
// and in the queue orders.
func (y *cycle) makeLine(lifted []*cluster.Gang) (line []queued, kept bool) {
	if !y.trial && y.s.m.Config.Policy != api.FIFO && len(lifted) == 0 {
		y.s.makeOrders()
		return nil, true
	}
	line = make([]queued, 0, len(y.s.line)+len(lifted))
	for _, g := range y.s.line {
		if (!y.trial || g == y.until) && !slices.Contains(lifted, g) {
			e := y.s.entryOf(g)
			line = append(line, e.queuedAs(g, e.turn))
		}
	}
	for _, g := range lifted {
		y.retally(g)
		if y.trial && g != y.until {
			continue
		}
		t := g.TurnNow()
		i, _ := slices.BinarySearchFunc(line, t, func(q queued, t cluster.Turn) int { return q.Turn.Compare(t) })
		line = slices.Insert(line, i, y.s.entryOf(g).queuedAs(g, t))
	}
	return line, false
}
