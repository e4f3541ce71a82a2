package engine

import (
	"slices"

	"github.com/berth-dev/berth/engine/internal/attempt"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/preempt"
	"github.com/berth-dev/berth/engine/why"
)

// Preemption in a cycle: what package preempt is given, and what a gang without a place does with its answers.

// newPreemption gives preemption the answers that it needs of this cycle.
func (y *cycle) newPreemption() *preempt.Cycle {
	return y.s.candidates.Begin(&y.Draft, preempt.Placing{
		Gates:     func(g *cluster.Gang) []why.Gate { gates, _ := y.attempts.Gates(g); return gates },
		Afford:    y.attempts.Affords,
		Kins:      y.attempts.Kins,
		Order:     y.attempts.Order,
		Question:  y.attempts.PlainQuestion,
		Place:     func(g *cluster.Gang, t cluster.Turn) bool { return y.attempts.Place(g, t).OK },
		Trial:     y.attempts.Try,
		Retally:   y.retally,
		LeastRate: func() int64 { return y.limits.LeastRate("") },
	}, preempt.Promises{
		StartsBeside: y.attempts.StartsBeside,
		Delays:       func(g *cluster.Gang, pods []*cluster.Pod) bool { return len(y.times.Breaks(g, pods)) > 0 },
		Promised:     func(g *cluster.Gang) bool { return y.times.Standing(g) != nil },
		Stay:         func(g *cluster.Gang) cluster.Stay { return y.times.Stay(g) },
	})
}

// scattered says whether the gates are of the gang that has room in all, but none in one piece. The gates say so of GPUs that are
// given whole; what is free of cards that are given in parts, and of devices for claims, is added up.
func (y *cycle) scattered(g *cluster.Gang, t cluster.Turn, gates []why.Gate) bool {
	full := false
	for _, gate := range gates {
		switch {
		case gate.Cause == why.Fragmented || gate.Cause == why.TopologyFragmented:
		case gate.Cause == why.ClusterFull && gate != attempt.NoRoom:
			full = true
		default:
			return false
		}
	}
	return len(gates) > 0 && (!full || y.preempt.InPieces(g, t))
}

// makingRoom is the gate of a gang that others are on their way out for.
func makingRoom(g *cluster.Gang) []why.Gate {
	return []why.Gate{{Cause: why.MakingRoom, Need: int64(g.Tree.Need()), Certificate: -1}}
}

// sparing is the gates with what fair share kept others from being evicted for the gang, told at the first that is about places.
func (y *cycle) sparing(g *cluster.Gang, gates []why.Gate) []why.Gate {
	over, ok := y.preempt.OverShare(g)
	i := slices.IndexFunc(gates, func(g why.Gate) bool {
		switch g.Cause {
		case why.ClusterFull, why.Fragmented, why.TopologyFragmented, why.Stranded, why.PodRules, why.SearchBudget:
			return true
		}
		return false
	})
	if !ok || i < 0 {
		return gates
	}
	gates = slices.Clone(gates) // others have the same
	gates[i].Share = y.limits.Share(over.Queue.Name, over.Dim, over.Fair, over.With)
	return gates
}

// curable says whether evicting somebody could open the gates.
func (y *cycle) curable(gates []why.Gate) bool {
	placed, places := false, false
	for _, g := range gates {
		switch g.Cause {
		case why.OverQueueLimit, why.OverUserLimit, why.QueueBusy, why.OverQuota, why.NotLent:
		case why.ClusterFull, why.Fragmented, why.TopologyFragmented, why.Stranded, why.SearchBudget, why.PodRules:
			places = true
			cert := g.Certificate
			placed = placed || cert < 0 || len(y.s.m.Holds) > 0 || y.Plan.Certificates[cert].IfEvicted >= int64(y.Plan.Certificates[cert].Need)
		case why.NoMatchingNode, why.LargerThanAnyNode: // of one GPU model
			places = true
		default:
			return false
		}
	}
	return len(gates) > 0 && (placed || !places)
}
