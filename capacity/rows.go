package capacity

import (
	"cmp"
	"slices"
	"strings"
)

// Row is GPUs that have something in common.
type Row struct {
	Name string `json:"name"` // "": what has none
	// GPUs is how many reached each stage, Lost how many of these no further. Lost adds up to GPUs[Paid], always.
	GPUs     [stages]int64 `json:"reached"`
	Lost     [stages]int64 `json:"lost"`
	Unpriced int64         `json:"unpriced"` // of all
	// PerHour is what the GPUs with a price cost for an hour, and LostPerHour what those cost that got no further.
	PerHour     []Amount         `json:"perHour"`
	LostPerHour [stages][]Amount `json:"lostPerHour"`
}

// Rows adds up sums by a name, sorted by it; what has no name comes last.
func Rows(sums []Sum, by func(*Sum) string) []Row {
	at := make(map[string]*Row)
	for i := range sums {
		s := &sums[i]
		if s.GPUs == 0 {
			continue
		}
		name := by(s)
		r := at[name]
		if r == nil {
			r = &Row{Name: name}
			at[name] = r
		}
		r.add(s)
	}
	out := make([]Row, 0, len(at))
	for _, name := range sortedKeys(at) {
		out = append(out, *at[name])
	}
	slices.SortStableFunc(out, func(a, b Row) int {
		return cmp.Compare(btoi(a.Name == ""), btoi(b.Name == ""))
	})
	return out
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (r *Row) add(s *Sum) {
	for stage := range int(s.Stage) + 1 {
		r.GPUs[stage] += s.GPUs
	}
	r.Lost[s.Stage] += s.GPUs
	r.Unpriced += s.Unpriced
	if s.Unpriced < s.GPUs {
		r.PerHour = Plus(r.PerHour, s.Currency, s.PerHour)
		r.LostPerHour[s.Stage] = Plus(r.LostPerHour[s.Stage], s.Currency, s.PerHour)
	}
}

// Plus adds money to amounts, which stay sorted by currency.
func Plus(to []Amount, currency string, m Micro) []Amount {
	i, ok := slices.BinarySearchFunc(to, currency, func(a Amount, c string) int { return strings.Compare(a.Currency, c) })
	if !ok {
		return slices.Insert(to, i, Amount{currency, m})
	}
	to[i].Micro = to[i].Micro.Plus(m)
	return to
}

// Leak is what GPUs are lost to.
type Leak struct {
	Stage    Stage    `json:"stage"` // the last that they reached
	Cause    string   `json:"cause"`
	Owner    string   `json:"owner"`
	GPUs     int64    `json:"gpus"`
	Unpriced int64    `json:"unpriced"`
	PerHour  []Amount `json:"perHour"`
}

// Leaks are what the GPUs that are not in use are lost to, the dearest first: by money, where all of it is of one currency,
// then by GPUs. Busy GPUs are no leak, and neither are those of which nobody measured whether they are.
func Leaks(sums []Sum) []Leak {
	type lost struct {
		stage        Stage
		cause, owner string
	}
	at := make(map[lost]int)
	var out []Leak
	currencies := make(map[string]bool)
	for i := range sums {
		s := &sums[i]
		if s.GPUs == 0 || s.Stage == Busy || s.Cause == "" || s.Cause == NotMeasured {
			continue
		}
		k := lost{s.Stage, s.Cause, s.Owner}
		n, ok := at[k]
		if !ok {
			n = len(out)
			at[k] = n
			out = append(out, Leak{Stage: s.Stage, Cause: s.Cause, Owner: s.Owner})
		}
		out[n].GPUs += s.GPUs
		out[n].Unpriced += s.Unpriced
		if s.Unpriced < s.GPUs {
			currencies[s.Currency] = true
			out[n].PerHour = Plus(out[n].PerHour, s.Currency, s.PerHour)
		}
	}
	slices.SortFunc(out, func(a, b Leak) int {
		byMoney := 0
		if len(currencies) == 1 {
			byMoney = cmp.Compare(total(b.PerHour), total(a.PerHour))
		}
		return cmp.Or(byMoney, cmp.Compare(b.GPUs, a.GPUs), cmp.Compare(a.Stage, b.Stage), strings.Compare(a.Cause, b.Cause), strings.Compare(a.Owner, b.Owner))
	})
	return out
}

func total(all []Amount) (m Micro) {
	for _, a := range all {
		m = m.Plus(a.Micro)
	}
	return m
}

// Causes that only the account has: nothing is wrong with the GPU. All others are those of `berth why`.
const (
	NotRequested   = "not-requested"   // paid and not launched: nobody asks for the machine
	Idle           = "idle"            // schedulable, and no pod holds it
	IdleAllocation = "idle-allocation" // a pod holds it, and it was measured to do nothing
	NotMeasured    = "not-measured"    // a pod holds it, and nobody measured what it does
)
