package queue

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/draft"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// tick is the grid on which use is added up.
const tick = time.Minute

// Accrue returns what queues have spent by now, where that has changed: of what their pods held since it was last
// added up. A pod counts from when it has its node; one that ended in between counts up to the last time. The changes
// have no versions yet. Where the clock went back nothing is added until it is where it was.
func (l *Ledger) Accrue(now time.Time) []api.Change {
	at := now.UTC().Truncate(tick)
	out := l.forgetUsage()
	meters := make(map[*cluster.Queue]*meter)
	//archtest:any-order each by itself
	for _, q := range l.m.Queues {
		if m := l.meter(q, at); m != nil {
			meters[q] = m
		}
	}
	if len(meters) == 0 {
		return out
	}
	//archtest:any-order sums are the same in any order
	for _, q := range l.m.Queues {
		var up []*meter
		for a := q; a != nil; a = a.Parent {
			if m := meters[a]; m != nil {
				up = append(up, m)
			}
		}
		for _, m := range up {
			for _, p := range q.Pods {
				m.charge(p)
			}
		}
		//mutate: spend-users
		if m := meters[q]; m != nil && m.users != nil {
			for _, p := range q.Pods {
				m.chargeUser(p)
			}
		}
	}
	for _, name := range cluster.SortedKeys(l.m.Queues) {
		if m := meters[l.m.Queues[name]]; m != nil {
			if u := m.sum(); u != nil {
				out = append(out, api.Change{Usage: u})
			}
		}
	}
	return out
}

// Remember adds up what queues have spent by the time of the plan that is being made, for the plan to remember, and has the plan
// made again when there is more to add.
func (l *Ledger) Remember(d *draft.Draft) {
	for _, c := range l.Accrue(d.Now) {
		if c.Usage != nil {
			c.Usage.Version = d.NextVersion()
		}
		d.Remember(c)
	}
	if at := l.AccruesAt(d.Now); !at.IsZero() {
		d.Wake(at)
	}
}

// forgetUsage drops what queues spent that do not exist any more.
func (l *Ledger) forgetUsage() []api.Change {
	var out []api.Change
	for name, u := range l.m.Usages {
		if q := l.m.Queues[name]; name != BackgroundMoves && (q == nil || q.Spec == nil) {
			out = append(out, api.Change{Gone: &api.Ref{Kind: api.KindUsage, Key: name, Version: u.Version}})
		}
	}
	slices.SortFunc(out, func(a, b api.Change) int { return api.CompareRefs(*a.Gone, *b.Gone) })
	return out
}

// AccruesAt is when accrue has something to add next; zero: not before something changes.
func (l *Ledger) AccruesAt(now time.Time) time.Time {
	//archtest:any-order it asks whether there is one
	for _, q := range l.m.Queues {
		if l.m.Valid(q) && l.uses(q) {
			return now.UTC().Truncate(tick).Add(tick)
		}
	}
	return time.Time{}
}

// uses says whether the queue's workloads hold anything that is added up.
func (l *Ledger) uses(q *cluster.Queue) bool {
	if q.Used.At(quantity.DimGPU) > 0 {
		return true
	}
	return slices.ContainsFunc(q.Spec.Budgets, func(b api.Budget) bool { return q.Used.At(l.m.Dims.ID(b.Resource)) > 0 })
}

// usageOf is what is known that the queue spent, nil for nothing.
func (l *Ledger) usageOf(q *cluster.Queue) *api.QueueUsage {
	if l.m.IsRejected(api.KindUsage, q.Name) {
		return nil
	}
	return l.m.Usages[q.Name]
}

// meter adds up what one queue spent since from, in seconds of Unix time.
type meter struct {
	s        *Ledger
	q        *cluster.Queue
	was      *api.QueueUsage // nil: it is seen for the first time
	at       time.Time
	from, to int64
	budgets  []allowance
	all      int64           // GPUs held for all of the time, in thousandths
	decayed  int64           // of those held for a part of it, GPU-seconds by now
	total    int64           // GPU-seconds, in thousandths
	users    map[string]used // nil: they do not matter
}

// used is what one user's workloads have used, as decayed and all of a meter.
type used struct{ all, decayed int64 }

// MostUsers bounds how many users of a queue are remembered: those who used most.
const MostUsers = 256

