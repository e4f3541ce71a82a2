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
		a.candidates(&a.s.m.Unqueued)
	case p.queue != "":
		if q := a.s.m.Queues[p.queue]; q != nil {
			a.Queue(q)
			a.candidates(q)
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

// candidates checks that the list of candidates, where it is kept, lists who has allocations in the queue, and what quota covers of them.
func (a *audit) candidates(q *cluster.Queue) {
	s := a.s
	r := s.candidates[q]
	if r == nil || !r.made {
		return
	}
	own := s.runningOf(q)
	held := make(map[cluster.Workload][]*cluster.Pod)
	for _, p := range q.Pods {
		if l := (cluster.Workload{Gang: p.In}); !p.Terminating && !p.Evicting {
			if p.Gang == "" {
				l = cluster.Workload{Pod: p}
			}
			held[l] = append(held[l], p)
		}
	}
	a.Note("queue", q.Name, "candidates", "", int64(len(own)), int64(len(held)))
	for i, t := range own {
		fine := r.by[t.Workload] == t && len(t.pods) == len(held[t.Workload]) && (i == 0 || compareRunning(own[i-1], t) <= 0)
		for _, p := range t.pods {
			fine = fine && slices.Contains(held[t.Workload], p)
		}
		fine = fine && (t.Pod == nil || t.told == t.Pod.Pod)
		a.Note("queue", q.Name, "candidate", t.key, auditBit(fine), 1)
	}
	a.cut(q)
	if len(q.Children) == 0 || r.below == nil {
		return
	}
	below := s.runningBelow(q)
	n := len(own)
	for _, c := range q.Children {
		n += len(s.runningBelow(c))
	}
	a.Note("queue", q.Name, "candidates below", "", int64(len(below)), int64(n))
	for i, t := range below {
		fine := s.candidatesOf(t.payer).by[t.Workload] == t && (i == 0 || below[i-1] != t && compareBelow(q)(below[i-1], t) <= 0)
		a.Note("queue", q.Name, "candidate below", t.key, auditBit(fine), 1)
	}
}

// cut makes what quota does not cover of the list of candidates anew.
func (a *audit) cut(q *cluster.Queue) {
	r, all := a.s.candidatesOf(q), a.s.runningBelow(q)
	x := &r.cut
	if x.edition != r.edition || x.shape != a.s.m.Topology.Shape || x.awaits {
		return // it is not used again
	}
	part := func(_ *cluster.Queue, dim int) int64 { return x.parts[slices.Index(x.dims, dim)] }
	again := cut{}
	a.s.passes++
	again.find(&cover{s: a.s, queue: q, dims: x.dims, over: x.over, part: part, all: all}, nil, a.s.passes)
	a.s.appraiseCut(&again)
	a.Note("queue", q.Name, "uncovered", "", auditBit(slices.Equal(again.units, x.units)), 1)
	a.Note("queue", q.Name, "uncovered", "GPUs", x.gpus, again.gpus)
	a.Note("queue", q.Name, "uncovered", "buckets", auditBit(slices.Equal(again.buckets, x.buckets)), 1)
	a.Note("queue", q.Name, "uncovered", "ripe", x.ripe.UnixNano(), again.ripe.UnixNano())
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
	for key, p := range a.s.m.Pods {
		if p.Host == nil && !p.Terminating && !p.Foreign && !a.s.m.IsRejected(api.KindPod, key) {
			a.Note("pod", key, "line", "", auditBit(p.In != nil && a.s.entryOf(p.In).lined), 1)
		}
	}
}
