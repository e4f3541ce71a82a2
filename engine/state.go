package engine

import (
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/quantity"
	"github.com/berth-dev/berth/engine/why"
)

// State is the cluster as the engine knows it, with everything derived from it kept up to date. The zero
// value is of no use; Load makes one.
type State struct {
	cfg      api.Config
	dims     *quantity.Dims
	workload []expectation // of cfg

	// What was told, by key. A rejected object is here too, with no effect.
	nodes       map[string]*node
	pods        map[string]*pod
	gangs       map[string]*gang
	queues      map[string]*queue
	assumptions map[string]*api.Assumption
	refusals    map[string]*api.Refusal
	holds       map[string]*hold
	holdsOf     map[string][]*hold // by gang
	disruptions map[string]*api.Disruption
	bookings    map[string]*api.Booking
	evictions   map[string]*api.Eviction
	promises    map[string]*api.Promise
	spendings   map[string]*api.Spending
	lessons     map[string]*api.Lesson
	lapses      map[string]*api.Lapse
	gone        map[api.Ref]uint64 // version by kind and key
	settled     uint64
	latest      uint64
	rejected    map[api.Ref]string // reason by kind and key
	claims      map[string][]*node

	refusedOf map[string][]*api.Refusal // by pod key
	deadlines deadlines                 // of assumptions
	unused    map[string]bool           // assumptions that no pod sits by

	// What follows from it.
	topology  topology
	kinds     map[string]*nodeKind
	kindsMade uint64              // goes up when kinds are made anew
	profiles  map[string]*profile // of kinds, by what they tell
	presence  presence
	asked     []string // label keys that pods ask about and nodes have, sorted; node kinds differ by their values
	shapes    shapes
	classes   classes
	log       touchLog
	pulses    []pulse        // by node.index
	vacant    []int32        // indices of pulses that no node has
	line      []*gang        // gangs with members to place, in the order of a cycle
	loose     int            // of line, how many at its end are not in order yet
	stale     []*gang        // gangs whose tally or place in line may have changed
	lanes     lanes          // the line, by queue
	cycles    uint64         // made so far
	short     map[*gang]bool // gangs that run under their minimum with no member to place
	journal   []entry
	stamp     uint64 // of the last entry of the journal, ever
	requests  requestCache
	wholes    int             // gangs that want whole nodes
	forest    forest          // of queues
	ends      int             // booked pods of which something says when they end
	nobody    queue           // the account of workloads without a queue
	capacity  quantity.Vector // what all nodes have together
	taken     quantity.Vector // what all pods with seats take
	surplus   int64           // by how much the GPUs among it count for more than their number
	tracts    []tract         // by node.index
	trying    bool            // a trial is on that will be rolled back before tenants are looked at
	hunts     uint64          // claims made so far
	passes    uint64          // surveys made so far
	editions  uint64          // of rosters
	bounded   map[*pod]bool   // seated pods whose workloads have a longest run time

	changed bool // since last was made
	last    api.Plan
	places  []auditPlace // of the audit's round

	empty  *State // see emptied; nil: not asked for yet
	echoes uint64 // changes that it was told
}

// Load makes a State of the snapshot. What makes no sense in it is in Rejected.
func Load(snap api.Snapshot, cfg api.Config) *State {
	cfg, problems := cfg.Normal()
	s := &State{
		cfg: cfg, dims: quantity.NewDims(cfg.GPU),
		nodes: make(map[string]*node, len(snap.Nodes)), pods: make(map[string]*pod, len(snap.Pods)),
		gangs: make(map[string]*gang, len(snap.Gangs)), queues: make(map[string]*queue, len(snap.Queues)),
		assumptions: make(map[string]*api.Assumption), refusals: make(map[string]*api.Refusal), holds: make(map[string]*hold), holdsOf: make(map[string][]*hold),
		disruptions: make(map[string]*api.Disruption), bookings: make(map[string]*api.Booking), evictions: make(map[string]*api.Eviction),
		promises: make(map[string]*api.Promise), spendings: make(map[string]*api.Spending), lessons: make(map[string]*api.Lesson), lapses: make(map[string]*api.Lapse),
		gone: make(map[api.Ref]uint64, len(snap.Gone)), latest: snap.Latest,
		rejected: make(map[api.Ref]string), claims: make(map[string][]*node), refusedOf: make(map[string][]*api.Refusal),
		unused: make(map[string]bool), short: make(map[*gang]bool),
		kinds: make(map[string]*nodeKind), profiles: make(map[string]*profile), changed: true, forest: forest{modelled: len(cfg.Rates) > 0},
	}
	s.workload = expect(s.dims, cfg.Workload)
	s.topology.init(cfg.Levels)
	for _, p := range problems {
		s.reject(p.Ref, p.Reason)
	}
	s.loadAll(&snap)
	s.settled = snap.Settled
	return s
}

// loadAll applies the snapshot's objects, nodes first: then no pod has to wait for its node.
func (s *State) loadAll(snap *api.Snapshot) {
	for _, ref := range snap.Gone {
		s.gone[api.Ref{Kind: ref.Kind, Key: ref.Key}] = ref.Version
		s.latest = max(s.latest, ref.Version)
	}
	all(snap.Nodes, s.applyNode)
	all(snap.Queues, s.applyQueue)
	all(snap.Gangs, s.applyGang)
	all(snap.Pods, s.applyPod)
	all(snap.Assumptions, s.applyAssumption)
	all(snap.Refusals, s.applyRefusal)
	all(snap.Holds, s.applyHold)
	all(snap.Disruptions, func(o *api.Disruption) api.Rejected { return enterIn(s, s.disruptions, o) })
	all(snap.Bookings, func(o *api.Booking) api.Rejected { return enterIn(s, s.bookings, o) })
	all(snap.Evictions, s.applyEviction)
	all(snap.Promises, func(o *api.Promise) api.Rejected { return enterIn(s, s.promises, o) })
	all(snap.Spendings, func(o *api.Spending) api.Rejected { return enterIn(s, s.spendings, o) })
	all(snap.Lessons, func(o *api.Lesson) api.Rejected { return enterIn(s, s.lessons, o) })
	all(snap.Lapses, func(o *api.Lapse) api.Rejected { return enterIn(s, s.lapses, o) })
}

// all applies each of the list; what it rejects is in State.rejected.
func all[T any](list []T, apply func(*T) api.Rejected) {
	for i := range list {
		apply(&list[i])
	}
}

// Config is the policy of the state, with defaults filled in and without what makes no sense.
func (s *State) Config() api.Config { return s.cfg }

// Schedule is Load and Plan: the answer for a snapshot that is looked at once.
func Schedule(snap api.Snapshot, now time.Time, cfg api.Config) api.Plan {
	return Load(snap, cfg).Plan(now)
}

// hold is a Hold and, while it counts, the node whose room it takes.
type hold struct {
	*api.Hold
	on    *node
	payer *queue // in whose account it is pledged; nil: nobody's
}

// unsupported lists what the spec asks for that the engine does not decide yet.
func unsupported(spec *api.Spec) []why.Feature {
	features := spec.Features
	for _, a := range spec.Requests {
		if a.Value > 0 && api.IsMIG(a.Resource) {
			return append(features[:len(features):len(features)], why.MIG)
		}
	}
	return features
}
