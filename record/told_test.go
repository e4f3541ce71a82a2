package record

import (
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/engine"
)

// TestToldIsWhatWasHandedOver reads facts back without making plans: all changes in order, evictions with their cycle, and
// at the beginning of a later segment everything that is known.
func TestToldIsWhatWasHandedOver(t *testing.T) {
	dir := t.TempDir()
	w := newWriter(Options{Dir: dir, SegmentAge: 10 * time.Second}, engine.Config{})
	pod := func(key string, version uint64) engine.Change {
		return engine.Change{Pod: &engine.Pod{Key: key, UID: key, Version: version}}
	}
	evicted := engine.Eviction{Pod: "ns/a", UID: "ns/a", Cause: engine.Preempted, Version: 5}
	// The plan is none that the engine would make: nothing holds a reader of facts to it.
	w.Cycle(noon, []engine.Change{pod("ns/a", 1)}, engine.Plan{})
	w.Cycle(noon.Add(5*time.Second), []engine.Change{pod("ns/b", 2)}, engine.Plan{Evictions: []engine.Eviction{evicted}, Changes: []engine.Change{{Eviction: &evicted}}})
	w.Cycle(noon.Add(20*time.Second), []engine.Change{{Gone: &engine.Ref{Kind: engine.KindPod, Key: "ns/a", Version: 6}}}, engine.Plan{})
	w.write()
	w.end()
	log, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []Told
	for c, err := range log.Told(noon, noon.Add(time.Hour)) {
		if err != nil {
			t.Fatal(err)
		}
		c.Segment = nil
		got = append(got, c)
	}
	want := []Told{
		{Now: noon, First: true, Because: Started, Changes: []engine.Change{pod("ns/a", 1)}},
		{Now: noon.Add(5 * time.Second), Because: Started, Changes: []engine.Change{pod("ns/b", 2)}, Evictions: []engine.Eviction{evicted}},
		{Now: noon.Add(20 * time.Second), First: true, Because: Aged, Changes: []engine.Change{pod("ns/a", 1), pod("ns/b", 2), {Eviction: &evicted}, {Gone: &engine.Ref{Kind: engine.KindPod, Key: "ns/a", Version: 6}}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestToldGoesOnAfterDamage names the file that cannot be read and reads the next.
func TestToldGoesOnAfterDamage(t *testing.T) {
	dir := t.TempDir()
	w := newWriter(Options{Dir: dir, SegmentAge: 10 * time.Second}, engine.Config{})
	for i := range 3 {
		w.Cycle(noon.Add(time.Duration(i)*time.Minute), nil, engine.Plan{})
	}
	w.write()
	w.end()
	log, err := Open(dir)
	if err != nil || len(log.Segments()) != 3 {
		t.Fatal(log, err)
	}
	if err := os.WriteFile(log.Segments()[1].Path, []byte("no log"), 0o600); err != nil {
		t.Fatal(err)
	}
	read, failed := 0, 0
	for c, err := range log.Told(noon, noon.Add(time.Hour)) {
		if err != nil && c.Segment == &log.segments[1] {
			failed++
		} else if err == nil {
			read++
		}
	}
	if read != 2 || failed != 1 {
		t.Errorf("read %d cycles and %d errors, want 2 and 1", read, failed)
	}
}
