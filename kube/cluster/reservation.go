package cluster

import (
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/cluster/internal/volumes"
)

// Reservation is a start whose claims are being seen to. It is kept from Reserve until Release or Abandon.
type Reservation struct {
	volumes.Reservation
	Start   *engine.Start
	Devices []DeviceWant // what is to be had before volumes are
}

// Want is one claim and what it is to get.
type Want = volumes.Want

// Reserve decides what every open claim of the start gets. r is nil where no claim is open. short says that there are
// not enough volumes: the start has been given up, and the engine will not try the same again.
func (f *Feed) Reserve(s *engine.Start) (r *Reservation, short bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r = &Reservation{Start: s, Reservation: volumes.Reservation{Changed: make(chan struct{}, 1)}}
	for _, at := range s.Placements {
		if !f.choose(r, at) {
			f.shun(at)
			f.abandon(r)
			return nil, true
		}
		f.wantDevices(r, at)
	}
	if len(r.Wants) == 0 && len(r.Devices) == 0 {
		return nil, false
	}
	for _, at := range s.Placements {
		f.preparing[at.Pod] = r
	}
	f.devices.begin(r)
	return r, false
}

// Release ends the reservation: what it decided is in the objects by now, or void.
func (f *Feed) Release(r *Reservation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.releaseClaims(r)
	f.overWithClaims(r)
	f.out.wake()
}

// Abandon ends the reservation and has the engine place the members again.
func (f *Feed) Abandon(r *Reservation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.abandon(r)
	f.overWithClaims(r)
}

// overWithClaims has the claims of the start's pods looked at: what became of them meanwhile was passed over.
func (f *Feed) overWithClaims(r *Reservation) {
	f.devices.finish(r)
	for _, p := range r.Start.Placements {
		f.devices.pods[p.Pod] = true
	}
}

// GiveUp says that the pod will not be bound to its node: the engine is free to place it again.
func (f *Feed) GiveUp(at engine.Placement) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.giveUp(at)
}

// giveUp ends the engine's assumption that the pod is on its node. Where the pod is gone and another of its name is there, what the engine
// assumes is of that one, which may be on its way itself.
func (f *Feed) giveUp(at engine.Placement) {
	if m := f.members.pods[at.Pod]; m == nil || string(m.raw.UID) == at.UID {
		f.out.put(engine.Change{Gone: &engine.Ref{Kind: engine.KindAssumption, Key: at.Pod}})
	}
}

// shun keeps one pod, and not its gang, from a node for a while.
func (f *Feed) shun(at engine.Placement) {
	f.volumes.Shun(at.Pod, at.Node)
	f.timers.after(RefuseFor, func() { f.volumes.Forgive(at.Pod, at.Node) })
}

// choose decides what the claims of one member get; false: there are not enough volumes.
func (f *Feed) choose(r *Reservation, at engine.Placement) bool {
	m, n := f.members.pods[at.Pod], f.nodes.objects[at.Node]
	if m == nil || n == nil {
		return true // it is noticed when the pod is bound
	}
	return f.volumes.Choose(&r.Reservation, m.key, m.pod, n)
}

func (f *Feed) releaseClaims(r *Reservation) {
	f.volumes.Release(&r.Reservation)
	for _, at := range r.Start.Placements {
		if f.preparing[at.Pod] == r {
			delete(f.preparing, at.Pod)
		}
		f.volumes.Again(at.Pod)
	}
}

func (f *Feed) abandon(r *Reservation) {
	f.releaseClaims(r)
	for _, p := range r.Start.Placements {
		f.giveUp(p)
	}
}
