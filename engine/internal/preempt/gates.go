package preempt

import (
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/place"
	"github.com/berth-dev/berth/engine/why"
)

// What the gates of a gang say about evictions and moves. Both cost a search, so that they are tried only for gates that they
// could open.

// curable says whether evictions could open the gates: all of them, because as long as one stays shut, victims for
// the others are evicted in vain. Limits of queues open when work of the same queue ends. Of gates about nodes at least one must be of a GPU model
// for which the victims could leave enough.
func (y *Cycle) curable(gates []why.Gate) bool {
	enough, nodes := false, false
	for _, g := range gates {
		switch g.Cause {
		case why.OverQueueLimit, why.OverUserLimit, why.QueueBusy, why.OverQuota, why.NotLent:
		case why.ClusterFull, why.Fragmented, why.TopologyFragmented, why.Stranded, why.SearchBudget, why.PodRules:
			nodes = true
			enough = enough || y.leavesEnough(g)
		case why.NoMatchingNode, why.LargerThanAnyNode: // of one GPU model
			nodes = true
		default:
			return false
		}
	}
	return len(gates) > 0 && (enough || !nodes)
}

// leavesEnough says whether there could be room enough if all that may be evicted were gone, for all that the gate says: its certificate bounds
// that (IfEvicted). A gate without a certificate bounds nothing, and neither does any while places are held, since a place of others may be
// taken without a victim.
func (y *Cycle) leavesEnough(g why.Gate) bool {
	if g.Certificate < 0 || len(y.m.Holds) > 0 {
		return true
	}
	cert := &y.Plan.Certificates[g.Certificate]
	return cert.IfEvicted >= int64(cert.Need)
}

// scattered says whether the gates are of a gang that has room in all, but none in one piece, so that moving work could help. For one of them
// at least, what can be moved must leave enough: what is moved may be evicted. The
// gates say so of GPUs that are given whole. What is free of cards that are given in parts, and of devices for claims, is added up
// (inPieces). A gate of which nothing is proved yet says nothing.
func (y *Cycle) scattered(g *cluster.Gang, t cluster.Turn, gates []why.Gate) bool {
	full, enough := false, false
	for _, gate := range gates {
		enough = enough || y.leavesEnough(gate)
		switch {
		case gate.Cause == why.Fragmented || gate.Cause == why.TopologyFragmented:
		case gate.Cause == why.ClusterFull && gate != place.NoRoom:
			full = true
		default:
			return false
		}
	}
	return enough && (!full || y.inPieces(g, t))
}

// MakingRoom is the gate of the gang, which waits for others to be gone: it says how many pods are on their way out for it, by
// this plan or an earlier one. They are counted once in a cycle, and evictions of this plan as they come.
func (y *Cycle) MakingRoom(g *cluster.Gang) []why.Gate {
	if y.going == nil {
		y.going = make(map[string]int)
		for pod, e := range y.m.Evictions {
			if p := y.m.Pods[pod]; p != nil && y.m.EvictionOf(p) == e && p.Host != nil && !e.Refused && cluster.Live(e.Until, y.Now) {
				y.going[e.For]++
			}
		}
	}
	for _, e := range y.Plan.Evictions[y.counted:] {
		y.going[e.For]++
	}
	y.counted = len(y.Plan.Evictions)
	return []why.Gate{{Cause: why.MakingRoom, Need: max(1, int64(y.going[g.Key])), Certificate: -1}}
}
