package cli

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/answer"
)

// etaOf is when a workload that waits starts, in a word: "by 14:05" where that is promised, "~12m" where it is likely,
// "blocked" where no start is expected before somebody acts or a queue opens.
func etaOf(w *answer.Workload, now time.Time) string {
	switch {
	case w.State != answer.Waiting:
		return "-"
	case w.Promise != nil:
		return "by " + timeOf(w.Promise.Start, now)
	case w.ETA != nil && !w.ETA.Likely.IsZero():
		return "~" + until(w.ETA.Likely, now)
	case w.ETA != nil && w.ETA.Cause != "":
		return "blocked"
	}
	return "-"
}

// timeOf is a time of the day, with the day where that is not today.
func timeOf(t, now time.Time) string {
	t = t.In(now.Location())
	switch {
	case t.IsZero():
		return "-"
	case t.YearDay() == now.YearDay() && t.Year() == now.Year():
		return t.Format("15:04")
	}
	return t.Format("Jan 2 15:04")
}

// zoned is the same with the name of the time zone.
func zoned(t, now time.Time) string { return timeOf(t, now) + t.In(now.Location()).Format(" MST") }

func until(t, now time.Time) string { return duration.HumanDuration(max(0, t.Sub(now))) }

// promised is the promise in full.
func promised(p *answer.Promise, now time.Time) string {
	return fmt.Sprintf("a start by %s (in %s), since %s", zoned(p.Start, now), until(p.Start, now), zoned(p.Since, now))
}

// expected is the estimate in full.
func expected(e *answer.ETA, now time.Time) string {
	s := "unknown"
	if e.Cause != "" {
		s = "no start while this lasts"
	}
	if !e.Likely.IsZero() {
		s = fmt.Sprintf("about %s (in %s)", zoned(e.Likely, now), until(e.Likely, now))
	}
	if !e.Earliest.IsZero() {
		s += ", at the earliest " + zoned(e.Earliest, now)
	}
	if e.Because != "" {
		s += ": " + e.Because
	}
	return s
}

// borrowedWords is what of the workload's GPUs may be taken back.
func borrowedWords(w *answer.Workload) string {
	return fmt.Sprintf("up to %s, beyond the quota of queue %s or of one above it: the owners may take them back", someGPUs(w.Borrowed), w.Queue)
}

// evictingWords is who ends, when, for whom and why.
func evictingWords(e *answer.Evicting, namespace string, now time.Time) string {
	s := plural(e.Pods, "pod")
	if e.At.After(now) {
		s += fmt.Sprintf(" at %s (in %s)", zoned(e.At, now), until(e.At, now))
	}
	if e.For != nil {
		s += " for " + titleFrom(*e.For, namespace)
	}
	s += ", " + e.Cause
	if meaning := evictionMeaning(engine.EvictionCause(e.Cause)); meaning != "" {
		s += ": " + meaning
	}
	return s
}

// titleFrom names a workload, with its namespace where that is another one.
func titleFrom(r answer.Reference, namespace string) string {
	if r.Namespace != namespace {
		return r.Title() + " of " + r.Namespace
	}
	return r.Title()
}

func evictionMeaning(cause engine.EvictionCause) string {
	switch cause {
	case engine.Reclaimed:
		return "another queue was promised what it has"
	case engine.Preempted:
		return "work of its queue with a higher priority needs the place"
	case engine.Shared:
		return "its queue had more than its fair share"
	case engine.Overran:
		return "it ran longer than was said, into a promise"
	case engine.MaxRun:
		return "its time was up"
	case engine.Idled:
		return "its GPUs did nothing"
	case engine.Moved:
		return "it is to run elsewhere, so that a larger place becomes whole"
	case engine.Booked:
		return "its node is booked for a queue"
	case engine.Drained:
		return "its queue is drained"
	case engine.Unhealthy:
		return "its node, or that of others of its gang, is quarantined"
	case engine.Broken:
		return "it runs under its minimum and cannot be repaired"
	}
	return ""
}

// fate is the workload's line in a table: why it waits, or what will be taken from it.
func fate(w *answer.Workload, now time.Time) string {
	switch {
	case w.Sentence != "":
		return w.Sentence
	case w.Evicting != nil:
		return "ends: " + evictingWords(w.Evicting, w.Namespace, now)
	case w.Borrowed > 0:
		return fmt.Sprintf("up to %s borrowed", someGPUs(w.Borrowed))
	}
	return "-"
}