// allowance is a budget of the queue and what is spent of it.
type allowance struct {
	dim   int
	unit  int64 // of the dimension in accounts
	since int64 // its period, or the last time of adding up, began
	was   int64 // seconds that were spent before
	more  int64 // since, in the unit
}

// longBack is how far a clock may go back for it to be waited for. Beyond that the time that was known is taken to have
// been wrong.
const longBack = 24 * time.Hour

// meter returns a new meter for the queue, nil if there is nothing to add up.
func (l *Ledger) meter(q *cluster.Queue, at time.Time) *meter {
	if !l.m.Valid(q) {
		return nil
	}
	was := l.usageOf(q)
	if was != nil && !at.After(was.At) && at.Add(longBack).After(was.At) {
		return nil
	}
	spends := l.uses(q)
	m := &meter{s: l, q: q, was: was, at: at, from: at.Unix(), to: at.Unix()}
	switch {
	case was == nil && !spends:
		return nil
	case was == nil:
		m.budgets = make([]allowance, len(q.Spec.Budgets))
		for i := range m.budgets {
			m.budgets[i].unit = 1 // nothing is spent of it
		}
	case at.Before(was.At):
		m.allow()
	default:
		m.from = was.At.Unix()
		if !spends {
			return nil // what it spent fades by itself: see pastUse and spent
		}
		m.allow()
	}
	if was != nil && q.Spec.FairUsers && l.m.Config.HalfLife > 0 {
		m.users = make(map[string]used)
	}
	return m
}

// allow reads what is spent of the queue's budgets in the period that now is in.
func (m *meter) allow() {
	for i := range m.q.Spec.Budgets {
		b := &m.q.Spec.Budgets[i]
		begin, _ := b.Span(m.at)
		last, _ := b.Span(m.was.At)
		a := allowance{dim: m.s.m.Dims.ID(b.Resource), since: m.from}
		a.unit = m.s.m.Unit(a.dim)
		//mutate: budget-period
		if !begin.Equal(last) {
			a.since = max(a.since, begin.Unix())
		} else if i < len(m.was.Spent) {
			a.was = m.was.Spent[i]
		}
		m.budgets = append(m.budgets, a)
	}
}

// held is how many GPUs the pod has, as accounts count them, and from when and for how long in the time that is added up.
func (m *meter) held(p *cluster.Pod) (gpus, began, seconds int64) {
	if p.Node == "" {
		return 0, 0, 0 // it is only about to have its node
	}
	began = m.from
	if !p.Started.IsZero() {
		began = max(began, p.Started.Add(time.Second-1).Unix())
	}
	for _, d := range p.Charge {
		if d.Dim == quantity.DimGPU {
			gpus = d.Amount
		}
	}
	return gpus, began, m.to - began
}

// charge adds what the pod held.
func (m *meter) charge(p *cluster.Pod) {
	_, began, held := m.held(p)
	if held <= 0 {
		return
	}
	for _, d := range p.Charge {
		if d.Dim == quantity.DimGPU {
			m.total = addUsed(m.total, d.Amount, held)
			if began == m.from {
				m.all += d.Amount
			} else {
				m.decayed += m.s.StreamOf(d.Amount, held)
			}
		}
		for i := range m.budgets {
			if a := &m.budgets[i]; a.dim == d.Dim {
				a.more = addUsed(a.more, d.Amount, max(0, m.to-max(began, a.since)))
			}
		}
	}
}

// chargeUser adds what the pod held to what its user used.
func (m *meter) chargeUser(p *cluster.Pod) {
	gpus, began, held := m.held(p)
	if gpus == 0 || held <= 0 {
		return
	}
	user := m.s.m.UserOf(p)
	u := m.users[user]
	if began == m.from {
		u.all += gpus
	} else {
		u.decayed += m.s.StreamOf(gpus, held)
	}
	m.users[user] = u
}

// usages is what users used by now, as far as it still counts.
func (m *meter) usages() []api.UserUsage {
	if m.users == nil {
		return nil
	}
	past := make(map[string]int64, len(m.was.Users))
	for _, v := range m.was.Users {
		past[v.User] = m.s.Fade(v.Decayed, m.to-m.from, m.to/int64(tick/time.Second))
	}
	for user, u := range m.users {
		past[user] = min(past[user]+m.s.StreamOf(u.all, m.to-m.from)+u.decayed, maxSpent)
	}
	var out []api.UserUsage
	for _, user := range cluster.SortedKeys(past) {
		if past[user] > 0 {
			out = append(out, api.UserUsage{User: user, Decayed: past[user]})
		}
	}
	if len(out) > MostUsers {
		slices.SortStableFunc(out, func(a, b api.UserUsage) int { return cmp.Compare(b.Decayed, a.Decayed) })
		out = out[:MostUsers]
		slices.SortFunc(out, func(a, b api.UserUsage) int { return strings.Compare(a.User, b.User) })
	}
	return out
}

