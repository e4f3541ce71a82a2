package bill

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/capacity"
)

// Line is what one of those whom GPU-time is charged to used. Times are thousandths of a GPU times milliseconds: GPU-hours are
// 3,600,000,000 of them.
type Line struct {
	Name     string            // "": what has none
	Used     int64             // held by pods
	Unpriced int64             // of these, on machines whose price nobody said
	Cost     []capacity.Amount // of the others, by currency
	Priced   []int64           // the time of each of Cost
	Idle     int64             // of Used: the GPUs were measured to do nothing
	Waiting  int64             // asked for and not had
	Lost     int64             // work that has to be done again because of preemption
	Evicted  int64             // pods that lost it
	Waited   int64             // pods that waited at some time
	Waits    int64             // milliseconds that they waited together
	Share    []capacity.Amount // of what nobody used, in proportion to Used
}

// Report is a bill. Used of all lines and Unused add up to Paid, and so does their money: that of Lines, without their Share, and
// that of Unused.
type Report struct {
	From, To time.Time
	Seen     int64 // milliseconds of the span that the history covers
	Unseen   int64 // milliseconds in which nobody watched; they are in no line
	Measured bool  // somebody measured whether GPUs are idle
	Lines    []Line
	Unused   Line
	// UnusedBy is Unused by how far its GPUs had come, as far as the history tells, in the order of stages; those of which there is none
	// are left out. Names are of stages. They add up to Unused, in time and in money.
	UnusedBy []Line
	Paid     Line
}

// Hour is a GPU-hour.
const Hour = 3_600_000 * whole

// By makes the lines.
type By func(Who) string

// ByQueue and the others are what a bill can be divided by.
var (
	ByQueue      By = func(w Who) string { return w.Queue }
	ByNamespace  By = func(w Who) string { return w.Namespace }
	ByUser       By = func(w Who) string { return w.User }
	ByExperiment By = func(w Who) string { return w.Experiment }
)

// Close ends the history at a time that is not before the last step, and makes the bill.
func (b *Book) Close(at time.Time, by By) *Report {
	if b.started && at.After(b.at) {
		b.advance(at, false)
	}
	b.settleAll()
	r := &Report{From: b.o.From, To: b.o.To, Seen: b.elapsed, Unseen: b.unseen, Measured: b.measured}
	sums := b.sums(by)
	//archtest:any-order sorted below
	for name, u := range sums {
		r.Lines = append(r.Lines, u.line(name))
	}
	slices.SortFunc(r.Lines, func(a, b Line) int {
		return cmp.Or(cmp.Compare(min(1, len(b.Name)), min(1, len(a.Name))), strings.Compare(a.Name, b.Name)) // without a name last
	})
	r.UnusedBy = make([]Line, beforeHeld)
	//archtest:any-order they are added up
	for _, by := range b.unused {
		for stage, n := range by {
			r.UnusedBy[stage].Used += n
		}
	}
	r.price(sums, b.unused)
	r.leftOver()
	r.share()
	r.total()
	return r
}

// sums are the uses by name.
func (b *Book) sums(by By) map[string]*use {
	out := make(map[string]*use)
	//archtest:any-order they are added up
	for who, u := range b.uses {
		to := out[by(who)]
		if to == nil {
			to = &use{byRate: make(map[rate]int64)}
			out[by(who)] = to
		}
		//archtest:any-order they are added up
		for r, n := range u.byRate {
			to.byRate[r] += n
		}
		to.idle += u.idle
		to.waiting = plus(to.waiting, u.waiting)
		to.lost = plus(to.lost, u.lost)
		to.waits += u.waits
		to.pods += u.pods
		to.evicted += u.evicted
	}
	return out
}

func (u *use) line(name string) Line {
	l := Line{Name: name, Idle: u.idle, Waiting: u.waiting, Lost: u.lost, Evicted: u.evicted, Waited: u.pods, Waits: u.waits}
	//archtest:any-order they are added up
	for _, n := range u.byRate {
		l.Used += n
	}
	return l
}

