package engine

import (
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
)

// Gang health. A gang that runs under its minimum is repaired before anything else is placed: a member that waits goes
// to the domain of the others. While that fails what the gang holds helps nobody, so after a grace time it is let go
// whole, and starts anew as a whole. Members that nobody would make again stay.

// releaseBroken ends gangs that have been running under their minimum for too long.
func (y *cycle) releaseBroken() {
	s := y.s
	for _, key := range cluster.SortedKeys(s.m.Lapses) {
		if g := s.m.Gangs[key]; g == nil || !g.Degraded() {
			y.Forget(api.KindLapse, key, s.m.Lapses[key].Version)
		}
	}
	for g := range s.short {
		y.short = append(y.short, g)
	}
	cluster.SortGangs(y.short)
	for _, g := range y.short {
		if !g.Degraded() {
			continue
		}
		since := y.Now
		if l := s.m.Lapses[g.Key]; l != nil {
			since = l.Since.UTC()
		} else {
			y.Remember(api.Change{Lapse: &api.Lapse{Gang: g.Key, Version: y.NextVersion(), Since: y.Now}})
		}
		due := since.Add(s.m.Config.GangGrace)
		//mutate: health-grace
		if y.Now.Before(due) {
			y.Wake(due)
			continue
		}
		y.release(g)
	}
}

// LapsedSince is since when the gang of the key has been running under its minimum; zero: it does not.
func (s *State) LapsedSince(key string) time.Time {
	if l := s.m.Lapses[key]; l != nil {
		return l.Since.UTC()
	}
	return time.Time{}
}

// release ends the gang's members that somebody makes again.
func (y *cycle) release(g *cluster.Gang) {
	var over []*cluster.Pod
	for _, p := range g.Members {
		if p.Node != "" && p.Host != nil && !p.Leaving() && p.Owner != "" {
			over = append(over, p)
		}
	}
	y.dismissAll(over, api.Broken)
}
