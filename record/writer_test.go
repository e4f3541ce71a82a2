package record

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/engine"
)

// The disk fills up in the middle, at every place that it can, and later has room again. What was written before
// stays readable, what comes after begins anew, it is said once, and every cycle is counted on one side.
func TestAFullDiskCostsAGapAndNothingElse(t *testing.T) {
	cycles := gangLife(12)
	for room := 0; room < 2500; room += 37 {
		synctest.Test(t, func(t *testing.T) { fillUp(t, cycles, room) })
	}
}

func fillUp(t *testing.T, cycles []cycle, room int) {
	var said bytes.Buffer
	dir := t.TempDir()
	d := &disk{room: room}
	w := newWriter(Options{Dir: dir, Log: slog.New(slog.NewTextHandler(&said, nil))}, rackLevels)
	w.folder.create = d.create
	for i, c := range cycles {
		if i == 8 {
			d.room = 1 << 20
			time.Sleep(retryLast)
		}
		w.Cycle(c.now, c.changes, c.plan)
		w.write()
	}
	w.end()
	for path, data := range d.files {
		if err := os.WriteFile(path, *data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if w.Recorded()+w.Missed() != int64(len(cycles)) {
		t.Errorf("room %d: recorded %d, missed %d, want %d in all", room, w.Recorded(), w.Missed(), len(cycles))
	}
	// A torn tail may hold whole cycles that were never reported as written.
	kept := int(w.Recorded())
	got := replayed(t, dir)
	if len(got) < kept || len(got) > len(cycles) {
		t.Fatalf("room %d: replayed %d cycles, recorded %d", room, len(got), kept)
	}
	want := plans(t, cycles)
	after := len(cycles) - 4 // from where there was room again
	if kept == len(cycles) {
		after = 0
	}
	tail := want[after:]
	if diff := cmp.Diff(tail, got[len(got)-len(tail):]); diff != "" {
		t.Errorf("room %d: after the gap:\n%s", room, diff)
	}
	if head := got[:len(got)-len(tail)]; !cmp.Equal(want[:len(head)], head) {
		t.Errorf("room %d: before the gap:\n%s", room, cmp.Diff(want[:len(head)], head))
	}
	lines := strings.Count(said.String(), "\n")
	if w.Missed() == 0 && lines != 0 || w.Missed() > 0 && lines != 2 {
		t.Errorf("room %d: said %q; want one line at the beginning of a gap and one at its end", room, said.String())
	}
}

func TestAFolderThatCannotBeMadeIsSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "file", "decisions")
		if err := os.WriteFile(filepath.Dir(dir), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		var said bytes.Buffer
		w := Start(Options{Dir: dir, Log: slog.New(slog.NewTextHandler(&said, nil))}, rackLevels)
		for _, c := range gangLife(50) {
			w.Cycle(c.now, c.changes, c.plan)
			time.Sleep(10 * time.Second)
		}
		w.Close()
		if strings.Count(said.String(), "\n") != 1 || !strings.Contains(said.String(), "decisions are not recorded for now") || w.Missed() != 50 {
			t.Errorf("missed %d of 50, said %q; want one line", w.Missed(), said.String())
		}
	})
}

// stalled is a file whose writes do not return until it is let go.
type stalled struct{ free chan struct{} }

func (s stalled) Write(p []byte) (int, error) { <-s.free; return len(p), nil }
func (s stalled) Close() error                { return nil }

// A disk that does not answer keeps nobody waiting, and does not take all memory.
func TestADiskThatHangsHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := stalled{make(chan struct{})}
		w := newWriter(Options{Dir: t.TempDir()}, rackLevels)
		w.folder.create = func(string) (io.WriteCloser, error) { return file, nil }
		go w.run()
		many := make([]engine.Change, mostPending/8)
		for i := range many {
			many[i] = engine.Change{Settled: 1}
		}
		w.Cycle(noon, nil, engine.Plan{})
		time.Sleep(2 * time.Second) // the first write hangs
		for range 20 {
			w.Cycle(noon, many, engine.Plan{})
		}
		if w.pending > mostPending+len(many) || len(w.cycles) > 0 || w.Missed() != 20 {
			t.Errorf("%d changes wait, missed %d of 20", w.pending, w.Missed())
		}
		close(file.free)
		w.Close()
		if w.Recorded() != 1 {
			t.Errorf("recorded %d, want the first", w.Recorded())
		}
	})
}

// Everything is readable a second after it happened, though the file is still open.
func TestASecondLaterItCanBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, cycles := t.TempDir(), gangLife(5)
		w := Start(Options{Dir: dir}, rackLevels)
		defer w.Close()
		for i, c := range cycles {
			w.Cycle(c.now, c.changes, c.plan)
			time.Sleep(gather + time.Millisecond)
			synctest.Wait()
			if diff := cmp.Diff(plans(t, cycles[:i+1]), replayed(t, dir)); diff != "" {
				t.Errorf("after cycle %d:\n%s", i, diff)
			}
		}
	})
}

