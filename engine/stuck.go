package engine

import (
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/place"
)

// Most of a long line waits for room, and asks for it in few ways: so many pods of one class, in one domain of a
// level. Such a question is answered once for all who ask it. The answer is the one that placing would give.

// stuck deals with a gang that a look at the counts shows to have no place, and says whether that is so. Others end for
// it before it is proved: who gets a place needs no proof.
func (y *cycle) stuck(g *cluster.Gang, t cluster.Turn) bool {
	s, ok := y.attempts.Stuck(g, t)
	if !ok {
		return false
	}
	gates := y.limits.Gates(g, "", nil)
	if !s.Proved && len(y.times.Behind(g, y.rank)) == 0 {
		gates := append(gates[:len(gates):len(gates)], place.NoRoom)
		if y.hasRoomMade(g, t, gates) {
			y.times.Shut(g, y.rank, gates)
			return true
		}
	}
	if shown := y.attempts.Show(s); len(gates) > 0 {
		gates = append(gates, shown...)
	} else {
		gates = shown
	}
	if !y.queues(g, gates) && !(s.Proved && y.hasRoomMade(g, t, gates)) {
		gates = y.limits.Spared(g, gates)
		y.hope(g, t, gates)
		if !y.attempts.Sketch {
			y.keepAnswer(g, t, gates, s.Standing)
		}
	}
	return true
}
