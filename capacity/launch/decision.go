package launch

import (
	"fmt"
	"strings"
	"time"
)

// Verb is what is to be done.
type Verb string

const (
	Launch  Verb = "launch"
	Keep    Verb = "keep"
	Drain   Verb = "drain"   // no new work, and what runs is to move on
	Release Verb = "release" // give it back
	Wait    Verb = "wait"    // nothing can be launched that would let the gang start
)

// Code is why.
type Code string

const (
	ForGang    Code = "for-gang"   // a gang starts with it
	Minimum    Code = "minimum"    // the pool has at least so many
	Headroom   Code = "headroom"   // the pool keeps so many free
	InUse      Code = "in-use"     // work is on it
	Promised   Code = "promised"   // it is kept for work that starts later: a promise, a booking or a hold
	NotIdleYet Code = "idle"       // it is idle, and not for long enough
	Idle       Code = "idle-for"   // it was idle for long enough
	Unneeded   Code = "unneeded"   // it is on its way, and nobody needs it any more
	Incomplete Code = "incomplete" // its gang cannot be whole
	Ends       Code = "ends"       // its reservation ends
	Broken     Code = "broken"     // it failed, or was not ready in time
	OverStatic Code = "over-count" // the pool has more machines than it should
	Shortage   Code = "shortage"   // fewer machines can be had than a gang needs
)

// Decision is one thing to do. Decisions about machines that exist name one Machine; a launch names one that does not exist yet.
type Decision struct {
	Do      Verb
	Machine string
	Pool    string
	Zone    string
	Index   int
	From    Source
	For     string // the gang, or the pool
	Code    Code
	Until   time.Time // of NotIdleYet and Ends: when that is
	Error   string    // of Broken and Shortage: what the provider said
	Need    int       // of Shortage: machines that the gang needs
	Have    int       // of Shortage: those that can be had
}

// Decisions are in the order to carry them out: releases first, which make room.
type Decisions struct {
	All []Decision
	// WakeAt is when the answer can change though nothing happens; zero: never.
	WakeAt time.Time
}

// Of are the decisions with the verb.
func (d Decisions) Of(v Verb) (out []Decision) {
	for _, x := range d.All {
		if x.Do == v {
			out = append(out, x)
		}
	}
	return out
}

// String is the decision in words.
func (d Decision) String() string {
	var b strings.Builder
	b.WriteString(string(d.Do))
	if d.Machine != "" {
		b.WriteString(" " + d.Machine)
	}
	if d.Do == Launch {
		fmt.Fprintf(&b, " of pool %s", d.Pool)
		if d.Zone != "" {
			b.WriteString(" in " + d.Zone)
		}
		fmt.Fprintf(&b, " from %s", d.From)
	}
	if d.Do == Wait {
		b.WriteString(" " + d.For)
	}
	return b.String() + ": " + d.Reason()
}

// Reason is why, as one clause.
func (d Decision) Reason() string {
	switch d.Code {
	case ForGang:
		return d.For + " starts with it"
	case Minimum:
		return "pool " + d.Pool + " always has it"
	case Headroom:
		return "pool " + d.Pool + " keeps it free"
	case InUse:
		return "work is on it"
	case Promised:
		return "it is kept for " + d.For
	case NotIdleYet:
		return "it is idle, and is released at " + d.Until.UTC().Format(time.TimeOnly)
	case Idle:
		return "it is idle"
	case Unneeded:
		return "nobody needs it"
	case Incomplete:
		return d.For + " cannot be whole"
	case Ends:
		return d.From.String() + " ends at " + d.Until.UTC().Format("2006-01-02 15:04")
	case Broken:
		return d.Error
	case OverStatic:
		return "pool " + d.Pool + " has more machines than it should"
	case Shortage:
		text := fmt.Sprintf("it needs %s of pool %s and %d can be had", machines(d.Need), d.Pool, d.Have)
		if d.Error != "" {
			text += ": " + d.Error
		}
		return text
	}
	return string(d.Code)
}

func machines(n int) string {
	if n == 1 {
		return "1 machine"
	}
	return fmt.Sprintf("%d machines", n)
}
