package record

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
)

// A writer that is killed leaves a file that ends anywhere. Wherever that is, all cycles that were flushed before it
// are there, and none that was not.
func TestAFileThatEndsAnywhereGivesWhatWasFlushed(t *testing.T) {
	cycles := gangLife(6)
	d := &disk{room: 1 << 20}
	w := newWriter(Options{Dir: t.TempDir()}, rackLevels)
	w.folder.create = d.create
	var flushed []int64 // file size when cycle i was on disk
	for _, c := range cycles {
		w.Cycle(c.now, c.changes, c.plan)
		w.write()
		flushed = append(flushed, w.segment.file.n)
	}
	w.end()
	var path string
	var data []byte
	for p, b := range d.files {
		path, data = p, *b
	}
	want := plans(t, cycles)
	for size := range len(data) + 1 {
		if err := os.WriteFile(path, data[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		least := 0
		for least < len(flushed) && flushed[least] <= int64(size) {
			least++
		}
		if _, err := Open(filepath.Dir(path)); errors.Is(err, ErrNone) && least == 0 {
			continue
		}
		got := replayed(t, filepath.Dir(path))
		if len(got) < least || !cmp.Equal(want[:len(got)], got) {
			t.Fatalf("%d of %d bytes: %d cycles, want at least %d, as they were", size, len(data), len(got), least)
		}
		log, _ := Open(filepath.Dir(path))
		if sum, err := log.Segments()[0].Summarize(); err != nil || sum.Cycles != len(got) || sum.Torn != (size < len(data)) {
			t.Fatalf("%d of %d bytes: %+v, %v", size, len(data), sum, err)
		}
	}
}

// A small file may unpack to more than any memory holds, and all lines of a cycle are held at once.
func TestAFileThatUnpacksToTooMuchIsRefused(t *testing.T) {
	filler := `{"live":{"remove":{"kind":"` + strings.Repeat("x", 64<<10) + `"}}}`
	lines := []string{`{"segment":{"format":1,"values":1,"berth":"v1"}}`}
	for range 2 * freely / len(filler) {
		lines = append(lines, filler)
	}
	data := compress(t, strings.Join(lines, "\n"))
	l, err := newLines(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	for err == nil {
		_, err = l.next()
	}
	if !errors.Is(err, errInflated) {
		t.Fatalf("%d bytes that unpack to %d: after %d lines, %v", len(data), 2*freely, l.n, err)
	}
}

// segmentOf makes a log of one file with these lines and returns its folder.
func segmentOf(t *testing.T, lines ...string) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "decisions-000001-20261115T120000Z.zst")
	if err := os.WriteFile(path, compress(t, strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func compress(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b, zstd.WithWindowSize(1<<20))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

const (
	goodHead  = `{"segment":{"format":1,"values":1,"berth":"v1","start":"2026-11-15T12:00:00Z","because":"start","config":{}}}`
	goodCycle = `{"cycle":{"now":"2026-11-15T12:00:00Z","digest":"cbf29ce484222325"}}`
)

func TestDamageIsNamedWithItsFileAndLine(t *testing.T) {
	for _, c := range []struct {
		what  string
		lines []string
		want  string
	}{
		{"no head", []string{goodCycle}, "line 1: it is not the head of a segment"},
		{"a later format", []string{`{"segment":{"format":99,"berth":"v9"}}`}, "berth v9 wrote it in a format that is newer"},
		{"not JSON", []string{goodHead, goodCycle, `{"cycle":`}, "line 3: unexpected end of JSON input"},
		{"two in one", []string{goodHead, `{"change":{"settled":1},"cycle":{}}`}, "line 2: it is none of"},
		{"nothing in it", []string{goodHead, `{}`}, "line 2: it is none of"},
		{"a second head", []string{goodHead, goodHead}, "line 2: a second head"},
	} {
		log, err := Open(segmentOf(t, c.lines...))
		if err != nil {
			t.Fatal(err)
		}
		_, err = log.At(noon.Add(time.Hour))
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "decisions-000001") {
			t.Errorf("%s: got %v, want %q", c.what, err, c.want)
		}
	}
}

// Before the damage all is well.
func TestDamageHidesNothingBeforeIt(t *testing.T) {
	log, err := Open(segmentOf(t, goodHead, goodCycle, "rubbish"))
	if err != nil {
		t.Fatal(err)
	}
	if sum, err := log.Segments()[0].Summarize(); err != nil || sum.Cycles != 1 {
		t.Errorf("%+v, %v", sum, err)
	}
	n := 0
	var damage error
	for _, err := range log.Cycles(noon, noon.Add(time.Hour)) {
		if err != nil {
			damage = err
			continue
		}
		n++
	}
	if n != 1 || damage == nil {
		t.Errorf("%d cycles, then %v; want one and an error", n, damage)
	}
}

// One file that cannot be read does not hide the others.
func TestADamagedFileHidesNoOther(t *testing.T) {
	dir := segmentOf(t, goodCycle)
	cycles := gangLife(3)
	write(Options{Dir: dir}, rackLevels, cycles)
	if diff := cmp.Diff(plans(t, cycles), replayed(t, dir)); diff != "" {
		t.Error(diff)
	}
	log, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(log.Segments()); n != 2 || log.Segments()[0].Err == nil || log.Segments()[1].Err != nil {
		t.Errorf("%d segments: %+v", n, log.Segments())
	}
}

// FuzzRead reads whatever there is: as a file, and as the lines of one. It may be refused; it may not panic, and not
// take more than the bounds.
func FuzzRead(f *testing.F) {
	f.Add([]byte(goodHead + "\n" + goodCycle + "\n"))
	f.Add([]byte(goodHead + "\n" + `{"live":{"settled":18446744073709551615}}` + "\n" + `{"change":{"gone":{"kind":"moon"}}}` + "\n" + goodCycle + "\n"))
	f.Add([]byte(goodHead + "\n" + `{"change":{"node":{"name":"n","version":1,"allocatable":{"nvidia.com/gpu":1,"pods":1}}}}` + "\n" + `{"change":{"pod":{"key":"p","version":2,"requests":{"nvidia.com/gpu":1}}}}` + "\n" + goodCycle + "\n"))
	f.Add(compress(f, goodHead+"\n"+goodCycle+"\n"))
	f.Add([]byte{0x28, 0xb5, 0x2f, 0xfd, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		readAll(t, data)
		readAll(t, compress(t, string(data)))
	})
}

func readAll(t *testing.T, file []byte) {
	in, err := newLines(bytes.NewReader(file))
	if err != nil {
		return
	}
	defer in.close()
	h, err := in.head()
	if err != nil {
		return
	}
	h.Config.SearchBudget = 200 // the engine has fuzz tests of its own: a quick answer will do
	p := newPlayer(&Segment{Config: h.Config, latest: h.Latest}, in)
	for range 64 {
		if err := p.peek(); err != nil {
			return
		}
		if err := p.step(); err != nil {
			return
		}
	}
}
