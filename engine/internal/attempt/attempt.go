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

// Attempts are those of one cycle.
type Attempts struct {
	draft  *draft.Draft
	m      *cluster.Model
	ix     *index.Index
	placer *place.Placer
	line   *order.Line
	limits *quota.Limits      // what queues allow
	times  *calendar.Calendar // what is promised

	Trial  bool // one gang is alone in line, and features are not looked at
	Sketch bool // little is proved in all of the cycle
	Quiet  bool // nothing is to be proved: it is only tried out
	Budget int  // of search steps, for a gang
	Steps  int  // that searches took

	Claimed []*cluster.Hold // by the gang that is being placed
	kept    []*cluster.Node // whose room these hold, in order

	proofs map[index.Question][]why.Gate // the one that each proves
	every  []string                      // GPU models that nodes have, once asked for
}

// New makes the attempts of a cycle.
func New(d *draft.Draft, m *cluster.Model, ix *index.Index, placer *place.Placer, line *order.Line) *Attempts {
	return &Attempts{draft: d, m: m, ix: ix, placer: placer, line: line, Budget: m.Config.SearchBudget}
}

// Ask has the attempts ask these what queues allow and what is promised. Both ask the attempts in their turn.
func (a *Attempts) Ask(limits *quota.Limits, times *calendar.Calendar) {
	a.limits, a.times = limits, times
}
