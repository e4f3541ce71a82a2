package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"hash/crc32"
	"io"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/berth-dev/berth/engine"
)

// segment is the file that is being written. Nothing of it is on disk before flush; an error leaves it of no use.
type segment struct {
	path   string
	start  time.Time
	out    io.WriteCloser
	file   counter // to out, compressed
	zip    *zstd.Encoder
	plain  counter // lines, before compression
	sum    uint32  // of lines, marks without their own
	json   *json.Encoder
	buffer bytes.Buffer // json writes to it

	opening int64 // bytes of lines before the first cycle
	kept    int   // cycles flushed
	pending int   // cycles not flushed
}

// counter counts what goes through it, and keeps its checksum.
type counter struct {
	io.Writer
	n   int64
	sum uint32
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.n += int64(n)
	c.sum = crc32.Update(c.sum, castagnoli, p[:n])
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
	if err := s.add(line{Segment: &h}); err != nil {
		return s, err
	}
	for c := range known.all() {
		if err := s.add(line{Live: &c}); err != nil {
			return s, err
		}
	}
	s.opening = s.plain.n
	return s, nil
}

// cycle adds one cycle.
func (s *segment) cycle(changes []engine.Change, m mark) error {
	for i := range changes {
		if err := s.add(line{Change: &changes[i]}); err != nil {
			return err
		}
	}
	s.pending++
	return s.mark(m)
}

// add writes a line.
func (s *segment) add(l line) error {
	b, err := s.encode(l)
	if err == nil {
		s.sum = crc32.Update(s.sum, castagnoli, b)
		_, err = s.plain.Write(b)
	}
	return err
}

// mark writes the line of a mark, with the checksum that it makes.
func (s *segment) mark(m mark) error {
	b, err := s.encode(line{Cycle: &m})
	if err != nil {
		return err
	}
	s.sum = crc32.Update(s.sum, castagnoli, b)
	m.Sum = sumText(s.sum)
	if b, err = s.encode(line{Cycle: &m}); err == nil {
		_, err = s.plain.Write(b)
	}
	return err
}

// encode is the line with its end, valid until the next.
func (s *segment) encode(l line) ([]byte, error) {
	s.buffer.Reset()
	if s.json == nil {
		s.json = json.NewEncoder(&s.buffer)
		s.json.SetEscapeHTML(false)
	}
	err := s.json.Encode(l)
	return s.buffer.Bytes(), err
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
	err := s.zip.Close()
	if err == nil {
		_, err = s.out.Write(trailer(s.file.sum))
	}
	if err := errors.Join(err, s.out.Close()); err != nil {
		return 0, err
	}
	return s.keep(), nil
}

func (s *segment) keep() int {
	n := s.pending
	s.kept, s.pending = s.kept+n, 0
	return n
}
