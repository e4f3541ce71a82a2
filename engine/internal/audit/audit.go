package audit

import (
	"cmp"
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/calendar"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/index"
	"github.com/berth-dev/berth/engine/internal/order"
	"github.com/berth-dev/berth/engine/internal/preempt"
)

// Accounts is everything that is recounted. All of it must be up to date with the model.
type Accounts struct {
	Model      *cluster.Model
	Index      *index.Index
	Line       *order.Line
	Candidates *preempt.Candidates
	// Times is of the last plan; nil: there is none, or something was told since.
	Times *calendar.Calendar
}

// Round is an audit that goes on where it stopped.
type Round struct {
	places []place
}

// place is something with accounts; neither queue nor node: the cluster as a whole.
type place struct {
	queue, node string
	unqueued    bool // the account of workloads without a queue
}

// Look recounts at most so many places, from the given position on. It returns where accounts are not what is kept, in order, and
// the position to go on at; a round begins at 0.
func (r *Round) Look(all Accounts, from, most int) (found []api.Discrepancy, next int) {
	if from <= 0 || from >= len(r.places) {
		from, r.places = 0, placesOf(all.Model)
	}
	a := &audit{Check: cluster.NewCheck(all.Model), Accounts: all}
	for ; from < len(r.places) && most > 0; most-- {
		a.look(r.places[from])
		from++
	}
	if from >= len(r.places) {
		from = 0
	}
	return a.sorted(), from
}

func placesOf(m *cluster.Model) []place {
	out := make([]place, 0, 2+len(m.Queues)+len(m.Nodes))
	out = append(out, place{}, place{unqueued: true})
	for _, name := range cluster.SortedKeys(m.Queues) {
		out = append(out, place{queue: name})
	}
	for _, name := range cluster.SortedKeys(m.Nodes) {
		out = append(out, place{node: name})
	}
	return out
}

// audit is what some places are looked at with.
type audit struct {
	*cluster.Check
	Accounts
	nodes []*cluster.Node // those of the places: what fits on them is looked at class by class, and so together
}

// look recounts one place. A queue or node that is gone since the round began has no accounts.
func (a *audit) look(p place) {
	switch {
	case p.unqueued:
		a.queue(&a.Model.Unqueued)
	case p.queue != "":
		if q := a.Model.Queues[p.queue]; q != nil {
			a.queue(q)
		}
	case p.node != "":
		if n := a.Model.Nodes[p.node]; n != nil {
			a.Node(n)
			a.nodes = append(a.nodes, n)
		}
	default:
		a.Cluster()
		a.Found = a.Index.Check(a.Found)
		a.Line.Check(a.Check)
		if a.Times != nil {
			a.Found = append(a.Found, a.Times.Check()...)
		}
	}
}

func (a *audit) queue(q *cluster.Queue) {
	a.Queue(q)
	a.Candidates.Check(a.Check, q)
}

// sorted is what was found at the places, in order.
func (a *audit) sorted() []api.Discrepancy {
	a.Found = a.Index.CheckNodes(a.Found, a.nodes)
	slices.SortFunc(a.Found, func(x, y api.Discrepancy) int {
		return cmp.Or(strings.Compare(x.Kind, y.Kind), strings.Compare(x.Key, y.Key), strings.Compare(x.Account, y.Account), strings.Compare(x.Resource, y.Resource))
	})
	return a.Found
}
