package calendar

import (
	"math"
	"slices"
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/index"
	"github.com/berth-dev/berth/engine/internal/quantity"
	"github.com/berth-dev/berth/engine/why"
)

// Backfill. A reservation is room on nodes from a time on. Nothing is taken from the nodes for it while the cycle goes on:
// a gang that has found a place has it checked (Breaks), and only where that is in the way of a reservation does it look again,
// with the reserved room taken (Beside). So promises cost the many gangs that are not in their way next to nothing.
//
// The invariant: at every moment at which a promised gang is to start, its nodes have what it needs, given that what runs
// ends when it is believed to. A stay, which is a gang on its places from a time to its end, keeps the invariant if
//   - it is over when the promised gang starts (that is backfill), or
//   - on each of its nodes enough is left at that start: free room, and what has ended by then, less what all promised
//     gangs need there,
//   - with it, the queues of the promised gang stay within their limits at that start (headroom), and
//   - no required anti-affinity, of either, keeps them apart (keptApart).
//
// For example, gang a needs 8 GPUs on one node and is promised node n1 at 16:00, when the 6 GPUs that are in use there are
// free. 2 are free now. At 15:00 three pods of 2 GPUs each look for a place. The one of 30 minutes starts on n1, since it
// is over at 15:30. The one of 2 hours would be there at 16:00 with 2 of the 8 GPUs: Breaks says so, and Beside finds it
// another node or none. The one without a run time is treated like that too.
//
// Why the end of a promised gang matters: what comes after it may use its room again. And ends are only
// believed: if running work takes longer, the promise moves.

// Reservation is room that is kept from a time on: for a gang that was promised it, or by a
// booking. It is of one cycle, and is made anew from promises and bookings in the next. It is not
// changed once it is kept, but for its headroom.
//
// In the example above it is: start 16:00, needs {n1: 8 GPUs and the CPU and memory of the pods}, charges 8 GPUs to the
// queue of a and to each queue above it, after the workload on n1, and end 20:00 if a is believed to run for 4 hours.
type Reservation struct {
	gang       *cluster.Gang // nil: it is a booking
	name       string
	start, end time.Time                         // end: when it is given back; zero: unknown
	needs      map[*cluster.Node]quantity.Vector // of a booking nil for each node: it is kept whole
	pods       map[*cluster.Node][]*cluster.Pod  // of a promised gang, where there are rules between pods: who will be there
	cards      map[*cluster.Node][]cluster.Kept  // of a promised gang, where nodes give parts of GPUs
	devices    map[*cluster.Node][]string        // of a promised gang with claims
	charges    []charge                          // of a promised gang: what its queues are charged
	surplus    int64                             // of a promised gang: see cluster.Pod.Surplus
	headroom   []headroom
	after      string // the workload whose end it waits for last; "": none
	queue      string // of a booking: whose work may be there
}

// headroom is the most that a queue may use now for the promised gang to be within its limit when
// it starts. settleHeadroom raises it by what starts meanwhile and is over in time. Its unit is that
// of the dimension: GPUs, bytes, thousandths of a core.
type headroom struct {
	queue *cluster.Queue
	dim   int
	most  int64
}

// charge is what a queue is charged, of a resource by its number, in units of the resource.
type charge struct {
	queue  *cluster.Queue
	dim    int
	amount int64
}

// Covers says whether the node is one of the reservation's. Of a booking needs has a nil vector for each node, which is
// why the key is looked for and not the value.
func (r *Reservation) Covers(n *cluster.Node) bool { _, ok := r.needs[n]; return ok }

// holdsAt says whether the reservation has the room at the time: from its start on, and at its end
// no longer.
func (r *Reservation) holdsAt(at time.Time) bool {
	return !r.start.After(at) && (r.end.IsZero() || r.end.After(at))
}

// gate is what keeps others from the room, as a reason to wait. It names whom the room is for.
func (r *Reservation) gate() why.Gate {
	if r.gang == nil {
		return why.Gate{Cause: why.KeptByBooking, Object: r.name, Certificate: -1}
	}
	return why.Gate{Cause: why.KeptForPromise, Object: r.name, Certificate: -1}
}

