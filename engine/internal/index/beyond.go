package index

import (
	"math"

	"github.com/berth-dev/berth/engine/internal/cluster"
)

// CouldHold bounds from above how many pods of the class would fit in one domain of the level if more were free on nodes than
// is: freed lists how much of which resource comes free, of each node in any order. Resources alone count, and which nodes are
// for the class: devices, ports and rules between pods can only let fewer pods in.
//
// For example, pods ask for 8 GPUs each, and four of them must share a rack. In rack r1 nodes have 2, 2 and 0 GPUs free, and 6,
// 4 and 8 come free: at most 1 + 0 + 1 pods fit there, so that no end of that work lets the four start.
//
// The bound must never be too low: where it is below what a workload needs, the workload is not tried, and one that could start would go
// without. It may be too high, since it adds pods up that could not all be there at once, and then costs a search that finds nothing.
//
// It costs a look at each node, and changes nothing: to find the same by lifting pods off the model costs each class that
// is asked meanwhile a look at the nodes, too.
func (x *Index) CouldHold(c *Class, level int, freed func(add func(n *cluster.Node, dim int, amount int64))) int64 {
	if len(c.Demands) == 0 {
		return math.MaxInt64
	}
	x.Use(c)
	more := x.freedOn(c, freed)
	var most int64
	sums := make([]int64, len(c.Sums)) // by domain
	var total int64
	for _, b := range x.m.Topology.Buckets {
		f, v := &c.ByBucket[b.ID], x.viewOf(b)
		if f.shared {
			continue // no node of it is for the class, whatever comes free
		}
		var sum int64
		for slot, n := range b.Nodes {
			if f.Cells[slot].excluded {
				continue
			}
			k := c.holdsWith(v, slot, more[int(n.Index)*len(c.Demands):])
			sum += k
			if level == cluster.NodeLevel {
				most = max(most, k)
			}
		}
		total += sum
		if level >= 0 && b.Domains[level] != nil {
			d := b.Domains[level].ID
			//mutate: index-could-hold-domain
			sums[d] += sum
			most = max(most, sums[d])
		}
	}
	if level == cluster.AnyLevel {
		return total
	}
	return most
}

// freedOn is how much of what the class asks for comes free: by node, and then by demand. The list is good until the next call. Resources that
// the class does not ask for are dropped here, so that the list has nodes times demands entries, of which there are a few,
// and holdsWith reads them in the order in which it compares.
func (x *Index) freedOn(c *Class, freed func(add func(n *cluster.Node, dim int, amount int64))) []int64 {
	size := x.m.Room.Nodes * len(c.Demands)
	if cap(x.freed) < size {
		x.freed = make([]int64, size)
	}
	x.freed = x.freed[:size]
	clear(x.freed)
	freed(func(n *cluster.Node, dim int, amount int64) {
		for i := range c.Demands {
			if c.Demands[i].Dim == dim {
				//mutate: index-could-hold-freed
				x.freed[int(n.Index)*len(c.Demands)+i] += amount
			}
		}
	})
	return x.freed
}

// holdsWith is how many pods of the class the resources of the node would hold with so much more free, by demand. A negative rest, which others
// leave by binding past what there is, is filled first: -2 free and 6 more are 4.
func (c *Class) holdsWith(v *view, slot int, more []int64) int64 {
	k := int64(math.MaxInt32) // as cells count: far above the pods of any gang
	for i, d := range c.Demands {
		free := v.free[d.Dim*v.nodes+slot] + more[i]
		if free < d.Amount {
			return 0
		}
		k = min(k, free/d.Amount)
	}
	return k
}
