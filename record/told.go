package record

import (
	"errors"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/berth-dev/berth/engine"
)

// Told is what the state was told before one cycle, and whom the plan evicted. No plan is made for it, so a log is read however
// the program that recorded it decided.
type Told struct {
	Now time.Time
	// First says that it is the first of its segment: Changes begin with all that is known.
	First bool
	// Because is why the segment was begun.
	Because   Because
	Changes   []engine.Change
	Evictions []engine.Eviction
	Segment   *Segment
}

// Told reads every cycle up to a time, of all segments that reach beyond from, in the order in which they were recorded: those of a
// segment come from its beginning, since what follows needs them. An error ends its segment; who goes on gets the next one.
func (l *Log) Told(from, to time.Time) iter.Seq2[Told, error] {
	return func(yield func(Told, error) bool) {
		for i := range l.segments {
			s := &l.segments[i]
			switch {
			case s.Err != nil:
				if !yield(Told{Segment: s}, s.Err) {
					return
				}
			case l.reaches(i, from, to) && !s.told(to, yield):
				return
			}
		}
	}
}

func (s *Segment) told(to time.Time, yield func(Told, error) bool) bool {
	in, err := openLines(s.Path)
	if err != nil {
		return yield(Told{Segment: s}, err)
	}
	defer in.close()
	if _, err := in.head(); err != nil {
		return yield(Told{Segment: s}, s.wrap(err))
	}
	for first := true; ; first = false {
		e, err := in.entry()
		switch {
		case errors.Is(err, io.EOF):
			return true
		case err != nil:
			return yield(Told{Segment: s}, s.wrap(err))
		case e.Now.After(to):
			return true
		}
		t := Told{Now: e.Now, First: first, Because: s.Because, Changes: slices.Concat(e.live, e.changes), Evictions: e.Evictions, Segment: s}
		if !yield(t, nil) {
			return false
		}
	}
}
