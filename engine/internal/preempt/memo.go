package preempt

import (
	"time"

	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/index"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// Memos of failed claims. Thousands of pending gangs ask alike, and most of them fail alike, so that a failure is noted for
// all that ask the same.
//
// Whether a claim fails follows from what is free, who runs where, and what queues hold. All of it is the model's, so both
// memos hold for one state of it (Model.Standing): until something starts, is evicted, or has another place held.

// failures is the claims that have failed in a state of the model.
type failures struct {
	at       uint64                         // Model.Standing
	helpless map[claimKind]time.Duration    // claims that no eviction helps: the shortest stay of those that asked
	alone    map[victimPool]quantity.Vector // the last that was asked for where nobody may be evicted
	shares   map[claimKind]OverShare        // of the helpless, those whose queues would have more than their share
}

// OverShare is a queue that would have more than its fair share with the claimant.
type OverShare struct {
	Queue      *cluster.Queue
	Dim        int
	With, Fair int64
}

// OverShare says whether victims were found for the gang and spared, in this cycle, because a queue of its would then have more than
// its fair share.
func (y *Cycle) OverShare(g *cluster.Gang) (OverShare, bool) {
	over, ok := y.over[g]
	return over, ok
}

// noteShare notes whose fair share the claim, which has failed, would have exceeded, for all of its kind.
func (y *Cycle) noteShare(k claimKind, c *claim) {
	if c.over.Queue == nil {
		return
	}
	if y.over == nil {
		y.over = make(map[*cluster.Gang]OverShare)
	}
	y.over[c.g] = c.over
	if f := y.failuresNow(); k.class != nil {
		if f.shares == nil {
			f.shares = make(map[claimKind]OverShare)
		}
		f.shares[k] = c.over
	}
}

// noteSameShare notes for the gang what was noted of others of its kind.
func (y *Cycle) noteSameShare(k claimKind, g *cluster.Gang) {
	if over, ok := y.failuresNow().shares[k]; ok {
		y.over[g] = over
	}
}

// failuresNow returns the failures in the state that the model is in.
func (y *Cycle) failuresNow() *failures {
	if at := y.m.Standing(); y.failures.at != at {
		y.failures = failures{at: at}
	}
	return &y.failures
}

// claimKind tells apart claims that ask the same: so many pods of a class within one domain of a level, by the rights of a
// queue and a priority.
type claimKind struct {
	class    *index.Class
	need     int
	level    int
	queue    *cluster.Queue
	priority int32
	soft     bool // all of it may be evicted: its queue asks less of it, and so do bookings
}

// kind names the claim, if others can be just like it.
func (c *claim) kind() (claimKind, bool) {
	p, ok := c.y.Question(c.g, c.t)
	return claimKind{class: p.Class, need: p.Need, level: p.Level, queue: c.q, priority: c.t.Priority, soft: c.g.Evictable}, ok
}

// isHelpless says whether a claim of the kind has failed, of a gang that stays no longer. Who is over before a promised start may
// get what is kept from those who are not: a longer stay can only be in the way of more.
func (y *Cycle) isHelpless(k claimKind, g *cluster.Gang) bool {
	least, ok := y.failuresNow().helpless[k]
	//mutate: memo-stay
	if ok && y.Stay(g) < least {
		return false
	}
	return ok
}

// noteHelpless notes that no eviction helps claims of the kind, of gangs that stay as long as this one.
func (y *Cycle) noteHelpless(k claimKind, g *cluster.Gang) {
	if k.class == nil {
		return
	}
	f := y.failuresNow()
	if f.helpless == nil {
		f.helpless = make(map[claimKind]time.Duration)
	}
	stay := y.Stay(g)
	if least, ok := f.helpless[k]; !ok || stay < least {
		f.helpless[k] = stay
	}
}

// victimPool is where claims look for victims. Requesting more can only make fewer victims legal, because the claimant's queue
// exceeds its quota sooner.
type victimPool struct {
	queue    *cluster.Queue
	priority int32
}

// isAlone says whether a claim of the same queue and priority that asked for no more found nobody to evict.
func (y *Cycle) isAlone(g *cluster.Gang, t cluster.Turn) bool {
	f := y.failuresNow()
	if len(f.alone) == 0 || y.Promised(g) {
		return false
	}
	plain, ok := y.Question(g, t)
	if !ok {
		return false
	}
	asked, ok := f.alone[victimPool{g.Payer, t.Priority}]
	if !ok {
		return false
	}
	for _, d := range y.m.AllCounts(g.All()[0]) {
		if least := asked.At(d.Dim); least == 0 || d.Amount*int64(plain.Need) < least {
			return false
		}
	}
	return true
}

// noteAlone notes that the claim found nobody to evict. A gang that was promised a start may evict others by that right, and
// says nothing about those that were not.
func (y *Cycle) noteAlone(c *claim) {
	plain, ok := y.Question(c.g, c.t)
	if !ok || y.Promised(c.g) {
		return
	}
	f := y.failuresNow()
	if f.alone == nil {
		f.alone = make(map[victimPool]quantity.Vector)
	}
	var asked quantity.Vector
	for _, d := range y.m.AllCounts(c.g.All()[0]) {
		asked.Add(d.Dim, d.Amount*int64(plain.Need))
	}
	f.alone[victimPool{c.g.Payer, c.t.Priority}] = asked
}
