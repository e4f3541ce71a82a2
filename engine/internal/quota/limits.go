package quota

import (
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/draft"
	"github.com/berth-dev/berth/engine/internal/preempt"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// Limits is what queues allow in one cycle. It keeps nothing: each question reads the accounts of the model as they
// are at that moment, in the middle of a trial too.
type Limits struct {
	m     *cluster.Model
	draft *draft.Draft
	ask   Questions
	Preemption
}

// Questions are what is asked about placing.
type Questions struct {
	// Models lists the GPU models that the gang's members may get, the first to try first.
	Models func(*cluster.Gang) []string
	// AllModels lists the GPU models that nodes have.
	AllModels func() []string
	// Plain says what each member of a gang of like members asks for, and how many of them start together; false: the gang is
	// not such a one.
	Plain func(*cluster.Gang) (demands []quantity.Demand, need int, ok bool)
}

// Preemption is what is asked about victims that are tried out, and about workloads that places are held for.
// preempt.Cycle answers it.
type Preemption interface {
	Settles(g *cluster.Gang) bool
	Rights() []preempt.Right
	Returning(dim int) int64
	OverShare(g *cluster.Gang) (preempt.OverShare, bool)
	EachAwaited(visit func(key string, g *cluster.Gang, holds []*cluster.Hold))
}

// New makes the limits of a cycle.
func New(m *cluster.Model, d *draft.Draft, ask Questions, p Preemption) *Limits {
	return &Limits{m: m, draft: d, ask: ask, Preemption: p}
}
