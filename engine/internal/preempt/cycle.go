package preempt

import (
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/draft"
	"github.com/berth-dev/berth/engine/internal/index"
	"github.com/berth-dev/berth/engine/internal/place"
	"github.com/berth-dev/berth/engine/internal/quantity"
	"github.com/berth-dev/berth/engine/why"
)

// Placing is what preemption asks about one gang of the cycle that places gangs. All of it is asked of the model as
// it is at that moment, also in the middle of a trial.
type Placing struct {
	// Gates lists what keeps the gang out before any node is looked at: its queue's limits, and what is wrong with it.
	Gates func(g *cluster.Gang) []why.Gate
	// Afford lists what of its queues' limits the gang would break: with the pods, which have been placed, or, where there
	// are none, with the least that it asks for.
	Afford func(g *cluster.Gang, placed []*cluster.Pod) []why.Gate
	// Kins returns how the gang's members are made into classes, once for each GPU model that it may have. apart says that
	// its queue counts the models apart, so that counting alone cannot decide which one it gets.
	Kins func(g *cluster.Gang, t cluster.Turn) (kins []place.Kin, apart bool)
	// Order is what a gang of like members asks for.
	Order func(g *cluster.Gang, c *index.Class) place.Order
	// Question tells gangs apart that ask the same of the nodes; false: the gang asks something of its own.
	Question func(g *cluster.Gang, t cluster.Turn) (index.Question, bool)
	// Place places the gang's minimum, and says whether it could.
	Place func(g *cluster.Gang, t cluster.Turn) bool
	// Trial calls try with the gang in possession of what is held for it, and undoes everything that try does to the
	// model. Nothing is proved meanwhile.
	Trial func(g *cluster.Gang, try func(own []*cluster.Hold))
	// Retally counts the gang's members again, until the cycle is over.
	Retally func(g *cluster.Gang)
	// LeastRate is the least that queues are charged for one GPU.
	LeastRate func() int64
	// Waiting visits those in line, in order, until visit says no. Some of them may have started in this cycle.
	Waiting func(visit func(g *cluster.Gang) bool)
}

// Promises is what preemption asks of the calendar, in the same way.
type Promises struct {
	// StartsBeside places the gang's minimum so that no promised start is delayed, and says whether it could.
	StartsBeside func(g *cluster.Gang, t cluster.Turn) bool
	// Delays says whether the pods of the gang, which have been placed, delay a promised start.
	Delays func(g *cluster.Gang, pods []*cluster.Pod) bool
	// Promised says whether the gang was promised a start.
	Promised func(g *cluster.Gang) bool
	// Behind says whether the gang waits behind another of its queue, whatever there is room for.
	Behind func(g *cluster.Gang) bool
	// Stay is how the gang stays once it starts, as far as promises and bookings make that matter.
	Stay func(g *cluster.Gang) cluster.Stay
}

// Cycle is the preemption of one scheduling cycle: what it knows of pods that are on their way out, and which claims
// have failed. It writes evictions, holds and times to wake at to the draft of the plan.
//
// Everything in it is found when it is first needed, and holds until the end of the cycle; evict brings it up to date
// with what this plan decides.
type Cycle struct {
	*Candidates
	*draft.Draft
	Placing
	Promises

	// pursued is the claim that is being tried out; nil: none. Quotas and the calendar ask about it by way of
	// Settles, Rights, Returning and Begins.
	pursued *claim
	// returning is, in a trial, what the leavers took that were taken off their nodes and will be made again.
	returning quantity.Vector
	// takenOff is, in a trial, those leavers that were taken off.
	takenOff []takenOff
	// newHolds is the holds that were decided in this cycle, which the model does not list until the plan is carried
	// out.
	newHolds []*cluster.Hold
	// evictions finds, by pod, which of the plan's evictions is its own, as far as they were asked for (evictionOf).
	evictions map[string]int

	// waiting is those in line by what they claim; nil: not looked at yet (findWaiting).
	waiting []*alike

	// held is the places that could be outbid, by queue; knowsHeld says that they were looked at (heldPlaces).
	held      []held
	knowsHeld bool

	// freeing is the workloads that others are on their way out for; nil: not looked at yet.
	freeing map[string]bool
	leavers leavers

	// anyRefused says that some pods could not be evicted a short time ago; knowsRefused that this was looked at.
	knowsRefused bool
	anyRefused   bool

	// disrupted is, by disruption budget, the evictions that have not begun; nil: not counted yet.
	disrupted map[string]int
	// moved says that work was looked for that could be moved for some gang. One gang is tried in a cycle, the first for which what
	// may be moved could leave enough (scattered).
	moved bool
	// summed counts the gangs for which the cards were added up.
	summed int
	// going is, by workload, how many pods are on their way out for it; nil: not counted yet. counted is how many of the plan's
	// evictions are in it.
	going   map[string]int
	counted int
	// asked counts the trials of claims with few units, which have a budget together (fewTests).
	asked int

	failures failures
	// over is the gangs for which victims were spared for a fair share, and whose share that is.
	over map[*cluster.Gang]OverShare
}

