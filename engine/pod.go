package engine

import (
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// pod is a pod and where it sits.
type pod struct {
	*api.Pod
	demands []quantity.Demand
	gang    *gang // nil when it is rejected, or alone and seated
	shape   *shape

	// seat is the node whose room it takes: bound there, assumed there, or put there by the plan that
	// is being made. nil: none.
	seat        *node
	seatDevices []string
	nominee     *node // nominated there, while it has no seat

	evicting bool              // an Eviction says that it is to end
	payer    *queue            // whose account its seat is booked in; nil: it has none, or is another scheduler's
	slot     int               // in payer.pods
	ends     bool              // something says when it ends
	going    bool              // it counts in payer.going
	rankedAt int32             // in payer.ranks
	bill     []quantity.Demand // what it is booked with
	surplus  int64             // by how much its GPUs count for more than their number
	noted    uint64            // roster.round in which note was taken of it
}

// amount returns what the pod asks of one dimension.
func (p *pod) amount(dim int) int64 {
	for _, d := range p.demands {
		if d.Dim == dim {
			return d.Amount
		}
	}
	return 0
}

// counts says whether the pod counts towards its gang: it is not on its way out.
func (p *pod) counts() bool { return !p.leaving() }

// leaving says whether the pod is on its way out.
func (p *pod) leaving() bool { return p.Terminating || p.evicting }

// waits says whether the pod is to be placed.
func (p *pod) waits() bool { return p.seat == nil && !p.Terminating && !p.Foreign }

// comparePods orders the members of a gang.
func comparePods(a, b *pod) int {
	if a.Rank != b.Rank {
		if a.Rank < b.Rank {
			return -1
		}
		return 1
	}
	return strings.Compare(a.Key, b.Key)
}

// setPod takes in a new version of a pod; p is nil for a pod not known yet.
func (s *State) setPod(p *pod, got *api.Pod) {
	bad := s.isRejected(api.KindPod, got.Key)
	switch {
	case p == nil:
		p = &pod{}
		s.pods[got.Key] = p
	case p.gang != nil && p.gang.lone == nil && p.Gang == got.Gang && !got.Foreign && !bad:
		s.rise(p)
		s.become(p, got)
		s.sit(p)
		s.weigh(p)
		s.restale(p.gang)
		return
	default:
		s.leave(p)
	}
	s.become(p, got)
	s.repledge(got.Key)
	if !bad {
		s.join(p)
	}
}

func (s *State) become(p *pod, got *api.Pod) {
	p.Pod, p.shape = got, nil
	p.demands = s.requests.demands(s.dims, got.Requests)
}

// removePod forgets the pod.
func (s *State) removePod(p *pod) {
	s.leave(p)
	delete(s.pods, p.Key)
	s.repledge(p.Key)
}

// join seats the pod where it belongs and enters it in its gang.
func (s *State) join(p *pod) {
	switch {
	case p.Foreign:
	case p.Gang != "":
		p.gang = s.gangNamed(p.Gang)
		p.gang.members = append(p.gang.members, p)
	case p.Node == "":
		p.gang = &gang{key: p.Key, lone: p}
		p.gang.single.pods[0] = p
	}
	s.sit(p)
	s.weigh(p)
	if p.gang != nil {
		s.restale(p.gang)
	}
}

// leave undoes join.
func (s *State) leave(p *pod) {
	s.rise(p)
	s.weigh(p)
	g := p.gang
	if g == nil {
		return
	}
	p.gang = nil
	s.restale(g)
	if g.lone != nil {
		g.lone = nil
		return
	}
	g.members = slices.DeleteFunc(g.members, func(o *pod) bool { return o == p })
	s.forgetGang(g)
}

// sit gives the pod the seat that its own record, or else an assumption, says it has.
func (s *State) sit(p *pod) {
	p.evicting = s.isEvicting(p)
	if p.Node != "" {
		s.seat(p, s.nodeNamed(p.Node), p.Devices)
		return
	}
	switch a := s.assumptions[p.Key]; {
	case p.Terminating:
	case a != nil && !p.Foreign && a.UID == p.UID && !s.isRejected(api.KindAssumption, p.Key):
		s.seat(p, s.nodeNamed(a.Node), a.Devices)
	case p.Nominated != "":
		s.nominate(p, s.nodeNamed(p.Nominated))
	}
}

// isEvicting says whether an eviction of this very pod is under way. One that is bound nowhere has nothing to give up.
func (s *State) isEvicting(p *pod) bool {
	if len(s.evictions) == 0 || p.Node == "" {
		return false
	}
	e := s.evictions[p.Key]
	return e != nil && !e.Refused && e.UID == p.UID && !s.isRejected(api.KindEviction, p.Key)
}

// reseat seats the pod, nil allowed, anew, after an eviction of it was decided or given up.
func (s *State) reseat(p *pod) {
	if p == nil || s.isRejected(api.KindPod, p.Key) {
		return
	}
	s.rise(p)
	s.sit(p)
	if p.gang != nil {
		s.restale(p.gang)
	}
}

// rise undoes sit.
func (s *State) rise(p *pod) {
	n := p.seat
	if n != nil {
		s.unseat(p)
	} else if n = p.nominee; n != nil {
		s.denominate(p)
	}
	if n != nil && n.told == nil {
		s.forgetNode(n)
	}
}

// resettle seats the pod anew, after an assumption about it changed. A pod that is not known, or bound, is
// left alone.
func (s *State) resettle(p *pod) {
	if p == nil || p.Node != "" || s.isRejected(api.KindPod, p.Key) {
		return
	}
	s.rise(p)
	s.sit(p)
	if p.gang != nil {
		s.restale(p.gang)
	}
}

// assumed returns the assumption that the pod sits by, nil if it does not.
func (s *State) assumed(p *pod) *api.Assumption {
	if p.seat == nil || p.Node != "" {
		return nil
	}
	return s.assumptions[p.Key]
}

// seat lets the pod take its room on the node.
func (s *State) seat(p *pod, n *node, devices []string) {
	p.seat, p.seatDevices = n, devices
	n.occ = append(n.occ, p)
	s.account(p, n, 1)
	n.grip(p, 1)
	s.book(p)
	//mutate: index-touch-on-seat
	s.touched(n)
}

// unseat undoes seat.
func (s *State) unseat(p *pod) {
	n := p.seat
	s.unbook(p)
	n.grip(p, -1)
	s.account(p, n, -1)
	last := len(n.occ) - 1
	n.occ[slices.Index(n.occ, p)] = n.occ[last]
	n.occ = n.occ[:last]
	p.seat, p.seatDevices = nil, nil
	//mutate: index-touch-on-unseat
	s.touched(n)
}

// account books what the pod takes, once more or once less, on the node.
func (s *State) account(p *pod, n *node, times int64) {
	soft := p.Evictable || p.leaving()
	if len(s.cfg.Rates) > 0 {
		if times > 0 {
			p.surplus = s.surplusOf(p)
		}
		//mutate: index-surplus
		s.surplus += times * p.surplus
	}
	for _, d := range p.demands {
		n.free.Add(d.Dim, -times*d.Amount)
		s.taken.Add(d.Dim, times*d.Amount)
		if soft {
			//mutate: index-evictable
			n.yield.Add(d.Dim, times*d.Amount)
		}
	}
}

// nominate lets the pod count against others of the same or lower priority on the node.
func (s *State) nominate(p *pod, n *node) {
	p.nominee = n
	n.nominated = append(n.nominated, p)
	//mutate: index-touch-on-nomination
	s.touched(n)
}

// denominate undoes nominate.
func (s *State) denominate(p *pod) {
	n := p.nominee
	n.nominated = slices.DeleteFunc(n.nominated, func(o *pod) bool { return o == p })
	p.nominee = nil
	s.touched(n)
}

// hold takes the hold's amounts from its node.
func (s *State) hold(h *hold) {
	h.on = s.nodeNamed(h.Node)
	s.reserve(h, 1)
}

// unhold gives them back.
func (s *State) unhold(h *hold) {
	if h.on == nil {
		return
	}
	s.reserve(h, -1)
	n := h.on
	h.on = nil
	if n.told == nil {
		s.forgetNode(n)
	}
}

// reserve lets the hold count on its node and in its queue or, with times = -1, not count.
func (s *State) reserve(h *hold, times int64) {
	if times > 0 {
		h.on.held = append(h.on.held, h)
	} else {
		h.on.held = slices.DeleteFunc(h.on.held, func(o *hold) bool { return o == h })
	}
	for _, a := range h.Requests {
		h.on.free.Add(s.dims.ID(a.Resource), -times*a.Value)
	}
	s.pledge(h, times)
	//mutate: index-touch-on-hold
	s.touched(h.on)
}

// live says whether a memory that lasts until the given time still counts.
func live(until, now time.Time) bool { return now.Before(until) }

// requestCache shares the demands of pods with the same requests: there are few kinds of them.
type requestCache [64]struct {
	requests api.Resources
	demands  []quantity.Demand
}

func (c *requestCache) demands(d *quantity.Dims, r api.Resources) []quantity.Demand {
	var sum int64
	for _, a := range r {
		sum = sum*31 + a.Value + int64(len(a.Resource))
	}
	e := &c[uint64(sum)*0x9e3779b97f4a7c15>>58]
	if e.demands == nil || !slices.Equal(e.requests, r) {
		e.requests, e.demands = r, d.Demands(r)
	}
	return e.demands
}