// stay is a gang on places that it looks for, and when it would be there. It is the question of the
// backfill test. The same gang can have several stays: if it starts now, when victims are gone, or
// in a future.
//
// For example, at 12:00 a gang of 2 hours would stay from 12:00 to 14:00. If victims have to go first, which takes 5
// minutes, it is from 12:05 to 14:05, with a notice of 5 minutes. In the future in which it is promised 18:00, it is from
// 18:00 to 20:00.
type stay struct {
	gang        *cluster.Gang
	from, until time.Time     // until: zero: unknown
	notice      time.Duration // how long after the cycle it begins at the earliest, because victims take that long
	soft        bool          // all of it can be evicted when the place is needed
}

// stay is the gang if it started at the time. The end of work that names no run time and has no history
// is unknown. Such a stay is never over, so that it may start only where it leaves the
// promised room alone from the first moment on.
func (c *Calendar) stay(g *cluster.Gang, from time.Time) stay {
	w := stay{gang: g, from: from, soft: !slices.ContainsFunc(g.All(), (*cluster.Pod).Firm)}
	if d := c.runTime(g.Terms(), c.by); d > 0 {
		w.until = from.Add(d)
	}
	return w
}

// Stay is how the gang stays once it starts: for the longest time where that is unknown, and where nothing
// is reserved that it could be in the way of. Answers are shared by it: see cluster.Stay.
func (c *Calendar) Stay(g *cluster.Gang) cluster.Stay {
	if len(c.reservations) == 0 {
		return cluster.Stay{For: longest}
	}
	d := c.runTime(g.Terms(), c.by)
	s := cluster.Stay{For: d}
	if d == 0 {
		s.For = longest
	}
	if slices.ContainsFunc(c.reservations, func(r *Reservation) bool { return r.gang == nil && r.queue == "" }) {
		s.Open, s.Saves = d == 0, g.Terms().Checkpoint
	}
	return s
}

const longest = time.Duration(math.MaxInt64)

// stayOn is the gang if it started on the nodes as soon as it can: once those that end for it are gone.
func (c *Calendar) stayOn(g *cluster.Gang, nodes []*cluster.Node) stay {
	from, notice := c.ask.Begins(g, nodes)
	w := c.stay(g, from)
	w.notice = notice
	return w
}

// over says whether the stay has left by the time. One that ends at the very moment at which a
// promise starts is over.
func (w stay) over(by time.Time) bool { return !w.until.IsZero() && !w.until.After(by) }

// reserve lets the room be kept for the rest of the cycle. It costs the nodes of the reservation.
func (c *Calendar) reserve(r *Reservation) {
	c.reservations = append(c.reservations, r)
	if c.reserved == nil {
		c.reserved = make(map[*cluster.Node][]*Reservation)
	}
	// The list of a node is in the order in which reservations were made, and unreserve relies on that: it takes the last off.
	// The order of the nodes makes no difference, since each has a list of its own.
	for n := range r.needs {
		c.reserved[n] = append(c.reserved[n], r)
	}
}

// unreserve forgets all that is kept but the first few, in the order in which they were made. Only
// a forecast does so, between workloads.
func (c *Calendar) unreserve(first int) {
	for _, r := range c.reservations[first:] {
		for n := range r.needs {
			list := c.reserved[n]
			if c.reserved[n] = list[:len(list)-1]; len(list) == 1 {
				delete(c.reserved, n)
			}
		}
	}
	c.reservations = c.reservations[:first]
}

