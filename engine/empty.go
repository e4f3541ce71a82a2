package engine

import (
	"slices"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/order"
)

// able says whether the gang could start once all is over that ends by itself. It is asked of a cluster where nothing
// else runs.
func (y *cycle) able(g *cluster.Gang) bool {
	s := y.s
	e := s.emptied()
	if able := &s.line.Entry(g).Able; able.Known && able.As == s.echoes && len(s.m.Bookings) == 0 {
		return able.OK
	}
	guests, known := e.invite(g)
	e.freshen()
	z := e.newCycle(y.Now)
	z.attempts.Quiet = true
	twin := guests[0].In
	var ok bool
	z.undone(func() {
		z.dismissals.Bookings()
		z.times.KeepOff(twin)
		ok = z.attempts.WouldFit(twin, twin.TurnNow())
	})
	for _, p := range guests {
		e.m.RemovePod(p)
	}
	if g.Lone == nil && !known {
		e.m.SetGang(g.Key, nil)
	}
	e.freshen()
	s.line.Entry(g).Able = order.Ability{Known: true, OK: ok, As: s.echoes}
	return ok
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
	s.empty.unpriced = true // whether something fits does not depend on prices, and each guest would change the mix
	for _, name := range cluster.SortedKeys(s.m.Nodes) {
		s.echo(api.Ref{Kind: api.KindNode, Key: name})
	}
	for _, name := range cluster.SortedKeys(s.m.Queues) {
		s.echo(api.Ref{Kind: api.KindQueue, Key: name})
	}
	for _, name := range cluster.SortedKeys(s.m.Bookings) {
		s.echo(api.Ref{Kind: api.KindBooking, Key: name})
	}
	var stay []string
	for key, p := range s.m.Pods {
		if p.Stays(s.m) {
			stay = append(stay, key)
		}
	}
	slices.Sort(stay)
	for _, key := range stay {
		s.echo(api.Ref{Kind: api.KindPod, Key: key})
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

// echoNode gives the emptied state the node if it counts. One that lists another node's device is rejected by name and
// counts without it, here as there.
func (s *State) echoNode(name string) {
	n, e := s.m.Nodes[name], s.empty
	if n != nil && n.Spec != nil {
		e.m.SetNode(e.m.NodeNamed(name), n.Spec)
	} else if had := e.m.Nodes[name]; had != nil && had.Told != nil {
		e.m.UnsetNode(had)
	}
}
