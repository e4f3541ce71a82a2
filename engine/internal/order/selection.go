package order

import (
	"math"
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/draft"
	"github.com/berth-dev/berth/engine/internal/queue"
)

// The line of a cycle. Each queue has a queue order of its workloads: those to repair first, then by priority, age and key.
// Which queue order moves next is decided from the top of the tree down, at every level between the queues there: by the
// best head that a queue has, then by how far it is from its fair share, then by what it used in the past, then by the
// head's age. A start changes the standing of its queue and of those above it, and what these still owe to the others
// below them is looked at when one of those would be next (renew): so the next choice costs the depth of the tree.

// Queued is a gang in line, with its turn in this cycle. There is one for each gang in line, and a
// long line is copied in some cycles, so that it is kept small. What is said to be of the head is
// written when the gang becomes the head of its queue order (lead), and means nothing before.
type Queued struct {
	cluster.Turn
	Gang *cluster.Gang
	// Rank is its priority, or the one that it was promoted to.
	Rank int32

	// aged, of the head of a user's queue order: it has waited for as long as it may be passed.
	aged bool
	// ask is what it asks for, as far as it is known; see Ask.
	ask Ask
	// special is the last cycle in which it has an answer of its own.
	special uint64
	// owed, of the head of a queue order: how far up the tree it could take back what it asks for,
	// in levels; 0: nowhere. With 1 it could from the queues beside its own, with 2 also from those
	// beside its parent.
	owed int
	// hides is, for a head that would borrow, how far up the tree a workload behind it is owed a place.
	hides int
	// depth, of the head of a queue order: that of its queue in the tree.
	depth int
}

// queueEntry is a queue that has something waiting in it or below it, or one user's part of such a
// queue. Entries are a tree like that of the queues, with users as leaves where a queue treats them
// fairly, and the root above all. They are made when a cycle begins and are gone with it.
//
// Invariant, between turns: head, front and excess are as of now of every entry that is the first below another, and
// of the others no worse than as of now (renew); below is a heap.
type queueEntry struct {
	// queue is nil for workloads without a queue, and for the root.
	queue *cluster.Queue
	// user is whose part of the queue it is, where users are treated fairly; "" otherwise.
	user string
	// parent is nil for the root alone.
	parent *queueEntry
	// order is its own workloads that have not had their turn. It may share memory with the order
	// that is kept, and only the marks of a head are written in it.
	order []Queued
	// waits is how many are in order when the cycle begins, where orders are made anew.
	waits int
	// below is a heap: the first goes first.
	below []*queueEntry
	// place is where it is in parent.below.
	place int
	// head is the one of order, or of those below, that goes next; nil: nothing is left.
	head *Queued
	// front is what decides first between heads, the highest first: see rate.
	front uint64
	// excess is how far the queue is above its share, or how many GPUs the user has: see measure.
	excess queue.Fraction
	// past is what the queue used in the past, for its weight, or the user. It does not change in a
	// cycle.
	past queue.Fraction
	// depth is that of the queue in the tree: those at the top are at 1.
	depth int
	// at is Model.Standing as of which its head was judged.
	at uint64

	// searched says that a workload that is owed a place was looked for behind the head.
	searched bool
	// rest is how many there are from that one on to the end of order; 0: there is none. Counted
	// from the end it stays right as order loses its first.
	rest int

	// answers are those that its workloads were given in this cycle, one for each question.
	answers []Answer
	// dues are how far up its workloads are owed a place, one for each question.
	dues []due
}

// before says whether a goes before b: by what its head is, then by its excess and its past use,
// then by its head's age and key. Of two entries beside each other that are both for their own
// queue, this is the order between queues; see rate for an example.
//
// Every step of the comparison is total, and the last one, by key, has no ties: two runs over the
// same state choose alike. An entry with nothing left goes last. Under policy fifo only repair and
// age count.
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

