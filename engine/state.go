package engine

import (
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/audit"
	"github.com/berth-dev/berth/engine/internal/calendar"
	"github.com/berth-dev/berth/engine/internal/census"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/emptied"
	"github.com/berth-dev/berth/engine/internal/index"
	"github.com/berth-dev/berth/engine/internal/mix"
	"github.com/berth-dev/berth/engine/internal/order"
	"github.com/berth-dev/berth/engine/internal/place"
	"github.com/berth-dev/berth/engine/internal/preempt"
	"github.com/berth-dev/berth/engine/internal/queue"
)

// State is the cluster as the engine knows it, with everything derived from it kept up to date. The zero
// value is of no use; Load makes one.
type State struct {
	m          *cluster.Model
	ix         *index.Index
	placer     *place.Placer
	ledger     *queue.Ledger
	line       *order.Line         // the workloads that wait
	candidates *preempt.Candidates // the workloads that may be evicted

	last   api.Plan
	lastAt uint64             // edits when last was made, plus one
	lastOf uint64             // the latest version that was told when last was made
	times  *calendar.Calendar // of last
	round  audit.Round

	mixes mix.Settled // of requests

	emptied *emptied.Cluster // nil: not asked for yet
	empty   *State           // of emptied
}

// Load makes a State of the snapshot. What makes no sense in it is in Rejected.
func Load(snap api.Snapshot, cfg api.Config) *State {
	cfg, problems := cfg.Normal()
	s := newState(cluster.NewModel(cfg))
	s.m.Latest = snap.Latest
	for _, p := range problems {
		s.m.Reject(p.Ref, p.Reason)
	}
	s.m.LoadAll(&snap)
	s.m.SettledAt = snap.Settled
	return s
}

func newState(m *cluster.Model) *State {
	ix := index.New(m)
	s := &State{m: m, ix: ix, placer: place.New(m, ix), ledger: queue.NewLedger(m), line: order.NewLine(m)}
	s.candidates = preempt.New(m, ix, s.placer)
	return s
}

// Apply takes changes in, in any order: of two versions of an object the newer stays, and what was known
// already is passed over. It returns the changes that make no sense, by name.
func (s *State) Apply(changes ...api.Change) []api.Rejected {
	var bad []api.Rejected
	for i := range changes {
		if r := s.m.Apply(&changes[i]); r.Reason != "" {
			bad = append(bad, r)
		}
		if s.emptied != nil {
			s.emptied.Follow(&changes[i])
		}
	}
	return bad
}

// freshen brings what is derived up to date with what was told.
func (s *State) freshen() {
	s.follow()
	s.ix.Price(s.mixes.Of(s.m))
}

// follow is freshen but for the prices of placements, which decide where something fits best and not whether it does.
func (s *State) follow() {
	changed := s.m.Freshen()
	s.ix.Refresh()
	s.line.Follow(changed)
}

// Rejected lists the objects that are known and have no effect, or not all of it, sorted.
func (s *State) Rejected() []api.Rejected { return s.m.Rejected() }

// Warnings lists queues that work and yet promise what they may not be able to keep, by name.
func (s *State) Warnings() []api.Rejected { return s.m.Warnings() }

// Dump returns everything the state knows, in canonical order. Load makes the same state of it.
func (s *State) Dump() api.Snapshot { return s.m.Dump() }

// Audit counts the accounts of some of the state anew and returns where they are not what is kept. There is one place
// for the cluster, one for each queue and one for each node, by name; at most so many of them are looked at, from the given
// position on, and next is where to go on; a round begins at 0. The cluster's place costs a look at every node and pod, the
// others what is in them.
func (s *State) Audit(from, most int) (found []api.Discrepancy, next int) {
	s.freshen()
	all := audit.Accounts{Model: s.m, Index: s.ix, Line: s.line, Candidates: s.candidates}
	if s.lastAt == s.m.Edits+1 {
		all.Times = s.times
	}
	return s.round.Look(all, from, most)
}

// Report counts GPUs and finds the largest jobs that could start, over nodes that are not cordoned.
func (s *State) Report() Report { return census.Count(s.m) }

// QueueUses lists the queues that exist: each, then those below it, siblings by name. Then, by name, those that do not
// exist and yet are charged or named.
func (s *State) QueueUses() []QueueUse {
	s.freshen()
	return census.QueueUses(s.m)
}

// Tallies counts the workloads of the namespace, or of all for "", by key. Other schedulers' pods are none. It
// looks at every pod.
func (s *State) Tallies(namespace string) []Tally {
	s.freshen()
	return census.Tallies(s.m, namespace)
}

// Charged lists the workloads that have the resource at the queue's expense: most first, then by key.
func (s *State) Charged(queue, resource string) []Held { return census.Charged(s.m, queue, resource) }

// DegradedSince is since when the gang of the key has been running under its minimum; zero: it does not.
func (s *State) DegradedSince(key string) time.Time {
	if l := s.m.Degradations[key]; l != nil {
		return l.Since.UTC()
	}
	return time.Time{}
}

// Config is the policy of the state, with defaults filled in and without what makes no sense.
func (s *State) Config() api.Config { return s.m.Config }

// Schedule is Load and Plan: the answer for a snapshot that is looked at once.
func Schedule(snap api.Snapshot, now time.Time, cfg api.Config) api.Plan {
	return Load(snap, cfg).Plan(now)
}
