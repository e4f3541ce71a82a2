package engine

import (
	"slices"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/order"
)

// expire lets memory whose time has come not count, drops what is stale, and makes up the line.
func (y *cycle) expire() {
	s := y.s
	var lifted []*cluster.Gang
	over, next := s.m.Over(y.Now)
	if !next.IsZero() {
		y.Wake(next)
	}
	for _, key := range over {
		a, p := s.m.Assumptions[key], s.m.Pods[key]
		if p != nil && s.m.Assumed(p) == a {
			//mutate: memory-expired-assumption
			s.m.Lift(p)
			if !slices.Contains(lifted, p.In) {
				lifted = append(lifted, p.In)
			}
		}
		y.Forget(api.KindAssumption, key, a.Version)
	}
	y.expireRefusals()
	y.expireHolds()
	lifted = y.expireEvictions(lifted)
	y.times.Expire()
	y.turns = s.line.Begin(&y.Draft, s.ledger, order.Questions{Owed: y.limits.Owed, Aged: y.times.Aged, WakeAged: y.times.WakeAged})
	var only *cluster.Gang
	if y.attempts.Trial {
		only = y.until
	} else {
		y.turns.Repeat()
	}
	for _, g := range lifted {
		y.retally(g)
	}
	//mutate: trial-shares
	if !y.attempts.Trial || s.m.Config.Policy == api.TimeShare { // alone in line, shares decide only on who may be evicted
		s.ledger.FairShares(y.Now, lifted...)
	}
	y.turns.Fill(lifted, only)
}

func (y *cycle) expireRefusals() {
	s := y.s
	for _, key := range cluster.SortedKeys(s.m.Refusals) {
		r := s.m.Refusals[key]
		if p := s.m.Pods[r.Pod]; p == nil || r.UID != "" && p.UID != r.UID || !cluster.Live(r.Until, y.Now) {
			y.Forget(api.KindRefusal, key, r.Version)
			continue
		}
		y.Wake(r.Until)
	}
}

func (y *cycle) expireHolds() {
	s := y.s
	for _, key := range cluster.SortedKeys(s.m.Holds) {
		h := s.m.Holds[key]
		if cluster.Live(h.Until, y.Now) && h.On != nil && (h.Coming || y.awaits(h.Gang)) {
			y.Wake(h.Until)
			continue
		}
		if h.On != nil {
			//mutate: memory-expired-hold
			s.m.IgnoreHold(h)
		}
		y.Forget(api.KindHold, key, h.Version)
	}
}

// awaits says whether a workload of the key has members to place.
func (y *cycle) awaits(key string) bool {
	if g := y.s.m.Gangs[key]; g != nil && g.Wants() {
		return true
	}
	p := y.s.m.Pods[key]
	return p != nil && p.In != nil && p.In.Lone == p && p.Waits()
}

// remember makes an assumption of every placement.
func (y *cycle) remember() {
	until := y.Now.Add(y.s.m.Config.AssumeFor)
	n := 0
	for _, start := range y.Plan.Starts {
		n += len(start.Placements)
	}
	made := make([]api.Assumption, 0, n)
	y.Plan.Changes = slices.Grow(y.Plan.Changes, n)
	for _, start := range y.Plan.Starts {
		for _, p := range start.Placements {
			made = append(made, api.Assumption{Pod: p.Pod, UID: p.UID, Version: y.NextVersion(), Node: p.Node, Devices: p.Devices, Until: until})
			y.Remember(api.Change{Assumption: &made[len(made)-1]})
		}
	}
}

// accrueUsage adds up what queues used until now.
func (y *cycle) accrueUsage() {
	if y.until != nil {
		return
	}
	for _, c := range y.s.ledger.Accrue(y.Now) {
		if c.Usage != nil {
			c.Usage.Version = y.NextVersion()
		}
		y.Remember(c)
	}
	if at := y.s.ledger.AccruesAt(y.Now); !at.IsZero() {
		y.Wake(at)
	}
}

// rememberMix tells the mix that the plan is priced by, unless it was told.
func (y *cycle) rememberMix() {
	if y.until != nil || y.s.mix() == nil {
		return
	}
	if told := y.s.mixes.New(); told != nil {
		mix := *told
		mix.Version = y.NextVersion()
		y.Remember(api.Change{RequestMix: &mix})
	}
}

// expireEvictions drops evictions of pods that are gone, and those whose time is over: their pods are as others again.
// It returns the gangs whose place in line that changes, with those given.
func (y *cycle) expireEvictions(lifted []*cluster.Gang) []*cluster.Gang {
	s := y.s
	for _, key := range cluster.SortedKeys(s.m.Evictions) {
		e, p := s.m.Evictions[key], s.m.Pods[key]
		if p != nil && p.UID == e.UID && cluster.Live(e.Until, y.Now) {
			y.Wake(e.Until)
			continue
		}
		y.Forget(api.KindEviction, key, e.Version)
		if p == nil || !p.Evicting || p.Host == nil {
			continue
		}
		//mutate: memory-expired-eviction
		s.m.UnmarkEvicting(p)
		switch g := p.In; {
		case g == nil:
		case s.line.Entry(g).Lined && !slices.Contains(lifted, g):
			lifted = append(lifted, g)
		case !s.line.Entry(g).Lined:
			y.retally(g)
		}
	}
	return lifted
}
