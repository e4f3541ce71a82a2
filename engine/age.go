package engine

import (
	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
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
func (y *cycle) behind(g *cluster.Gang) []why.Gate {
	if len(y.times.blocked) == 0 {
		return nil
	}
	h, ok := y.times.blocked[g.Queue()]
	if !ok || !h.shut || h.key == g.Key {
		return nil
	}
	//mutate: strict-held-passes
	if y.s.m.HasHeld(g) {
		return nil
	}
	//mutate: age-of-its-rank
	if y.s.m.Config.Policy != api.Strict && (y.rank > h.rank && y.s.m.Config.Policy != api.FIFO || y.standing(g) != nil) {
		return nil
	}
	return []why.Gate{{Cause: why.BehindTheHead, Object: h.key, Certificate: -1}}
}

// queues says that the gang, which is blocked by the gates, waits behind another of its queue. Behind one that is only
// older it is told what it would wait for anyway.
func (y *cycle) queues(g *cluster.Gang, gates []why.Gate) bool {
	behind := y.behind(g)
	if len(behind) == 0 {
		y.shut(g, gates)
		return false
	}
	if y.s.m.Config.Policy == api.Strict {
		gates = append(behind, gates...)
	} else if passing(gates) {
		y.times.heads++ // as if it were not behind
	}
	y.wait(g, gates)
	return true
}

// shut notes, under policy strict, that nothing of the gang's queue starts after it in this cycle.
func (y *cycle) shut(g *cluster.Gang, gates []why.Gate) {
	if _, ok := y.times.blocked[g.Queue()]; !ok && y.s.m.Config.Policy == api.Strict && passing(gates) {
		y.lead(g, true)
	}
}

// eldest says whether the gang, which is blocked by the gates, is the first of its queue that has waited for as long as
// it may be passed, and notes that. It makes no difference to who is among the first in line: what could start by then has.
func (y *cycle) eldest(g *cluster.Gang, t cluster.Turn, gates []why.Gate) bool {
	c := &y.s.m.Config
	if c.Policy == api.Strict || !y.aged(t) || y.trial || !passing(gates) {
		return false
	}
	//mutate: age-able
	if h, ok := y.times.blocked[g.Queue()]; ok && (h.rank >= y.rank || c.Policy == api.FIFO) || !y.able(g) {
		return false
	}
	y.lead(g, false)
	y.times.elders++
	return true
}

// aged says whether who has the turn has waited for as long as it may be passed.
func (y *cycle) aged(t cluster.Turn) bool {
	return y.s.m.Config.Overtake > 0 && !t.Created.IsZero() && !y.Now.Before(t.Created.Add(y.s.m.Config.Overtake))
}

// wakeAged wakes when who has the turn, and is promised nothing before, will have waited for so long.
func (y *cycle) wakeAged(t cluster.Turn) {
	if y.s.m.Config.Overtake > 0 && !t.Created.IsZero() && !y.aged(t) {
		y.Wake(t.Created.Add(y.s.m.Config.Overtake))
	}
}

// lead lets the gang be the head of its queue.
func (y *cycle) lead(g *cluster.Gang, shut bool) {
	if y.times.blocked == nil {
		y.times.blocked = make(map[string]head)
	}
	y.times.blocked[g.Queue()] = head{key: g.Key, rank: y.rank, shut: shut}
}

// able says whether the gang could start once all is over that ends by itself. It is asked of a cluster where nothing
// else runs.
func (y *cycle) able(g *cluster.Gang) bool {
	s := y.s
	e := s.emptied()
	if able := &s.entryOf(g).able; able.known && able.as == s.echoes && len(s.m.Bookings) == 0 {
		return able.ok
	}
	guests, known := e.invite(g)
	e.freshen()
	z := e.newCycle(y.Now)
	z.quiet = true
	twin := guests[0].In
	m, end := e.m.Mark(), e.m.Log.End()
	z.keepBookings()
	z.keepOff(z.stay(twin, y.Now))
	ok := z.wouldFit(twin, twin.TurnNow())
	e.m.Rollback(m)
	e.ix.Rewind(end)
	for _, p := range guests {
		e.m.RemovePod(p)
	}
	if g.Lone == nil && !known {
		e.m.SetGang(g.Key, nil)
	}
	e.freshen()
	s.entryOf(g).able = ability{known: true, ok: ok, as: s.echoes}
	return ok
}

// ability is what able found.
type ability struct {
	known, ok bool
	as        uint64 // State.echoes
}

// invite brings the gang's members into the emptied state, where those that run run, and returns those that came. known
// says that the gang was there before.
func (e *State) invite(g *cluster.Gang) (guests []*cluster.Pod, known bool) {
	if g.Lone == nil {
		had := e.m.Gangs[g.Key]
		if known = had != nil && had.Spec != nil; !known {
			e.m.SetGang(g.Key, g.Spec)
		}
	}
	for _, p := range g.All() {
		if e.m.Pods[p.Key] != nil || p.Leaving() {
			continue
		}
		guest := *p.Pod
		guest.Nominated = ""
		if p.Host != nil {
			guest.Node, guest.Devices = p.Host.Name, p.HostDevices
		}
		e.m.SetPod(nil, &guest)
		guests = append(guests, e.m.Pods[p.Key])
	}
	return guests, known
}

// emptied returns the cluster without all that ends by itself. It is kept from then on.
func (s *State) emptied() *State {
	if s.empty != nil {
		return s.empty
	}
	s.empty = Load(api.Snapshot{Version: api.SnapshotVersion}, s.m.Config)
	for _, name := range cluster.SortedKeys(s.m.Nodes) {
		s.echo(api.Ref{Kind: api.KindNode, Key: name})
	}
	for _, name := range cluster.SortedKeys(s.m.Queues) {
		s.echo(api.Ref{Kind: api.KindQueue, Key: name})
	}
	for _, name := range cluster.SortedKeys(s.m.Bookings) {
		s.echo(api.Ref{Kind: api.KindBooking, Key: name})
	}
	for _, key := range cluster.SortedKeys(s.m.Pods) {
		if s.m.Pods[key].Stays(s.m) {
			s.echo(api.Ref{Kind: api.KindPod, Key: key})
		}
	}
	return s.empty
}

// echo tells the emptied state what became of an object.
func (s *State) echo(at api.Ref) {
	e := s.empty
	switch at.Kind {
	case api.KindNode:
		s.echoNode(at.Key)
	case api.KindQueue:
		q := s.m.Queues[at.Key]
		if q == nil || q.Spec == nil || s.m.IsRejected(api.KindQueue, at.Key) {
			q = &cluster.Queue{}
		}
		e.m.QueueNamed(at.Key).Spec, e.m.Tree.Stale = q.Spec, true
	case api.KindBooking:
		delete(e.m.Bookings, at.Key)
		if b := s.m.Bookings[at.Key]; b != nil && !s.m.IsRejected(api.KindBooking, at.Key) {
			e.m.Bookings[at.Key] = b
		}
	case api.KindGang:
		g := e.m.Gangs[at.Key]
		if g == nil {
			return
		}
		e.m.SetGang(at.Key, s.specOf(at.Key))
	case api.KindPod:
		p, had := s.m.Pods[at.Key], e.m.Pods[at.Key]
		if p == nil || !p.Stays(s.m) {
			if had == nil {
				return
			}
			e.m.RemovePod(had)
			break
		}
		if p.Gang != "" {
			e.m.SetGang(p.Gang, s.specOf(p.Gang))
		}
		e.m.SetPod(had, p.Pod)
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
	if g := s.m.Gangs[key]; g != nil && !s.m.IsRejected(api.KindGang, key) {
		return g.Spec
	}
	return nil
}

func (s *State) echoNode(name string) {
	n, e := s.m.Nodes[name], s.empty
	if n != nil && n.Told != nil && !s.m.IsRejected(api.KindNode, name) {
		e.m.SetNode(e.m.NodeNamed(name), n.Told)
	} else if had := e.m.Nodes[name]; had != nil && had.Told != nil {
		e.m.UnsetNode(had)
	}
}
