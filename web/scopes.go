package web

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/berth-dev/berth/kube/answer"
)

// scopes are the tables that are kept up to date, one for each set of rights that viewers have, and who reads them (ADR 241).
//
// Whoever comes with rights that nobody else has gets a table of their own while there is room. When there is none, it takes the place of a
// table that nobody reads any more; else of the one that was opened last of those that one person reads alone, where that person has at least
// two more of them than the newcomer. A table that several people read is nobody's to lose.
type scopes struct {
	most int
	next int64
	held map[answer.Rights]*scope
}

// scope is what viewers with equal rights are shown.
type scope struct {
	rights  answer.Rights
	table   *table
	number  int64                // in the order in which they were opened
	readers map[string]time.Time // when each person last read it; those of scopeIdle ago are forgotten
	nodes   map[string]*node     // as they were when rows were made
	rows    map[string]json.RawMessage
}

const (
	// mostScopes bounds how many different sets of rights are served at a time.
	mostScopes = 64
	// scopeIdle is how long a table is kept up to date that nobody reads.
	scopeIdle = 30 * time.Second
)

func newScopes(most int) *scopes {
	return &scopes{most: most, held: make(map[answer.Rights]*scope)}
}

// take is the scope of a person with these rights. opened says that it is new and empty.
func (s *scopes) take(r answer.Rights, person string, now time.Time) (c *scope, opened bool, err error) {
	c = s.held[r]
	if c == nil {
		if len(s.held) >= s.most {
			s.rest(now)
		}
		if len(s.held) >= s.most && !s.yield(person) {
			return nil, false, fullError(fmt.Sprintf("People with %d different sets of rights look at this page, as many as it is kept up to date for: try again in a while.", s.most))
		}
		s.next++
		c = &scope{rights: r, table: newTable(), number: s.next, readers: make(map[string]time.Time)}
		s.held[r], opened = c, true
	}
	c.readers[person] = now
	return c, opened, nil
}

// rest forgets readers that are gone, and the scopes that have none.
func (s *scopes) rest(now time.Time) {
	for r, c := range s.held {
		for person, at := range c.readers {
			if now.Sub(at) > scopeIdle {
				delete(c.readers, person)
			}
		}
		if len(c.readers) == 0 {
			delete(s.held, r)
		}
	}
}

// yield ends a scope for somebody who comes; false: nobody has enough of them.
func (s *scopes) yield(person string) bool {
	alone := make(map[string]int)
	last := make(map[string]*scope)
	for _, c := range s.held {
		if len(c.readers) != 1 {
			continue
		}
		for who := range c.readers {
			alone[who]++
			if last[who] == nil || c.number > last[who].number {
				last[who] = c
			}
		}
	}
	who, n := largest(alone)
	if n < alone[person]+2 {
		return false
	}
	delete(s.held, last[who].rights)
	return true
}
