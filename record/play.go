package record

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/berth-dev/berth/engine"
)

// MismatchError says that this program plans differently from the one that recorded, or that the log is not what
// was recorded.
type MismatchError struct {
	Path  string
	Cycle int // of the file, from 1
	Now   time.Time
	Berth string // the version that recorded
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("%s: cycle %d, at %s: this binary decides differently from the one that recorded, berth %s",
		e.Path, e.Cycle, e.Now.Format(time.RFC3339Nano), e.Berth)
}

// Cycle is one cycle, played again.
type Cycle struct {
	Now     time.Time
	Changes []engine.Change // that the state was told since the cycle before
	Plan    engine.Plan
	// State is as it was when Plan was made: ask it what it would have been asked then. It is valid until the next
	// cycle; tell it nothing.
	State   *engine.State
	Segment *Segment
	Number  int // in the segment, from 1
}

// player makes the plans of a segment again, one cycle after the other, and holds each to what was recorded.
type player struct {
	seg   *Segment
	in    *lines
	next  entry // read, and not played yet
	state *engine.State
	cycle Cycle
	check digester
}

func (s *Segment) play() (*player, error) {
	in, err := openLines(s.Path)
	if err != nil {
		return nil, err
	}
	if _, err := in.head(); err != nil {
		in.close()
		return nil, s.wrap(err)
	}
	return newPlayer(s, in), nil
}

// newPlayer plays what comes after the head.
func newPlayer(s *Segment, in *lines) *player {
	state := engine.Load(engine.Snapshot{Version: engine.SnapshotVersion, Latest: s.latest}, s.Config)
	return &player{seg: s, in: in, state: state}
}

func (p *player) close() { p.in.close() }

// peek reads the next cycle without playing it, and returns io.EOF after the last.
func (p *player) peek() (err error) {
	p.next, err = p.in.entry()
	if err != nil && !errors.Is(err, io.EOF) {
		return p.seg.wrap(err)
	}
	return err
}

// step plays what peek read.
func (p *player) step() error {
	e := p.next
	p.state.Apply(p.cycle.Plan.Changes...)
	p.state.Apply(e.live...)
	p.state.Apply(e.changes...)
	p.cycle = Cycle{Now: e.Now, Changes: e.changes, Plan: p.state.Plan(e.Now), State: p.state, Segment: p.seg, Number: p.cycle.Number + 1}
	if p.check.of(&p.cycle.Plan) != e.Digest {
		return &MismatchError{Path: p.seg.Path, Cycle: p.cycle.Number, Now: e.Now, Berth: p.seg.Berth}
	}
	return nil
}

// advance plays the next cycle unless it is after t. It reports whether it did.
func (p *player) advance(t time.Time) (bool, error) {
	err := p.peek()
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	if err != nil || p.next.Now.After(t) {
		return false, err
	}
	err = p.step()
	return err == nil, err
}

// At plays the last cycle recorded whose time is not after t; where the clock went back and t came twice, that is the
// second time. The error is an *OutsideError where t is before everything that is kept, and a *MismatchError where
// this program does not decide as the one that recorded.
func (l *Log) At(t time.Time) (Cycle, error) {
	for i := len(l.segments) - 1; i >= 0; i-- {
		s := &l.segments[i]
		if s.Err != nil || s.Start.After(t) {
			continue
		}
		c, err := s.at(t)
		if err != nil || c.Number > 0 {
			return c, err
		}
	}
	if from := l.From(); !from.IsZero() {
		return Cycle{}, &OutsideError{From: from}
	}
	return Cycle{}, l.damage()
}

// at is the last cycle not after t; its Number is 0 where there is none.
func (s *Segment) at(t time.Time) (Cycle, error) {
	p, err := s.play()
	if err != nil {
		return Cycle{}, err
	}
	defer p.close()
	for {
		more, err := p.advance(t)
		if err != nil {
			return Cycle{}, err
		}
		if !more {
			return p.cycle, nil
		}
	}
}

// Cycles plays every cycle whose time is from from to to, both included, in the order in which they were recorded.
// An error ends its segment; who goes on gets the next one.
func (l *Log) Cycles(from, to time.Time) iter.Seq2[Cycle, error] {
	return func(yield func(Cycle, error) bool) {
		for i := range l.segments {
			if !l.reaches(i, from, to) {
				continue
			}
			if !l.segments[i].cycles(from, to, yield) {
				return
			}
		}
	}
}

// reaches says whether the segment may hold cycles from from to to.
func (l *Log) reaches(i int, from, to time.Time) bool {
	s := &l.segments[i]
	if s.Err != nil || s.Start.After(to) {
		return false
	}
	if i+1 == len(l.segments) {
		return true
	}
	next := &l.segments[i+1]
	// Where the next one follows without a break, all of this one is before it.
	follows := next.Err == nil && slices.Contains([]Because{Full, Aged}, next.Because)
	return !follows || !next.Start.Before(from)
}

func (s *Segment) cycles(from, to time.Time, yield func(Cycle, error) bool) bool {
	p, err := s.play()
	if err != nil {
		return yield(Cycle{}, err)
	}
	defer p.close()
	for {
		more, err := p.advance(to)
		if err != nil {
			return yield(Cycle{}, err)
		}
		if !more {
			return true
		}
		if !p.cycle.Now.Before(from) && !yield(p.cycle, nil) {
			return false
		}
	}
}
