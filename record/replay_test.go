package record

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine"
)

// Whatever the scheduler lived through and wherever segments were cut, every plan comes back to the byte: from the
// whole log, and asked for by its time, which plays one segment from its beginning.
func TestEveryPlanComesBackToTheByte(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "record")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		cycles := anyLife(t, rackLevels)
		o := Options{Dir: dir, SegmentBytes: pick[int64](t, 1, 2000, 1<<20), SegmentAge: pick(t, time.Second, time.Minute, time.Hour)}
		w := write(o, rackLevels, cycles)
		if w.Missed() != 0 || w.Recorded() != int64(len(cycles)) {
			t.Fatalf("recorded %d, missed %d of %d", w.Recorded(), w.Missed(), len(cycles))
		}
		if diff := cmp.Diff(plans(t, cycles), replayed(t, dir)); diff != "" {
			t.Fatalf("plans (-live +replayed):\n%s", diff)
		}
		log, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range cycles {
			want := lastNotAfter(cycles, c.now)
			got, err := log.At(c.now)
			if err != nil {
				t.Fatalf("at cycle %d: %v", i, err)
			}
			if diff := cmp.Diff(asJSON(t, want.plan), asJSON(t, got.Plan)); diff != "" {
				t.Fatalf("at cycle %d (-live +replayed):\n%s", i, diff)
			}
		}
	})
}

// lastNotAfter is what At promises, over all cycles.
func lastNotAfter(cycles []cycle, t time.Time) (last cycle) {
	for _, c := range cycles {
		if !c.now.After(t) {
			last = c
		}
	}
	return last
}

// The state that comes with a cycle answers as it would have then: before its plan was carried out.
func TestAPastStateExplains(t *testing.T) {
	dir, cycles := t.TempDir(), gangLife(9)
	write(Options{Dir: dir, SegmentBytes: 1}, rackLevels, cycles)
	log, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	live := engine.Load(engine.Snapshot{}, rackLevels)
	for i, c := range cycles {
		live.Apply(c.changes...)
		got, err := log.At(c.now.Add(time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"ns/p-0", "ns/p-1", "ns/p-8"} {
			want, got := live.Explain(key, c.now, 0), got.State.Explain(key, got.Now, 0)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("cycle %d, %s (-then +now):\n%s", i, key, diff)
			}
		}
		live.Apply(c.plan.Changes...)
	}
}

func TestATimeBeforeTheLogIsOutside(t *testing.T) {
	dir := t.TempDir()
	write(Options{Dir: dir}, rackLevels, gangLife(3))
	log, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = log.At(noon.Add(-time.Nanosecond))
	var outside *OutsideError
	if !errors.As(err, &outside) || !outside.From.Equal(noon) {
		t.Errorf("got %v, want outside of a log from %s", err, noon)
	}
	if _, err := Open(t.TempDir()); !errors.Is(err, ErrNone) {
		t.Errorf("an empty folder: got %v, want ErrNone", err)
	}
}

// The clock went back by three minutes: the log has two cycles of most times, and the later recorded one is meant.
func TestOfATimeThatCameTwiceTheSecondIsMeant(t *testing.T) {
	dir := t.TempDir()
	cycles := gangLife(6)
	for i := 3; i < 6; i++ {
		cycles[i].now = cycles[i].now.Add(-3 * time.Second)
		cycles[i].plan.Now = cycles[i].now
	}
	write(Options{Dir: dir}, rackLevels, relive(cycles))
	log, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(log.Segments()) != 2 || log.Segments()[1].Because != TimeBack {
		t.Fatalf("segments %+v: want a second one because of the clock", log.Segments())
	}
	c, err := log.At(noon.Add(time.Second))
	if err != nil || c.Number != 2 || c.Segment.Path != log.Segments()[1].Path {
		t.Errorf("got cycle %d of %s, %v; want the second of the second segment", c.Number, c.Segment.Path, err)
	}
	if n := len(replayed(t, dir)); n != 6 {
		t.Errorf("replayed %d cycles, want 6", n)
	}
}

// relive makes the plans of the cycles' changes and times.
func relive(cycles []cycle) (out []cycle) {
	s := engine.Load(engine.Snapshot{}, rackLevels)
	for _, c := range cycles {
		out = append(out, live1(s, c.now, c.changes))
	}
	return out
}

func TestAnotherDecisionIsNoticed(t *testing.T) {
	dir, cycles := t.TempDir(), gangLife(5)
	cycles[3].plan.Starts = nil // as if the one that recorded had not started it
	if len(relive(cycles)[3].plan.Starts) == 0 {
		t.Fatal("the story starts nothing in its fourth cycle")
	}
	write(Options{Dir: dir, Berth: "v0.0.9"}, rackLevels, cycles)
	log, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.At(cycles[2].now); err != nil {
		t.Errorf("before it: %v", err)
	}
	_, err = log.At(cycles[4].now)
	var mismatch *MismatchError
	if !errors.As(err, &mismatch) {
		t.Fatalf("got %v, want a mismatch", err)
	}
	want := MismatchError{Path: log.Segments()[0].Path, Cycle: 4, Now: cycles[3].now, Berth: "v0.0.9"}
	if diff := cmp.Diff(want, *mismatch); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(err.Error(), "this binary decides differently") {
		t.Error(err)
	}
}

// Cycles leaves out segments that cannot matter, and nothing else.
func TestCyclesOfASpan(t *testing.T) {
	dir, cycles := t.TempDir(), gangLife(12)
	write(Options{Dir: dir, SegmentAge: 3 * time.Second}, rackLevels, cycles)
	log, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(log.Segments()) != 4 {
		t.Fatalf("%d segments, want 4", len(log.Segments()))
	}
	for from := range cycles {
		for to := range cycles {
			var got []string
			for c, err := range log.Cycles(cycles[from].now, cycles[to].now) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, asJSON(t, c.Plan))
			}
			want := plans(t, cycles[from:max(from, to+1)])
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%d to %d:\n%s", from, to, diff)
			}
		}
	}
}
