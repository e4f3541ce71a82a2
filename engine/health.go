package engine

import (
	"time"

	"github.com/berth-dev/berth/engine/internal/cluster"
)

// Gang health. A gang that runs under its minimum is repaired before anything else is placed: a member that waits goes
// to the domain of the others. While that fails what the gang holds helps nobody, so after a grace time it is let go
// whole, and starts anew as a whole. Members that nobody would make again stay.

// releaseBroken ends gangs that have been running under their minimum for too long.
func (y *cycle) releaseBroken() {
	for g := range y.s.line.Short { //archtest:any-order Broken sorts them
		y.short = append(y.short, g)
	}
	y.dismissals.Broken(y.short)
}

// DegradedSince is since when the gang of the key has been running under its minimum; zero: it does not.
func (s *State) DegradedSince(key string) time.Time {
	if l := s.m.Degradations[key]; l != nil {
		return l.Since.UTC()
	}
	return time.Time{}
}

// isEnding says whether the gang has to go and some of it is still there, which could not be evicted: nothing joins it. One
// that is on its way out whole may begin anew, and then grow.
func (y *cycle) isEnding(g *cluster.Gang) bool {
	return y.starts[g] == 0 && g.Tree.Running() > 0 && y.times.HasToEnd(g)
}
