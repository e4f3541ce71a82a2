package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Apply takes changes in, in any order: of two versions of an object the newer stays, and what was known
// already is passed over. It returns the changes that make no sense, by name.
func (s *State) Apply(changes ...Change) []Rejected {
	var bad []Rejected
	for i := range changes {
		if r := s.apply(&changes[i]); r.Reason != "" {
			bad = append(bad, r)
		}
		if s.empty != nil {
			s.echoChange(&changes[i])
		}
	}
	return bad
}

// Rejected lists the objects that are known and have no effect, or not all of it, sorted.
func (s *State) Rejected() []Rejected {
	s.regrow()
	out := make([]Rejected, 0, len(s.rejected))
	for _, q := range s.queues {
		if q.problem != "" {
			out = append(out, Rejected{Ref: Ref{Kind: KindQueue, Key: q.name}, Reason: q.problem})
		}
	}
	for ref, reason := range s.rejected {
		out = append(out, Rejected{Ref: ref, Reason: reason})
	}
	slices.SortFunc(out, func(a, b Rejected) int { return compareRefs(a.Ref, b.Ref) })
	return out
}

func compareRefs(a, b Ref) int {
	if c := strings.Compare(string(a.Kind), string(b.Kind)); c != 0 {
		return c
	}
	return strings.Compare(a.Key, b.Key)
}

func (s *State) apply(c *Change) Rejected {
	switch {
	case c.Pod != nil:
		return s.applyPod(c.Pod)
	case c.Node != nil:
		return s.applyNode(c.Node)
	case c.Gang != nil:
		return s.applyGang(c.Gang)
	case c.Queue != nil:
		return s.applyQueue(c.Queue)
	case c.Assumption != nil:
		return s.applyAssumption(c.Assumption)
	case c.Refusal != nil:
		return s.applyRefusal(c.Refusal)
	case c.Hold != nil:
		return s.applyHold(c.Hold)
	case c.Disruption != nil:
		return enterIn(s, s.disruptions, c.Disruption)
	case c.Booking != nil:
		return enterIn(s, s.bookings, c.Booking)
	case c.Eviction != nil:
		return s.applyEviction(c.Eviction)
	case c.Promise != nil:
		return enterIn(s, s.promises, c.Promise)
	case c.Spending != nil:
		return enterIn(s, s.spendings, c.Spending)
	case c.Lesson != nil:
		return enterIn(s, s.lessons, c.Lesson)
	case c.Lapse != nil:
		return enterIn(s, s.lapses, c.Lapse)
	case c.Gone != nil:
		return s.applyGone(*c.Gone)
	}
	if c.Settled == 0 {
		return Rejected{Reason: "a change without anything in it"}
	}
	s.settle(c.Settled)
	return Rejected{}
}

// settle forgets what is gone up to the version.
func (s *State) settle(version uint64) {
	s.settled = max(s.settled, version)
	for ref, v := range s.gone {
		if v <= s.settled {
			delete(s.gone, ref)
		}
	}
}

// verdict on a version that arrives.
type arrival int

const (
	fresh arrival = iota // take it
	known                // as old as or older than what is known: pass over it
	same                 // of the version that is known
)

// arrives weighs a version against the one known (exists) or gone.
func (s *State) arrives(ref Ref, exists bool, have uint64) arrival {
	s.latest = max(s.latest, ref.Version)
	if exists {
		switch {
		case ref.Version < have:
			return known
		case ref.Version == have:
			return same
		}
		return fresh
	}
	//mutate: version-gone
	if gone, ok := s.gone[Ref{Kind: ref.Kind, Key: ref.Key}]; ok && ref.Version <= gone {
		return known
	}
	//mutate: version-settled
	if s.settled > 0 && ref.Version <= s.settled {
		return known
	}
	return fresh
}