// keptOn is how much of what is free on the node the stay must leave, and for whom; whole says that
// it may not be there at all.
//
// What promised gangs need grows and shrinks with time: one starts, another ends, running work
// makes room. It can only grow at a start. So it is enough to look at the starts that fall into the
// stay, and at the stay's own beginning for those that have started by then; of each resource the
// most counts. Between two starts every change is an end, and each end leaves more room: a stay that is
// not in the way at the start is not in the way later.
//
// For example, a node has 8 GPUs, of which 4 are free and 4 are in use until 15:00. Gang a is
// promised 6 of them at 16:00, until 18:00, and gang b 2 at 17:00. A stay that ends by 16:00 must
// leave nothing. One that ends at 16:30 must leave what is owed at 16:00: 6, less the 4 that will
// have ended, which is 2. One that ends later must also leave what is owed at 17:00: 6 + 2 - 4 = 4, which is all that is free, so that it
// may take none.
//
//	from       now   15:00   16:00   17:00   18:00
//	a                            6       6
//	b                                    2       2
//	ended        0       4       4       4       4
//	owed         0      -4       2       4      -2    looked at: 16:00 and 17:00
//
// It costs, for each start that counts, a look at the reservations and the pods of the node. The
// vector is good until the next call.
func (c *Calendar) keptOn(n *cluster.Node, w stay) (kept quantity.Vector, cards cardNeeds, by *Reservation, whole bool) {
	kept = c.kept[:0]
	defer func() { c.kept = kept[:0] }()
	for _, r := range c.reserved[n] {
		// Its own promise does not keep a gang from a place, and one that is given back before the stay begins is over.
		if r.gang == w.gang || !r.end.IsZero() && !r.end.After(w.from) {
			continue
		}
		if r.gang == nil {
			if c.bars(r, w) {
				return nil, nil, r, true
			}
			continue
		}
		// The moment that counts for this reservation: its start, or where it has started before the stay begins, that beginning.
		at := later(r.start, w.from)
		//mutate: time-backfill
		if w.over(at) {
			continue
		}
		// All reservations of the node are added up at that moment, not this one alone: two promised gangs that overlap need
		// their room at the same time, and two that follow each other do not.
		more := c.owed(n, w.gang, at)
		for dim, amount := range more {
			// Of each resource the largest need over all moments: what is left at the worst moment is what the stay may take.
			if amount > kept.At(dim) {
				kept.Add(dim, amount-kept.At(dim))
				if by == nil {
					by = r
				}
			}
		}
		//mutate: time-backfill-cards
		if more := c.owedCards(n, w.gang, at); more.any() {
			cards = cards.atLeast(more)
			if by == nil {
				by = r
			}
		}
	}
	return kept, cards, by, false
}

// owed is what promised gangs other than g need on the node at the time, less what will have ended
// there: pods, and places that are held for work which will have come and gone. Below zero, more
// ends than is needed. g nil leaves no gang out. The vector is good until the next call.
func (c *Calendar) owed(n *cluster.Node, g *cluster.Gang, at time.Time) quantity.Vector {
	sum := c.sum[:0]
	defer func() { c.sum = sum[:0] }()
	for _, r := range c.reserved[n] {
		if r.gang != nil && r.gang != g && r.holdsAt(at) {
			for dim, amount := range r.needs[n] {
				sum.Add(dim, amount)
			}
		}
	}
	// What ends by then pays for what is owed, and counts against it. A node whose running work ends before the promised start
	// owes nothing, and may be filled until then.
	for _, p := range n.Pods {
		// The gang that is being tested has been put on its nodes already, for the test.
		if g != nil && p.In == g && p.Node == "" {
			continue // it is being placed, and is still there then
		}
		if end := c.endOf(p); !end.IsZero() && !end.After(at) {
			for _, d := range p.Demands {
				sum.Add(d.Dim, -d.Amount)
			}
		}
	}
	for _, h := range n.Held {
		if h.Gang == "" || g != nil && h.IsFor(g) {
			continue
		}
		if end := c.holdEnd(h); !end.IsZero() && !end.After(at) {
			for _, a := range h.Requests {
				sum.Add(c.m.Dims.ID(a.Resource), -a.Value)
			}
		}
	}
	return sum
}

