package engine

import (
	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/why"
)

// Age. Small work of its own queue could pass a large gang for ever. So once a workload has waited for Config.Overtake,
// and is the first of its queue to have done so, it is promised a start wherever it is in line. Where nobody can tell
// when a place becomes free, or many have been promised one, nothing starts that comes after it in its queue, as under policy strict for all. That is for
// what could start once all is over that ends by itself; anything else would shut its queue for good.

// mostElders bounds how many workloads of a cycle are promised a start for their age: each costs what all before it keep.
// Queues of those beyond it are shut.
const mostElders = 16

// head is the first workload of its queue that is blocked and, but for policy strict, has waited for too long.
type head struct {
	key  string
	rank int32
	shut bool // those after it wait behind it, but for those above its rank; under policies strict and fifo all do
}

// behind says which blocked gang of its queue the gang waits behind. Who has a place held for it waits behind nobody:
// others ended for it, who may be the head now. Who was promised a start waits for nobody's age.
func (y *cycle) behind(g *gang) []why.Gate {
	if len(y.times.blocked) == 0 {
		return nil
	}
	h, ok := y.times.blocked[g.queue()]
	if !ok || !h.shut || h.key == g.key {
		return nil
	}
	//mutate: strict-held-passes
	if y.hasHeld(g) {
		return nil
	}
	//mutate: age-of-its-rank
	if y.s.cfg.Policy != api.Strict && (y.rank > h.rank && y.s.cfg.Policy != api.FIFO || y.standing(g) != nil) {
		return nil
	}
	return []why.Gate{{Cause: why.BehindTheHead, Object: h.key, Certificate: -1}}
}

// queues says that the gang, which is blocked by the gates, waits behind another of its queue. Behind one that is only
// older it is told what it would wait for anyway.
func (y *cycle) queues(g *gang, gates []why.Gate) bool {
	behind := y.behind(g)
	if len(behind) == 0 {
		y.shut(g, gates)
		return false
	}
	if y.s.cfg.Policy == api.Strict {
		gates = append(behind, gates...)
	} else if passing(gates) {
		y.times.heads++ // as if it were not behind
	}
	y.wait(g, gates)
	return true
}

// shut notes, under policy strict, that nothing of the gang's queue starts after it in this cycle.
func (y *cycle) shut(g *gang, gates []why.Gate) {
	if _, ok := y.times.blocked[g.queue()]; !ok && y.s.cfg.Policy == api.Strict && passing(gates) {
		y.lead(g, true)
	}
}

// eldest says whether the gang, which is blocked by the gates, is the first of its queue that has waited for as long as
// it may be passed, and notes that. It makes no difference to who is among the first in line: what could start by then has.
func (y *cycle) eldest(g *gang, t turn, gates []why.Gate) bool {
	c := &y.s.cfg
	if c.Policy == api.Strict || !y.aged(t) || y.trial || !passing(gates) {
		return false
	}
	//mutate: age-able
	if h, ok := y.times.blocked[g.queue()]; ok && (h.rank >= y.rank || c.Policy == api.FIFO) || !y.able(g) {
		return false
	}
	y.lead(g, false)
	y.times.elders++
	return true
}

// aged says whether who has the turn has waited for as long as it may be passed.
func (y *cycle) aged(t turn) bool {
	return y.s.cfg.Overtake > 0 && !t.created.IsZero() && !y.now.Before(t.created.Add(y.s.cfg.Overtake))
}

// wakeAged wakes when who has the turn, and is promised nothing before, will have waited for so long.
func (y *cycle) wakeAged(t turn) {
	if y.s.cfg.Overtake > 0 && !t.created.IsZero() && !y.aged(t) {
		y.wake(t.created.Add(y.s.cfg.Overtake))
	}
}

// lead lets the gang be the head of its queue.
func (y *cycle) lead(g *gang, shut bool) {
	if y.times.blocked == nil {
		y.times.blocked = make(map[string]head)
	}
	y.times.blocked[g.queue()] = head{key: g.key, rank: y.rank, shut: shut}
}

// able says whether the gang could start once all is over that ends by itself. It is asked of a cluster where nothing
// else runs.
func (y *cycle) able(g *gang) bool {
	s := y.s
	e := s.emptied()
	if g.able.known && g.able.as == s.echoes && len(s.bookings) == 0 {
		return g.able.ok
	}
	guests, known := e.invite(g)
	e.freshen()
	z := &cycle{s: e, now: y.now, plan: api.Plan{Now: y.now}, budget: e.cfg.SearchBudget}
	z.quiet = true
	twin := guests[0].gang
	m, end := e.mark(), e.log.end()
	z.keepBookings()
	z.keepOff(z.stay(twin, y.now))
	ok := z.wouldFit(twin, twin.turnNow())
	e.rollback(m)
	e.rewind(end)
	for _, p := range guests {
		e.removePod(p)
	}
	if g.lone == nil && !known {
		e.setGang(g.key, nil)
	}
	e.freshen()
	g.able = ability{known: true, ok: ok, as: s.echoes}
	return ok
}

