package calendar

import (
	"time"

	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/draft"
	"github.com/berth-dev/berth/engine/internal/quantity"
	"github.com/berth-dev/berth/engine/why"
)

// Questions are what a calendar asks of the cycle. Each is asked of the model as it is at that moment, also while the
// calendar tries out a future on it.
type Questions struct {
	// Claim lets the gang have what is held for it alone, until rolled back.
	Claim func(*cluster.Gang)
	// Gates lists what is shut to the gang before any node is looked at.
	Gates func(*cluster.Gang) []why.Gate
	// Fits says whether all gates are open to the gang and there is a place for it. The model is as before.
	Fits func(*cluster.Gang, cluster.Turn) bool
	// Could says whether the gang may get a place once so much more is free on nodes; false is a proof that it gets none.
	Could func(g *cluster.Gang, t cluster.Turn, freed func(add func(n *cluster.Node, dim int, amount int64))) bool
	// CouldEver is Could with all that runs gone; it goes by what was proved of the gang in this state of the model.
	CouldEver func(g *cluster.Gang, t cluster.Turn) bool
	// Begins is when the gang would start on the nodes: now or, while it is tried out whom to evict for it, when the victims
	// and those that leave the nodes are expected to be gone. notice is how long the victims take: that long after the
	// cycle it starts at the earliest, whenever the cycle is.
	Begins func(g *cluster.Gang, on []*cluster.Node) (at time.Time, notice time.Duration)
	// Place allocates the gang's minimum, on the first nodes where it can, and says whether it could. Nothing is proved.
	Place func(g *cluster.Gang, t cluster.Turn, first []*cluster.Node) bool
}

// Calendar is what one cycle knows of times to come.
type Calendar struct {
	m     *cluster.Model
	draft *draft.Draft
	now   time.Time // of the draft
	ask   Questions
	by    Guess // how run times are guessed
	most  int   // how many ends of pods may be tried out
	lifts int   // how many were

	// What is reserved, in the order in which it was.
	reservations []*Reservation
	reserved     map[*cluster.Node][]*Reservation
	hopeless     map[asker]cluster.Moment // when no place was left beside what is reserved, which only gets more
	late         time.Time                // when a place that was found in this turn may first be in the way of that; zero: never
	kept, sum    quantity.Vector          // room to add up in: see keptOn and owed

	// What ends. See lookFrom for since.
	since    time.Time                 // of the promise that is looked at; zero: none, or a new one
	due      time.Time                 // its start
	ends     map[*cluster.Gang]gangEnd // of running gangs, as since sees them
	releases []release                 // of which since is zero
	listedAt uint64                    // Model.Standing of releases, plus one
	lastLate time.Time                 // the latest start of work that a promise of before it would see over; see workEnd
	evicted  map[string]time.Time      // by pod: see evictedNow
	ending   map[*cluster.Gang]bool    // that have run for as long as they may, or have to leave booked nodes

	from     time.Time              // of a forecast: the gang that is looked at does not start before; zero: it may now
	promised map[*cluster.Gang]bool // that had promises when the cycle began
	heads    heads
}

// promiseLifts bounds how many ends of pods are tried out for the promises of one cycle, and forecastLifts for each of the
// three passes of a forecast.
const (
	promiseLifts  = 200_000
	forecastLifts = 500_000
)

// New makes the calendar of the cycle that makes the plan.
func New(m *cluster.Model, d *draft.Draft, ask Questions) *Calendar {
	return &Calendar{m: m, draft: d, now: d.Now, ask: ask, most: promiseLifts}
}

// Foretell lets the calendar be one of a forecast, which guesses run times so and may try more than a plan.
func (c *Calendar) Foretell(by Guess) { c.by, c.most = by, forecastLifts }

// exhausted says whether no more ends may be tried out.
func (c *Calendar) exhausted() bool { return c.lifts > c.most }