// rate is what decides first between heads, the highest before all others: whether there is
// something to repair, whether the head, or a workload behind it, is owed its place, and its priority.
//
// It is four answers in one number, so that most comparisons of a heap are one of two integers: bit 63
// for repair, 62 for a head that is owed its place, 61 for a workload behind it that is, and below them the
// priority, shifted so that the least is 0.
//
// For example, the head of queue a has priority 9 and would borrow, that of b has priority 0 and is
// owed its place, and that of c has priority 5 and would borrow, but a workload behind it is owed
// one. The order is b, c, a: bit 62, then bit 61, then the priority. When the turns of c have come to that workload, it is the
// head and has bit 62.
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
	// A workload within quota may wait behind a borrower of a higher priority. The borrower must have its turn first, for that is
	// the order of the queue; so the queue as a whole is moved ahead of those that only borrow.
	//mutate: order-owed-behind-first
	if s.owes(s.head.hides) && !s.old() {
		front |= 1 << 61
	}
	return front | uint64(int64(s.head.Rank)-math.MinInt32)
}

// old says whether a user's head has waited for as long as it may be passed. It then goes with
// those who are owed their place, because otherwise small work of other users that the quota has
// room for would always go before a large gang of this user; and what the user has used is not held
// against it. The answer is no for every entry that is not a user's.
func (s *queueEntry) old() bool {
	return s.head.aged && s.parent != nil && s.parent.queue == s.queue
}

// used is what was used in the past, as far as it is held against the head: nothing of it against
// an old one.
func (s *queueEntry) used() queue.Fraction {
	if s.old() {
		return queue.Fraction{Num: 0, Den: 1}
	}
	return s.past
}

// owes says whether the queues beside this one owe a place to the head, which is owed one by queues as far up as reach, from
// its own queue. For example, the head is of a team, at depth 2, below a department at
// depth 1. With a reach of 1 it is owed a place by the other teams: 2 - 1 < 2. Between departments
// it counts only with a reach of 2: 2 - 2 < 1.
func (s *queueEntry) owes(reach int) bool { return reach > 0 && s.head.depth-reach < s.depth }

// younger compares age, then key; a pod by itself goes before a gang of the same key. It is
// negative if q is older, and 0 only for the same workload.
func (q *Queued) younger(o *Queued) int {
	if c := q.Created.Compare(o.Created); c != 0 {
		return c
	}
	if c := strings.Compare(q.Key, o.Key); c != 0 || q.Lone == o.Lone {
		return c
	}
	return cluster.Before(q.Lone)
}

// Questions are what a selection asks of the cycle. It asks in the middle of the plan, so that the
// answers are of what has been decided so far.
type Questions struct {
	// Owed is how far up the tree the gang could take what it asks for back from those that borrowed
	// it; see Queued.owed. It is dear: answers are kept by question (owes).
	Owed func(*cluster.Gang) int
	// OwesNothing says of a queue that Owed is 0 for all of its workloads that are not done.
	OwesNothing func(*cluster.Queue) bool
	// Aged says whether the workload of the turn has waited for as long as it may be passed, and WakeAged has the next cycle
	// be due when it has.
	Aged     func(cluster.Turn) bool
	WakeAged func(cluster.Turn)
}

// Selection decides who goes next in one cycle. Its calls come in this order: Repeat if answers may
// be repeated, Fill once, and then Next, Given or Keep, and Done for each turn, until Next has
// nobody.
type Selection struct {
	l      *Line
	draft  *draft.Draft
	ledger *queue.Ledger
	ask    Questions
	policy api.Policy
	// repeats says that answers can be repeated in this cycle.
	repeats bool

	// root has every entry below it. Without queues, and under policy fifo, all workloads are in
	// its own order.
	root queueEntry
	// entries are those of queues; users' are below them.
	entries map[*cluster.Queue]*queueEntry
	// latest is the entry of a queue that was last asked for.
	latest *queueEntry
	past   queue.Past

	// passers is by queue and user; see passersOf.
	passers map[*cluster.Queue]map[string]*passers

	// turn is whose turn it is, and in is the entry whose order it is of; nil before the first.
	turn *Queued
	in   *queueEntry
}