// twins decides between two contents of one version. Whatever comes first, the same one stays.
func twins[T any](ref Ref, have, got *T) (keep bool, r Rejected) {
	if have == got || reflect.DeepEqual(have, got) {
		return true, Rejected{}
	}
	r = Rejected{Ref: ref, Reason: fmt.Sprintf("two of one name: %s %s has another content at version %d", ref.Kind, ref.Key, ref.Version)}
	a, errA := json.Marshal(have)
	b, errB := json.Marshal(got)
	return errA != nil || errB != nil || bytes.Compare(a, b) <= 0, r
}

// object is what has a key, a version and rules of its own.
type object[T any] interface {
	*T
	ref() Ref
	check() string
}

func (n *Node) ref() Ref       { return Ref{KindNode, n.Name, n.Version} }
func (p *Pod) ref() Ref        { return Ref{KindPod, p.Key, p.Version} }
func (g *Gang) ref() Ref       { return Ref{KindGang, g.Key, g.Version} }
func (q *Queue) ref() Ref      { return Ref{KindQueue, q.Name, q.Version} }
func (a *Assumption) ref() Ref { return Ref{KindAssumption, a.Pod, a.Version} }
func (r *Refusal) ref() Ref    { return Ref{KindRefusal, r.Pod + "@" + r.Node, r.Version} }
func (h *Hold) ref() Ref       { return Ref{KindHold, h.Gang + "@" + h.Node, h.Version} }
func (d *Disruption) ref() Ref { return Ref{KindDisruption, d.Key, d.Version} }
func (b *Booking) ref() Ref    { return Ref{KindBooking, b.Name, b.Version} }
func (e *Eviction) ref() Ref   { return Ref{KindEviction, e.Pod, e.Version} }
func (p *Promise) ref() Ref    { return Ref{KindPromise, p.Gang, p.Version} }
func (u *Spending) ref() Ref   { return Ref{KindSpending, u.Queue, u.Version} }
func (l *Lesson) ref() Ref     { return Ref{KindLesson, l.Like, l.Version} }
func (l *Lapse) ref() Ref      { return Ref{KindLapse, l.Gang, l.Version} }

// Ref names the object in the change; false where there is none: of a Gone, or a Settled.
func (c *Change) Ref() (Ref, bool) {
	switch {
	case c.Pod != nil:
		return c.Pod.ref(), true
	case c.Node != nil:
		return c.Node.ref(), true
	case c.Gang != nil:
		return c.Gang.ref(), true
	case c.Queue != nil:
		return c.Queue.ref(), true
	case c.Assumption != nil:
		return c.Assumption.ref(), true
	case c.Refusal != nil:
		return c.Refusal.ref(), true
	case c.Hold != nil:
		return c.Hold.ref(), true
	case c.Disruption != nil:
		return c.Disruption.ref(), true
	case c.Booking != nil:
		return c.Booking.ref(), true
	case c.Eviction != nil:
		return c.Eviction.ref(), true
	case c.Promise != nil:
		return c.Promise.ref(), true
	case c.Spending != nil:
		return c.Spending.ref(), true
	case c.Lesson != nil:
		return c.Lesson.ref(), true
	case c.Lapse != nil:
		return c.Lapse.ref(), true
	}
	return Ref{}, false
}

// take is the common part of every upsert: have is what is known under the key, nil if nothing is. It reports
// whether to go on, and what to reject.
func take[T any, P object[T]](s *State, have, got P) (bool, Rejected) {
	ref := got.ref()
	var version uint64
	if have != nil {
		version = have.ref().Version
	}
	switch s.arrives(ref, have != nil, version) {
	case known:
		return false, Rejected{}
	case same:
		keep, r := twins(ref, (*T)(have), (*T)(got))
		if keep {
			return false, r
		}
		s.enter(ref, got.check())
		return true, r
	}
	if have == nil {
		delete(s.gone, Ref{Kind: ref.Kind, Key: ref.Key})
	}
	return true, s.enter(ref, got.check())
}

// enter notes that the object changed and whether it makes sense.
func (s *State) enter(ref Ref, reason string) Rejected {
	s.changed = true
	if reason == "" {
		if len(s.rejected) > 0 {
			delete(s.rejected, Ref{Kind: ref.Kind, Key: ref.Key})
		}
		return Rejected{}
	}
	return s.reject(ref, reason)
}

