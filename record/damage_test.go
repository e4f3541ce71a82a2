package record

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/engine"
)

// told is all that replay would tell of a folder: the plans of all cycles, and what the list says.
func told(dir string) (digests []digest, torn bool, err error) {
	l, err := Open(dir)
	if err != nil {
		return nil, false, err
	}
	for _, s := range l.Segments() {
		err = errors.Join(err, s.Err)
		if s.Err != nil {
			continue
		}
		sum, wrong := s.Summarize()
		err, torn = errors.Join(err, wrong), torn || sum.Torn
	}
	for c, wrong := range l.Cycles(time.Time{}, time.Now().Add(1e6*time.Hour)) {
		if err = errors.Join(err, wrong); wrong == nil {
			var d digester
			digests = append(digests, d.of(&c.Plan))
		}
	}
	return digests, torn, err
}

// Whatever byte of a log is changed, and however: replay says so and names the file.
func TestEveryFlippedByteIsFound(t *testing.T) {
	dir := t.TempDir()
	write(Options{Dir: dir, Berth: "v1"}, engine.Config{}, gangLife(1))
	files, err := newFolder(dir).list()
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	want, torn, err := told(dir)
	if err != nil || torn || len(want) == 0 {
		t.Fatalf("unchanged: %d cycles, torn %v, %v", len(want), torn, err)
	}
	path := files[0].path
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes", len(data))
	for i := range data {
		for _, flip := range []byte{1 << (i % 8), 0xff} {
			bad := slices.Clone(data)
			bad[i] ^= flip
			if err := os.WriteFile(path, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, _, err := told(dir); err == nil {
				t.Errorf("byte %d of %d is other by %#x, and nobody noticed", i, len(data), flip)
			} else if !strings.Contains(err.Error(), path) && !errors.Is(err, ErrNone) {
				t.Errorf("byte %d: %v does not say which file", i, err)
			}
		}
	}
}

// What an earlier release wrote is read as before: without checksums.
func TestFormatOneIsRead(t *testing.T) {
	var out bytes.Buffer
	for _, text := range []string{
		`{"segment":{"format":1,"values":1,"berth":"v0","start":"2026-11-15T12:00:00Z","because":"start","config":{}}}`,
		`{"cycle":{"now":"2026-11-15T12:00:00Z","digest":"0000000000000000"}}`,
	} {
		out.WriteString(text + "\n")
	}
	l := &lines{raw: &summing{r: bytes.NewReader(nil)}}
	for text := range bytes.Lines(out.Bytes()) {
		l.n++
		if _, err := l.checked(bytes.TrimSuffix(text, []byte("\n"))); err != nil {
			t.Error(err)
		}
		l.format = 1
	}
	if err := l.ended(); err != nil || l.torn {
		t.Errorf("%v, torn %v", err, l.torn)
	}
}