// Begin begins a cycle. The selection is empty before Fill.
func (l *Line) Begin(d *draft.Draft, ledger *queue.Ledger, ask Questions) *Selection {
	l.cycles++
	return &Selection{l: l, draft: d, ledger: ledger, ask: ask, policy: l.m.Config.Policy, entries: make(map[*cluster.Queue]*queueEntry), latest: &queueEntry{}}
}

// Fill makes up the queue orders of the line as it was told, with the gangs that lost allocations
// to time where they now belong; only, unless nil, is alone in it. Those that are kept are taken
// where nothing is different. It costs the queues with something waiting where orders are kept, and
// else the whole line.
func (c *Selection) Fill(lifted []*cluster.Gang, only *cluster.Gang) {
	// The orders of queues are kept from cycle to cycle (queueorder.go). They hold when nobody lost allocations merely because
	// time passed, which moves a gang to those that are to be repaired without any change of the model.
	if only == nil && c.policy != api.FIFO && len(lifted) == 0 {
		c.l.makeOrders()
		c.start(nil, true)
		return
	}
	c.start(c.withLifted(lifted, only), false)
}

// withLifted is the line as it was told, with gangs that lost allocations to time put where they
// now belong. The line itself is not changed: such losses are of this plan, and the model has not
// been told of them.
func (c *Selection) withLifted(lifted []*cluster.Gang, only *cluster.Gang) []Queued {
	l := c.l
	line := make([]Queued, 0, len(l.gangs)+len(lifted))
	for _, g := range l.gangs {
		if (only == nil || g == only) && !slices.Contains(lifted, g) {
			e := l.Entry(g)
			line = append(line, e.queuedAs(g, e.Turn))
		}
	}
	for _, g := range lifted {
		if only != nil && g != only {
			continue
		}
		t := g.TurnNow()
		i, _ := slices.BinarySearchFunc(line, t, func(q Queued, t cluster.Turn) int { return q.Turn.Compare(t) })
		line = slices.Insert(line, i, l.Entry(g).queuedAs(g, t))
	}
	return line
}

// start makes up the queue orders of what is in line, or takes those that are kept, and settles the
// whole tree. With kept, line means nothing.
func (c *Selection) start(line []Queued, kept bool) {
	m := c.l.m
	if len(m.Queues) > 0 {
		c.past = c.ledger.PastAt(c.draft.Now)
	}
	// Past use fades. At some moment that alone changes who goes first, and the plan must be made again then.
	//mutate: order-past-fades
	if next := c.past.Next; !next.IsZero() {
		c.draft.Wake(next)
	}
	switch alone := len(m.Queues) == 0; { // no queues to weigh against each other
	case kept && alone:
		//archtest:any-order without queues there is one order
		for _, o := range c.l.orders.byKey {
			c.root.order = o.line
		}
	case kept:
		//archtest:any-order settle sorts the entries
		for _, o := range c.l.orders.byKey {
			c.entryAt(o.orderKey).order = o.line
		}
	case alone:
		c.root.order = line
	default:
		c.divide(line)
	}
	//archtest:any-order each queue is by itself
	for _, s := range c.entries {
		c.promote(s)
	}
	c.settle(&c.root)
}

// divide makes the queue orders of the line. Each keeps the order of the line.
func (c *Selection) divide(line []Queued) {
	at := make([]*queueEntry, len(line))
	for i := range line {
		at[i] = c.entryOf(&line[i])
		at[i].waits++
	}
	// Two passes and one allocation: the first counts how many wait in each queue, the second hands each its part of the room.
	room := make([]Queued, len(line)) // of all queue orders
	for i, s := range at {
		if s.order == nil {
			s.order, room = room[:0:s.waits], room[s.waits:]
		}
		s.order = append(s.order, line[i])
	}
}