func (s *State) reject(ref Ref, reason string) Rejected {
	s.rejected[Ref{Kind: ref.Kind, Key: ref.Key}] = reason
	return Rejected{Ref: ref, Reason: reason}
}

// isRejected says whether the object has no effect.
func (s *State) isRejected(kind Kind, key string) bool {
	return len(s.rejected) > 0 && s.rejected[Ref{Kind: kind, Key: key}] != ""
}

func (s *State) applyNode(got *Node) Rejected {
	n := s.nodeNamed(got.Name)
	ok, r := take(s, n.told, got)
	if !ok {
		s.forgetNode(n)
		return r
	}
	if clash := s.setNode(n, got); clash.Reason != "" {
		return clash
	}
	return r
}

func (s *State) applyPod(got *Pod) Rejected {
	p := s.pods[got.Key]
	var have *Pod
	if p != nil {
		have = p.Pod
	}
	ok, r := take(s, have, got)
	if ok {
		s.setPod(p, got)
	}
	return r
}

func (s *State) applyGang(got *Gang) Rejected {
	var have *Gang
	if g := s.gangs[got.Key]; g != nil {
		have = g.spec
	}
	ok, r := take(s, have, got)
	if ok {
		s.setGang(got.Key, got)
	}
	return r
}

func (s *State) applyQueue(got *Queue) Rejected {
	q := s.queueNamed(got.Name)
	ok, r := take(s, q.spec, got)
	if ok {
		q.spec, s.forest.stale = got, true
	}
	return r
}

// keep is the upsert of what nothing else follows from.
func keep[T any, P object[T]](s *State, in map[string]P, got P) (bool, Rejected) {
	key := got.ref().Key
	ok, r := take(s, in[key], got)
	if ok {
		in[key] = got
	}
	return ok, r
}

// enterIn is keep where nothing has to be done about it.
func enterIn[T any, P object[T]](s *State, in map[string]P, got P) Rejected {
	_, r := keep(s, in, got)
	return r
}

func (s *State) applyEviction(got *Eviction) Rejected {
	ok, r := keep(s, s.evictions, got)
	if ok {
		s.reseat(s.pods[got.Pod])
	}
	return r
}

func (s *State) applyAssumption(got *Assumption) Rejected {
	ok, r := take(s, s.assumptions[got.Pod], got)
	if ok {
		s.assume(got)
	}
	return r
}

func (s *State) applyRefusal(got *Refusal) Rejected {
	key := got.ref().Key
	have := s.refusals[key]
	ok, r := take(s, have, got)
	if !ok {
		return r
	}
	s.dropRefusal(have)
	s.refusals[key] = got
	s.refusedOf[got.Pod] = append(s.refusedOf[got.Pod], got)
	return r
}

func (s *State) applyHold(got *Hold) Rejected {
	ref := got.ref()
	h := s.holds[ref.Key]
	var have *Hold
	if h != nil {
		have = h.Hold
	}
	ok, r := take(s, have, got)
	if !ok {
		return r
	}
	if h != nil {
		s.dropHold(h)
	}
	h = &hold{Hold: got}
	s.holds[ref.Key] = h
	s.holdsOf[h.Gang] = append(s.holdsOf[h.Gang], h)
	if !s.isRejected(ref.Kind, ref.Key) {
		s.hold(h)
	}
	return r
}

func (s *State) applyGone(ref Ref) Rejected {
	s.latest = max(s.latest, ref.Version)
	at := Ref{Kind: ref.Kind, Key: ref.Key}
	version, exists, ok := s.versionOf(at)
	if !ok {
		return Rejected{Ref: ref, Reason: fmt.Sprintf("unknown kind %q", ref.Kind)}
	}
	//mutate: version-older-gone
	if exists && ref.Version < version {
		return Rejected{}
	}
	if s.settled == 0 || ref.Version > s.settled {
		s.gone[at] = max(s.gone[at], ref.Version)
	}
	if !exists {
		return Rejected{}
	}
	s.changed = true
	delete(s.rejected, at)
	s.remove(at)
	return Rejected{}
}

