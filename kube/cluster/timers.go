package cluster

import (
	"slices"
	"time"
)

// timers are what is to be done at a time: the feed has no goroutine, so Settle does it, and says when it wants to be
// called again. There are few at a time, so a list in order of time is enough.
type timers struct {
	now  func() time.Time
	list []timer
}

type timer struct {
	at time.Time
	do func()
}

// after has it done by the first Settle that comes then or later.
func (t *timers) after(d time.Duration, do func()) {
	at := t.now().Add(d)
	i, _ := slices.BinarySearchFunc(t.list, at, func(o timer, at time.Time) int {
		if o.at.After(at) {
			return 1
		}
		return -1 // those of the same time stay in order
	})
	t.list = slices.Insert(t.list, i, timer{at, do})
}

// run does what is due.
func (t *timers) run() {
	for len(t.list) > 0 && !t.list[0].at.After(t.now()) {
		do := t.list[0].do
		t.list = t.list[1:]
		do()
	}
}

// next is when there is something to do; zero: there is nothing.
func (t *timers) next() time.Time {
	if len(t.list) == 0 {
		return time.Time{}
	}
	return t.list[0].at
}
