package order

import (
	"slices"

	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/index"
)

// Those that wait in a queue stand in the same order from cycle to cycle, and most of them are told the same as the one
// before them. So the orders of queues are kept between cycles, and an answer is kept for the rest of a cycle (answer.go): a
// long line costs little more than saying of each workload in it why it waits.

// queueOrder is the gangs in line of one queue, or of one user of it where users are treated
// fairly, in the order of the line. It is never empty while it is kept.
type queueOrder struct {
	orderKey
	line []Queued
}

// orderKey tells queue orders apart.
type orderKey struct {
	queue *cluster.Queue // nil: of workloads without a queue
	user  string
}

// Ask is what tells gangs of a queue order apart whose answer is the same: how many pods of which
// class, in a domain of which level, and what may be done for them. For example, 500 pods of one
// training image, each a workload by itself, wait in one queue: they are one Ask, and one of them
// is looked at in each cycle. Without a class nothing is known of the gang, or it is a special one,
// and it shares no answer.
type Ask struct {
	class       *index.Class
	need, level int32
	// soft says that the gang may be evicted whole. It decides what its queues let it have.
	soft    bool
	patient bool // it never has others evicted
}

// orderKeyOf returns the key of the queue order that the gang is in, which is that of the queue it is charged to now.
func orderKeyOf(g *cluster.Gang) orderKey {
	key := orderKey{queue: g.Payer}
	if q := g.Payer; q != nil && q.Spec != nil && q.Spec.FairUsers {
		key.user = g.User()
	}
	return key
}

// queueOrders is what is kept of the line between cycles. It may be thrown away at any time, and is
// then made anew from the line.
type queueOrders struct {
	made  bool // byKey is what the line says
	byKey map[orderKey]*queueOrder
	// edits is how many changes were made one by one since then.
	edits int
	of    uint64 // Tree.Version of the queues that they are of
}

// makeOrders makes the queue orders of the line, unless they are kept. It walks once over the line.
// Since that is in order, each queue order is in order without being sorted.
func (l *Line) makeOrders() {
	if l.orders.made && l.orders.of == l.m.Tree.Version {
		return
	}
	l.orders = queueOrders{made: true, of: l.m.Tree.Version, byKey: make(map[orderKey]*queueOrder)}
	// Neighbours in line are mostly of one queue.
	var last *queueOrder
	for _, g := range l.gangs {
		if key := orderKeyOf(g); last == nil || last.orderKey != key {
			last = l.orderAt(key)
		}
		e := l.Entry(g)
		last.line = append(last.line, e.queuedAs(g, e.Turn))
		e.order = last
	}
}

// ordersKept says whether there are queue orders of the queues as they are.
func (l *Line) ordersKept() bool { return l.orders.made && l.orders.of == l.m.Tree.Version }

// orderAt returns the queue order of the key, making it if there is none.
func (l *Line) orderAt(key orderKey) *queueOrder {
	o := l.orders.byKey[key]
	if o == nil {
		o = &queueOrder{orderKey: key}
		l.orders.byKey[key] = o
	}
	return o
}

// queuedAs is the gang in line, with the turn. Its rank is its priority until a cycle promotes it.
func (e *Entry) queuedAs(g *cluster.Gang, t cluster.Turn) Queued {
	return Queued{Turn: t, Gang: g, Rank: t.Priority, ask: e.ask, special: e.special}
}

// edited notes one more change of the queue orders, and says whether they are still worth keeping.
// A change moves what is behind it in its order, and making all anew costs one walk over the line:
// beyond a 32nd of the line the walk is cheaper.
func (l *Line) edited() bool {
	// The new ones are made when a cycle next asks for them.
	if l.orders.edits++; l.orders.edits > 64+len(l.gangs)/32 {
		l.orders = queueOrders{}
	}
	return l.orders.made
}

// enterOrder puts the gang, which is in line at its turn, in its queue order, or notes there that
// it has changed. A gang whose turn has changed has left its order before (remove), so that one
// that is still in an order is there at this turn.
func (l *Line) enterOrder(g *cluster.Gang) {
	key, e := orderKeyOf(g), l.Entry(g)
	//mutate: index-order-of-another-queue
	if e.order != nil && e.order.orderKey != key {
		l.leaveOrder(g) // which may have been the change too many, and the end of the orders
	}
	if !l.ordersKept() || !l.edited() {
		return
	}
	if e.order != nil {
		i, _ := e.order.find(e.Turn)
		//mutate: index-order-of-changed
		e.order.line[i] = e.queuedAs(g, e.Turn)
		return
	}
	e.order = l.orderAt(key)
	i, _ := e.order.find(e.Turn)
	e.order.line = slices.Insert(e.order.line, i, e.queuedAs(g, e.Turn))
}

// leaveOrder takes the gang, which is in line at its turn, out of its queue order.
func (l *Line) leaveOrder(g *cluster.Gang) {
	// e.order is cleared also where the orders are not kept any more, since new ones will not know
	// of it.
	e := l.Entry(g)
	o := e.order
	e.order = nil
	if !l.ordersKept() || o == nil || !l.edited() {
		return
	}
	i, _ := o.find(e.Turn)
	o.line = slices.Delete(o.line, i, i+1)
	if len(o.line) == 0 {
		delete(l.orders.byKey, o.orderKey)
	}
}

// find returns where the gang with the turn is in the queue order, or belongs, and which of the two
// it is.
func (o *queueOrder) find(t cluster.Turn) (int, bool) {
	return slices.BinarySearchFunc(o.line, t, func(q Queued, t cluster.Turn) int { return q.Turn.Compare(t) })
}

// setApart lets the workload of the key, a gang or a pod by itself, have an answer of its own in
// this cycle. A key that nothing in the model has is ignored.
func (l *Line) setApart(key string) {
	if g := l.m.Gangs[key]; g != nil {
		l.SetApart(g)
	}
	if p := l.m.Pods[key]; p != nil && p.In != nil {
		l.SetApart(p.In)
	}
}

// SetApart lets the gang have an answer of its own in this cycle. The kept order has a copy of the
// mark, and is told, too.
func (l *Line) SetApart(g *cluster.Gang) {
	e := l.Entry(g)
	e.special = l.cycles
	if !l.ordersKept() || e.order == nil {
		return
	}
	if i, found := e.order.find(e.Turn); found {
		e.order.line[i].special = l.cycles
	}
}