// Begin makes the preemption of a cycle in which nothing is decided yet.
func (s *Candidates) Begin(d *draft.Draft, p Placing, t Promises) *Cycle {
	return &Cycle{Candidates: s, Draft: d, Placing: p, Promises: t}
}

// Right is how far up its tree a claimant's queue must stay within its part of some resources, because victims are
// evicted for it by that right. A reach of 0 asks of its own queue alone, 1 of its parent too; -1 asks nothing. Part
// returns the part of a dimension in Dims, as accounts count it.
type Right struct {
	Reach int
	Dims  []int
	Part  func(q *cluster.Queue, dim int) int64
}

// Settles says whether it is being asked, for a set of victims, whether the gang may have the place that they leave.
func (y *Cycle) Settles(g *cluster.Gang) bool {
	return y.pursued != nil && y.pursued.settling && y.pursued.g == g
}

// Rights lists what the claim that is tried out rests on: quota, and the fair share. Settles must hold for some gang.
func (y *Cycle) Rights() []Right {
	c := y.pursued
	quota, share := c.reaches()
	return []Right{{quota, c.dims, y.m.Quota}, {share, c.sharedDims(), fairShare}}
}

// Returning is what those that are taken off their nodes in a trial will take of the dimension again; 0 outside of one.
func (y *Cycle) Returning(dim int) int64 {
	sum := y.returning.At(dim)
	if y.pursued != nil {
		sum += y.pursued.returning(dim)
	}
	return sum
}

// EachAwaited visits the workloads that places are held for, with those places, in no order; each place that is held
// since this cycle by itself. So a workload may be visited more than once. The next pod of an owner, for which a place
// stands that no workload waits for yet, is visited as a workload of its own: it need not exist yet.
func (y *Cycle) EachAwaited(visit func(key string, g *cluster.Gang, holds []*cluster.Hold)) {
	each := func(key string, holds []*cluster.Hold) {
		if g := y.m.Awaiting(key); g != nil {
			visit(key, g, holds)
			return
		}
		for i, h := range holds {
			//mutate: awaited-heirs
			if p := y.m.Heir(h); p != nil && h.On != nil {
				visit(key, y.nextOf(p, h), holds[i:i+1])
			}
		}
	}
	//archtest:any-order so callers are told; they count, or sort
	for key, holds := range y.m.HoldsOf {
		each(key, holds)
	}
	for i, h := range y.newHolds {
		each(h.Gang, y.newHolds[i:i+1])
	}
}

// nextOf is the pod that comes to the held place, like the one given, as a gang of its own. It counts as running while
// one that is to be gone by then still does.
func (y *Cycle) nextOf(p *cluster.Pod, h *cluster.Hold) *cluster.Gang {
	g := twinOf(p)
	y.m.Tally(g)
	g.Payer = h.Payer
	y.m.EachComing(h, func(p *cluster.Pod) {
		g.Runs = g.Runs || p.Host != nil && p.Evicting && !y.surges(p)
	})
	return g
}

// surges says whether the pod, which is evicted, stays until the next one runs.
func (y *Cycle) surges(p *cluster.Pod) bool {
	if e := y.m.EvictionOf(p); e != nil {
		return e.Surge
	}
	return y.evictionOf(p.Key).Surge
}

// Disrupt counts an eviction that was decided for a cause alone against the disruption budgets of the pod.
func (y *Cycle) Disrupt(p *cluster.Pod) {
	y.underWay()
	y.disrupt(p)
}
