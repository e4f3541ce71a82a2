package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// finding is something that must not be so at rest. What has the same kind and subject is the same finding.
type finding struct {
	kind    string
	subject string
	what    string
}

func (f finding) id() string     { return f.kind + " " + f.subject }
func (f finding) String() string { return f.kind + ": " + f.subject + ": " + f.what }

const (
	// patience is how long something that must not be so may be so after the last fault: a lease runs out
	// (8 s), a node that refused is tried again (30 s), a gang is let go (gangGrace) and begins anew.
	patience = 75 * time.Second
	// tooLong ends a rest at which work that comes and goes leaves no moment without something to look at.
	tooLong = 3 * time.Minute
	// healWithin bounds the repair of what faults have left.
	healWithin = 5 * time.Minute
	every      = 2 * time.Second
	calmLooks  = 4
)

// rest lets go of everything and waits until nothing is found any more, a few times in a row. What has been found
// without a break for longer than patience is a finding for good.
func (w *world) rest(ctx context.Context) error {
	began := time.Now()
	if err := w.healed(ctx); err != nil {
		return err
	}
	since := make(map[string]time.Time)
	calm, last := time.Now(), &look{}
	for clean := 0; clean < calmLooks && time.Since(calm) < tooLong; {
		lasting(ctx, every)
		l, err := w.look(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			w.tally.say("look: %v", err)
			continue
		}
		last = l
		young, old := judge(append(l.check(), w.recount(l)...), since, time.Now())
		for _, f := range old {
			w.keep(f, l)
		}
		clean++
		if len(young) > 0 {
			clean = 0
		}
	}
	if time.Since(calm) >= tooLong {
		w.tally.count("rest points that were never quiet")
	}
	w.tally.rested(time.Since(began))
	w.tally.say("at rest after %s: %s", seconds(time.Since(began)), last)
	return nil
}

// judge keeps in since when each finding was first seen without a break, and parts those that may still pass
// from those that are there to stay.
func judge(found []finding, since map[string]time.Time, now time.Time) (young, old []finding) {
	there := make(map[string]bool, len(found))
	for _, f := range found {
		there[f.id()] = true
		if since[f.id()].IsZero() {
			since[f.id()] = now
		}
		if now.Sub(since[f.id()]) < patience {
			young = append(young, f)
			continue
		}
		old = append(old, f)
	}
	for id := range since {
		if !there[id] {
			delete(since, id)
		}
	}
	return young, old
}

func (w *world) healed(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, healWithin)
	defer cancel()
	for {
		err := w.heal(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the cluster does not come back: %w", err)
		case <-time.After(time.Second):
		}
	}
}

// keep reports a finding and writes down, beside the logs, what was seen when it was made.
func (w *world) keep(f finding, l *look) {
	if !w.tally.find(f) {
		return
	}
	path := filepath.Join(w.opts.dir, fmt.Sprintf("finding-%d.json", w.tally.findings()))
	b, err := json.MarshalIndent(map[string]any{"finding": f.String(), "at": time.Now(), "pods": l.pods, "nodes": l.nodes, "jobs": l.jobs, "leases": l.leases}, "", " ")
	if err == nil {
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		w.tally.say("%v", err)
	}
}
