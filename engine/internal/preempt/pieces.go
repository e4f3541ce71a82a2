package preempt

import (
	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/place"
)

// What is free in pieces. Certificates add up what is free of nodes, and so they say whether whole GPUs are scattered. A part of a GPU
// is no amount of a node: where no card has enough left, the certificate says that the cluster is full. Whether all cards together
// would have enough is added up here, when work may be moved for a gang. It decides who is worth a search, and nothing else: one
// gang in a cycle has one.

// mostSummed is for how many gangs in a cycle the cards are added up.
const mostSummed = 16

// inPieces says whether the gang, which has no place, could have one if what is free of the cards of its nodes were in one piece.
// It costs nothing where all GPUs are given whole, and otherwise a look at each card and device.
func (y *Cycle) inPieces(g *cluster.Gang, t cluster.Turn) bool {
	if !y.m.GivesParts() || y.summed == mostSummed || !y.mayMoveFor(g) {
		return false
	}
	y.summed++
	c := y.newClaim(g, t)
	c.prepare()
	for i := range c.kins {
		if wants := c.wants(i); len(wants) > 0 && c.inPieces(wants[0]) {
			return true
		}
	}
	return false
}

// inPieces says whether the cards of the nodes where the pods may be have enough left for all of them together.
func (c *claim) inPieces(o place.Order) bool {
	v, need := c.newScan(o), int64(len(o.Pods))*api.Whole
	var of cards
	for _, sh := range c.y.m.Topology.Buckets {
		for _, n := range sh.Nodes {
			if !v.admits(o.Class, n) {
				continue
			}
			of.read(n, o.Class)
			of.claims = o.Class.ClaimsOn(n)
			//mutate: move-in-pieces
			if need -= of.pieces(o.Class); need <= 0 {
				return true
			}
		}
	}
	return false
}

// onCard says whether the claimant is one pod that needs a GPU, or parts of some, where GPUs are given in parts.
func (c *claim) onCard() bool {
	if !c.alike || !c.y.m.GivesParts() {
		return false
	}
	o := c.orderOf(0)
	return len(o.Pods) == 1 && (o.Class.Shape.HasGPU && o.Class.Shape.GPUs <= 1 || o.Class.Shape.Spec.Claims != nil)
}
