package capacity

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// ID names a GPU for as long as it is paid for. Unit is the machine that is paid for: a slot of a reservation or, beyond
// reservations, the machine itself. It outlives nodes: what is known of the GPU changes, and the ID does not.
type ID struct {
	Unit  string
	Index int
}

// GPU is one that is paid for, and how far it has come.
type GPU struct {
	ID
	Account
	// Since is when it came to be so, as objects say; zero: they do not, and the ledger's first sight counts.
	Since time.Time
	Price Price
}

// Account is what GPUs are counted by.
type Account struct {
	Reservation string // "": none pays for it
	Pool        string // "": of none
	Zone        string
	Stage       Stage  // the last that it reached
	Cause       string // why it is not in the next, as `berth why` has it; "" of a busy one
	Owner       string // whose that is
}

// Sum is the GPUs of one account: how many now, and their time and money so far.
type Sum struct {
	Account
	Currency string
	GPUs     int64
	Unpriced int64 // of these, whose price nobody said
	PerHour  Micro // of the others
	// GPUMilliseconds and Spent are integrated from all observations. Spent is of GPUs with a price.
	GPUMilliseconds         int64
	UnpricedGPUMilliseconds int64
	Spent                   Micro
}

// MaxGap is how long the ledger may go without an observation before it stops taking the last one for true. Time beyond it is
// counted as unobserved, never as any state.
const MaxGap = time.Hour

// Ledger is the partition. It is not safe for concurrent use.
type Ledger struct {
	units map[string][]GPU // by unit, sorted by index; each is replaced whole
	sums  map[key]*sum

	started bool
	at      time.Time // of the last observation
	elapsed int64     // milliseconds that were observed, in all

	gpus       int64
	unobserved int64 // GPU-milliseconds
}

type key struct {
	Account
	currency string
}

type sum struct {
	gpus, unpriced int64
	perHour        wide
	settled        int64 // elapsed up to which the rest is integrated
	milli          int64
	unpricedMilli  int64
	spent          Micro
	rest           uint64 // of spent, in millionths times milliseconds
}

// New is a ledger with nothing in it.
func New() *Ledger { return &Ledger{units: make(map[string][]GPU), sums: make(map[key]*sum)} }

// Observe says that at this time the unit has exactly these GPUs; none: it is not paid for any more. Cost: the GPUs of
// the unit. It is the caller's mistake to give a GPU of another unit, or one twice; such an observation is refused whole.
func (l *Ledger) Observe(at time.Time, unit string, gpus []GPU) error {
	next, err := ordered(unit, gpus)
	if err != nil {
		return err
	}
	l.advance(at)
	l.replace(at, unit, next)
	return nil
}

// ordered is a copy of the unit's GPUs by index, each once.
func ordered(unit string, gpus []GPU) ([]GPU, error) {
	out := slices.Clone(gpus)
	slices.SortFunc(out, func(a, b GPU) int { return cmp.Compare(a.Index, b.Index) })
	for i := range out {
		if err := out[i].check(unit); err != nil {
			return nil, err
		}
		if i > 0 && out[i].Index == out[i-1].Index {
			return nil, fmt.Errorf("GPU %d of %s is given twice", out[i].Index, unit)
		}
	}
	return out, nil
}

func (g *GPU) check(unit string) error {
	switch {
	case g.Unit != unit:
		return fmt.Errorf("GPU %d is of %q and was given with %q", g.Index, g.Unit, unit)
	case int(g.Stage) >= stages:
		return fmt.Errorf("GPU %d of %s: there is no stage %d", g.Index, unit, g.Stage)
	case g.Price.Micro < 0 || g.Price.Micro > MaxPrice || !g.Price.Known && g.Price.Micro != 0:
		return fmt.Errorf("GPU %d of %s: the price %d is out of bounds", g.Index, unit, g.Price.Micro)
	}
	return nil
}

// Sync says that these are all GPUs that are paid for. Units that are not among them end. It is refused whole, as Observe is.
func (l *Ledger) Sync(at time.Time, all []GPU) error {
	units := make(map[string][]GPU)
	for _, g := range all {
		units[g.Unit] = append(units[g.Unit], g)
	}
	for _, unit := range sortedKeys(units) {
		next, err := ordered(unit, units[unit])
		if err != nil {
			return err
		}
		units[unit] = next
	}
	l.advance(at)
	for _, unit := range sortedKeys(units) {
		l.replace(at, unit, units[unit])
	}
	for _, unit := range sortedKeys(l.units) {
		if len(units[unit]) == 0 {
			l.replace(at, unit, nil)
		}
	}
	return nil
}