// sum is what the queue has spent by now, nil if that is not worth saying.
func (m *meter) sum() *api.QueueUsage {
	u := &api.QueueUsage{Queue: m.q.Name, At: m.at}
	for _, a := range m.budgets {
		u.Spent = append(u.Spent, min(a.was+wholeSeconds(a.more, a.unit), maxSpent))
	}
	if m.was == nil {
		return u
	}
	u.Total, u.Users = min(m.was.Total+wholeSeconds(m.total, api.Whole), maxSpent), m.usages()
	if m.s.m.Config.HalfLife > 0 {
		u.Decayed = min(m.s.Fade(m.was.Decayed, m.to-m.from, m.to/int64(tick/time.Second))+m.s.StreamOf(m.all, m.to-m.from)+m.decayed, maxSpent)
	}
	if u.Total == m.was.Total && u.Decayed == 0 && m.was.Decayed == 0 && slices.Equal(u.Spent, m.was.Spent) && m.to >= m.was.At.Unix() {
		return nil
	}
	return u
}

// Past is what queues used, as it counts against them at a time. It fades alike for all, and so it is compared as of when
// some of it was last added up: who used more than others does not depend on when that is asked. Of what counts no more,
// nothing is left.
type Past struct {
	s    *Ledger
	now  time.Time
	last time.Time // when some of what counts was last added up
	Next time.Time // when the next of it will count no more; zero: never
}

// PastAt looks at what queues used before the time.
func (l *Ledger) PastAt(now time.Time) Past {
	p := Past{s: l, now: now}
	//archtest:any-order the last and the first of all
	for _, q := range l.m.Queues {
		u := l.usageOf(q)
		if q.Spec == nil || u == nil || !p.counts(u) {
			continue
		}
		if u.At.After(p.last) {
			p.last = u.At
		}
		p.ends(l.fadesBy(u.At, u.Decayed))
		for _, v := range u.Users {
			if by := l.fadesBy(u.At, v.Decayed); q.Spec.FairUsers && now.Before(by) {
				p.ends(by)
			}
		}
	}
	return p
}

// ends notes that something counts no more from the time on.
func (p *Past) ends(by time.Time) {
	if p.Next.IsZero() || by.Before(p.Next) {
		p.Next = by
	}
}

// fadesBy is when less than a GPU-second is left of what was used at the time.
func (l *Ledger) fadesBy(at time.Time, decayed int64) time.Time {
	halves := bits.Len64(uint64(max(0, decayed)))
	return at.Add(time.Duration(halves) * min(l.m.Config.HalfLife, math.MaxInt64/64))
}

func (p Past) counts(u *api.QueueUsage) bool {
	return p.s.m.Config.HalfLife > 0 && p.now.Before(p.s.fadesBy(u.At, u.Decayed))
}

// use is what the queue used, in GPU-seconds.
func (p Past) use(q *cluster.Queue) int64 {
	if u := p.s.usageOf(q); u == nil || !p.counts(u) {
		return 0
	}
	return p.s.PastUse(q, p.last)
}

// Per is what the queue used for its weight.
func (p Past) Per(q *cluster.Queue) Fraction {
	if q == nil || q.Spec == nil {
		return Fraction{0, 1}
	}
	u := p.s.usageOf(q)
	if u == nil || !p.counts(u) {
		return Fraction{0, 1}
	}
	left := p.s.Factor(max(0, int64(p.last.Sub(u.At)/time.Second)))
	return Fraction{portion(u.Decayed, left, Unity), max(1, q.Spec.Weight)}
}

// OfUser is what one user of the queue used. All of a queue's are as of one time, and so need not fade to be compared.
func (p Past) OfUser(q *cluster.Queue, user string) Fraction {
	u := p.s.usageOf(q)
	if u == nil || !p.counts(u) {
		return Fraction{0, 1}
	}
	i, ok := slices.BinarySearchFunc(u.Users, user, func(v api.UserUsage, user string) int { return strings.Compare(v.User, user) })
	if !ok || !p.now.Before(p.s.fadesBy(u.At, u.Users[i].Decayed)) {
		return Fraction{0, 1}
	}
	return Fraction{u.Users[i].Decayed, 1}
}

