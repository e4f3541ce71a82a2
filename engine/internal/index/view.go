package index

import (
	"math"

	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// view is the nodes of one bucket as all classes count them: resource by resource, so that a class reads a few short rows
// of numbers rather than every node. It is derived from the nodes and their kinds, and holds at the bucket's number and epoch,
// at Index.kindsMade and while no resource is new: a node's spec changes with its number.
type view struct {
	epoch, touched, made uint64

	nodes     int
	dims      int     // resources
	free      []int64 // by resource, then by slot: what is free
	ifEvicted []int64 // likewise: what would be if everything that can go were gone
	kinds     []*cluster.Node
	ids       []int32 // of kinds: NodeKind.id
	of        []uint8 // by slot: index in kinds, which has one node of each kind
	nominated bool    // pods are nominated to some node
}

// viewOf returns the view of the bucket, up to date. It is good until the bucket changes. Where nothing has changed it costs four
// comparisons, and otherwise a look at each node of the bucket, once for all classes.
func (x *Index) viewOf(b *cluster.Bucket) *view {
	if int(x.m.Topology.Made) > len(x.views) {
		x.dropViews()
	}
	v := &x.views[b.ID]
	//mutate: index-view-of-bucket
	if v.touched != b.Touched || v.epoch != b.Epoch || v.made != x.kindsMade || v.dims != len(x.m.Dims.Names) {
		x.look(v, b)
	}
	return v
}

// dropViews makes room for the views of new buckets, and forgets those of buckets that are not there any more. Numbers of buckets only grow,
// so that the list keeps an entry for each that ever was; those of buckets that were taken down are left empty, and their rows are free.
func (x *Index) dropViews() {
	views := make([]view, x.m.Topology.Made)
	for _, b := range x.m.Topology.Buckets {
		if int(b.ID) < len(x.views) {
			views[b.ID] = x.views[b.ID]
		}
	}
	x.views = views
}

// look makes the view anew, in the memory that it has where that is enough. What can go (Node.Yield) is added to what is free here, once for
// each node and resource, because every class that proves a refusal asks for the sum.
func (x *Index) look(v *view, b *cluster.Bucket) {
	nodes, dims := len(b.Nodes), len(x.m.Dims.Names)
	v.epoch, v.touched, v.made, v.nodes, v.dims = b.Epoch, b.Touched, x.kindsMade, nodes, dims
	if cap(v.free) < nodes*dims || cap(v.of) < nodes {
		v.free, v.ifEvicted, v.of = make([]int64, nodes*dims), make([]int64, nodes*dims), make([]uint8, nodes)
	}
	v.free, v.ifEvicted, v.of, v.kinds = v.free[:nodes*dims], v.ifEvicted[:nodes*dims], v.of[:nodes], v.kinds[:0]
	v.ids = v.ids[:0]
	v.nominated = false
	x.looked++
	x.metKinds = append(x.metKinds, make([]metKind, max(0, len(x.kinds)-len(x.metKinds)))...)
	for slot, n := range b.Nodes {
		for dim := range dims {
			free := n.Free.At(dim)
			v.free[dim*nodes+slot], v.ifEvicted[dim*nodes+slot] = free, free+n.Yield.At(dim)
		}
		v.nominated = v.nominated || len(n.Nominated) > 0
		// The first node of each kind stands for the kind. A bucket has 256 nodes at most, so that an index of kinds fits in a
		// byte.
		met := &x.metKinds[x.Kind(n).id]
		if met.look != x.looked {
			met.look, met.at = x.looked, uint8(len(v.kinds))
			v.kinds, v.ids = append(v.kinds, n), append(v.ids, int32(x.Kind(n).id))
		}
		v.of[slot] = met.at
	}
}

// metKind is where a kind is among the kinds of a view, if it was met in the look with that number. Numbers spare it to reset the
// list, which is by kind, before each look: there may be as many kinds as nodes.
type metKind struct {
	look uint64
	at   uint8
}

// freeOf is what of a resource is free on the nodes, by slot.
func (v *view) freeOf(dim int) []int64 { return v.free[dim*v.nodes : (dim+1)*v.nodes] }

// evictedQuotient is how many pods with the demands the node's resources would hold if everything that can go were gone: what
// may be evicted, and what is leaving. It is Quotient on the view's numbers.
func (v *view) evictedQuotient(slot int, demands []quantity.Demand) int64 {
	k := int64(math.MaxInt64)
	for _, d := range demands {
		f := v.ifEvicted[d.Dim*v.nodes+slot]
		if f < d.Amount {
			return 0
		}
		if !holds(f, k, d.Amount) {
			k = f / d.Amount
		}
	}
	return k
}