// entryOf returns the queue entry whose queue order the gang is in. Age alone decides in one queue order for all.
func (c *Selection) entryOf(q *Queued) *queueEntry {
	if c.policy == api.FIFO {
		return &c.root
	}
	return c.entryAt(orderKeyOf(q.Gang))
}

// entryAt returns the queue entry of the queue order, making it if it is not there. Of a queue that
// treats its users fairly it is the user's, below that of the queue.
func (c *Selection) entryAt(key orderKey) *queueEntry {
	s := c.queueEntry(key.queue)
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

// queueEntry returns the queue's entry, making it and those above it if they are not there.
// Workloads without a queue are beside the queues at the top, in an entry for nil.
func (c *Selection) queueEntry(q *cluster.Queue) *queueEntry {
	// Neighbours in line are mostly of one queue.
	if q == c.latest.queue && c.latest.parent != nil {
		return c.latest
	}
	if s := c.entries[q]; s != nil {
		c.latest = s
		return s
	}
	s := &queueEntry{queue: q, parent: &c.root, past: c.past.Per(q)}
	c.entries[q] = s
	if q != nil && q.Parent != nil {
		s.parent = c.queueEntry(q.Parent)
	}
	s.depth = s.parent.depth + 1
	s.parent.below = append(s.parent.below, s)
	return s
}

// promote puts workloads that waited longer than their queue lets them before higher priorities of
// the queue. For those that have not waited so long yet, the plan is made again when they will
// have.
//
// It does so within one queue order, and so for each user by itself where users are treated fairly.
// The rank also counts between queues (rate).
func (c *Selection) promote(s *queueEntry) {
	if s.queue == nil || s.queue.Spec == nil || s.queue.Spec.PromoteAfter == 0 {
		return
	}
	s.order = slices.Clone(s.order) // it may be kept
	// The rank that a promoted workload gets is the highest that waits, and not more: among its new equals its age puts it first.
	top := int32(0)
	for i := range s.order {
		if i == 0 || s.order[i].Rank > top {
			top = s.order[i].Rank
		}
	}
	for i := range s.order {
		q := &s.order[i]
		if q.Repair || q.Rank == top {
			continue
		}
		due := q.Created.Add(s.queue.Spec.PromoteAfter)
		//mutate: order-promote
		if c.draft.Now.Before(due) {
			c.draft.Wake(due)
			continue
		}
		q.Rank = top
	}
	slices.SortStableFunc(s.order, func(a, b Queued) int { return a.compare(&b) })
}

// compare is the order within a queue order: repair, rank, age, key. It differs from that of the
// line only where a workload was promoted.
func (q *Queued) compare(o *Queued) int {
	if q.Repair != o.Repair {
		return cluster.Before(q.Repair)
	}
	if q.Rank != o.Rank {
		return cluster.Before(q.Rank > o.Rank)
	}
	return q.younger(o)
}

// settle works out the queue entry and all below it, from the leaves up: a head is known once those
// below have theirs.
func (c *Selection) settle(s *queueEntry) {
	s.searched = false
	for _, b := range s.below {
		c.settle(b)
	}
	// A sorted list is a heap. It is sorted once, when the cycle begins, and sifted from then on.
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
		slices.SortStableFunc(s.order, func(a, b Queued) int {
			if a.Repair != b.Repair {
				return cluster.Before(a.Repair)
			}
			return a.younger(&b)
		})
	}
	c.measure(s)
	c.lead(s)
}

// measure works out how far the queue entry is above its share. For a user it is the GPUs that the
// user's workloads hold, less what those hold that passed the user's head, if this has waited for
// as long as it may be passed: that others of the same user went before it is no reason to pass it
// again.
func (c *Selection) measure(s *queueEntry) {
	users := s.queue != nil && s.parent.queue == s.queue
	s.excess = c.ledger.Excess(s.queue, s.user, users)
	//mutate: order-passers-of-an-old-head
	if users && len(s.order) > 0 && c.ask.Aged(s.order[0].Turn) {
		s.excess.Num = max(0, s.excess.Num-c.passersOf(s).behind(s.order[0].Turn))
	}
}

