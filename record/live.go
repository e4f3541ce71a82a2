package record

import (
	"bytes"
	"cmp"
	"encoding/json"
	"iter"
	"maps"
	"reflect"
	"slices"

	"github.com/berth-dev/berth/engine"
)

// live is what a state that was told the same knows: the newest of everything, as the changes that said so. It
// follows the engine's rules for versions (engine/internal/cluster/apply.go) and none of its others.
type live struct {
	objects map[engine.Ref]engine.Change // by kind and key; Ref.Version is 0
	gone    map[engine.Ref]uint64        // version, by kind and key
	settled uint64
	latest  uint64
}

func newLive() *live {
	return &live{objects: make(map[engine.Ref]engine.Change), gone: make(map[engine.Ref]uint64)}
}

func (l *live) apply(changes []engine.Change) {
	for i := range changes {
		c := &changes[i]
		switch ref, ok := c.Ref(); {
		case ok:
			l.set(ref, *c)
		case c.Gone != nil:
			l.remove(*c.Gone)
		case c.Settled > 0:
			l.settle(c.Settled)
		}
	}
}

// set takes in an object.
func (l *live) set(ref engine.Ref, c engine.Change) {
	l.latest = max(l.latest, ref.Version)
	at := engine.Ref{Kind: ref.Kind, Key: ref.Key}
	if have, exists := l.objects[at]; exists {
		if newer(have, c, ref.Version) {
			l.objects[at] = c
		}
		return
	}
	if stone, ok := l.gone[at]; ok && ref.Version <= stone || l.settled > 0 && ref.Version <= l.settled {
		return
	}
	delete(l.gone, at)
	l.objects[at] = c
}

// newer says whether got, of the version, replaces have. Of two contents of one version the engine keeps the
// one whose JSON comes first.
func newer(have, got engine.Change, version uint64) bool {
	old, _ := have.Ref()
	if version != old.Version {
		return version > old.Version
	}
	if reflect.DeepEqual(have, got) {
		return false
	}
	a, errA := json.Marshal(have)
	b, errB := json.Marshal(got)
	return errA == nil && errB == nil && bytes.Compare(a, b) > 0
}

// remove takes in that an object is gone.
func (l *live) remove(ref engine.Ref) {
	l.latest = max(l.latest, ref.Version)
	if !slices.Contains(kinds[:], ref.Kind) {
		return
	}
	at := engine.Ref{Kind: ref.Kind, Key: ref.Key}
	if have, exists := l.objects[at]; exists {
		if old, _ := have.Ref(); ref.Version < old.Version {
			return
		}
		delete(l.objects, at)
	}
	if l.settled == 0 || ref.Version > l.settled {
		l.gone[at] = max(l.gone[at], ref.Version)
	}
}

func (l *live) settle(version uint64) {
	l.settled = max(l.settled, version)
	maps.DeleteFunc(l.gone, func(_ engine.Ref, v uint64) bool { return v <= l.settled })
}

// all is the changes that tell an empty state what is known, once it is told latest. Their order is that of
// kinds and keys; what is settled comes last, for it would make the rest old news.
func (l *live) all() iter.Seq[engine.Change] {
	return func(yield func(engine.Change) bool) {
		for _, ref := range sortedRefs(l.objects) {
			if !yield(l.objects[ref]) {
				return
			}
		}
		for _, ref := range sortedRefs(l.gone) {
			if !yield(engine.Change{Gone: &engine.Ref{Kind: ref.Kind, Key: ref.Key, Version: l.gone[ref]}}) {
				return
			}
		}
		if l.settled > 0 {
			yield(engine.Change{Settled: l.settled})
		}
	}
}

func sortedRefs[V any](m map[engine.Ref]V) []engine.Ref {
	refs := slices.Collect(maps.Keys(m))
	slices.SortFunc(refs, func(a, b engine.Ref) int {
		return cmp.Or(cmp.Compare(slices.Index(kinds[:], a.Kind), slices.Index(kinds[:], b.Kind)), cmp.Compare(a.Key, b.Key))
	})
	return refs
}

// kinds is what can be gone, in the order in which a state takes it in fastest.
var kinds = [...]engine.Kind{
	engine.KindNode, engine.KindQueue, engine.KindGang, engine.KindPod,
	engine.KindAssumption, engine.KindRefusal, engine.KindHold,
	engine.KindDisruption, engine.KindBooking, engine.KindEviction, engine.KindPromise, engine.KindUsage, engine.KindRunTimeEstimate, engine.KindDegradation, engine.KindRequestMix,
}
