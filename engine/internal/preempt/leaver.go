package preempt

import (
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// Pods that are on their way out. What they leave is as good as free to a claimant that waits anyway, so that nobody is
// evicted for room that is about to be there.

// leavers is the pods that will be gone before long.
type leavers struct {
	known  bool
	free   []*cluster.Pod                   // on nodes where they leave GPUs that nobody holds
	spoken []*cluster.Pod                   // on nodes where all GPUs that they leave are held for somebody
	on     map[*cluster.Node][]*cluster.Pod // the spoken ones, by node
}

// takenOff is a pod on its way out that a trial has taken off its node.
type takenOff struct {
	pod  *cluster.Pod
	node *cluster.Node
}

// takeOffLeavers takes off their node all who will be gone before long. For GPUs alone, those do not matter whose GPUs
// are held for others already.
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

// leave takes the pod off its node. Unless it ends for somebody it may be back before what it left is used.
func (y *Cycle) leave(p *cluster.Pod) {
	bill := p.Charge
	y.takenOff = append(y.takenOff, takenOff{p, p.Host})
	y.m.Remove(p)
	e := y.m.Evictions[p.Key]
	//mutate: evict-leaver-returns
	if p.Owner != "" && (e == nil || e.UID != p.UID || e.For == "") {
		for _, d := range bill {
			y.returning.Add(d.Dim, d.Amount)
		}
	}
}

// noteLeaver notes a pod that will be gone before long, once what it is for is held.
func (y *Cycle) noteLeaver(p *cluster.Pod) {
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

// findLeavers finds, once in a cycle, the pods that will be gone before long.
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

func (y *Cycle) noteLeavers(q *cluster.Queue) {
	for _, p := range q.Pods {
		if p.Leaving() && y.leavesSoon(p) {
			y.noteLeaver(p)
		}
	}
}

// leavesSoon says whether a pod on its way out can be expected to be gone before long.
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