// lead finds the queue entry's head: of its own queue order and the best below it, what comes first
// in any queue order. It reads the heads of those below, and so is called from the leaves up. It
// costs what owes and hidden do, and nothing in the length of the order.
func (c *Selection) lead(s *queueEntry) {
	c.renew(s)
	s.head, s.at = nil, c.l.m.Standing()
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
	// A queue may have work of its own and queues below it. What goes first of the two is decided as within one queue, by
	// priority and age: shares are compared between queues beside each other only.
	if len(s.below) > 0 && s.below[0].head != nil {
		if h := s.below[0].head; s.head == nil || h.compare(s.head) < 0 {
			s.head = h
		}
	}
	if s.head != nil {
		s.front = s.rate(c.policy)
	}
}

// renew has the first below the entry be the one that goes first as of now. What a start takes of the quota of a queue
// is gone for all queues below it, so that a workload of them which was owed a place may be owed it no longer. No start makes
// a workload be owed a place that was not before, so that those that are not the first can only be rated too high. The first
// one is rated anew, until one stays the first.
//
// For example, a department with a quota of 8 GPUs promises 8 to each of two teams. When one of them has started 8,
// the other would borrow them from other departments, and these go before it.
//
// It costs one look in most turns. Below the root it is not needed: no quota is there that all draw on.
func (c *Selection) renew(s *queueEntry) {
	//mutate: order-owed-by-those-above
	for s.parent != nil && len(s.below) > 0 {
		b := s.below[0]
		if b.head == nil || b.at == c.l.m.Standing() {
			return
		}
		c.lead(b)
		c.sift(s.below, 0)
	}
}

// ages finds out whether the head of a user's queue order has waited for as long as it may be
// passed, and has the plan made again when it will have.
func (c *Selection) ages(q *Queued) {
	if q.aged = c.ask.Aged(q.Turn); !q.aged {
		c.ask.WakeAged(q.Turn)
	}
}

// due is how far up the tree a question is owed a place, as of one standing of the model. What is started or evicted
// changes the standing, and the answer with it.
type due struct {
	ask   Ask
	at    uint64
	reach int
}

// owes is how far up the tree the gang, which is in the queue entry's order, is owed a place. Gangs that ask
// the same get the same answer while nothing changes: what is owed depends on the queue and on what
// is asked for, and not on which gang asks.
func (c *Selection) owes(s *queueEntry, q *Queued) int {
	if !q.Gang.Done && s.queue != nil && c.ask.OwesNothing(s.queue) {
		return 0
	}
	if !c.repeatable(q) {
		return c.ask.Owed(q.Gang)
	}
	at := c.l.m.Standing()
	i := slices.IndexFunc(s.dues, func(d due) bool { return d.ask == q.ask })
	if i < 0 {
		i = len(s.dues)
		s.dues = append(s.dues, due{ask: q.ask, at: at, reach: c.ask.Owed(q.Gang)})
	}
	if d := &s.dues[i]; d.at != at {
		d.at, d.reach = at, c.ask.Owed(q.Gang)
	}
	return s.dues[i].reach
}

