package preempt

import (
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// Pods that are on their way out. What they leave is as good as free to a claimant that waits anyway, so that nobody
// is evicted for room that is about to be there.
//
// There are two kinds. On some nodes the leavers leave GPUs that nobody holds yet (free). On others all GPUs that
// they leave are held for somebody (spoken): these are of no use to a claimant of GPUs, and taking them off costs a
// trial time, so they stay where only GPUs matter.

// leavers is the pods that will be gone before long. It is worked out once in a cycle, and evict adds to it.
type leavers struct {
	known bool
	// free is those on nodes where they leave GPUs that nobody holds, in no order.
	free []*cluster.Pod
	// spoken is those on nodes where all GPUs that they leave are held for somebody, in no order.
	spoken []*cluster.Pod
	// on is the spoken ones, by node.
	on map[*cluster.Node][]*cluster.Pod
}

// takenOff is a pod on its way out that a trial has taken off its node, and that node: the pod itself has none then.
type takenOff struct {
	pod  *cluster.Pod
	node *cluster.Node
}

// takeOffLeavers takes all that will be gone before long off their nodes. For GPUs alone, those do not matter whose
// GPUs are held for others already.
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

// leave takes the pod off its node. A pod with an owner is made again, and unless it ends for somebody, for whom its
// place is held, it may be back before what it left is used: so it is counted as returning.
func (y *Cycle) leave(p *cluster.Pod) {
	charge := p.Charge
	y.takenOff = append(y.takenOff, takenOff{p, p.Host})
	y.m.Remove(p)
	e := y.m.Evictions[p.Key]
	//mutate: evict-leaver-returns
	if p.Owner != "" && (e == nil || e.UID != p.UID || e.For == "") {
		for _, d := range charge {
			y.returning.Add(d.Dim, d.Amount)
		}
	}
}

// noteLeaver notes a pod that will be gone before long. Where what is free on its node, less what is held, and the
// GPUs of all leavers on it come to nothing, everything that they leave is spoken for.
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

// findLeavers finds, once in a cycle, the pods that will be gone before long. Queues count their leavers, so that it
// costs a look at the pods of those queues alone that have some.
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

// noteLeavers notes those of one queue.
func (y *Cycle) noteLeavers(q *cluster.Queue) {
	for _, p := range q.Pods {
		if p.Leaving() && y.leavesSoon(p) {
			y.noteLeaver(p)
		}
	}
}

// leavesSoon says whether a pod on its way out can be expected to be gone before long. A pod that is being deleted
// and is late, by more than a change may take to be seen, may never go: its room is not counted on. While it is not
// late, a cycle is asked for at that time.
func (y *Cycle) leavesSoon(p *cluster.Pod) bool {
	if !p.Terminating {
		return true // an eviction whose time is over has been dropped
	}
	by := p.ReleaseAt.Add(y.m.Config.AssumeFor)
	if p.ReleaseAt.IsZero() || !cluster.Live(by, y.Now) {
		return false
	}
	y.Wake(by)
	return true
}
