package order

import (
	"slices"

	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// passers is what the workloads of one user held in a queue when the cycle began, in the order in which they were in line.
type passers struct {
	turns []cluster.Turn
	gpus  []int64 // held by the workload and all those after it
}

// behind is how many GPUs those hold who were in line after the turn.
func (p *passers) behind(t cluster.Turn) int64 {
	if p == nil {
		return 0
	}
	t.Repair = false
	i, _ := slices.BinarySearchFunc(p.turns, t, cluster.Turn.Compare)
	if i == len(p.turns) {
		return 0
	}
	return p.gpus[i]
}

// passersOf returns those of the queue entry's user, nil if he has none. It looks at all pods of the queue once in a cycle, before
// anything starts.
func (c *Selection) passersOf(s *queueEntry) *passers {
	if c.passers[s.queue] == nil {
		if c.passers == nil {
			c.passers = make(map[*cluster.Queue]map[string]*passers)
		}
		c.passers[s.queue] = passersIn(c.l.m, s.queue)
	}
	return c.passers[s.queue][s.user]
}

// passersIn finds the passers of all users of the queue.
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
		for i := len(all) - 1; i >= 0; i-- {
			sum += all[i].gpus
			p.turns[i], p.gpus[i] = all[i].Turn, sum
		}
		out[user] = p
	}
	return out
}
