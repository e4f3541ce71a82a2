package engine

import (
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
)

// Gang health. A gang that runs under its minimum is repaired before anything else is placed: a member that waits goes
// to the domain of the others. While that fails what the gang holds helps nobody, so after a grace time it is let go
// whole, and starts anew as a whole. Members that nobody would make again stay.

// letGo ends gangs that have been running under their minimum for too long.
func (y *cycle) letGo() {
	s := y.s
	for _, key := range sortedKeys(s.lapses) {
		if g := s.gangs[key]; g == nil || !g.lapsed() {
			y.forget(api.KindLapse, key, s.lapses[key].Version)
		}
	}
	for g := range s.short {
		y.short = append(y.short, g)
	}
	sortGangs(y.short)
	for _, g := range y.short {
		if !g.lapsed() {
			continue
		}
		since := y.now
		if l := s.lapses[g.key]; l != nil {
			since = l.Since.UTC()
		} else {
			y.version++
			y.plan.Changes = append(y.plan.Changes, api.Change{Lapse: &api.Lapse{Gang: g.key, Version: y.version, Since: y.now}})
		}
		due := since.Add(s.cfg.GangGrace)
		//mutate: health-grace
		if y.now.Before(due) {
			y.wake(due)
			continue
		}
		y.release(g)
	}
}

// LapsedSince is since when the gang of the key has been running under its minimum; zero: it does not.
func (s *State) LapsedSince(key string) time.Time {
	if l := s.lapses[key]; l != nil {
		return l.Since.UTC()
	}
	return time.Time{}
}

// lapsed says whether the gang runs under its minimum.
func (g *gang) lapsed() bool { return g.tree.running() > 0 && !g.tree.satisfied() }

// release ends the gang's members that somebody makes again.
func (y *cycle) release(g *gang) {
	var over []*pod
	for _, p := range g.members {
		if p.Node != "" && p.seat != nil && !p.leaving() && p.Owner != "" {
			over = append(over, p)
		}
	}
	y.dismissAll(over, api.Broken)
}
