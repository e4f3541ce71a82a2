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
	s *State
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
			a.Found = a.s.ix.CheckNode(a.Found, n)
		}
	default:
		a.Cluster()
		a.Found = a.s.ix.Check(a.Found)
		a.orders()
		a.waiting()
	}
}

func (a *audit) sorted() []api.Discrepancy {
	slices.SortFunc(a.Found, func(x, y api.Discrepancy) int {
		return cmp.Or(strings.Compare(x.Kind, y.Kind), strings.Compare(x.Key, y.Key), strings.Compare(x.Account, y.Account), strings.Compare(x.Resource, y.Resource))
	})
	return a.Found
}

// orders checks that the queue orders that are kept have each gang in line once, where it belongs.
func (a *audit) orders() {
	s := a.s
	if !s.ordersKept() {
		return
	}
	seen := make(map[*cluster.Gang]bool, len(s.line))
	//archtest:any-order what is found is sorted
	for key, l := range s.orders.byKey {
		name := key.user
		if key.queue != nil {
			name = key.queue.Name + "/" + name
		}
		a.Note("cluster", "", "queue order", name, auditBit(len(l.line) > 0 && l.orderKey == key), 1)
		for i, q := range l.line {
			queue, user := "", ""
			if q.gang.Lone != nil {
				queue, user = a.PayerOf(q.gang.Lone.Pod)
			} else {
				queue, user = a.Pays(q.gang.Key, nil)
			}
			o := s.m.Queues[queue]
			if o == nil || o.Spec == nil || !o.Spec.FairUsers {
				user = ""
			}
			e := s.entryOf(q.gang)
			fine := e.lined && e.order == l && user == key.user && !seen[q.gang] && (o == key.queue || o != nil && o.Spec == nil)
			fine = fine && q.Turn == e.turn && q.rank == q.Priority && (i == 0 || l.line[i-1].Turn.Compare(q.Turn) < 0)
			fine = fine && (q.ask == ask{} || e.ask == ask{} || q.ask == e.ask)
			a.Note("cluster", "", "queue order", q.Key, auditBit(fine), 1)
			seen[q.gang] = true
		}
	}
	a.Note("cluster", "", "queue orders", "", int64(len(seen)), int64(len(s.line)))
}

// auditBit is 1 for true.
func auditBit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// waiting checks that pods without a node are in line.
func (a *audit) waiting() {
	//archtest:any-order what is found is sorted
	for key, p := range a.s.m.Pods {
		if p.Host == nil && !p.Terminating && !p.Foreign && !a.s.m.IsRejected(api.KindPod, key) {
			a.Note("pod", key, "line", "", auditBit(p.In != nil && a.s.entryOf(p.In).lined), 1)
		}
	}
}
