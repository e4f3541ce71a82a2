package cluster

import (
	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// Model is the cluster as it was told, with the accounts that follow from it by adding up: what is free on nodes, what
// queues are charged, how much of a gang runs.
type Model struct {
	Config api.Config
	Dims   *quantity.Dims

	// What was told, by key. A rejected object is here too, with no effect.
	Nodes            map[string]*Node
	Pods             map[string]*Pod
	Gangs            map[string]*Gang
	Queues           map[string]*Queue
	Assumptions      map[string]*api.Assumption
	Refusals         map[string]*api.Refusal
	Holds            map[string]*Hold
	HoldsOf          map[string][]*Hold // by gang
	heirs            map[string][]*Pod  // see heirsOf
	Disruptions      map[string]*api.Disruption
	Bookings         map[string]*api.Booking
	Evictions        map[string]*api.Eviction
	Promises         map[string]*api.Promise
	Usages           map[string]*api.QueueUsage
	RunTimeEstimates map[string]*api.RunTimeEstimate
	Degradations     map[string]*api.Degradation
	RequestMix       *api.RequestMix    // nil: none
	gone             map[api.Ref]uint64 // version by kind and key
	SettledAt        uint64
	Latest           uint64
	Edits            uint64             // changes that had an effect, ever
	Invalid          map[api.Ref]string // reason by kind and key
	Claims           map[string][]*Node
	far              far // devices of claims that several nodes reach

	RefusedOf map[string][]*api.Refusal // by pod key
	deadlines deadlines                 // of assumptions
	unused    map[string]bool           // assumptions that no pod sits by

	// What follows from it.
	Topology       topology
	Presence       presence
	shapes         shapes
	flavored       flavoredShapes
	requests       requestCache
	Asked          asked // kinds of requests for GPUs
	Supply         supply
	rules          rules
	unseen         seen // what every pod shares that rules between pods have not looked at
	Room           room
	vacant         []int32 // numbers that no node has
	Images         images
	Specced        int            // nodes that have a spec
	Quarantined    map[*Node]bool // of those, whose hardware is not trusted
	Respecced      []*Node        // whose specs changed since kinds were last found
	stale          []*Gang        // gangs whose tally may have changed
	WholeNodeGangs int            // gangs that want whole nodes
	Tree           Tree           // of queues
	Ending         []*Pod         // those on nodes of which something says when they end, others' too, in no order
	Unqueued       Queue          // the account of workloads without a queue
	Capacity       quantity.Vector
	Taken          quantity.Vector
	Sliced         int64         // by how much GPUs among the capacity, as accounts count them, are more than their number, for slices
	Surplus        int64         // by how much the GPUs among it count for more than their number
	TimeLimited    map[*Pod]bool // placed pods whose workloads have a longest run time

	Journal []Undo
	stamp   uint64 // of the last entry of the journal, ever
	Trying  bool   // a trial is on that will be rolled back before running workloads are looked at
}

func NewModel(cfg api.Config) *Model {
	m := &Model{
		Config: cfg, Dims: quantity.NewDims(cfg.GPU),
		Nodes: make(map[string]*Node), Pods: make(map[string]*Pod), Gangs: make(map[string]*Gang), Queues: make(map[string]*Queue),
		Assumptions: make(map[string]*api.Assumption), Refusals: make(map[string]*api.Refusal), Holds: make(map[string]*Hold), HoldsOf: make(map[string][]*Hold), heirs: make(map[string][]*Pod),
		Disruptions: make(map[string]*api.Disruption), Bookings: make(map[string]*api.Booking), Evictions: make(map[string]*api.Eviction),
		Promises: make(map[string]*api.Promise), Usages: make(map[string]*api.QueueUsage), RunTimeEstimates: make(map[string]*api.RunTimeEstimate), Degradations: make(map[string]*api.Degradation),
		gone: make(map[api.Ref]uint64), Invalid: make(map[api.Ref]string), Claims: make(map[string][]*Node), RefusedOf: make(map[string][]*api.Refusal),
		unused: make(map[string]bool), Tree: Tree{ByModel: len(cfg.Rates) > 0},
	}
	m.Topology.init(cfg.Levels)
	m.unseen = seen{book: &m.rules, shared: true}
	return m
}