// hidden is how far up the tree a workload in the queue order is owed a place that is behind a head which would borrow; 0: there
// is none. It has its turn once the head has had its own, and before borrowers of other queue orders.
//
// The search goes on from where the last one ended (rest): those before it were not owed a place,
// and until something is given back a queue has ever less quota left, so that they need not be asked
// again; then it begins anew (gaveBack). So a cycle looks at each workload about once, and not once
// for each turn.
func (c *Selection) hidden(s *queueEntry) int {
	i := 1
	if s.searched {
		if s.rest == 0 {
			return 0
		}
		i = max(1, len(s.order)-s.rest)
	}
	s.searched, s.rest = true, 0
	if c.ask.OwesNothing(s.queue) { // and to whoever is done, who is passed over below
		return 0
	}
	for ; i < len(s.order); i++ {
		// A workload about which nothing is known and that has its minimum would only grow, and
		// growth is never owed.
		if q := &s.order[i]; q.ask.class != nil || !q.Gang.Done { // a gang that is done asks for nothing
			if reach := c.owes(s, q); reach > 0 {
				s.rest = len(s.order) - i
				return reach
			}
		}
	}
	return 0
}

// Next takes the one that goes next out of its queue order; false when nothing is left. Done ends
// its turn, and must be called before the next.
func (c *Selection) Next() (*Queued, bool) {
	s := &c.root
	if s.head == nil {
		return nil, false
	}
	// Down the tree, to the entry whose own order the head is of: at each level it is the head of the first one below.
	for len(s.order) == 0 || s.head != &s.order[0] {
		s = s.below[0]
	}
	q := &s.order[0]
	s.order = s.order[1:]
	c.turn, c.in = q, s
	return q, true
}

// Done ends the turn: it works out where the queue entry now stands, whose order moved on and, with
// started, whose queue's account changed, and those above it; and likewise where the queues stand
// that gave something back in the turn, since work of theirs was evicted or a place was held for it
// that is another's now. It costs the depth of the tree, times the logarithm of how many queues are
// beside each other, and for queues that gave back what gaveBack says.
func (c *Selection) Done(started bool, gave ...*cluster.Queue) {
	c.follow(c.in, started)
	for i, q := range gave {
		if !slices.Contains(gave[:i], q) {
			//mutate: order-victims-give-back
			c.gaveBack(q)
		}
	}
}

// follow works the entry out as of now and all above it, up to the root. Others that a change of their queues concerns
// are those below the queues above: lead looks at them. nil: there is none, and nothing follows.
func (c *Selection) follow(s *queueEntry, changed bool) {
	for ; s != nil; s = s.parent {
		if changed {
			c.measure(s)
		}
		c.lead(s)
		if s.parent != nil {
			c.sift(s.parent.below, s.place)
		}
	}
}

// gaveBack is for a queue that gave something back. It stands better than before, and so do those above it. Where one of
// these has some of its quota or share left now, others below it may come to be owed a place, also behind heads where
// nobody was before (hidden). What lies below the highest such queue is worked out anew, and costs what it did when the
// cycle began. Mostly none has, since a queue is asked for no more than it has beyond its quota.
func (c *Selection) gaveBack(q *cluster.Queue) {
	var entry, whole *queueEntry
	for up := q; up != nil; up = up.Parent {
		s := c.entries[up]
		if entry == nil {
			entry = s // no workload waits in the queues below it
		}
		if s != nil && c.hasLeft(up) {
			whole = s
		}
	}
	if whole != nil {
		c.settle(whole)
	}
	c.follow(entry, true)
}

// hasLeft says whether the queue has less of something than its quota or its share.
func (c *Selection) hasLeft(q *cluster.Queue) bool {
	f := &c.l.m.Tree
	return slices.ContainsFunc(f.PromisedDims, func(dim int) bool { return q.Committed(dim) < q.Quota.At(dim) }) ||
		c.policy == api.TimeShare && slices.ContainsFunc(f.Shared, func(dim int) bool { return q.Committed(dim) < q.Fair.At(dim) })
}

// sift puts the i-th of the heap where it belongs, given that all others are in order. Most go far
// down: so it first goes down as if it came last, and from there up.
func (c *Selection) sift(heap []*queueEntry, i int) {
	// A queue that has just been served is mostly far from its next turn. Going down without comparing x at each level costs half
	// the comparisons, and the few steps back up are rare.
	// top is the highest place that x may come to: the first, if it goes before its parent, and
	// else its own, since it goes before none above it.
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
