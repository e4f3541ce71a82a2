package order

import (
	"slices"

	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// passers is what the workloads of one user hold in a queue, in the order in which they were in
// line. It answers how much of that belongs to workloads that were behind a given one in line, and
// have passed it. Both lists are by workload's pod, first turn first.
type passers struct {
	turns []cluster.Turn
	// gpus is what the pod and all those after it hold, in the unit of charges: a sum from the end,
	// so that behind is one lookup.
	gpus []int64
}

// behind is how many GPUs are held by pods that were in line after the turn, or at it. For example, the
// user's pods were in line at 1, 3 and 5 and hold 2 GPUs each: behind a workload at 2 are 4 GPUs.
func (p *passers) behind(t cluster.Turn) int64 {
	if p == nil {
		return 0
	}
	// Pods that hold something have turns without repair (TurnOf).
	t.Repair = false
	// i is the first that is not before the turn: it and all after it are behind.
	i, _ := slices.BinarySearchFunc(p.turns, t, cluster.Turn.Compare)
	if i == len(p.turns) {
		return 0
	}
	return p.gpus[i]
}

// passersOf returns those of the queue entry's user, nil if he has none. It looks at all pods of
// the queue, when it is first asked about the queue in a cycle, and not again.
func (c *Selection) passersOf(s *queueEntry) *passers {
	if c.passers[s.queue] == nil {
		if c.passers == nil {
			c.passers = make(map[*cluster.Queue]map[string]*passers)
		}
		c.passers[s.queue] = passersIn(c.l.m, s.queue)
	}
	return c.passers[s.queue][s.user]
}

// passersIn finds the passers of all users of the queue. It costs a sort of the queue's pods that
// hold GPUs.
func passersIn(m *cluster.Model, q *cluster.Queue) map[string]*passers {
	type held struct {
		cluster.Turn
		gpus int64
	}
	by := make(map[string][]held)
	for _, p := range q.Pods {
		for _, d := range p.Charge {
			if d.Dim == quantity.DimGPU {
				user := m.UserOf(p)
				by[user] = append(by[user], held{m.TurnOf(p), d.Amount})
			}
		}
	}
	out := make(map[string]*passers, len(by))
	for user, all := range by { //archtest:any-order each user's are sorted by themselves
		slices.SortFunc(all, func(a, b held) int { return a.Compare(b.Turn) })
		p := &passers{turns: make([]cluster.Turn, len(all)), gpus: make([]int64, len(all))}
		var sum int64
		// From the last in line to the first: sum is what that workload and all behind it hold.
		for i := len(all) - 1; i >= 0; i-- {
			sum += all[i].gpus
			p.turns[i], p.gpus[i] = all[i].Turn, sum
		}
		out[user] = p
	}
	return out
}
