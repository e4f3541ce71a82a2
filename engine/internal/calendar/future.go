package calendar

import (
	"slices"
	"time"

	"github.com/berth-dev/berth/engine/internal/cluster"
)

// A future is the model with the first few releases done: their pods are off their nodes, and the
// places that were held are free. It goes forward by releasing and back by rolling back, so that a
// step costs what lies between.
//
// For example, work ends at 14:00 on n1, at 15:00 on n2 and n3, and at 18:00 on n4: three releases. After two of them the
// future is the cluster at 15:00, with n1, n2 and n3 empty and n4 as it is. From there to 18:00 one pod is taken off; back
// to 14:00 two are put on again, by the journal.
//
// Invariant: len(marks) releases are done on the model, in order, and marks[k] is the model before
// release k. The caller that made the future rolls all of it back.
type future struct {
	c        *Calendar
	g        *cluster.Gang
	turn     cluster.Turn
	releases []release      // in order
	marks    []cluster.Mark // before each release that is done
}

// withMoments adds the times at which kept room is given back, and the one before which the gang
// does not start: at these too it may first fit. They are releases without pods. Nothing is added,
// and the list not copied, where there are none.
func (c *Calendar) withMoments(releases []release) []release {
	late := c.from.After(c.now)
	if len(c.reservations) == 0 && !late {
		return releases
	}
	out := slices.Clone(releases)
	if late {
		out = append(out, release{at: c.from})
	}
	for _, r := range c.reservations {
		if r.end.After(c.now) {
			out = append(out, release{at: r.end, who: r.name})
		}
	}
	slices.SortStableFunc(out, func(a, b release) int { return a.at.Compare(b.at) })
	return out
}

