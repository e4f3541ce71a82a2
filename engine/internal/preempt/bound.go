package preempt

import (
	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// What a claim could ever get, from sums alone. Most claims that fail ask for more than everything that may be
// evicted for them would free, in all or in any one domain. They are turned down here, before any unit is looked at.
//
// For example, a gang asks for 64 GPUs within one rack. The queue beside its own holds 80 GPUs more than its quota:
// 40 in rack r1 and 40 in rack r2, and 10 GPUs are free in each. In all there are 100 GPUs, but no rack gets beyond
// 50, so the claim cannot succeed.
//
// It is safe because every sum is too large if anything: it counts units that are too young, GPUs of another model,
// and GPUs that are free in pieces. A claim that fails here fails in every later step as well.

// beyondAll says whether the claim asks for more GPUs than there would be if everything that may be evicted for it
// were gone: in all, or in each of the domains that its members must share.
//
// It only knows what is reclaimed. Where other work may be evicted too, by fair share, idleness, promise or priority,
// it says no. It costs an addition for each queue and bucket, and one for each domain if members must share one.
func (c *claim) beyondAll() bool {
	y, s := c.y, c.y.Candidates
	// Each of these is a right beside reclaiming, or a claim that GPUs do not decide: the sums would not be an upper
	// bound. In their order: the gang asks for no GPUs; nothing that it asks for is in any quota; it has no queue, and so
	// no quota to reclaim; fair shares; idle work; work that overran beside the gang's promise; lower priorities of its
	// own queue.
	if c.gpus == 0 || len(c.dims) == 0 || c.q == &s.m.Unqueued || s.m.Config.Policy == api.TimeShare || len(s.m.Tree.Idle) > 0 ||
		s.m.Promises[c.g.Key] != nil || c.q.Outranks(c.t.Priority) {
		return false
	}
	// A cut is what a queue holds above its quota, with its GPUs added up when the cut was made: a claim adds one number
	// for each queue, however many units the queue has.
	cuts, units := c.cuts(), 0
	var free int64
	for _, x := range cuts {
		free += x.gpus
		units += len(x.units)
	}
	if units == 0 {
		return false // that is known in another way
	}
	free += y.untaken()
	for _, x := range cuts {
		// The claim fails now, with the young units counted as well; but it must be woken when they may be evicted,
		// as find would have it woken.
		if y.Now.Before(x.ripe) {
			c.awaitRipe(x)
		}
	}
	y.findLeavers()
	// Pods on their way out leave their GPUs without an eviction, also those whose GPUs are held for others, which
	// may be given.
	for _, list := range [][]*cluster.Pod{y.leavers.free, y.leavers.spoken} {
		for _, p := range list {
			free += p.Amount(quantity.DimGPU)
		}
	}
	// For example, 10 GPUs are free, cuts have 24 and 16, and leavers 4: 54. A gang of 64 ends here. One of 48
	// is within the sum, and if it must share a rack, the racks are asked one by one.
	if free < c.gpus {
		return true
	}
	p, ok := y.Question(c.g, c.t)
	return ok && p.Level >= 0 && !y.m.HasHeld(c.g) && c.beyondDomains(p.Level, cuts)
}

// cuts lists what other queues hold above their quota, as far up as the claimant's own queue is within its quota: the
// same walk as reclaim makes, with the sums of each cut and without its units.
func (c *claim) cuts() []*cut {
	s := c.y.Candidates
	var out []*cut
	for x := c.q; x != nil && c.fitsIn(x, s.m.Quota); x = x.Parent {
		for _, z := range s.siblings(x) {
			if z == x {
				continue
			}
			if x := c.y.cutOf(z, c.dims, s.m.Quota, false); x != nil {
				out = append(out, x)
			}
		}
	}
	return out
}

// awaitRipe asks for a cycle at the time when units of the cut that are too young may be evicted.
func (c *claim) awaitRipe(x *cut) {
	for _, u := range x.units {
		least := c.y.minRun(u.of.payer)
		for _, p := range u.pods {
			if at := p.Started.Add(least); !p.Started.IsZero() && c.y.Now.Before(at) {
				c.y.Wake(at)
				break
			}
		}
	}
}

// untaken is how many GPUs no pod has, on all nodes together. Those that are held count, because the claimant may be
// given them. A node that has given away more than it offers, since GPUs of it were lost, has none; what it is short of
// is not taken from what others have.
func (y *Cycle) untaken() (sum int64) {
	for _, sh := range y.m.Topology.Buckets {
		sum += sh.UntakenGPUs(y.m.Config.GPU)
	}
	return sum
}

// beyondDomains says whether no domain of the level would have GPUs enough. It adds up by bucket what cuts and leavers
// would leave there beside what no pod has, and compares each domain with the sum over its buckets. In the example at the
// top r1 comes to 40 + 10 and r2 to the same, and neither has 64.
//
// A bucket lies within one domain of each level, so that one list of sums serves every level. The walk ends at the first
// domain that has enough, which on a cluster with room is an early one.
func (c *claim) beyondDomains(level int, cuts []*cut) bool {
	y, s := c.y, c.y.Candidates
	// sums is GPUs by bucket.
	sums := make([]int64, s.m.Topology.Made)
	for _, x := range cuts {
		for _, f := range x.buckets {
			sums[f.bucket.ID] += f.gpus
		}
	}
	for _, list := range [][]*cluster.Pod{y.leavers.free, y.leavers.spoken} {
		for _, p := range list {
			if p.Host.Bucket != nil {
				sums[p.Host.Bucket.ID] += p.Amount(quantity.DimGPU)
			}
		}
	}
	for _, d := range s.m.Topology.Sorted(level) {
		var sum int64
		for _, sh := range d.Buckets {
			sum += sums[sh.ID] + sh.UntakenGPUs(s.m.Config.GPU)
		}
		if sum >= c.gpus {
			return false
		}
	}
	return true
}
