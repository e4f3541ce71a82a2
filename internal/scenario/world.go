package scenario

import (
	"fmt"
	"time"

	"github.com/berth-dev/berth/engine"
)

// world is the objects as they are now, whoever changed them last, and what the engine has not been told
// yet. Values in the maps are never written to, only replaced: the engine keeps what it is given.
type world struct {
	config *engine.Config
	now    time.Time
	nodes  map[string]machine
	pods   map[string]engine.Pod
	gangs  map[string]engine.Gang
	queues map[string]engine.Queue

	disruptions map[string]engine.Disruption
	bookings    map[string]engine.Booking

	changed []engine.Ref        // objects to tell about, in order of their first change
	touched map[engine.Ref]bool // those in changed
	memory  []engine.Change     // edits of memory to tell about; versions are given when they are told
	made    int                 // pods that were made again
	twins   []engine.Change     // nodes of a name and version that was told already
}

func newWorld(c *engine.Config, start time.Time) *world {
	return &world{
		config: c, now: start,
		nodes: map[string]machine{}, pods: map[string]engine.Pod{}, gangs: map[string]engine.Gang{}, queues: map[string]engine.Queue{},
		disruptions: map[string]engine.Disruption{}, bookings: map[string]engine.Booking{},
		touched: map[engine.Ref]bool{},
	}
}

// grace is the time that a pod has to end.
func (w *world) grace(p engine.Pod) time.Duration {
	if g, ok := w.gangs[p.Gang]; ok {
		return g.Terms.Grace
	}
	return p.Terms.Grace
}

// again replaces a pod by the next one of its key, which waits.
func (w *world) again(p engine.Pod) {
	w.made++
	p.UID = fmt.Sprintf("again-%d", w.made)
	p.Created, p.Node, p.Devices, p.Nominated = w.now, "", nil, ""
	p.Terminating, p.ReleaseAt, p.Started, p.Idle = false, time.Time{}, time.Time{}, time.Time{}
	w.pods[p.Key] = p
	w.touch(engine.KindPod, p.Key)
}

// next is what ends the key of the pod that is made before another ends.
const next = "-next"

// followed says whether the pod that follows this one is bound. It is made where it does not exist yet.
func (w *world) followed(p engine.Pod) bool {
	key := p.Key + next
	if _, made := w.pods[key]; !made {
		follower := p
		follower.Key = key
		w.again(follower)
	}
	return w.pods[key].Node != ""
}

// touch marks an object as changed.
func (w *world) touch(kind engine.Kind, key string) {
	r := engine.Ref{Kind: kind, Key: key}
	if !w.touched[r] {
		w.touched[r] = true
		w.changed = append(w.changed, r)
	}
}

// tell returns what is new since the last call, as changes; latest is the highest version so far.
func (w *world) tell(latest uint64) []engine.Change {
	var out []engine.Change
	for _, r := range w.changed {
		latest++
		r.Version = latest
		out = append(out, w.change(r))
	}
	for _, c := range w.memory {
		latest++
		out = append(out, versioned(c, latest))
	}
	out = append(out, w.twins...)
	w.changed, w.memory, w.twins = nil, nil, nil
	clear(w.touched)
	return out
}

// change is the object as it is now, or that it is gone.
func (w *world) change(r engine.Ref) engine.Change {
	switch r.Kind {
	case engine.KindNode:
		if m, ok := w.nodes[r.Key]; ok {
			m.Version = r.Version
			w.nodes[r.Key] = m
			return engine.Change{Node: &m.Node}
		}
	case engine.KindPod:
		if p, ok := w.pods[r.Key]; ok {
			p.Version = r.Version
			return engine.Change{Pod: &p}
		}
	case engine.KindGang:
		if g, ok := w.gangs[r.Key]; ok {
			g.Version = r.Version
			return engine.Change{Gang: &g}
		}
	case engine.KindQueue:
		if q, ok := w.queues[r.Key]; ok {
			q.Version = r.Version
			return engine.Change{Queue: &q}
		}
	case engine.KindDisruption:
		if d, ok := w.disruptions[r.Key]; ok {
			d.Version = r.Version
			return engine.Change{Disruption: &d}
		}
	case engine.KindBooking:
		if b, ok := w.bookings[r.Key]; ok {
			b.Version = r.Version
			return engine.Change{Booking: &b}
		}
	}
	return engine.Change{Gone: &r}
}

// versioned is an edit of memory with its version.
func versioned(c engine.Change, v uint64) engine.Change {
	switch {
	case c.Refusal != nil:
		c.Refusal.Version = v
	case c.Hold != nil:
		c.Hold.Version = v
	case c.Eviction != nil:
		c.Eviction.Version = v
	case c.Promise != nil:
		c.Promise.Version = v
	case c.Usage != nil:
		c.Usage.Version = v
	case c.Degradation != nil:
		c.Degradation.Version = v
	case c.RunTimeEstimate != nil:
		c.RunTimeEstimate.Version = v
	case c.Gone != nil:
		c.Gone.Version = v
	}
	return c
}

// remove takes an object out of the world; the engine's memory has no objects here.
func (w *world) remove(kind engine.Kind, key string) error {
	var known bool
	switch kind {
	case engine.KindNode:
		_, known = w.nodes[key]
		delete(w.nodes, key)
	case engine.KindPod:
		_, known = w.pods[key]
		delete(w.pods, key)
	case engine.KindGang:
		_, known = w.gangs[key]
		delete(w.gangs, key)
	case engine.KindQueue:
		_, known = w.queues[key]
		delete(w.queues, key)
	case engine.KindDisruption:
		_, known = w.disruptions[key]
		delete(w.disruptions, key)
	case engine.KindBooking:
		_, known = w.bookings[key]
		delete(w.bookings, key)
	default:
		w.memory = append(w.memory, engine.Change{Gone: &engine.Ref{Kind: kind, Key: key}})
		return nil
	}
	if !known {
		return fmt.Errorf("%s: expected a %s that exists", key, kind)
	}
	w.touch(kind, key)
	return nil
}