// price turns time into money, rate by rate. What a rate comes to in all is rounded down once; each line gets what the total grows by
// when it is added, so that the lines add up to it exactly.
func (r *Report) price(sums map[string]*use, unused map[rate]*[beforeHeld]int64) {
	rates := make(map[rate]bool)
	//archtest:any-order a set is made
	for _, u := range sums {
		//archtest:any-order a set is made
		for x := range u.byRate {
			rates[x] = true
		}
	}
	//archtest:any-order a set is made
	for x := range unused {
		rates[x] = true
	}
	//archtest:any-order money of each rate is added, and amounts are sorted by currency
	for x := range rates {
		sum := int64(0)
		add := func(l *Line, n int64) {
			switch {
			case n == 0:
			case !x.price.Known:
				l.Unpriced += n
			default:
				l.charge(x.price.Currency, n, x.money(sum+n)-x.money(sum))
			}
			sum += n
		}
		for i := range r.Lines {
			add(&r.Lines[i], sums[r.Lines[i].Name].byRate[x])
		}
		if by := unused[x]; by != nil {
			for stage, n := range by {
				add(&r.UnusedBy[stage], n)
			}
		}
	}
}

// leftOver adds up what nobody held.
func (r *Report) leftOver() {
	for stage := range r.UnusedBy {
		l := &r.UnusedBy[stage]
		l.Name = capacity.Stage(stage).String()
		r.Unused.Used += l.Used
		r.Unused.Unpriced += l.Unpriced
		for i, a := range l.Cost {
			r.Unused.charge(a.Currency, l.Priced[i], a.Micro)
		}
	}
	r.UnusedBy = slices.DeleteFunc(r.UnusedBy, func(l Line) bool { return l.Used == 0 })
}

// charge adds so much time at so much money.
func (l *Line) charge(currency string, n int64, m capacity.Micro) {
	i, ok := slices.BinarySearchFunc(l.Cost, currency, func(a capacity.Amount, c string) int { return strings.Compare(a.Currency, c) })
	if !ok {
		l.Cost, l.Priced = slices.Insert(l.Cost, i, capacity.Amount{Currency: currency}), slices.Insert(l.Priced, i, 0)
	}
	l.Cost[i].Micro = l.Cost[i].Micro.Plus(m)
	l.Priced[i] += n
}

// money is what so much time at the rate costs, rounded down.
func (x rate) money(n int64) capacity.Micro {
	return capacity.Micro(muldiv(uint64(n), uint64(x.price.Micro), uint64(max(x.gpus, 1))*Hour))
}

// muldiv is a*b/c, with a product of 128 bits; the largest number where it does not fit.
func muldiv(a, b, c uint64) uint64 {
	const most = 1<<63 - 1
	hi, lo := bits.Mul64(a, b)
	if hi >= c {
		return most
	}
	q, _ := bits.Div64(hi, lo, c)
	return min(q, most)
}

// share divides what nobody used among the lines, in proportion to what they used.
func (r *Report) share() {
	all := int64(0)
	for i := range r.Lines {
		all += r.Lines[i].Used
	}
	if all == 0 {
		return
	}
	for _, a := range r.Unused.Cost {
		sum := int64(0)
		for i := range r.Lines {
			l := &r.Lines[i]
			if l.Used == 0 {
				continue
			}
			before := muldiv(uint64(a.Micro), uint64(sum), uint64(all))
			sum += l.Used
			l.Share = capacity.Plus(l.Share, a.Currency, capacity.Micro(muldiv(uint64(a.Micro), uint64(sum), uint64(all))-before))
		}
	}
}

func (r *Report) total() {
	for _, l := range append(slices.Clone(r.Lines), r.Unused) {
		r.Paid.Used += l.Used
		r.Paid.Unpriced += l.Unpriced
		r.Paid.Idle += l.Idle
		r.Paid.Waiting = plus(r.Paid.Waiting, l.Waiting)
		r.Paid.Lost = plus(r.Paid.Lost, l.Lost)
		r.Paid.Evicted += l.Evicted
		r.Paid.Waited += l.Waited
		r.Paid.Waits += l.Waits
		for i, a := range l.Cost {
			r.Paid.charge(a.Currency, l.Priced[i], a.Micro)
		}
	}
}
