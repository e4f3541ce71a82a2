package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/berth-dev/berth/engine/internal/api"
)

// Rejected lists the objects that are known and have no effect, or not all of it, sorted.
func (m *Model) Rejected() []api.Rejected {
	m.Rebuild()
	out := make([]api.Rejected, 0, len(m.Invalid))
	for _, q := range m.Queues {
		if q.Problem != "" {
			out = append(out, api.Rejected{Ref: api.Ref{Kind: api.KindQueue, Key: q.Name}, Reason: q.Problem})
		}
	}
	for ref, reason := range m.Invalid {
		out = append(out, api.Rejected{Ref: ref, Reason: reason})
	}
	slices.SortFunc(out, func(a, b api.Rejected) int { return api.CompareRefs(a.Ref, b.Ref) })
	return out
}

func (m *Model) Apply(c *api.Change) api.Rejected {
	switch {
	case c.Pod != nil:
		return m.applyPod(c.Pod)
	case c.Node != nil:
		return m.applyNode(c.Node)
	case c.Gang != nil:
		return m.applyGang(c.Gang)
	case c.Queue != nil:
		return m.applyQueue(c.Queue)
	case c.Assumption != nil:
		return m.applyAssumption(c.Assumption)
	case c.Refusal != nil:
		return m.applyRefusal(c.Refusal)
	case c.Hold != nil:
		return m.applyHold(c.Hold)
	case c.Disruption != nil:
		return enterIn(m, m.Disruptions, c.Disruption)
	case c.Booking != nil:
		return enterIn(m, m.Bookings, c.Booking)
	case c.Eviction != nil:
		return m.applyEviction(c.Eviction)
	case c.Promise != nil:
		return enterIn(m, m.Promises, c.Promise)
	case c.Usage != nil:
		return enterIn(m, m.Usages, c.Usage)
	case c.RunTimeEstimate != nil:
		return enterIn(m, m.RunTimeEstimates, c.RunTimeEstimate)
	case c.Degradation != nil:
		return enterIn(m, m.Degradations, c.Degradation)
	case c.RequestMix != nil:
		return m.applyMix(c.RequestMix)
	case c.Gone != nil:
		return m.applyGone(*c.Gone)
	}
	if c.Settled == 0 {
		return api.Rejected{Reason: "a change without anything in it"}
	}
	m.settle(c.Settled)
	return api.Rejected{}
}