// PastUse is what the queue used, as far as it still counts at the time.
func (l *Ledger) PastUse(q *cluster.Queue, by time.Time) int64 {
	u := l.usageOf(q)
	if u == nil || l.m.Config.HalfLife == 0 {
		return 0
	}
	at := by.Unix()
	return l.Fade(u.Decayed, max(0, at-u.At.Unix()), at/int64(tick/time.Second))
}

// maxSpent bounds what is added up.
const maxSpent = 1 << 61

// addUsed is sum + a*b, as far as that can be said.
func addUsed(sum, a, b int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi > 0 || lo > maxSpent {
		return maxSpent
	}
	return min(sum+int64(lo), maxSpent)
}

// Unity is 1 in the fixed point of factors.
const Unity = 1 << 62

// halfRoots has 2^(-1/2), 2^(-1/4) and so on: each is the square root of the one before.
var halfRoots = func() (out [62]uint64) {
	last := uint64(Unity / 2)
	for i := range out {
		var root uint64
		for bit := uint64(Unity); bit > 0; bit >>= 1 {
			hi, lo := bits.Mul64(root|bit, root|bit)
			if wantHi, wantLo := last>>2, last<<62; hi < wantHi || hi == wantHi && lo <= wantLo {
				root |= bit
			}
		}
		out[i], last = root, root
	}
	return out
}()

// Factor is what is left of one after the seconds: halved for every half-life, to the last bit.
func (l *Ledger) Factor(seconds int64) uint64 {
	half := max(1, int64(l.m.Config.HalfLife/time.Second))
	whole, rest := seconds/half, seconds%half
	if whole > 62 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(rest), Unity)
	parts, _ := bits.Div64(hi, lo, uint64(half))
	f := uint64(Unity)
	for i, root := range halfRoots {
		if parts>>(61-i)&1 == 1 {
			hi, lo := bits.Mul64(f, root)
			f = hi<<2 | lo>>62
		}
	}
	return f >> whole
}

// Fade is what is left of the amount after the seconds. It is rounded up or down by a threshold that differs from
// minute to minute and covers all parts of a unit alike: always rounding one way would halve small amounts far too
// fast, or never.
func (l *Ledger) Fade(amount, seconds, minute int64) int64 {
	hi, lo := bits.Mul64(uint64(amount), l.Factor(seconds))
	lo, carry := bits.Add64(lo, uint64(bits.Reverse32(uint32(minute)))<<30, 0)
	return int64((hi+carry)<<2 | lo>>62)
}

// Stream is what is left, by its end, of a use of so many GPUs for the seconds: the sum over its minutes.
func (l *Ledger) Stream(gpus, seconds int64) int64 {
	if l.m.Config.HalfLife == 0 {
		return 0
	}
	const minute = int64(tick / time.Second)
	minutes, rest := seconds/minute, seconds%minute
	left := l.Factor(minutes * minute)
	sum := portion(addUsed(0, gpus, rest), left, Unity)
	if minutes > 0 {
		sum += portion(addUsed(0, gpus, minute), Unity-left, Unity-l.Factor(minute))
	}
	return min(sum, maxSpent)
}

// StreamOf is Stream for GPUs in thousandths.
func (l *Ledger) StreamOf(milli, seconds int64) int64 {
	if milli%api.Whole == 0 {
		return l.Stream(milli/api.Whole, seconds)
	}
	return wholeSeconds(l.Stream(milli, seconds), api.Whole)
}

// wholeSeconds are the seconds in whole units, rounded up: what parts used counts, however little it is.
func wholeSeconds(n, unit int64) int64 { return n/unit + min(1, n%unit) }

// portion is amount*part/of.
func portion(amount int64, part, of uint64) int64 {
	hi, lo := bits.Mul64(uint64(amount), part)
	if hi >= of {
		return maxSpent
	}
	q, _ := bits.Div64(hi, lo, of)
	return int64(min(q, maxSpent))
}

// BackgroundMoves is the key under which it is remembered what the last move in the background cost: no queue has such
// a name.
const BackgroundMoves = "/moves"
