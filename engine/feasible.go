package engine

import (
	"slices"
	"time"
)

// Feasible lists the nodes, by name, on which the pod could be now if it were alone in line and in its gang:
// every rule about the pod and the node holds, and there is room. Features that the engine does not decide are
// not looked at. It is empty for a pod that is not to be placed. The state is the same before and after.
func (s *State) Feasible(key string, now time.Time) []string {
	s.freshen()
	p := s.pods[key]
	if p == nil || p.gang == nil {
		return nil
	}
	y := &cycle{s: s, now: now.UTC().Round(0)}
	m, end := s.mark(), s.log.end()
	y.expire()
	var names []string
	if p.waits() {
		y.claim(p.gang)
		names = y.feasible(p)
	}
	s.rollback(m)
	s.rewind(end)
	for _, g := range y.dirty {
		s.tally(g)
	}
	return names
}

// feasible lists the nodes that have room for the pod with any of the GPU models that it may have.
func (y *cycle) feasible(p *pod) []string {
	var names []string
	for _, model := range y.models(p.gang) {
		c := y.kin(p.gang, p.gang.turnNow(), model).class(p)
		for _, at := range y.s.nodeParts(c, scope{}) {
			names = append(names, at.name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