// later is the later of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Breaks lists, as gates, the first promise or booking that the pods of the gang, which have been
// placed, would be in the way of. It is the backfill test; no gate means that the pods may start.
//
// It costs one comparison where nothing is reserved, and else a look at what is reserved on the
// nodes of the pods. Where it says no, the plan is made again when another answer is possible.
func (c *Calendar) Breaks(g *cluster.Gang, pods []*cluster.Pod) []why.Gate {
	if len(c.reservations) == 0 {
		return nil
	}
	hosts := make([]*cluster.Node, len(pods))
	for i, p := range pods {
		hosts[i] = p.Host
	}
	// Four tests: what is counted on the gang's nodes, devices of claims, limits of queues, and rules between pods. The first
	// that fails names the promise that the gang would break. The nodes matter for the stay too: if victims or leavers have
	// to go from them first, the stay begins that much later, and may be in the way of a promise that it would not meet now.
	//mutate: time-begins-when-evicted -> c.stay(g, c.now)
	w := c.stayOn(g, hosts)
	gates := c.breaksOnNodes(w, pods)
	if len(gates) == 0 {
		if r := c.takesPromised(w, pods); r != nil {
			gates = []why.Gate{r.gate()}
		}
	}
	if len(gates) == 0 {
		gates = c.overHeadroom(w, pods)
	}
	if len(gates) == 0 {
		gates = c.keptApart(w, pods)
	}
	if len(gates) == 0 {
		c.noteLate(w)
		return nil
	}
	//mutate: time-breaks-wakes
	c.wakeWhenLate(w) // from then on it may be another promise that it breaks first
	c.wakeAsItMoves(w)
	return gates
}

// breaksOnNodes is Breaks for what is kept on nodes: resources, and parts of GPUs. Members that
// share a node are each held to what is left by all of them, since all are placed.
//
// For example, 4 GPUs of a node are free, and 3 must be left. Two pods of 1 GPU each are placed there, which leaves 2: the
// gang is in the way, although either pod by itself would not be.
func (c *Calendar) breaksOnNodes(w stay, pods []*cluster.Pod) []why.Gate {
	for _, p := range pods {
		kept, cards, by, whole := c.keptOn(p.Host, w)
		if whole {
			return []why.Gate{by.gate()}
		}
		for _, d := range p.Demands {
			// The pods are placed, so Free is what they leave. Only resources that the pod takes can be its fault.
			if by != nil && kept.At(d.Dim) > 0 && p.Host.Free.At(d.Dim) < kept.At(d.Dim) {
				return []why.Gate{by.gate()}
			}
		}
		if by != nil && cards.lacks(p) {
			return []why.Gate{by.gate()}
		}
	}
	return nil
}

// overHeadroom is Breaks for queues' limits: what the pods add to a queue must leave the promised
// gang within it. It is for stays that last until the promise is due; those that are over by then
// may use the whole limit until then.
//
// For example, a queue with a limit of 16 GPUs uses 12, and a gang of 10 is promised its start when
// 8 of these have ended: the queue may use 14 until then (headroomOf). Work of 2 GPUs that stays may
// start. Work of 1 GPU that is over in time may start beside it, for the limit is 16: the queue uses
// 15, settleHeadroom raises the 14 to 15, and the next that stays is refused as before.
func (c *Calendar) overHeadroom(w stay, pods []*cluster.Pod) []why.Gate {
	for _, r := range c.reservations {
		for i := range r.headroom {
			x := &r.headroom[i]
			if r.gang == w.gang || w.over(r.start) {
				continue
			}
			// The pods are charged already. A gang that adds nothing to the queue is not blamed for what the queue uses.
			if x.part(pods) > 0 && x.queue.Used.At(x.dim) > x.most {
				return []why.Gate{r.gate()}
			}
		}
	}
	return nil
}

// keptApart is Breaks for rules between pods: of the pods and those of a promised gang none must be
// apart. Only required anti-affinity counts, in both directions.
func (c *Calendar) keptApart(w stay, pods []*cluster.Pod) []why.Gate {
	if !c.m.HasRules() {
		return nil
	}
	for _, r := range c.reservations {
		if len(r.pods) == 0 || !c.meets(r, w) {
			continue
		}
		for _, p := range pods {
			//mutate: rules-promised
			if p.Stance() != nil && r.shuns(p) {
				return []why.Gate{r.gate()}
			}
		}
	}
	return nil
}

