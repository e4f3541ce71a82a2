package attempt

import (
	"github.com/berth-dev/berth/engine/internal/calendar"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/draft"
	"github.com/berth-dev/berth/engine/internal/index"
	"github.com/berth-dev/berth/engine/internal/order"
	"github.com/berth-dev/berth/engine/internal/place"
	"github.com/berth-dev/berth/engine/internal/quota"
	"github.com/berth-dev/berth/engine/why"
)

// Attempts are those of one cycle: what they have proved, and what is true of the gang whose turn it is. One gang has
// its turn at a time.
type Attempts struct {
	draft  *draft.Draft
	m      *cluster.Model
	ix     *index.Index
	placer *place.Placer
	line   *order.Line
	// limits is what queues allow.
	limits *quota.Limits
	// times is what is promised.
	times *calendar.Calendar

	// Trial says that one gang is alone in line, and that features which the engine does not decide are not looked
	// at.
	Trial bool
	// Sketch says that little is proved in all of the cycle (mostSketched).
	Sketch bool
	// Quiet says that nothing is to be proved: something is only tried out.
	Quiet bool
	// Budget is the number of search steps for a gang.
	Budget int
	// Steps is how many steps searches took so far in the cycle.
	Steps int

	// claimed is the holds that the gang which is being placed has claimed; nil between turns. They do not count in
	// the model until rolled back.
	claimed []*cluster.Hold
	// nominated is the nominations of its members, likewise.
	nominated []nomination
	// kept is the nodes whose room these hold, in order.
	kept []*cluster.Node

	// proofs is the gate that each question has proved. The question names the standing of the model, so that an
	// entry is never wrong, only not asked for again.
	proofs map[index.Question][]why.Gate
	// every is the GPU models that nodes have; nil: not asked for yet.
	every []string
}

// nomination is the node that a member is nominated to.
type nomination struct {
	pod  *cluster.Pod
	node *cluster.Node
}

// New makes the attempts of a cycle. Ask must be called before any other method.
func New(d *draft.Draft, m *cluster.Model, ix *index.Index, placer *place.Placer, line *order.Line) *Attempts {
	return &Attempts{draft: d, m: m, ix: ix, placer: placer, line: line, Budget: m.Config.SearchBudget}
}

// Ask has the attempts ask these what queues allow and what is promised. Both ask the attempts in their turn.
func (a *Attempts) Ask(limits *quota.Limits, times *calendar.Calendar) {
	a.limits, a.times = limits, times
}
