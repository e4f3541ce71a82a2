package preempt

import (
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// Leavers: pods that are on their way out, because they are being deleted or were evicted. What they leave is as good as
// free to a claimant that waits anyway, so each trial takes them off their nodes before it looks for victims. Otherwise
// a workload would be evicted for room that is about to be there.
//
// There are two kinds. On some nodes the leavers leave GPUs that are not held for a workload (free). On others all GPUs that they
// leave are held for workloads (spoken). These are of no use to a claimant of GPUs, and taking them off costs time in every
// trial, so they stay where only GPUs matter.
//
// For example, two pods of 4 GPUs each leave n1, which has 8, and all 8 are held for a gang: both are spoken. If 4 were
// held, both would be free, since what is left over is told for the node and not for each pod.
//
// Leavers follow from the pods of the model, the holds and the time. They are found once in a cycle, when first asked for,
// and evict adds the victims of this plan. A hold that is made or given up later in the cycle does not sort them again: a
// leaver in the wrong list costs a trial some time, or leaves room uncounted until the next cycle.

// leavers is the pods that will be gone before long. The lists are sets: all pods of a list are taken off together.
type leavers struct {
	// known says that the lists were made in this cycle.
	known bool
	// free is the leavers on nodes where they leave GPUs that are not held, in no order.
	free []*cluster.Pod
	// spoken is the leavers on nodes where all GPUs that they leave are held for workloads, in no order.
	spoken []*cluster.Pod
	// on is the same pods as spoken, by node; nil: there are none.
	on map[*cluster.Node][]*cluster.Pod
}

// takenOff is a leaver that a trial has taken off its node, with that node: the pod itself has none then. Begins asks
// when the node will be empty.
type takenOff struct {
	pod  *cluster.Pod
	node *cluster.Node
}

// takeOffLeavers takes the leavers off their nodes in the model, until the trial is rolled back. gpus says that only GPUs
// matter, and so the spoken ones stay. findLeavers must have been called.
func (y *Cycle) takeOffLeavers(gpus bool) {
	for _, p := range y.leavers.free {
		y.leave(p)
	}
	for _, p := range y.leavers.spoken {
		if !gpus {
			y.leave(p)
		}
	}
}

// leave takes the pod off its node. A pod with an owner is made again. Unless it ends for a workload, for which its place is
// held, its replacement may be back before what it left is used: so what it was charged counts as returning, and cannot be
// borrowed (scenario leaver-comes-back).
func (y *Cycle) leave(p *cluster.Pod) {
	charge := p.Charge
	y.takenOff = append(y.takenOff, takenOff{p, p.Host})
	y.m.Remove(p)
	e := y.m.EvictionOf(p)
	//mutate: evict-leaver-returns
	if p.Owner != "" && (e == nil || e.For == "") {
		for _, d := range charge {
			y.returning.Add(d.Dim, d.Amount)
		}
	}
}

// noteLeaver adds a pod that will be gone before long to one of the lists. Where the free GPUs of its node, after holds,
// and the GPUs of all leavers on it come to nothing, everything that they leave is spoken for. A leaver without GPUs on a
// full node is spoken for too, and so only counts where more than GPUs matter. The pod must have a node. It costs a look at
// the pods of the node.
func (y *Cycle) noteLeaver(p *cluster.Pod) {
	// What is free already is after holds, and negative where they keep more than is free yet.
	free := p.Host.Free.At(quantity.DimGPU)
	for _, o := range p.Host.Pods {
		if o.Leaving() {
			free += o.Amount(quantity.DimGPU)
		}
	}
	if free > 0 {
		y.leavers.free = append(y.leavers.free, p)
	} else {
		y.leavers.spoken = append(y.leavers.spoken, p)
		if y.leavers.on == nil {
			y.leavers.on = make(map[*cluster.Node][]*cluster.Pod)
		}
		y.leavers.on[p.Host] = append(y.leavers.on[p.Host], p)
	}
}

// findLeavers finds the leavers, once in a cycle. Queues count theirs (Queue.Leavers), so that it costs a look at the pods
// of those queues alone that have some. Every claim that evicts calls it before its first trial. A move does not: it is
// made only where room is free now, and counts on no leaver.
func (y *Cycle) findLeavers() {
	if y.leavers.known {
		return
	}
	y.leavers.known = true
	//archtest:any-order a set: all of them are taken off their nodes together
	for _, q := range y.m.Queues {
		if q.Leavers > 0 {
			y.noteLeavers(q)
		}
	}
	if y.m.Unqueued.Leavers > 0 {
		y.noteLeavers(&y.m.Unqueued)
	}
}

// noteLeavers notes the leavers of one queue that can be expected to be gone before long.
func (y *Cycle) noteLeavers(q *cluster.Queue) {
	for _, p := range q.Pods {
		if p.Leaving() && y.leavesSoon(p) {
			y.noteLeaver(p)
		}
	}
}

// leavesSoon says whether a pod on its way out can be expected to be gone before long. A pod that is being deleted and is
// late by more than a change may take to be seen (Config.AssumeFor) may never go, as on a node that is lost: its room is
// not counted on. While it is not late, the next cycle is due at that time at the latest, because the answer changes then.
// A deletion of which the time is not known counts as late.
func (y *Cycle) leavesSoon(p *cluster.Pod) bool {
	if !p.Terminating {
		return true // evicted: an eviction whose time is over has been dropped from the model (internal/memory)
	}
	by := p.ReleaseAt.Add(y.m.Config.AssumeFor)
	if p.ReleaseAt.IsZero() || !cluster.Live(by, y.Now) {
		return false
	}
	y.Wake(by)
	return true
}