// shuns says whether anti-affinity keeps the pod, which is placed, from one that will be there.
func (r *Reservation) shuns(p *cluster.Pod) bool {
	//archtest:any-order whether there is one
	for n, pods := range r.pods {
		if slices.ContainsFunc(pods, func(q *cluster.Pod) bool { return cluster.KeepsApart(p, p.Host, q, n) }) {
			return true
		}
	}
	return false
}

// meets says whether the promised gang, which is another, is there at some time of the stay. A stay
// that is over when the gang starts does not meet it, nor one that begins when the gang has left.
// Times are half open: to end at 16:00 and to start at 16:00 is not to meet.
func (c *Calendar) meets(r *Reservation, w stay) bool {
	return r.gang != nil && r.gang != w.gang && !w.over(later(r.start, w.from)) && (r.end.IsZero() || r.end.After(w.from))
}

// part is what the pods, which are placed, take of the headroom: their charge to its queue, in its
// resource.
func (x *headroom) part(pods []*cluster.Pod) int64 {
	var sum int64
	for _, p := range pods {
		for q := p.Payer; q != nil; q = q.Parent {
			if q != x.queue {
				continue
			}
			for _, d := range p.Charge {
				if d.Dim == x.dim {
					sum += d.Amount
				}
			}
		}
	}
	return sum
}

// settleHeadroom lets work that starts and is over in time not count against the headroom: it uses
// the queue now, and gives back what it uses before the promised gang needs it. The bound goes up
// with the use, so that the difference, which is what others may take, stays.
func (c *Calendar) settleHeadroom(g *cluster.Gang, pods []*cluster.Pod) {
	// Without this every short workload would use up the headroom for good: it has left when the promise is due, and the
	// bound would still be what it was before it came.
	for _, r := range c.reservations {
		if len(r.headroom) == 0 || !c.stay(g, c.now).over(r.start) {
			continue
		}
		for i := range r.headroom {
			r.headroom[i].most += r.headroom[i].part(pods)
		}
	}
}

// Beside looks for a place for the gang with all that is reserved for others, and that it may not
// use, taken, and says whether place found one. A question, where the gang's is one that others ask
// too, is not asked again once there was none.
//
// It is for gangs that Breaks has found in the way. What is reserved is put on the nodes as holds,
// and then the gang is placed as if these were any other work. A hold keeps the most that the stay must leave at any moment, which is what keptOn says.
//
// Why the two steps: most gangs are in no promise's way, and for them the holds would be put and taken off for nothing. Each
// hold changes the number of its node, so that the classes which are asked meanwhile measure the node again
// (index/class.go). The price is a second search for the few that are in the way.
func (c *Calendar) Beside(g *cluster.Gang, asks *index.Question, place func() bool) bool {
	w := c.stayOn(g, nil)
	// The memo is only for gangs whose end is unknown: they all must leave the same room to promises, where one that ends early
	// may use more.
	shared := asks != nil && w.until.IsZero()
	var who asker
	if shared {
		//mutate: beside-who-asks -> asker{Question: *asks}
		who = asker{Question: *asks, queue: g.Queue(), soft: w.soft, saves: g.Terms().Checkpoint}
	}
	began := c.m.Moment()
	if at, asked := c.hopeless[who]; shared && asked {
		//mutate: beside-no-roomier -> true
		if c.m.NoRoomier(at) {
			return false
		}
	}
	holds := c.keepOff(w)
	if place() {
		// A place was found beside what is reserved. The holds were for the test; the reservations themselves stay, and protect
		// the room from those that come after.
		for _, h := range holds {
			c.m.IgnoreHold(h)
		}
		return true
	}
	if shared {
		if c.hopeless == nil {
			c.hopeless = make(map[asker]cluster.Moment)
		}
		c.hopeless[who] = began
	}
	c.wakeAsItMoves(w)
	return false
}

