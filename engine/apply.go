package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/berth-dev/berth/engine/internal/api"
)

// Apply takes changes in, in any order: of two versions of an object the newer stays, and what was known
// already is passed over. It returns the changes that make no sense, by name.
func (s *State) Apply(changes ...api.Change) []api.Rejected {
	var bad []api.Rejected
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
func (s *State) Rejected() []api.Rejected {
	s.regrow()
	out := make([]api.Rejected, 0, len(s.rejected))
	for _, q := range s.queues {
		if q.problem != "" {
			out = append(out, api.Rejected{Ref: api.Ref{Kind: api.KindQueue, Key: q.name}, Reason: q.problem})
		}
	}
	for ref, reason := range s.rejected {
		out = append(out, api.Rejected{Ref: ref, Reason: reason})
	}
	slices.SortFunc(out, func(a, b api.Rejected) int { return api.CompareRefs(a.Ref, b.Ref) })
	return out
}

func (s *State) apply(c *api.Change) api.Rejected {
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
		return api.Rejected{Reason: "a change without anything in it"}
	}
	s.settle(c.Settled)
	return api.Rejected{}
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
func (s *State) arrives(ref api.Ref, exists bool, have uint64) arrival {
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
	if gone, ok := s.gone[api.Ref{Kind: ref.Kind, Key: ref.Key}]; ok && ref.Version <= gone {
		return known
	}
	//mutate: version-settled
	if s.settled > 0 && ref.Version <= s.settled {
		return known
	}
	return fresh
}

// twins decides between two contents of one version. Whatever comes first, the same one stays.
func twins[T any](ref api.Ref, have, got *T) (keep bool, r api.Rejected) {
	if have == got || reflect.DeepEqual(have, got) {
		return true, api.Rejected{}
	}
	r = api.Rejected{Ref: ref, Reason: fmt.Sprintf("two of one name: %s %s has another content at version %d", ref.Kind, ref.Key, ref.Version)}
	a, errA := json.Marshal(have)
	b, errB := json.Marshal(got)
	return errA != nil || errB != nil || bytes.Compare(a, b) <= 0, r
}

// object is what has a key, a version and rules of its own.
type object[T any] interface {
	*T
	Ref() api.Ref
	Check() string
}

// take is the common part of every upsert: have is what is known under the key, nil if nothing is. It reports
// whether to go on, and what to reject.
func take[T any, P object[T]](s *State, have, got P) (bool, api.Rejected) {
	ref := got.Ref()
	var version uint64
	if have != nil {
		version = have.Ref().Version
	}
	switch s.arrives(ref, have != nil, version) {
	case known:
		return false, api.Rejected{}
	case same:
		keep, r := twins(ref, (*T)(have), (*T)(got))
		if keep {
			return false, r
		}
		s.enter(ref, got.Check())
		return true, r
	}
	if have == nil {
		delete(s.gone, api.Ref{Kind: ref.Kind, Key: ref.Key})
	}
	return true, s.enter(ref, got.Check())
}

// enter notes that the object changed and whether it makes sense.
func (s *State) enter(ref api.Ref, reason string) api.Rejected {
	s.changed = true
	if reason == "" {
		if len(s.rejected) > 0 {
			delete(s.rejected, api.Ref{Kind: ref.Kind, Key: ref.Key})
		}
		return api.Rejected{}
	}
	return s.reject(ref, reason)
}

func (s *State) reject(ref api.Ref, reason string) api.Rejected {
	s.rejected[api.Ref{Kind: ref.Kind, Key: ref.Key}] = reason
	return api.Rejected{Ref: ref, Reason: reason}
}

// isRejected says whether the object has no effect.
func (s *State) isRejected(kind api.Kind, key string) bool {
	return len(s.rejected) > 0 && s.rejected[api.Ref{Kind: kind, Key: key}] != ""
}

func (s *State) applyNode(got *api.Node) api.Rejected {
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

func (s *State) applyPod(got *api.Pod) api.Rejected {
	p := s.pods[got.Key]
	var have *api.Pod
	if p != nil {
		have = p.Pod
	}
	ok, r := take(s, have, got)
	if ok {
		s.setPod(p, got)
	}
	return r
}

func (s *State) applyGang(got *api.Gang) api.Rejected {
	var have *api.Gang
	if g := s.gangs[got.Key]; g != nil {
		have = g.spec
	}
	ok, r := take(s, have, got)
	if ok {
		s.setGang(got.Key, got)
	}
	return r
}

func (s *State) applyQueue(got *api.Queue) api.Rejected {
	q := s.queueNamed(got.Name)
	ok, r := take(s, q.spec, got)
	if ok {
		q.spec, s.forest.stale = got, true
	}
	return r
}

// keep is the upsert of what nothing else follows from.
func keep[T any, P object[T]](s *State, in map[string]P, got P) (bool, api.Rejected) {
	key := got.Ref().Key
	ok, r := take(s, in[key], got)
	if ok {
		in[key] = got
	}
	return ok, r
}

// enterIn is keep where nothing has to be done about it.
func enterIn[T any, P object[T]](s *State, in map[string]P, got P) api.Rejected {
	_, r := keep(s, in, got)
	return r
}

func (s *State) applyEviction(got *api.Eviction) api.Rejected {
	ok, r := keep(s, s.evictions, got)
	if ok {
		s.reseat(s.pods[got.Pod])
	}
	return r
}

func (s *State) applyAssumption(got *api.Assumption) api.Rejected {
	ok, r := take(s, s.assumptions[got.Pod], got)
	if ok {
		s.assume(got)
	}
	return r
}

func (s *State) applyRefusal(got *api.Refusal) api.Rejected {
	key := got.Ref().Key
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

func (s *State) applyHold(got *api.Hold) api.Rejected {
	ref := got.Ref()
	h := s.holds[ref.Key]
	var have *api.Hold
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

func (s *State) applyGone(ref api.Ref) api.Rejected {
	s.latest = max(s.latest, ref.Version)
	at := api.Ref{Kind: ref.Kind, Key: ref.Key}
	version, exists, ok := s.versionOf(at)
	if !ok {
		return api.Rejected{Ref: ref, Reason: fmt.Sprintf("unknown kind %q", ref.Kind)}
	}
	//mutate: version-older-gone
	if exists && ref.Version < version {
		return api.Rejected{}
	}
	if s.settled == 0 || ref.Version > s.settled {
		s.gone[at] = max(s.gone[at], ref.Version)
	}
	if !exists {
		return api.Rejected{}
	}
	s.changed = true
	delete(s.rejected, at)
	s.remove(at)
	return api.Rejected{}
}

// versionOf returns the version of the object known under kind and key.
func (s *State) versionOf(at api.Ref) (version uint64, exists, kindOK bool) {
	switch at.Kind {
	case api.KindNode:
		if n := s.nodes[at.Key]; n != nil && n.told != nil {
			return n.told.Version, true, true
		}
	case api.KindPod:
		if p := s.pods[at.Key]; p != nil {
			return p.Version, true, true
		}
	case api.KindGang:
		if g := s.gangs[at.Key]; g != nil && g.spec != nil {
			return g.spec.Version, true, true
		}
	case api.KindQueue:
		if q := s.queues[at.Key]; q != nil && q.spec != nil {
			return q.spec.Version, true, true
		}
	case api.KindAssumption:
		if a := s.assumptions[at.Key]; a != nil {
			return a.Version, true, true
		}
	case api.KindRefusal:
		if r := s.refusals[at.Key]; r != nil {
			return r.Version, true, true
		}
	case api.KindHold:
		if h := s.holds[at.Key]; h != nil {
			return h.Version, true, true
		}
	case api.KindDisruption:
		return knownVersion(s.disruptions, at.Key)
	case api.KindBooking:
		return knownVersion(s.bookings, at.Key)
	case api.KindEviction:
		return knownVersion(s.evictions, at.Key)
	case api.KindPromise:
		return knownVersion(s.promises, at.Key)
	case api.KindSpending:
		return knownVersion(s.spendings, at.Key)
	case api.KindLesson:
		return knownVersion(s.lessons, at.Key)
	case api.KindLapse:
		return knownVersion(s.lapses, at.Key)
	default:
		return 0, false, false
	}
	return 0, false, true
}

func knownVersion[T any, P object[T]](in map[string]P, key string) (version uint64, exists, kindOK bool) {
	if o := in[key]; o != nil {
		return o.Ref().Version, true, true
	}
	return 0, false, true
}

func (s *State) remove(at api.Ref) {
	switch at.Kind {
	case api.KindNode:
		s.unsetNode(s.nodes[at.Key])
	case api.KindPod:
		s.removePod(s.pods[at.Key])
	case api.KindGang:
		s.setGang(at.Key, nil)
	case api.KindQueue:
		s.queues[at.Key].spec, s.forest.stale = nil, true
	case api.KindAssumption:
		delete(s.assumptions, at.Key)
		delete(s.unused, at.Key)
		s.resettle(s.pods[at.Key])
	case api.KindRefusal:
		s.dropRefusal(s.refusals[at.Key])
		delete(s.refusals, at.Key)
	case api.KindHold:
		s.dropHold(s.holds[at.Key])
		delete(s.holds, at.Key)
	case api.KindDisruption:
		delete(s.disruptions, at.Key)
	case api.KindBooking:
		delete(s.bookings, at.Key)
	case api.KindEviction:
		delete(s.evictions, at.Key)
		s.reseat(s.pods[at.Key])
	case api.KindPromise:
		delete(s.promises, at.Key)
	case api.KindSpending:
		delete(s.spendings, at.Key)
	case api.KindLesson:
		delete(s.lessons, at.Key)
	case api.KindLapse:
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
func (s *State) dropRefusal(r *api.Refusal) {
	if r == nil {
		return
	}
	rest := slices.DeleteFunc(s.refusedOf[r.Pod], func(o *api.Refusal) bool { return o == r })
	if len(rest) == 0 {
		delete(s.refusedOf, r.Pod)
		return
	}
	s.refusedOf[r.Pod] = rest
}
