package calendar

import (
	"slices"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/why"
)

// Heads of queues. Under policy strict, and in a queue that is strict, nothing of the queue starts after one of its workloads that is
// blocked. Under the other
// policies small work of its own queue could pass a large gang for ever. So once a workload has waited for Config.Overtake,
// and is the first of its queue to have done so, it is promised a start wherever it is in line. Where it is unknown when a
// place becomes free, or many have been promised one, nothing starts that comes after it in its queue, as under policy
// strict for all. That is for what could start once all is over that ends by itself; anything else would shut its queue for
// good.

// heads is the workloads that are blocked so far in the cycle. It is filled as gangs have their turns, and so has those
// before the gang whose turn it is.
type heads struct {
	blocked int             // gangs that promises can help
	elders  int             // of those, that were old enough to be promised a start
	of      map[string]Head // by queue
}

// mostElders bounds how many workloads of a cycle are promised a start for their age: each costs
// what all before it keep. Queues of those beyond it are shut.
const mostElders = 16

// Head is the first workload of its queue that is blocked and, where it may be passed, has waited
// for too long. Key is of the workload.
type Head struct {
	Key  string
	rank int32
	shut bool // those after it wait behind it, but for those above its rank; in a strict queue, and under policy fifo, all do
}

// Behind says, as a gate, which blocked gang of its queue the gang of the rank waits behind; nil:
// none. A gang that has a place held for it does not wait: work was evicted for it, which may be the
// head now. One that was promised a start does not wait for a gang that is only older.
func (c *Calendar) Behind(g *cluster.Gang, rank int32) []why.Gate {
	if len(c.heads.of) == 0 {
		return nil
	}
	h, ok := c.heads.of[g.Queue()]
	if !ok || !h.shut || h.Key == g.Key {
		return nil
	}
	//mutate: strict-held-passes
	if c.m.HasHeld(g) {
		return nil
	}
	//mutate: age-of-its-rank
	if !c.Strict(g.Queue()) && (rank > h.rank && c.m.Config.Policy != api.FIFO || c.Standing(g) != nil) {
		return nil
	}
	return []why.Gate{{Cause: why.BehindTheHead, Object: h.Key, Certificate: -1}}
}

// Blocked counts a gang that waits for running work to end and is promised nothing, as one before those after it.
func (c *Calendar) Blocked() { c.heads.blocked++ }

// PastHeads says whether no more promises are given to those that have none.
func (c *Calendar) PastHeads() bool {
	return c.m.Config.Heads >= 0 && c.heads.blocked >= c.m.Config.Heads
}

// Strict says whether no workload of the queue may be passed.
func (c *Calendar) Strict(queue string) bool {
	return c.m.Config.Policy == api.Strict || c.strictQueue(queue)
}

func (c *Calendar) strictQueue(queue string) bool {
	if !c.m.Tree.Strict {
		return false
	}
	q := c.m.Queues[queue]
	return q != nil && q.Spec != nil && q.Spec.Strict
}

// holdsUp says whether a workload of a strict queue that waits at the gates holds those after it up. Under policy
// strict it does while it waits for running work to end. In a strict queue it does also where its queues have no quota for it and never
// will: a strict queue asks for its order above all, and the cause names the workload in the way. A workload that fits no node
// of the cluster holds none up.
func (c *Calendar) holdsUp(queue string, gates []why.Gate) bool {
	//mutate: strict-holds-up -> Passing(gates)
	return Passing(gates) || c.strictQueue(queue) && slices.ContainsFunc(gates, func(g why.Gate) bool { return ofQuota(g.Cause) })
}

// Shut notes, for a strict queue, that nothing of the gang's queue starts after it in this cycle.
func (c *Calendar) Shut(g *cluster.Gang, rank int32, gates []why.Gate) {
	if _, ok := c.heads.of[g.Queue()]; !ok && c.Strict(g.Queue()) && c.holdsUp(g.Queue(), gates) {
		c.Lead(g, rank, true)
	}
}

// reopen lets those after the gang have their turn, which was the head of its queue and has started.
func (c *Calendar) reopen(g *cluster.Gang) {
	if h, ok := c.heads.of[g.Queue()]; ok && h.Key == g.Key {
		delete(c.heads.of, g.Queue())
	}
}

// Eldest says whether the gang, which is blocked by the gates, is the first of its queue that has waited for as long as
// it may be passed, and notes that; must says that it is promised a start for that. able is whether it could start at all. It
// makes no difference to who is among the first in line: what could start by then has.
//
// A gang that is not old enough yet can become the head of its queue once it is, in place of a later one, which then no longer
// blocks the queue. That includes a gang that was promised a start before. So the plan wakes when such a gang comes of age.
func (c *Calendar) Eldest(g *cluster.Gang, t cluster.Turn, rank int32, gates []why.Gate, able func() bool) (eldest, must bool) {
	if !Passing(gates) || !c.open(g.Queue(), rank) {
		return false, false
	}
	if !c.Aged(t) {
		c.WakeOpen(g.Queue(), t, rank)
		return false, false
	}
	//mutate: age-able
	if !able() {
		return false, false
	}
	c.Lead(g, rank, false)
	c.heads.elders++
	return true, c.heads.elders <= mostElders
}

// open says whether a workload of the rank may become the head of the queue.
func (c *Calendar) open(queue string, rank int32) bool {
	return !c.Strict(queue) && !c.Led(queue, rank)
}

// WakeOpen has the next cycle be due when the workload of the turn comes of age, if that makes it the head of its queue. Each
// gang that waits and may be passed asks for it, whether or not its answer was repeated: WakeAt does not depend on that.
func (c *Calendar) WakeOpen(queue string, t cluster.Turn, rank int32) {
	//mutate: age-wakes
	if c.open(queue, rank) {
		c.WakeAged(t)
	}
}

// Led says whether a workload of the queue that goes before the rank is known to have waited for as
// long as it may be passed. It is the head already, and a queue has one.
func (c *Calendar) Led(queue string, rank int32) bool {
	h, ok := c.heads.of[queue]
	return ok && (h.rank >= rank || c.m.Config.Policy == api.FIFO)
}

// Aged says whether the workload of the turn has waited for as long as it may be passed.
func (c *Calendar) Aged(t cluster.Turn) bool {
	return c.m.Config.Overtake > 0 && !t.Created.IsZero() && !c.now.Before(t.Created.Add(c.m.Config.Overtake))
}

// WakeAged has the next cycle be due when the workload of the turn will have waited for so long.
func (c *Calendar) WakeAged(t cluster.Turn) {
	if c.m.Config.Overtake > 0 && !t.Created.IsZero() && !c.Aged(t) {
		c.draft.Wake(t.Created.Add(c.m.Config.Overtake))
	}
}

// Lead lets the gang be the head of its queue, in place of another that was. With shut, those after
// it wait behind it.
func (c *Calendar) Lead(g *cluster.Gang, rank int32, shut bool) {
	if c.heads.of == nil {
		c.heads.of = make(map[string]Head)
	}
	c.heads.of[g.Queue()] = Head{Key: g.Key, rank: rank, shut: shut}
}