// ability is what able found.
type ability struct {
	known, ok bool
	as        uint64 // State.echoes
}

// invite brings the gang's members into the emptied state, where those that run run, and returns those that came. known
// says that the gang was there before.
func (e *State) invite(g *gang) (guests []*pod, known bool) {
	if g.lone == nil {
		had := e.gangs[g.key]
		if known = had != nil && had.spec != nil; !known {
			e.setGang(g.key, g.spec)
		}
	}
	for _, p := range g.all() {
		if e.pods[p.Key] != nil || p.leaving() {
			continue
		}
		guest := *p.Pod
		guest.Nominated = ""
		if p.seat != nil {
			guest.Node, guest.Devices = p.seat.name, p.seatDevices
		}
		e.setPod(nil, &guest)
		guests = append(guests, e.pods[p.Key])
	}
	return guests, known
}

// emptied returns the cluster without all that ends by itself. It is kept from then on.
func (s *State) emptied() *State {
	if s.empty != nil {
		return s.empty
	}
	s.empty = Load(api.Snapshot{Version: api.SnapshotVersion}, s.cfg)
	for name := range s.nodes {
		s.echo(api.Ref{Kind: api.KindNode, Key: name})
	}
	for name := range s.queues {
		s.echo(api.Ref{Kind: api.KindQueue, Key: name})
	}
	for name := range s.bookings {
		s.echo(api.Ref{Kind: api.KindBooking, Key: name})
	}
	for key, p := range s.pods {
		if p.stays(s) {
			s.echo(api.Ref{Kind: api.KindPod, Key: key})
		}
	}
	return s.empty
}

// stays says whether the pod has a node and does not end by itself, as far as anybody knows.
func (p *pod) stays(s *State) bool {
	if p.Node == "" || p.Terminating || s.isRejected(api.KindPod, p.Key) {
		return false
	}
	t := s.termsOf(p)
	return p.Foreign || p.Endless && t.Expected == 0 && t.Max == 0
}

// echo tells the emptied state what became of an object.
func (s *State) echo(at api.Ref) {
	e := s.empty
	switch at.Kind {
	case api.KindNode:
		s.echoNode(at.Key)
	case api.KindQueue:
		q := s.queues[at.Key]
		if q == nil || q.spec == nil || s.isRejected(api.KindQueue, at.Key) {
			q = &queue{}
		}
		e.queueNamed(at.Key).spec, e.forest.stale = q.spec, true
	case api.KindBooking:
		delete(e.bookings, at.Key)
		if b := s.bookings[at.Key]; b != nil && !s.isRejected(api.KindBooking, at.Key) {
			e.bookings[at.Key] = b
		}
	case api.KindGang:
		g := e.gangs[at.Key]
		if g == nil {
			return
		}
		e.setGang(at.Key, s.specOf(at.Key))
	case api.KindPod:
		p, had := s.pods[at.Key], e.pods[at.Key]
		if p == nil || !p.stays(s) {
			if had == nil {
				return
			}
			e.removePod(had)
			break
		}
		if p.Gang != "" {
			e.setGang(p.Gang, s.specOf(p.Gang))
		}
		e.setPod(had, p.Pod)
	default:
		return
	}
	s.echoes++
}

// echoChange is echo of what the change is about.
func (s *State) echoChange(c *api.Change) {
	if ref, ok := c.Ref(); ok {
		s.echo(ref)
	} else if c.Gone != nil {
		s.echo(*c.Gone)
	}
}

// specOf returns what is known of the gang, nil for nothing that makes sense.
func (s *State) specOf(key string) *api.Gang {
	if g := s.gangs[key]; g != nil && !s.isRejected(api.KindGang, key) {
		return g.spec
	}
	return nil
}

func (s *State) echoNode(name string) {
	n, e := s.nodes[name], s.empty
	if n != nil && n.told != nil && !s.isRejected(api.KindNode, name) {
		e.setNode(e.nodeNamed(name), n.told)
	} else if had := e.nodes[name]; had != nil && had.told != nil {
		e.unsetNode(had)
	}
}