// asker is a question with what bookings ask about the gang (bars): of two pods that are alike to every node, one
// may be on a booked node because it is of the booking's queue, because it can be evicted, or because it saves its work
// in time.
type asker struct {
	index.Question
	queue string
	soft  bool
	saves time.Duration // from one checkpoint to the next; 0: never
}

// KeepOff lets what the gang must leave, if it starts now, be taken from the nodes until rolled
// back.
func (c *Calendar) KeepOff(g *cluster.Gang) { c.keepOff(c.stay(g, c.now)) }

// keepOff lets what the stay must leave be taken from the nodes, until rolled back. It returns the
// holds that it has put there, in no order.
func (c *Calendar) keepOff(w stay) []*cluster.Hold {
	var out []*cluster.Hold
	// Only nodes with reservations are touched, which are few, whatever the size of the cluster.
	//archtest:any-order a hold changes its own node alone
	for n := range c.reserved {
		kept, cards, _, whole := c.keptOn(n, w)
		// A booked node is closed by taking all that is free on it.
		if whole {
			kept = n.Free
		}
		var requests []api.Amount
		for dim, amount := range kept {
			if amount > 0 {
				requests = append(requests, api.Amount{Resource: c.m.Dims.Names[dim], Value: amount})
			}
		}
		var pods []*cluster.Pod
		for _, r := range c.reserved[n] {
			//mutate: rules-beside-promised
			if c.meets(r, w) {
				pods = append(pods, r.pods[n]...)
			}
		}
		// Most nodes owe nothing: what runs there ends before it is needed.
		parts, devices := cards.kept(), c.keptDevices(n, w)
		if len(requests)+len(parts)+len(devices)+len(pods) == 0 {
			continue
		}
		h := &cluster.Hold{Hold: &api.Hold{Node: n.Name, Requests: requests, Devices: devices}, Kept: parts}
		h.Expect(pods)
		c.m.PutHold(h, n)
		out = append(out, h)
	}
	return out
}

// chargesOf adds up what the pods, which are placed, are charged, by queue: each queue from the
// payer up, in the order in which they are first met.
func chargesOf(pods []*cluster.Pod) []charge {
	var out []charge
	for _, p := range pods {
		for q := p.Payer; q != nil; q = q.Parent {
			for _, d := range p.Charge {
				i := slices.IndexFunc(out, func(b charge) bool { return b.queue == q && b.dim == d.Dim })
				if i < 0 {
					i = len(out)
					out = append(out, charge{queue: q, dim: d.Dim})
				}
				out[i].amount += d.Amount
			}
		}
	}
	return out
}

// charge lets queues be charged, or no longer, for the promised gangs that are there at any time of
// the stay, and what they take count as taken; times is 1 or -1. The accounts are the model's own,
// and not in its journal: the caller takes the same off again, before any reservation is added.
//
// All promised gangs that meet the stay count at once, also two that follow each other. That is more than any moment of
// the stay needs, so that a promise may come later than it could, and never breaks a limit. (On nodes, where that would
// cost more, keptOn looks at each moment.)
func (c *Calendar) charge(w stay, times int64) {
	for _, r := range c.reservations {
		if r.gang == w.gang || w.over(r.start) || !r.end.IsZero() && !r.end.After(w.from) {
			continue
		}
		for _, b := range r.charges {
			b.queue.Used.Add(b.dim, times*b.amount)
		}
		//mutate: time-charge-taken
		c.takeAll(r, times)
	}
}

// takeAll lets what the promised gang needs on nodes count as taken, times over. A booking takes
// nothing that is counted.
func (c *Calendar) takeAll(r *Reservation, times int64) {
	if r.gang == nil {
		return
	}
	//archtest:any-order it only adds up
	for _, needs := range r.needs {
		for dim, amount := range needs {
			c.m.Taken.Add(dim, times*amount)
		}
	}
	c.m.Surplus += times * r.surplus
}

