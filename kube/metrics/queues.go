package metrics

import (
	"cmp"
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine"
)

// other is the label of all that are not among those with series of their own.
const other = "other"

func (f *Figures) queues(set setter) {
	seen, hidden := make(map[string]bool), 0
	for i := range f.Queues {
		q := &f.Queues[i]
		label := labelOf(q.Name)
		switch {
		case !q.Known || seen[label]: // one that does not exist is whatever a pod names
			continue
		case len(seen) == maxQueues:
			hidden++
			continue
		}
		seen[label] = true
		f.queue(q, label, set)
	}
	set(queuesHidden, float64(hidden))
}

func (f *Figures) queue(q *engine.QueueUse, label string, set setter) {
	gpus := func(r engine.Resources) float64 {
		a := r.Of(f.GPU)
		return float64(a.Value) + float64(a.Milli)/1000
	}
	set(queueQuota, gpus(q.Quota), label)
	set(queueUsed, gpus(q.Used), label)
	set(queueBorrowed, gpus(q.Borrowed), label)
	set(queueLent, gpus(q.Lent), label)
	set(queueShare, gpus(q.Share), label)
	set(queuePending, float64(q.Waiting.GPUs), label)
	set(queueWaiting, float64(q.Waiting.Workloads), label)
	set(queueSeconds, float64(q.GPUSeconds), label)
	spent := make(map[string]float64)
	for i := range q.Budgets {
		b := &q.Budgets[i]
		name := labelOf(b.Resource)
		spent[name] = max(spent[name], f.spent(q, i))
	}
	for name, part := range spent {
		set(budgetSpent, part, label, name)
	}
}

// spent is which part of the queue's i-th budget is used up in the period that the figures are of. A budget of nothing is
// used up.
func (f *Figures) spent(q *engine.QueueUse, i int) float64 {
	b := &q.Budgets[i]
	if b.Seconds <= 0 {
		return 1
	}
	if i >= len(q.Spent) || b.Period <= 0 {
		return 0
	}
	counted, _ := b.Span(q.At)
	is, _ := b.Span(f.At)
	if counted.Before(is) { // the period in which that was spent is over
		return 0
	}
	return float64(q.Spent[i]) / float64(b.Seconds)
}

// users are those who hold most, and the rest together. Work that is nobody's in particular has user "".
func (f *Figures) users(set setter) {
	held := make(map[string]int64)
	for i := range f.Tallies {
		if t := &f.Tallies[i]; t.Held > 0 {
			held[labelOf(t.User)] += t.Held
		}
	}
	type user struct {
		name string
		gpus int64
	}
	var all []user
	for name, gpus := range held {
		all = append(all, user{name, gpus})
	}
	slices.SortFunc(all, func(a, b user) int {
		return cmp.Or(cmp.Compare(b.gpus, a.gpus), strings.Compare(a.name, b.name))
	})
	var rest int64
	for i, u := range all {
		if i >= maxUsers || u.name == other {
			rest += u.gpus
			continue
		}
		set(userUsed, float64(u.gpus), u.name)
	}
	set(userUsed, float64(rest), other)
}
