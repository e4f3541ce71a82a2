package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"
)

// tally counts what happened, prints it as it goes, and keeps what was found.
type tally struct {
	out   io.Writer
	start time.Time

	mu     sync.Mutex
	counts map[string]int
	found  []finding
	known  map[string]bool // findings, by identity
	rests  []time.Duration // from letting go until quiet
}

func newTally(out io.Writer) *tally {
	return &tally{out: out, start: time.Now(), counts: make(map[string]int), known: make(map[string]bool)}
}

func (t *tally) count(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[what]++
}

func (t *tally) say(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(t.out, "%7.1fs  %s\n", time.Since(t.start).Seconds(), fmt.Sprintf(format, args...))
}

// find takes note of a finding and says whether it is new.
func (t *tally) find(f finding) bool {
	t.mu.Lock()
	known := t.known[f.id()]
	t.known[f.id()] = true
	if !known {
		t.found = append(t.found, f)
	}
	t.mu.Unlock()
	if !known {
		t.say("FOUND %v", f)
	}
	return !known
}

func (t *tally) findings() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.found)
}

func (t *tally) rested(took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rests = append(t.rests, took)
}

// report prints all counts and findings.
func (t *tally) report() {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintln(t.out)
	for _, what := range slices.Sorted(maps.Keys(t.counts)) {
		fmt.Fprintf(t.out, "%8d  %s\n", t.counts[what], what)
	}
	if len(t.rests) > 0 {
		fmt.Fprintf(t.out, "%8d  rest points; quiet after %.0fs at worst\n", len(t.rests), slices.Max(t.rests).Seconds())
	}
	for _, f := range t.found {
		fmt.Fprintf(t.out, "FOUND %v\n", f)
	}
}