// A stay that is in nobody's way may be in somebody's if it begins later. Whoever has such a place and takes it need not
// know when that is. Whoever is refused it for another reason is told another one from then on, and so the plan is made
// again then. Breaks cannot know which of the two it will be: it notes the time, and the end of the turn decides.

// noteLate notes when the stay, which is in nobody's way, may first be in somebody's.
func (c *Calendar) noteLate(w stay) {
	if at := c.lateAt(w); !at.IsZero() && (c.late.IsZero() || at.Before(c.late)) {
		c.late = at
	}
}

// Takes ends the turn of a gang that starts, or that others end for: what would be late is no matter any more.
func (c *Calendar) Takes() { c.late = time.Time{} }

// Waits ends the turn of a gang that waits: it wakes when a place that the gang was refused for another reason would be
// in the way of a promise or a booking.
func (c *Calendar) Waits() {
	//mutate: time-refused-wakes
	if !c.late.IsZero() {
		c.draft.Wake(c.late)
	}
	c.late = time.Time{}
}

// wakeWhenLate wakes when the stay, if it begins later, may first be in the way of something that it is not in the way
// of as it is.
func (c *Calendar) wakeWhenLate(w stay) {
	if at := c.lateAt(w); !at.IsZero() {
		c.draft.Wake(at)
	}
}

// lateAt is that time; zero: the stay may begin at any time. For example, a stay of 2 hours is over before a promise
// at 18:00 if it begins by 16:00. With victims that take 5 minutes to leave, the plan is made again
// just after 15:55.
//
// Why wake at all: a plan says when its answer may change without any event (WakeAt), and this is such a moment. A stay
// that ends when the promise starts is over, so that the first moment that is too late is a nanosecond later: the + 1.
func (c *Calendar) lateAt(w stay) (at time.Time) {
	// The stay may begin at the time, and no later.
	latest := func(begin time.Time) {
		if late := begin.Add(1 - w.notice); at.IsZero() || late.Before(at) {
			at = late
		}
	}
	for _, r := range c.reservations {
		switch {
		case r.gang == w.gang:
		case w.over(r.start):
			latest(r.start.Add(w.from.Sub(w.until)))
		case r.gang == nil && r.start.After(w.from): // see bars
			before := []time.Duration{1, w.gang.Terms().Checkpoint}
			if w.until.IsZero() {
				before = append(before, unsaid)
			}
			for _, d := range before {
				if begin := r.start.Add(-d); d > 0 && !begin.Before(w.from) {
					latest(begin)
				}
			}
		}
	}
	return at
}

// wakeAsItMoves wakes when the stay, which others have to be evicted for, would begin after one
// more end of what it is in the way of: of a promised gang or a booking, or of what runs where a
// promised gang will be. Such a stay begins later with every moment that passes, and so an end that
// is after its beginning now is before it soon. Without a notice these ends are yet to come, and
// others wake for them.
//
// For example, victims take 5 minutes to leave, and a promised gang ends at 17:00. At 16:50 the stay would begin at 16:55,
// when the gang is still there. At 16:55 it would begin at 17:00, and not meet it any more. No work ends at 16:55, so that
// nothing else would wake the plan then.
func (c *Calendar) wakeAsItMoves(w stay) {
	if w.notice == 0 {
		return
	}
	wake := func(end, after time.Time) {
		if end.After(after) {
			//mutate: time-notice-wakes
			c.draft.Wake(end.Add(-w.notice))
		}
	}
	for _, r := range c.reservations {
		if r.gang == w.gang {
			continue
		}
		wake(r.end, w.from)
		if r.gang == nil {
			continue // a booking keeps its nodes whole, whatever ends there
		}
		after := later(r.start, w.from)
		//archtest:any-order the earliest counts
		for n := range r.needs {
			for _, p := range n.Pods {
				wake(c.endOf(p), after)
			}
			for _, h := range n.Held {
				if h.Gang != "" {
					wake(c.holdEnd(h), after)
				}
			}
		}
	}
}