// firstFit releases what ends, in order, until the gang fits, and returns that time. It leaves the
// model in that future if there is one.
//
// More room never makes a gang fit less, so it goes ahead in growing steps (1, 2, 4 and so on) and
// then halves the way back: some 2 log n questions for n releases, of which the most expensive goes
// no further than twice the way. For example, if it first fits after 5 of 100 releases, it asks at
// 0, 1, 2, 4 and 8, and then at 6 and 5; nothing beyond the 8th release is touched. A search that
// began in the middle would lift 50.
//
// Where the gang should fit after near releases, because it was promised the time of the last of
// these, the steps go from there, back or ahead: that release and the one before it mostly settle it.
// With near 40 of 100, a promise that still holds is three questions: after 0, 40 and 39 releases.
//
// Reservations of others make it an approximation: there may be an earlier gap between two of them,
// which the steps pass over. What is found is a time at which the gang fits in any case.
func (x *future) firstFit(near int) (time.Time, bool) {
	// The first question needs no release, and answers what matters most: whether the gang can start now.
	n := len(x.releases)
	if x.fits(0) {
		return x.c.now, true
	}
	// Invariant from here on: it does not fit after low releases.
	low, high := 0, max(near, 1)
	if high <= n && x.fits(high) {
		// Back, in growing steps, to a place where it does not fit. If there is none before 0, low stays 0, at which it is
		// known not to fit.
		for step := 1; high-step > 0; step *= 2 {
			if !x.fits(high - step) {
				low = high - step
				break
			}
			high -= step
		}
	} else {
		// Ahead. The last step is cut to n: if it does not fit even after all releases, no end of work helps.
		for step := 1; ; step *= 2 {
			if low = high; low >= n {
				return time.Time{}, false
			}
			if high = min(low+step, n); x.fits(high) {
				break
			}
		}
	}
	// Here it fits after high releases, too.
	for low+1 < high {
		if mid := (low + high) / 2; x.fits(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	// The last question need not have been about high: the model is put there for the caller, who places the gang in it.
	x.to(high)
	return x.at(high), true
}

// beyondAll says whether the gang would have no place with all releases done, by the sums of what they free and with nothing
// kept for others. It is a proof that it fits after none of them, and costs a look at each node, where a search that fails
// lifts all that ends. Many gangs that are first in line end here, and again in each cycle: what they wait for says no end.
func (x *future) beyondAll() bool {
	c := x.c
	could := c.ask.Could(x.g, x.turn, func(add func(n *cluster.Node, dim int, amount int64)) {
		for i := range x.releases {
			for _, p := range x.releases[i].pods {
				if p.Host == nil {
					continue
				}
				for _, d := range p.Demands {
					add(p.Host, d.Dim, d.Amount)
				}
			}
			for _, h := range x.releases[i].holds {
				if h.On == nil {
					continue
				}
				for _, a := range h.Requests {
					add(h.On, c.m.Dims.ID(a.Resource), a.Value)
				}
			}
		}
	})
	if !could && !c.from.After(c.now) {
		c.wakeWhenLate(c.stay(x.g, c.now)) // as fits says of now
	}
	return !could
}

// at is the time after k releases, which is never before now: what is late ends now at the
// earliest.
func (x *future) at(k int) time.Time {
	if k == 0 {
		return x.c.now
	}
	return later(x.releases[k-1].at, x.c.now)
}

// to goes to the time after k releases. The gang's own members stay: a gang that repairs itself, or
// grows, does not wait for itself to end. What is lifted is counted against the budget of the
// cycle, each time it is lifted.
func (x *future) to(k int) {
	m := x.c.m
	if k < len(x.marks) {
		m.Rollback(x.marks[k])
		x.marks = x.marks[:k]
	}
	for i := len(x.marks); i < k; i++ {
		x.marks = append(x.marks, m.Mark())
		for _, p := range x.releases[i].pods {
			if p.Host != nil && (p.In == nil || p.In != x.g) {
				m.Remove(p)
			}
		}
		for _, h := range x.releases[i].holds {
			if h.On != nil {
				m.IgnoreHold(h)
			}
		}
		x.c.lifts += len(x.releases[i].pods)
	}
}

// fits says whether the gang has a place after k releases: beside what is reserved for others from
// then on, with their queues charged for it. When the budget is used up nothing fits any more.
func (x *future) fits(k int) bool {
	c := x.c
	if c.exhausted() || x.at(k).Before(c.from) {
		return false
	}
	// What reservations add to the future is undone at the end, by the mark: another k has other reservations beside it.
	x.to(k)
	m := c.m.Mark()
	w := c.stay(x.g, x.at(k))
	// As long as it cannot start now, there may be a moment from which on it would be in the way of
	// a promise, where it now is not.
	if k == 0 {
		c.wakeWhenLate(w)
	}
	c.keepOff(w)
	ok := c.lentFrom(w)
	c.charge(w, 1)
	ok = ok && c.ask.Fits(x.g, x.turn)
	c.charge(w, -1)
	c.m.Rollback(m)
	return ok
}

// lentFrom says whether the gang may borrow when its stay begins. What queues keep for themselves
// shrinks when those that were promised a start take it up: so for borrowing the first moment of
// the stay is the strictest, while every other gate only shuts when they have come. The stay is cut
// to its first moment, so that only workloads that are there then are charged.
func (c *Calendar) lentFrom(w stay) bool {
	//mutate: time-lent-from -> true
	if !c.m.Tree.Lends {
		return true
	}
	w.until = w.from.Add(1)
	c.charge(w, 1)
	gates := c.ask.Gates(w.gang)
	c.charge(w, -1)
	return len(gates) == 0
}

// lastToEnd names the workload whose end brought the future about, the first of several by name;
// "": none had to. It is of the last release that is done: without it the gang did not fit.
func (x *future) lastToEnd() string {
	first := ""
	if k := len(x.marks); k > 0 {
		first = x.releases[k-1].who
		for _, p := range x.releases[k-1].pods {
			if key := p.WorkloadKey(); first == "" || key < first {
				first = key
			}
		}
	}
	return first
}
