package engine

import (
	"cmp"
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
)

// The audit counts accounts that are kept by adding and subtracting anew, from what was told. It shares no code with
// what keeps them. Sums that run over many are checked step by step: a queue is what its own pods hold and what the
// queues below it say they hold, which are looked at in their turn.

// audit is a round in the making: the places that are looked at, and what was found.
type audit struct {
	*cluster.Check
	s     *State
	nodes []*cluster.Node // those of the round, whose counts are looked at together
}

// auditPlace is something with accounts; neither: the cluster as a whole.
type auditPlace struct {
	queue, node string
	nobody      bool // the account of workloads without a queue
}

// Audit counts the accounts of some of the state anew and returns where they are not what is kept. There is one place
// for the cluster, one for each queue and one for each node, by name; most of them are looked at, from the given
// position on, and next is where to go on. Places are listed at position 0: what came since is in the next round. The
// cluster's place costs a look at every node and pod, the others what is in them.
func (s *State) Audit(from, most int) (found []api.Discrepancy, next int) {
	s.freshen()
	if from <= 0 || from >= len(s.places) {
		from, s.places = 0, s.listPlaces()
	}
	a := &audit{Check: cluster.NewCheck(s.m), s: s}
	for ; from < len(s.places) && most > 0; most-- {
		a.look(s.places[from])
		from++
	}
	if from >= len(s.places) {
		from = 0
	}
	a.Found = s.ix.CheckNodes(a.Found, a.nodes)
	return a.sorted(), from
}

func (s *State) listPlaces() []auditPlace {
	out := make([]auditPlace, 0, 2+len(s.m.Queues)+len(s.m.Nodes))
	out = append(out, auditPlace{}, auditPlace{nobody: true})
	for _, name := range cluster.SortedKeys(s.m.Queues) {
		out = append(out, auditPlace{queue: name})
	}
	for _, name := range cluster.SortedKeys(s.m.Nodes) {
		out = append(out, auditPlace{node: name})
	}
	return out
}

func (a *audit) look(p auditPlace) {
	switch {
	case p.nobody:
		a.Queue(&a.s.m.Unqueued)
		a.s.candidates.Check(a.Check, &a.s.m.Unqueued)
	case p.queue != "":
		if q := a.s.m.Queues[p.queue]; q != nil {
			a.Queue(q)
			a.s.candidates.Check(a.Check, q)
		}
	case p.node != "":
		if n := a.s.m.Nodes[p.node]; n != nil {
			a.Node(n)
			a.nodes = append(a.nodes, n)
		}
	default:
		a.Cluster()
		a.Found = a.s.ix.Check(a.Found)
		a.s.line.Check(a.Check)
		if a.s.lastAt == a.s.m.Edits+1 {
			a.Found = append(a.Found, a.s.times.Check()...)
		}
	}
}

func (a *audit) sorted() []api.Discrepancy {
	slices.SortFunc(a.Found, func(x, y api.Discrepancy) int {
		return cmp.Or(strings.Compare(x.Kind, y.Kind), strings.Compare(x.Key, y.Key), strings.Compare(x.Account, y.Account), strings.Compare(x.Resource, y.Resource))
	})
	return a.Found
}