// advance takes the time since the last observation as spent in the states that were seen. A clock that went back by less
// than MaxGap is waited for: no time counts twice. One that went back further was wrong before, and is believed now.
func (l *Ledger) advance(at time.Time) {
	if !l.started {
		l.started, l.at = true, at
		return
	}
	past := at.Sub(l.at)
	switch {
	case past < 0 && past > -MaxGap:
		return
	case past < 0:
		l.at = at
	case past > MaxGap:
		l.unobserved += past.Milliseconds() * l.gpus
		l.at = at
	default:
		milli := past.Milliseconds()
		l.elapsed += milli
		l.at = l.at.Add(time.Duration(milli) * time.Millisecond) // parts of milliseconds are counted later
	}
}

// replace puts the unit's GPUs in place of those before. Who stays as it was keeps its time.
func (l *Ledger) replace(at time.Time, unit string, next []GPU) {
	was := l.units[unit]
	for i := range next {
		g := &next[i]
		j, same := slices.BinarySearchFunc(was, g.Index, func(o GPU, index int) int { return cmp.Compare(o.Index, index) })
		same = same && was[j].Account == g.Account
		switch {
		case same && (g.Since.IsZero() || was[j].Since.Before(g.Since)):
			g.Since = was[j].Since
		case g.Since.IsZero() || g.Since.After(at):
			g.Since = at
		}
	}
	for i := range was {
		l.count(&was[i], -1)
	}
	for i := range next {
		l.count(&next[i], 1)
	}
	if len(next) == 0 {
		delete(l.units, unit)
		return
	}
	l.units[unit] = next
}

func (l *Ledger) count(g *GPU, by int64) {
	k := key{g.Account, g.Price.Currency}
	s := l.sums[k]
	if s == nil {
		s = &sum{settled: l.elapsed}
		l.sums[k] = s
	}
	s.settle(l.elapsed)
	s.gpus += by
	l.gpus += by
	switch {
	case !g.Price.Known:
		s.unpriced += by
	case by > 0:
		s.perHour.add(g.Price.Micro)
	default:
		s.perHour.take(g.Price.Micro)
	}
}

func (s *sum) settle(elapsed int64) {
	milli := elapsed - s.settled
	s.settled = elapsed
	if milli == 0 || s.gpus == 0 {
		return
	}
	s.milli += milli * s.gpus
	s.unpricedMilli += milli * s.unpriced
	more, rest := over(s.perHour.micro(), milli, s.rest)
	s.spent, s.rest = s.spent.Plus(more), rest
}

// GPUs are all of them, by unit and index. The caller owns the slice.
func (l *Ledger) GPUs() []GPU {
	out := make([]GPU, 0, l.gpus)
	for _, unit := range sortedKeys(l.units) {
		out = append(out, l.units[unit]...)
	}
	return out
}

// Unobserved is the GPU-milliseconds of gaps in which nobody looked.
func (l *Ledger) Unobserved() int64 { return l.unobserved }

// Sums are the accounts that have or had GPUs, sorted.
func (l *Ledger) Sums() []Sum {
	out := make([]Sum, 0, len(l.sums))
	//archtest:any-order sorted below, by all that tells them apart
	for k, s := range l.sums {
		s.settle(l.elapsed)
		if s.gpus == 0 && s.milli == 0 {
			continue
		}
		out = append(out, Sum{
			Account: k.Account, Currency: k.currency, GPUs: s.gpus, Unpriced: s.unpriced, PerHour: s.perHour.micro(),
			GPUMilliseconds: s.milli, UnpricedGPUMilliseconds: s.unpricedMilli, Spent: s.spent,
		})
	}
	slices.SortFunc(out, func(a, b Sum) int {
		return cmp.Or(a.Account.compare(b.Account), strings.Compare(a.Currency, b.Currency))
	})
	return out
}

func (a Account) compare(b Account) int {
	return cmp.Or(
		strings.Compare(a.Reservation, b.Reservation), strings.Compare(a.Pool, b.Pool), strings.Compare(a.Zone, b.Zone),
		cmp.Compare(a.Stage, b.Stage), strings.Compare(a.Cause, b.Cause), strings.Compare(a.Owner, b.Owner),
	)
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	//archtest:any-order sorted below
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
