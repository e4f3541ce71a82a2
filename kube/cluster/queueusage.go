package cluster

import (
	"cmp"
	"slices"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/cluster/internal/tenancy"
)

// QueueUsage is a queue as last seen, and what its workloads and those of queues below it hold and ask for.
type QueueUsage struct {
	Queue            *v1alpha1.BerthQueue
	Problem          error // with the selector of its namespaces; nil: none
	Foreign          bool  // an object of a dialect says it
	Running, Waiting int32 // workloads
	Resources        []string
	Used, Wanted     []int64 // in the order of Resources, in the engine's units
}

// QueueUsages returns the queues by name. It counts all pods afresh, so that it cannot drift.
func (f *Feed) QueueUsages() []QueueUsage {
	f.mu.Lock()
	defer f.mu.Unlock()
	tallies := f.count()
	var out []QueueUsage
	for _, name := range f.tenancy.Names() {
		q, t := f.tenancy.Queue(name), tallies[name]
		out = append(out, QueueUsage{q.BerthQueue, q.Problem, q.Said != nil, t.running, t.waiting, t.names, t.used, t.wanted})
	}
	return out
}

// Queues returns the queues by name.
func (f *Feed) Queues() []*v1alpha1.BerthQueue {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []*v1alpha1.BerthQueue
	for _, name := range f.tenancy.Names() {
		out = append(out, f.tenancy.Queue(name).BerthQueue)
	}
	return out
}

// tally is what the workloads of one queue, and of those below it, hold and ask for, in the engine's units.
type tally struct {
	above            *tally // of the queue above it
	running, waiting int32
	names            []string // of resources
	used, wanted     []int64  // in the order of names
}

// count goes through all workloads of known queues.
func (f *Feed) count() map[string]*tally {
	out := make(map[string]*tally)
	for _, name := range f.tenancy.Names() {
		out[name] = newTally(cmp.Or(f.opts.GPU, DefaultGPU), f.tenancy.Queue(name))
	}
	stack(f.tenancy, out)
	//archtest:any-order sums of whole numbers
	for _, m := range f.members.pods {
		if y := out[f.payer(m)]; y != nil && m.ours && !m.inGang() {
			y.enter(y.add(m))
		}
	}
	//archtest:any-order sums of whole numbers
	for key, members := range f.members.gangs {
		y := out[f.gangs.described[key].Queue]
		if y == nil {
			continue
		}
		running, waiting := false, false
		for _, m := range members {
			holds, waits := y.add(m)
			running, waiting = running || holds, waiting || waits
		}
		y.enter(running, waiting)
	}
	return out
}

// stack puts each queue's tally below that of its parent. What is in a circle stays alone.
func stack(queues *tenancy.Tenancy, tallies map[string]*tally) {
	//archtest:any-order each tally is put below another once
	for name, y := range tallies {
		parent := queues.Queue(name).Spec.Parent
		at, steps := queues.Queue(name), 0
		for ; at != nil && at.Spec.Parent != "" && steps <= len(tallies); steps++ {
			at = queues.Queue(at.Spec.Parent)
		}
		if steps <= len(tallies) {
			y.above = tallies[parent]
		}
	}
}

func newTally(gpu string, q *tenancy.Queue) *tally {
	names := []string{gpu}
	for i := range q.Spec.Resources {
		names = append(names, q.Spec.Resources[i].Name)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return &tally{names: names, used: make([]int64, len(names)), wanted: make([]int64, len(names))}
}

// add counts a pod. One that has a node holds what it asks for until it is gone.
func (y *tally) add(m *member) (holds, waits bool) {
	holds, waits = m.pod.Spec.NodeName != "", m.waiting()
	if !holds && !waits {
		return false, false
	}
	for ; y != nil; y = y.above {
		at := y.wanted
		if holds {
			at = y.used
		}
		for _, a := range m.takes {
			if i, ok := slices.BinarySearch(y.names, a.Resource); ok {
				at[i] += a.Value
			}
		}
	}
	return holds, waits
}

// enter counts a workload.
func (y *tally) enter(running, waiting bool) {
	for ; y != nil; y = y.above {
		if running {
			y.running++
		}
		if waiting {
			y.waiting++
		}
	}
}
