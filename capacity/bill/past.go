package bill

import (
	"slices"
	"time"
)

// Past is a span of a history in equal parts. It is what a bill of the same span counts: GPU-time of all points adds up to it.
type Past struct {
	Points []Point
	Waits  []int64 // milliseconds that work waited which began in the span, sorted; the last of each gang that began
}

// Point is one part of the span.
type Point struct {
	At   time.Time // its end
	Seen int64     // milliseconds of it that the history covers
	// Used, Unused, Idle, Waiting and Lost are GPU-time, as in Line; Unused is of GPUs that nobody held.
	Used, Unused, Idle, Waiting, Lost int64
	Preempted                         int64 // pods that lost work
}

// mostWaits bounds what is remembered of how long work waited: the latest count.
const mostWaits = 100_000

// Follower makes a Past of steps.
type Follower struct {
	book  *Book
	edges []time.Time // ends of parts that are not made yet
	last  totals
	past  Past
}

// Follow begins a Past of so many parts, at least one, between two times; of fewer where there is no time for them.
func Follow(from, to time.Time, parts int) *Follower {
	parts = int(max(1, min(int64(parts), int64(to.Sub(from)))))
	f := &Follower{book: New(Options{From: from, To: to})}
	f.book.waits = []int64{}
	for i := 1; i <= parts; i++ {
		f.edges = append(f.edges, from.Add(to.Sub(from)/time.Duration(parts)*time.Duration(i)))
	}
	return f
}

// Add takes in the next step.
func (f *Follower) Add(s Step) {
	for !s.Unseen && len(f.edges) > 1 && s.Now.After(f.edges[0]) {
		f.cut()
	}
	f.book.Add(s)
	for len(f.edges) > 1 && s.Now.After(f.edges[0]) { // nobody watched
		f.point(f.edges[0])
	}
}

// cut ends a part in the middle of what is known.
func (f *Follower) cut() {
	if edge := f.edges[0]; f.book.started && edge.After(f.book.at) {
		f.book.advance(edge, false)
	}
	f.point(f.edges[0])
}

// Close ends the history at a time. The last part is made only now: a clock that went back has later steps count for it.
func (f *Follower) Close(at time.Time) Past {
	for len(f.edges) > 1 && at.After(f.edges[0]) {
		f.cut()
	}
	if f.book.started && at.After(f.book.at) {
		f.book.advance(at, false)
	}
	end := f.edges[0]
	if n := len(f.past.Points); at.Before(end) && (n == 0 || at.After(f.past.Points[n-1].At)) {
		end = at
	}
	f.point(end)
	f.past.Waits = slices.Clone(f.book.waits)
	slices.Sort(f.past.Waits)
	return f.past
}

// totals are what a book has counted so far.
type totals struct{ seen, used, unused, idle, waiting, lost, preempted int64 }

func (b *Book) totals() (t totals) {
	b.settleAll()
	t.seen = b.elapsed
	//archtest:any-order they are added up
	for _, u := range b.uses {
		//archtest:any-order they are added up
		for _, n := range u.byRate {
			t.used += n
		}
		t.idle, t.waiting, t.lost, t.preempted = t.idle+u.idle, plus(t.waiting, u.waiting), plus(t.lost, u.lost), t.preempted+u.evicted
	}
	//archtest:any-order they are added up
	for _, by := range b.unused {
		for _, n := range by {
			t.unused += n
		}
	}
	return t
}

func (f *Follower) point(at time.Time) {
	now, was := f.book.totals(), f.last
	p := Point{
		At: at, Seen: now.seen - was.seen, Used: now.used - was.used, Unused: now.unused - was.unused, Idle: now.idle - was.idle,
		Waiting: now.waiting - was.waiting, Lost: now.lost - was.lost, Preempted: now.preempted - was.preempted,
	}
	f.past.Points, f.last, f.edges = append(f.past.Points, p), now, f.edges[1:]
}
