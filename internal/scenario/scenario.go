// Package scenario reads and plays stories: .txtar files that tell, in a small line language, what a
// cluster looks like and what happens to it, with the engine's answers in between. It is for the tests of
// every package that answers questions about a cluster, and is no part of any program; scenarios/README.md
// has the language.
package scenario

import (
	"fmt"
	"strings"
	"time"

	"github.com/berth-dev/berth/engine"
	"github.com/rogpeppe/go-internal/txtar"
)

// Story is one file: what it teaches, and its steps in order.
type Story struct {
	Name    string // of the file, for messages
	Teaches string // the comment on top
	Config  engine.Config
	Steps   []Step

	archive *txtar.Archive
}

// Kind is what a step does.
type Kind string

const (
	Change    Kind = "change"       // objects come, change or go
	Plan      Kind = "plan"         // plan, and carry the plan out: pods are bound, and victims told to end
	PlanOnly  Kind = "plan only"    // plan, and leave everything as it is
	PlanStuck Kind = "plan unbound" // plan and assume, but the pods are not bound
	Explain   Kind = "explain"
	Report    Kind = "report"
	Rejected  Kind = "rejected"
	Queues    Kind = "queues"
	Forecast  Kind = "forecast" // when what waits will start
)

// Step is one section.
type Step struct {
	Kind  Kind
	Title string        // of a change: what happens
	After time.Duration // of a change: how far the clock moves first; may be negative
	Key   string        // of an explanation: whose
	Want  string        // the recorded answer; "" for a change

	edits   []edit
	section int // in the archive
}

// edit is one line of a change.
type edit struct {
	line  int
	apply func(*world) error
}

// Parse reads a story. Errors name file and line, and what was expected there.
func Parse(name string, data []byte) (*Story, error) {
	if at := namelessSection(data); at > 0 {
		return nil, fmt.Errorf("%s:%d: expected a name in -- --", name, at)
	}
	archive := txtar.Parse(data)
	story := &Story{Name: name, Teaches: strings.TrimSpace(string(archive.Comment)), archive: archive}
	if story.Teaches == "" {
		return nil, fmt.Errorf("%s:1: expected a comment that says what the story teaches", name)
	}
	line := 1 + strings.Count(string(archive.Comment), "\n") // of the section's heading
	for i, f := range archive.Files {
		if err := story.section(i, f, line); err != nil {
			return nil, err
		}
		line += 1 + strings.Count(string(f.Data), "\n")
	}
	if len(story.Steps) == 0 {
		return nil, fmt.Errorf("%s:%d: expected -- start --", name, line)
	}
	return story, nil
}

// namelessSection is the line of a "-- --", which txtar.Parse does not survive; 0 without one.
func namelessSection(data []byte) int {
	for i, line := range strings.Split(string(data), "\n") {
		if strings.TrimRight(line, "\r") == "-- --" {
			return i + 1
		}
	}
	return 0
}

// section adds what one section says; line is that of its heading.
func (s *Story) section(index int, f txtar.File, line int) error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%s:%d: %s", s.Name, line, fmt.Sprintf(format, args...))
	}
	if f.Name == "config" {
		if len(s.Steps) > 0 {
			return fail("-- config -- comes after the start: expected it on top")
		}
		return s.lines(f, line, func(_ int, words []string) error { return configure(&s.Config, words) })
	}
	step, err := heading(f.Name)
	if err != nil {
		return fail("%v", err)
	}
	if first := len(s.Steps) == 0; first != (f.Name == "start") {
		return fail("-- %s --: expected the first step, and no other, to be -- start --", f.Name)
	}
	step.section = index
	if step.Kind != Change {
		step.Want = string(f.Data)
		s.Steps = append(s.Steps, step)
		return nil
	}
	err = s.lines(f, line, func(at int, words []string) error {
		apply, err := s.statement(words)
		step.edits = append(step.edits, edit{at, apply})
		return err
	})
	s.Steps = append(s.Steps, step)
	return err
}

// lines calls do with the words of each line that says something.
func (s *Story) lines(f txtar.File, heading int, do func(line int, words []string) error) error {
	for i, text := range strings.Split(string(f.Data), "\n") {
		at := heading + 1 + i
		words, err := split(text)
		if err == nil && len(words) > 0 {
			err = do(at, words)
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", s.Name, at, err)
		}
	}
	return nil
}

// heading reads the name of a section.
func heading(name string) (Step, error) {
	verb, rest, _ := strings.Cut(name, " ")
	switch {
	case name == "start":
		return Step{Kind: Change, Title: name}, nil
	case verb == "then" && rest != "":
		return then(rest), nil
	case verb == "explain" && rest != "":
		return Step{Kind: Explain, Key: rest}, nil
	}
	switch kind := Kind(name); kind {
	case Plan, PlanOnly, PlanStuck, Report, Rejected, Queues, Forecast:
		return Step{Kind: kind}, nil
	}
	return Step{}, fmt.Errorf("-- %s --: expected config, start, then ..., plan, plan only, plan unbound, explain KEY, report, queues, forecast or rejected", name)
}

// then reads "+30s the kubelet answers", either part of which may be missing.
func then(rest string) Step {
	first, title, _ := strings.Cut(rest, " ")
	after, err := ahead(first)
	if err != nil {
		return Step{Kind: Change, Title: rest}
	}
	return Step{Kind: Change, Title: title, After: after}
}