func TestNothingIsRecordedWithoutAFolder(t *testing.T) {
	w := Start(Options{}, rackLevels)
	w.Cycle(noon, nil, engine.Plan{})
	w.Close()
	if w != nil {
		t.Error("want no writer")
	}
}

func TestSegmentsEndBySizeAndAge(t *testing.T) {
	cycles := gangLife(20)
	for _, c := range []struct {
		what string
		opts Options
		want []Because
	}{
		{"neither", Options{}, []Because{Started}},
		{"age", Options{SegmentAge: 10 * time.Second}, []Because{Started, Aged}},
		{"size, and as much as it began with", Options{SegmentBytes: 1500}, []Because{Started, Full, Full}},
	} {
		c.opts.Dir = t.TempDir()
		write(c.opts, rackLevels, cycles)
		log, err := Open(c.opts.Dir)
		if err != nil {
			t.Fatal(err)
		}
		var got []Because
		for _, s := range log.Segments() {
			got = append(got, s.Because)
			st, err := os.Stat(s.Path)
			if err != nil || st.Mode().Perm() != 0o600 || st.Size() != s.Size {
				t.Errorf("%s: %v, %v; want mode 0600 and %d bytes", s.Path, st.Mode(), err, s.Size)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s:\n%s", c.what, diff)
		}
	}
}

// The oldest go, what is left is within the bound, and it can be played. Files of others stay.
func TestTheLogIsBounded(t *testing.T) {
	dir, cycles := t.TempDir(), gangLife(60)
	other := filepath.Join(dir, "notes.zst")
	if err := os.WriteFile(other, make([]byte, 10_000), 0o600); err != nil {
		t.Fatal(err)
	}
	const bound = 6000
	w := newWriter(Options{Dir: dir, SegmentAge: 2 * time.Second, TotalBytes: bound}, rackLevels)
	for _, c := range cycles {
		w.Cycle(c.now, c.changes, c.plan)
		w.write()
		if n := onDisk(t, dir); n > bound {
			t.Fatalf("%d bytes on disk, bound %d", n, bound)
		}
	}
	w.end()
	got := replayed(t, dir)
	if len(got) < 6 || len(got) == len(cycles) {
		t.Errorf("%d cycles are left", len(got))
	}
	if diff := cmp.Diff(plans(t, cycles[len(cycles)-len(got):]), got); diff != "" {
		t.Error(diff)
	}
	if _, err := os.Stat(other); err != nil {
		t.Error(err)
	}
}

func onDisk(t *testing.T, dir string) (total int64) {
	t.Helper()
	files, err := newFolder(dir).list()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		total += f.size
	}
	return total
}

// A scheduler that starts again knows nothing, and its segment says so; what was recorded before stays.
func TestARestartBeginsANewSegment(t *testing.T) {
	dir, cycles := t.TempDir(), gangLife(4)
	write(Options{Dir: dir, Berth: "v1"}, rackLevels, cycles)
	write(Options{Dir: dir, Berth: "v2"}, rackLevels, cycles)
	if diff := cmp.Diff(append(plans(t, cycles), plans(t, cycles)...), replayed(t, dir)); diff != "" {
		t.Error(diff)
	}
	log, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	sum, err := log.Segments()[1].Summarize()
	want := Summary{To: cycles[3].now, Cycles: 4, Starts: 3, Waiting: 1}
	if diff := cmp.Diff(want, sum); diff != "" || err != nil || log.Segments()[1].Berth != "v2" {
		t.Errorf("%v, %s by %s", err, diff, log.Segments()[1].Berth)
	}
}

// A scheduler that ends at once after a cycle has recorded it.
func TestNothingIsLostAtTheEnd(t *testing.T) {
	for range 100 {
		dir, cycles := t.TempDir(), gangLife(1)
		w := Start(Options{Dir: dir}, rackLevels)
		w.Cycle(cycles[0].now, cycles[0].changes, cycles[0].plan)
		w.Close()
		if diff := cmp.Diff(plans(t, cycles), replayed(t, dir)); diff != "" {
			t.Fatal(diff)
		}
	}
}

// Two times of one process compare by its monotonic clock, which does not go back when the clock on the wall does.
func TestTimesAreThoseOnTheWall(t *testing.T) {
	w := newWriter(Options{Dir: t.TempDir()}, rackLevels)
	now := time.Now()
	w.Cycle(now, nil, engine.Plan{})
	if got := w.take()[0].now; got != now.UTC().Round(0) {
		t.Errorf("got %s, want it without its monotonic reading", got)
	}
}