// settle forgets what is gone up to the version.
func (m *Model) settle(version uint64) {
	m.SettledAt = max(m.SettledAt, version)
	for ref, v := range m.gone {
		if v <= m.SettledAt {
			delete(m.gone, ref)
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
func (m *Model) arrives(ref api.Ref, exists bool, have uint64) arrival {
	m.Latest = max(m.Latest, ref.Version)
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
	if gone, ok := m.gone[api.Ref{Kind: ref.Kind, Key: ref.Key}]; ok && ref.Version <= gone {
		return known
	}
	//mutate: version-settled
	if m.SettledAt > 0 && ref.Version <= m.SettledAt {
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
func take[T any, P object[T]](m *Model, have, got P) (bool, api.Rejected) {
	ref := got.Ref()
	var version uint64
	if have != nil {
		version = have.Ref().Version
	}
	switch m.arrives(ref, have != nil, version) {
	case known:
		return false, api.Rejected{}
	case same:
		keep, r := twins(ref, (*T)(have), (*T)(got))
		if keep {
			return false, r
		}
		m.enter(ref, got.Check())
		return true, r
	}
	if have == nil {
		delete(m.gone, api.Ref{Kind: ref.Kind, Key: ref.Key})
	}
	return true, m.enter(ref, got.Check())
}

// enter notes that the object changed and whether it makes sense.
func (m *Model) enter(ref api.Ref, reason string) api.Rejected {
	m.Edits++
	if reason == "" {
		if len(m.Invalid) > 0 {
			delete(m.Invalid, api.Ref{Kind: ref.Kind, Key: ref.Key})
		}
		return api.Rejected{}
	}
	return m.Reject(ref, reason)
}

func (m *Model) Reject(ref api.Ref, reason string) api.Rejected {
	m.Invalid[api.Ref{Kind: ref.Kind, Key: ref.Key}] = reason
	return api.Rejected{Ref: ref, Reason: reason}
}

// IsRejected says whether the object has no effect.
func (m *Model) IsRejected(kind api.Kind, key string) bool {
	return len(m.Invalid) > 0 && m.Invalid[api.Ref{Kind: kind, Key: key}] != ""
}

func (m *Model) applyNode(got *api.Node) api.Rejected {
	n := m.NodeNamed(got.Name)
	ok, r := take(m, n.Told, got)
	if !ok {
		m.forgetNode(n)
		return r
	}
	if clash := m.SetNode(n, got); clash.Reason != "" {
		return clash
	}
	return r
}

func (m *Model) applyPod(got *api.Pod) api.Rejected {
	p := m.Pods[got.Key]
	var have *api.Pod
	if p != nil {
		have = p.Pod
	}
	ok, r := take(m, have, got)
	if ok {
		m.SetPod(p, got)
	}
	return r
}

func (m *Model) applyGang(got *api.Gang) api.Rejected {
	var have *api.Gang
	if g := m.Gangs[got.Key]; g != nil {
		have = g.Spec
	}
	ok, r := take(m, have, got)
	if ok {
		m.SetGang(got.Key, got)
	}
	return r
}

func (m *Model) applyQueue(got *api.Queue) api.Rejected {
	if got.Name == "" {
		return api.Rejected{Ref: got.Ref(), Reason: "a queue without a name"}
	}
	q := m.QueueNamed(got.Name)
	ok, r := take(m, q.Spec, got)
	if ok {
		q.Spec, m.Tree.Stale = got, true
	}
	return r
}

// keep is the upsert of what nothing else follows from.
func keep[T any, P object[T]](m *Model, in map[string]P, got P) (bool, api.Rejected) {
	key := got.Ref().Key
	ok, r := take(m, in[key], got)
	if ok {
		in[key] = got
	}
	return ok, r
}

// enterIn is keep where nothing has to be done about it.
func enterIn[T any, P object[T]](m *Model, in map[string]P, got P) api.Rejected {
	_, r := keep(m, in, got)
	return r
}

func (m *Model) applyMix(got *api.RequestMix) api.Rejected {
	ok, r := take(m, m.RequestMix, got)
	if ok {
		m.RequestMix = got
	}
	return r
}

func (m *Model) applyEviction(got *api.Eviction) api.Rejected {
	ok, r := keep(m, m.Evictions, got)
	if ok {
		m.reassign(m.Pods[got.Pod])
	}
	return r
}

func (m *Model) applyAssumption(got *api.Assumption) api.Rejected {
	ok, r := take(m, m.Assumptions[got.Pod], got)
	if ok {
		m.assume(got)
	}
	return r
}

func (m *Model) applyRefusal(got *api.Refusal) api.Rejected {
	key := got.Ref().Key
	have := m.Refusals[key]
	ok, r := take(m, have, got)
	if !ok {
		return r
	}
	m.dropRefusal(have)
	m.Refusals[key] = got
	m.RefusedOf[got.Pod] = append(m.RefusedOf[got.Pod], got)
	return r
}

func (m *Model) applyHold(got *api.Hold) api.Rejected {
	ref := got.Ref()
	h := m.Holds[ref.Key]
	var have *api.Hold
	if h != nil {
		have = h.Hold
	}
	ok, r := take(m, have, got)
	if !ok {
		return r
	}
	if h != nil {
		m.dropHold(h)
	}
	h = &Hold{Hold: got}
	m.Holds[ref.Key] = h
	m.HoldsOf[h.Gang] = append(m.HoldsOf[h.Gang], h)
	if !m.IsRejected(ref.Kind, ref.Key) {
		m.hold(h)
	}
	return r
}

func (m *Model) applyGone(ref api.Ref) api.Rejected {
	m.Latest = max(m.Latest, ref.Version)
	at := api.Ref{Kind: ref.Kind, Key: ref.Key}
	version, exists, ok := m.versionOf(at)
	if !ok {
		return api.Rejected{Ref: ref, Reason: fmt.Sprintf("unknown kind %q", ref.Kind)}
	}
	//mutate: version-older-gone
	if exists && ref.Version < version {
		return api.Rejected{}
	}
	if m.SettledAt == 0 || ref.Version > m.SettledAt {
		m.gone[at] = max(m.gone[at], ref.Version)
	}
	if !exists {
		return api.Rejected{}
	}
	m.Edits++
	delete(m.Invalid, at)
	m.remove(at)
	return api.Rejected{}
}

// versionOf returns the version of the object known under kind and key.
func (m *Model) versionOf(at api.Ref) (version uint64, exists, kindOK bool) {
	switch at.Kind {
	case api.KindNode:
		if n := m.Nodes[at.Key]; n != nil && n.Told != nil {
			return n.Told.Version, true, true
		}
	case api.KindPod:
		if p := m.Pods[at.Key]; p != nil {
			return p.Version, true, true
		}
	case api.KindGang:
		if g := m.Gangs[at.Key]; g != nil && g.Spec != nil {
			return g.Spec.Version, true, true
		}
	case api.KindQueue:
		if q := m.Queues[at.Key]; q != nil && q.Spec != nil {
			return q.Spec.Version, true, true
		}
	case api.KindAssumption:
		if a := m.Assumptions[at.Key]; a != nil {
			return a.Version, true, true
		}
	case api.KindRefusal:
		if r := m.Refusals[at.Key]; r != nil {
			return r.Version, true, true
		}
	case api.KindHold:
		if h := m.Holds[at.Key]; h != nil {
			return h.Version, true, true
		}
	case api.KindDisruption:
		return knownVersion(m.Disruptions, at.Key)
	case api.KindBooking:
		return knownVersion(m.Bookings, at.Key)
	case api.KindEviction:
		return knownVersion(m.Evictions, at.Key)
	case api.KindPromise:
		return knownVersion(m.Promises, at.Key)
	case api.KindUsage:
		return knownVersion(m.Usages, at.Key)
	case api.KindRunTimeEstimate:
		return knownVersion(m.RunTimeEstimates, at.Key)
	case api.KindDegradation:
		return knownVersion(m.Degradations, at.Key)
	case api.KindRequestMix:
		if x := m.RequestMix; x != nil && x.Ref().Key == at.Key {
			return x.Version, true, true
		}
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

func (m *Model) remove(at api.Ref) {
	switch at.Kind {
	case api.KindNode:
		m.UnsetNode(m.Nodes[at.Key])
	case api.KindPod:
		m.RemovePod(m.Pods[at.Key])
	case api.KindGang:
		m.SetGang(at.Key, nil)
	case api.KindQueue:
		m.Queues[at.Key].Spec, m.Tree.Stale = nil, true
	case api.KindAssumption:
		delete(m.Assumptions, at.Key)
		delete(m.unused, at.Key)
		m.reassignUnbound(m.Pods[at.Key])
	case api.KindRefusal:
		m.dropRefusal(m.Refusals[at.Key])
		delete(m.Refusals, at.Key)
	case api.KindHold:
		m.dropHold(m.Holds[at.Key])
		delete(m.Holds, at.Key)
	case api.KindDisruption:
		delete(m.Disruptions, at.Key)
	case api.KindBooking:
		delete(m.Bookings, at.Key)
	case api.KindEviction:
		delete(m.Evictions, at.Key)
		m.reassign(m.Pods[at.Key])
	case api.KindPromise:
		delete(m.Promises, at.Key)
	case api.KindUsage:
		delete(m.Usages, at.Key)
	case api.KindRunTimeEstimate:
		delete(m.RunTimeEstimates, at.Key)
	case api.KindDegradation:
		delete(m.Degradations, at.Key)
	case api.KindRequestMix:
		m.RequestMix = nil
	}
}

// dropHold takes the hold off its node, and out of its gang's list.
func (m *Model) dropHold(h *Hold) {
	m.unhold(h)
	rest := slices.DeleteFunc(m.HoldsOf[h.Gang], func(o *Hold) bool { return o == h })
	if len(rest) == 0 {
		delete(m.HoldsOf, h.Gang)
		delete(m.heirs, h.Gang)
		return
	}
	m.HoldsOf[h.Gang] = rest
}

// dropRefusal takes the refusal, nil allowed, out of its pod's list.
func (m *Model) dropRefusal(r *api.Refusal) {
	if r == nil {
		return
	}
	rest := slices.DeleteFunc(m.RefusedOf[r.Pod], func(o *api.Refusal) bool { return o == r })
	if len(rest) == 0 {
		delete(m.RefusedOf, r.Pod)
		return
	}
	m.RefusedOf[r.Pod] = rest
}
