package record

import (
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine"
)

// What we keep is what the engine keeps: a state that is told it is the same, to the byte, and goes on to be the
// same. All of replaying from the middle rests on this.
func TestWhatIsLiveIsWhatTheEngineKnows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		known, want := newLive(), engine.Load(engine.Snapshot{}, rackLevels)
		for _, c := range anyLife(t, rackLevels) {
			known.apply(c.changes)
			known.apply(c.plan.Changes)
			want.Apply(c.changes...)
			want.Apply(c.plan.Changes...)
			got := engine.Load(engine.Snapshot{Latest: known.latest}, rackLevels)
			got.Apply(slices.Collect(known.all())...)
			if diff := cmp.Diff(asJSON(t, want.Dump()), asJSON(t, got.Dump())); diff != "" {
				t.Fatalf("at %s (-the engine +ours):\n%s", c.now, diff)
			}
		}
	})
}

// A kind of object that the engine learns and we do not would silently be missing at the start of segments.
func TestEveryKindOfChangeIsKept(t *testing.T) {
	for f := range reflect.TypeFor[engine.Change]().Fields() {
		var c engine.Change
		v := reflect.ValueOf(&c).Elem().FieldByIndex(f.Index)
		if f.Name == "Gone" || f.Name == "Settled" {
			continue
		}
		v.Set(reflect.New(f.Type.Elem()))
		ref, ok := c.Ref()
		if !ok || !slices.Contains(kinds[:], ref.Kind) {
			t.Errorf("%s is not kept: add it to Change.Ref and kinds", f.Name)
		}
	}
}
