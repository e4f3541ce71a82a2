package record

import (
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/berth-dev/berth/engine"
)

// segment is the file that is being written. Nothing of it is on disk before flush; an error leaves it of no use.
type segment struct {
	path  string
	start time.Time
	out   io.Closer
	file  counter // to out, compressed
	zip   *zstd.Encoder
	plain counter // lines, before compression
	json  *json.Encoder

	opening int64 // bytes of lines before the first cycle
	kept    int   // cycles flushed
	pending int   // cycles not flushed
}

// counter counts what goes through it.
type counter struct {
	io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.n += int64(n)
	return n, err
}

// window is how far back compression looks. It is bounded for the memory that it takes.
const window = 4 << 20

// newSegment writes the head and what is live into the file.
func newSegment(path string, w io.WriteCloser, h head, known *live) (*segment, error) {
	s := &segment{path: path, start: h.Start, out: w, file: counter{Writer: w}}
	var err error
	s.zip, err = zstd.NewWriter(&s.file, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window))
	if err != nil {
		return s, err
	}
	s.plain = counter{Writer: s.zip}
	s.json = json.NewEncoder(&s.plain)
	s.json.SetEscapeHTML(false)
	if err := s.json.Encode(line{Segment: &h}); err != nil {
		return s, err
	}
	for c := range known.all() {
		if err := s.json.Encode(line{Live: &c}); err != nil {
			return s, err
		}
	}
	s.opening = s.plain.n
	return s, nil
}

// cycle adds one cycle.
func (s *segment) cycle(changes []engine.Change, m mark) error {
	for i := range changes {
		if err := s.json.Encode(line{Change: &changes[i]}); err != nil {
			return err
		}
	}
	s.pending++
	return s.json.Encode(line{Cycle: &m})
}

// flush makes all that was added readable, and returns how many cycles that was.
func (s *segment) flush() (int, error) {
	if err := s.zip.Flush(); err != nil {
		return 0, err
	}
	return s.keep(), nil
}

// close ends the file. It returns what flush returns.
func (s *segment) close() (int, error) {
	if err := errors.Join(s.zip.Close(), s.out.Close()); err != nil {
		return 0, err
	}
	return s.keep(), nil
}

func (s *segment) keep() int {
	n := s.pending
	s.kept, s.pending = s.kept+n, 0
	return n
}