// versionOf returns the version of the object known under kind and key.
func (s *State) versionOf(at Ref) (version uint64, exists, kindOK bool) {
	switch at.Kind {
	case KindNode:
		if n := s.nodes[at.Key]; n != nil && n.told != nil {
			return n.told.Version, true, true
		}
	case KindPod:
		if p := s.pods[at.Key]; p != nil {
			return p.Version, true, true
		}
	case KindGang:
		if g := s.gangs[at.Key]; g != nil && g.spec != nil {
			return g.spec.Version, true, true
		}
	case KindQueue:
		if q := s.queues[at.Key]; q != nil && q.spec != nil {
			return q.spec.Version, true, true
		}
	case KindAssumption:
		if a := s.assumptions[at.Key]; a != nil {
			return a.Version, true, true
		}
	case KindRefusal:
		if r := s.refusals[at.Key]; r != nil {
			return r.Version, true, true
		}
	case KindHold:
		if h := s.holds[at.Key]; h != nil {
			return h.Version, true, true
		}
	case KindDisruption:
		return knownVersion(s.disruptions, at.Key)
	case KindBooking:
		return knownVersion(s.bookings, at.Key)
	case KindEviction:
		return knownVersion(s.evictions, at.Key)
	case KindPromise:
		return knownVersion(s.promises, at.Key)
	case KindSpending:
		return knownVersion(s.spendings, at.Key)
	case KindLesson:
		return knownVersion(s.lessons, at.Key)
	case KindLapse:
		return knownVersion(s.lapses, at.Key)
	default:
		return 0, false, false
	}
	return 0, false, true
}

func knownVersion[T any, P object[T]](in map[string]P, key string) (version uint64, exists, kindOK bool) {
	if o := in[key]; o != nil {
		return o.ref().Version, true, true
	}
	return 0, false, true
}

func (s *State) remove(at Ref) {
	switch at.Kind {
	case KindNode:
		s.unsetNode(s.nodes[at.Key])
	case KindPod:
		s.removePod(s.pods[at.Key])
	case KindGang:
		s.setGang(at.Key, nil)
	case KindQueue:
		s.queues[at.Key].spec, s.forest.stale = nil, true
	case KindAssumption:
		delete(s.assumptions, at.Key)
		delete(s.unused, at.Key)
		s.resettle(s.pods[at.Key])
	case KindRefusal:
		s.dropRefusal(s.refusals[at.Key])
		delete(s.refusals, at.Key)
	case KindHold:
		s.dropHold(s.holds[at.Key])
		delete(s.holds, at.Key)
	case KindDisruption:
		delete(s.disruptions, at.Key)
	case KindBooking:
		delete(s.bookings, at.Key)
	case KindEviction:
		delete(s.evictions, at.Key)
		s.reseat(s.pods[at.Key])
	case KindPromise:
		delete(s.promises, at.Key)
	case KindSpending:
		delete(s.spendings, at.Key)
	case KindLesson:
		delete(s.lessons, at.Key)
	case KindLapse:
		delete(s.lapses, at.Key)
	}
}

// dropHold takes the hold off its node, and out of its gang's list.
func (s *State) dropHold(h *hold) {
	s.unhold(h)
	rest := slices.DeleteFunc(s.holdsOf[h.Gang], func(o *hold) bool { return o == h })
	if len(rest) == 0 {
		delete(s.holdsOf, h.Gang)
		return
	}
	s.holdsOf[h.Gang] = rest
}

// dropRefusal takes the refusal, nil allowed, out of its pod's list.
func (s *State) dropRefusal(r *Refusal) {
	if r == nil {
		return
	}
	rest := slices.DeleteFunc(s.refusedOf[r.Pod], func(o *Refusal) bool { return o == r })
	if len(rest) == 0 {
		delete(s.refusedOf, r.Pod)
		return
	}
	s.refusedOf[r.Pod] = rest
}
