package preempt

import (
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/index"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// Memos of failed claims. Thousands of pending gangs ask alike, and most of them fail alike, so a failure is noted
// for all that ask the same.
//
// There are two memos. helpless says that no eviction helps claims of a kind; it is written where sums show that
// (bound.go) and after an attempt that found nothing. alone says that no workload may be evicted for claims of a queue and
// priority; it is written, and read, before any search.
//
// For example, 500 pods of 8 GPUs wait in a queue that exceeds its quota, with no lower priorities running in it. The
// first one lists its candidates, finds none and writes alone; each of the others costs a lookup and a comparison for
// each resource.
//
// Whether a claim fails follows from what is free, who runs where, and what queues hold. All of that is in the model,
// so both memos hold for one state of it (Model.Standing): until something starts, is evicted, or has another place
// held. Rights that are the gang's alone, by its promise or by a place that is held for it, are not in the memos, and a
// gang that has one reads neither (special). A rollback brings the earlier state back, with its number, and the memos of
// that state have been dropped by then: that costs a second attempt and is never wrong.

// failures is the claims that have failed in one state of the model.
type failures struct {
	// at is the state, as Model.Standing numbers it. In another state all the rest is void.
	at uint64
	// helpless is the claims that no eviction helps, with the shortest stay of those that asked.
	helpless map[claimKind]cluster.Stay
	// alone is what the last claim asked for that found no candidate, by queue and priority, as accounts count it.
	alone map[victimPool]quantity.Vector
	// shares is, of the helpless, those whose queues would have more than their fair share with them.
	shares map[claimKind]OverShare
}

// OverShare is a queue that would have more than its fair share with the claimant. With is what it would hold of the
// dimension, Fair its share of it, both as accounts count them.
type OverShare struct {
	Queue      *cluster.Queue
	Dim        int
	With, Fair int64
}

// OverShare says whether victims were found for the gang and spared, in this cycle, because one of its queues would
// then have more than its fair share.
func (y *Cycle) OverShare(g *cluster.Gang) (OverShare, bool) {
	over, ok := y.over[g]
	return over, ok
}

// noteShare notes whose fair share the claim, which has failed, would have exceeded: for the gang and for all of its
// kind.
func (y *Cycle) noteShare(k claimKind, c *claim) {
	if c.over.Queue == nil {
		return
	}
	if y.over == nil {
		y.over = make(map[*cluster.Gang]OverShare)
	}
	y.over[c.g] = c.over
	if f := y.failuresNow(); k.plain() {
		if f.shares == nil {
			f.shares = make(map[claimKind]OverShare)
		}
		f.shares[k] = c.over
	}
}

// noteSameShare gives the gang what was noted of another claim of its kind, so that both are told the same reason.
func (y *Cycle) noteSameShare(k claimKind, g *cluster.Gang) {
	if over, ok := y.failuresNow().shares[k]; ok {
		y.over[g] = over
	}
}

// failuresNow returns the failures in the state that the model is in, which are none where the state is another one
// than they were noted in.
func (y *Cycle) failuresNow() *failures {
	if at := y.m.Standing(); y.failures.at != at {
		y.failures = failures{at: at}
	}
	return &y.failures
}

// claimKind tells apart claims that ask the same: so many pods of a class within one domain of a level, by the rights
// of a queue, a user and a priority. Everything that a claim's outcome depends on is in it or in the state of the model, but
// for the time that the gang stays and for the promise that it may have.
type claimKind struct {
	class    index.ClassKey
	need     int
	level    int
	queue    *cluster.Queue
	priority int32
	// soft says that all of it may be evicted: its queue asks less of it then, and so do bookings.
	soft bool
	// user is whose it is, where the queue limits its users; else "".
	user string
}

// plain says that the claim's question is one that others can ask too.
func (k *claimKind) plain() bool { return k.class.Shape != nil }

// kind names the claim. It is false where no other claim can be just like it: members are unlike, or something about
// the gang is special.
func (c *claim) kind() (claimKind, bool) { return c.y.kindOf(c.g, c.t, c.q) }

// kindOf is the kind of the claim that the gang of the queue would make.
func (y *Cycle) kindOf(g *cluster.Gang, t cluster.Turn, q *cluster.Queue) (claimKind, bool) {
	p, ok := y.Question(g, t)
	k := claimKind{class: p.Class, need: p.Need, level: p.Level, queue: q, priority: t.Priority, soft: g.Evictable}
	//mutate: memo-user
	if q.Spec != nil && len(q.Spec.UserLimits) > 0 {
		k.user = g.User()
	}
	return k, ok
}

// special says whether the gang has rights that other gangs with the same request do not have: it was promised a start, and
// work that overruns it may be evicted for this gang alone; or a place is held for it, which counts in its queue already and
// which it has beside what others leave.
func (y *Cycle) special(g *cluster.Gang) bool {
	//mutate: memo-held -> y.Promised(g)
	return y.Promised(g) || y.m.HasHeld(g)
}

// isHelpless says whether a claim of the kind has failed, of a gang that stays no longer than this one. A gang that
// ends before a promised start may get what is kept from one that does not, so a longer stay can only be in the way
// of more; a shorter one has to be tried. So has a gang that is special.
func (y *Cycle) isHelpless(k claimKind, g *cluster.Gang) bool {
	//mutate: memo-promised
	if y.special(g) {
		return false
	}
	least, ok := y.failuresNow().helpless[k]
	//mutate: memo-stay
	if ok && !y.Stay(g).Covers(least) {
		return false
	}
	return ok
}

// noteHelpless notes that no eviction helps claims of the kind, of gangs that stay as long as this one or longer.
func (y *Cycle) noteHelpless(k claimKind, g *cluster.Gang) {
	if !k.plain() || y.m.HasHeld(g) {
		return
	}
	f := y.failuresNow()
	if f.helpless == nil {
		f.helpless = make(map[claimKind]cluster.Stay)
	}
	stay := y.Stay(g)
	if least, ok := f.helpless[k]; !ok || !stay.Covers(least) {
		f.helpless[k] = stay
	}
}

// victimPool is where claims look for victims. Requesting more of the same can only make fewer victims legal, because
// the claimant's queue exceeds its quota sooner.
type victimPool struct {
	queue    *cluster.Queue
	priority int32
}

// isAlone says whether a claim of the same queue and priority found no candidate that asked for the same resources and for
// no more of any. A claim that asks for other resources says nothing: it may be within quota where the first is not. It costs a
// few comparisons, and is asked first.
func (y *Cycle) isAlone(g *cluster.Gang, t cluster.Turn) bool {
	f := y.failuresNow()
	if len(f.alone) == 0 || y.special(g) {
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
	asks := y.asksFor(g, plain.Need)
	for dim := range max(len(asked), len(asks)) {
		if (asks.At(dim) > 0) != (asked.At(dim) > 0) {
			return false
		}
		if asks.At(dim) < asked.At(dim) {
			return false
		}
	}
	return true
}

// asksFor is what so many members of the gang count in queues, which are all alike.
func (y *Cycle) asksFor(g *cluster.Gang, members int) (sum quantity.Vector) {
	for _, d := range y.m.AllCounts(g.All()[0]) {
		sum.Add(d.Dim, d.Amount*int64(members))
	}
	return sum
}

// noteAlone notes that the claim found no candidate. Of a gang that is special that says nothing about others.
func (y *Cycle) noteAlone(c *claim) {
	plain, ok := y.Question(c.g, c.t)
	if !ok || y.special(c.g) {
		return
	}
	f := y.failuresNow()
	if f.alone == nil {
		f.alone = make(map[victimPool]quantity.Vector)
	}
	f.alone[victimPool{c.g.Payer, c.t.Priority}] = y.asksFor(c.g, plain.Need)
}
