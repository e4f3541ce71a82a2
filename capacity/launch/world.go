package launch

import (
	"time"

	"github.com/berth-dev/berth/engine"
)

// World is all that a decision is made of. Decide does not write to it.
type World struct {
	Now          time.Time
	Cluster      engine.Snapshot // what the scheduler knows: nodes, pods, gangs, queues
	Policy       engine.Config
	Pools        []Pool
	Reservations []Reservation
	Machines     []Machine
	Stockouts    []Stockout
}

// Pool is a kind of machine, and how many there may be.
type Pool struct {
	Name  string
	Zones []string // where its machines may be, best first; none: one place without a name
	From  []Source // what pays for them, best first
	Min   int      // machines that there always are
	Max   int      // machines that there are at most, those that are leaving included
	// Static is how many machines there are, no more and no fewer, whatever waits; nil: as many as work needs.
	Static   *int
	Headroom int // machines that are kept free beyond what work needs
	// IdleFor is how long a machine is idle before it is released; below 0: it is not released.
	IdleFor time.Duration
	// DrainBefore is how long before the end of its reservation a machine is drained, so that work has time for a checkpoint.
	DrainBefore time.Duration
	// ReadyWithin is how long a machine may take from its launch until work can be placed on it; 0: for ever.
	ReadyWithin time.Duration
	// Like is machine i of the pool as a node that is ready and empty. Name and Version are overwritten.
	Like func(i int, zone string, from Source) engine.Node
}

// Source is what pays for a machine.
type Source struct {
	Capacity    Capacity
	Reservation string // of Reserved: its name
}

// Capacity is a way to have a machine. The words are Karpenter's.
type Capacity string

const (
	Reserved Capacity = "reserved"
	OnDemand Capacity = "on-demand"
	Spot     Capacity = "spot"
)

func (s Source) String() string {
	if s.Capacity == Reserved {
		return "reservation " + s.Reservation
	}
	return string(s.Capacity)
}

// Reservation is machines that are paid for.
type Reservation struct {
	Name      string
	Zone      string // ""; any
	Instances int
	// Available is how many of them nobody has, as its provider said at Observed; nil: it did not say.
	Available  *int
	Observed   time.Time
	Start, End time.Time // zero: it has begun; it does not end
	// Failed says that it gives nothing, whatever its times are: it failed, or is of another type than its pools.
	Failed bool
}

// Expiring is how long before its end a reservation gives no more machines.
const Expiring = time.Hour

// State is where a machine is in its life.
type State string

const (
	Launching State = "launching" // asked for, or given and not yet a node that work can be placed on
	Ready     State = "ready"     // a node that has all that it should
	Failed    State = "failed"    // the provider gave none, or it broke before it was ready
	Leaving   State = "leaving"   // being released; it counts until it is gone
)

// Machine is one that exists or is on its way.
type Machine struct {
	Name     string // also its node's
	Pool     string
	Index    int // which of the pool
	Zone     string
	From     Source
	For      string // the gang, or the pool, that it was launched for
	State    State
	Error    string // of Failed: what the provider said
	Launched time.Time
	Idle     time.Time // since when no work is on it; zero: work is, or nobody looked yet
	Draining bool      // no new work is placed on it
}

// Stockout is what a provider said it has not, and until when it is not asked again. Zone and From narrow it; "" is all.
type Stockout struct {
	Pool  string
	Zone  string
	From  Source
	Error string
	Until time.Time
	Got   int // machines that it gave for the need before it said so
}

// stops says whether it is about the zone and the source.
func (s *Stockout) stops(zone string, from Source) bool {
	return (s.Zone == "" || s.Zone == zone) && (s.From == Source{} || s.From == from)
}
