package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/berth-dev/berth/engine"
)

// ErrNone says that a folder holds no decision log.
var ErrNone = errors.New("no decisions are recorded there")

// OutsideError says that a time is before everything that is kept.
type OutsideError struct{ From time.Time }

func (e *OutsideError) Error() string {
	return "nothing that old is kept: the log begins at " + e.From.Format(time.RFC3339)
}

// Log is the decisions of one scheduler. It knows the segments that were there when it was opened; what is added to
// the last of them is seen when it is read.
type Log struct{ segments []Segment }

// Segment is one file of a log.
type Segment struct {
	Path    string
	Size    int64 // bytes on disk
	Start   time.Time
	Because Because // it was begun
	Berth   string  // version of the program that recorded it
	Config  engine.Config
	// Err is why its beginning cannot be read, and nothing of it is used; nil otherwise. Only Path and Size are
	// known then.
	Err error

	latest uint64
}

// Open lists the segments of a folder. The error is ErrNone where there are none.
func Open(dir string) (*Log, error) {
	files, err := newFolder(dir).list()
	if err != nil {
		return nil, err
	}
	l := &Log{}
	for _, f := range files {
		s := Segment{Path: f.path, Size: f.size}
		err := s.readHead()
		if errors.Is(err, io.EOF) || errors.Is(err, fs.ErrNotExist) {
			continue // just begun, or just removed
		}
		s.Err = err
		l.segments = append(l.segments, s)
	}
	if len(l.segments) == 0 {
		return nil, fmt.Errorf("%s: %w", dir, ErrNone)
	}
	return l, nil
}

func (s *Segment) readHead() error {
	in, err := openLines(s.Path)
	if err != nil {
		return err
	}
	defer in.close()
	h, err := in.head()
	if err != nil {
		return s.wrap(err)
	}
	s.Start, s.Because, s.Berth, s.Config, s.latest = h.Start, h.Because, h.Berth, h.Config, h.Latest
	return nil
}

// wrap says which file an error is about.
func (s *Segment) wrap(err error) error { return fmt.Errorf("%s: %w", s.Path, err) }

// Segments is all of them in the order in which they were recorded.
func (l *Log) Segments() []Segment { return l.segments }

// From is the earliest time of which the log knows something.
func (l *Log) From() time.Time {
	var from time.Time
	for _, s := range l.segments {
		if s.Err == nil && (from.IsZero() || s.Start.Before(from)) {
			from = s.Start
		}
	}
	return from
}

// damage is what keeps segments from being read.
func (l *Log) damage() error {
	var all []error
	for _, s := range l.segments {
		all = append(all, s.Err)
	}
	return errors.Join(all...)
}

// Summary is what a segment holds.
type Summary struct {
	To             time.Time // of the last cycle; zero: there is none
	Cycles, Starts int       // Starts are of gangs
	Waiting        int       // gangs, at the end
	Torn           bool      // it ends in the middle: it is being written, or its writer was killed
}

// Summarize reads the segment without making plans. With an error it is what comes before the damage.
func (s Segment) Summarize() (Summary, error) {
	var sum Summary
	in, err := openLines(s.Path)
	if err != nil {
		return sum, err
	}
	defer in.close()
	if _, err := in.head(); err != nil && !errors.Is(err, io.EOF) {
		return sum, s.wrap(err)
	}
	for {
		b, err := in.next()
		if errors.Is(err, io.EOF) {
			sum.Torn = in.torn
			return sum, nil
		}
		if err != nil {
			return sum, s.wrap(err)
		}
		if !bytes.HasPrefix(b, []byte(markPrefix)) {
			continue
		}
		v, err := in.decode(b)
		if err != nil {
			return sum, s.wrap(err)
		}
		sum.add(v.Cycle)
	}
}

func (s *Summary) add(m *mark) {
	s.To, s.Waiting = m.Now, m.Waiting
	s.Cycles++
	s.Starts += m.Starts
}
