package capacity_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/capacity"
)

var start = time.Date(2026, 11, 17, 6, 0, 0, 0, time.UTC)

// recount is the ledger by brute force: every GPU by itself, every interval by itself.
type recount struct {
	gpus       map[capacity.ID]capacity.GPU
	at         time.Time
	milli      map[capacity.Account]int64
	unobserved int64
	paid       int64 // GPU-milliseconds
}

func (r *recount) advance(at time.Time) {
	past := at.Sub(r.at)
	switch {
	case r.at.IsZero() || past <= -capacity.MaxGap:
		r.at = at
		return
	case past < 0:
		return
	}
	for _, g := range r.gpus {
		r.paid += past.Milliseconds()
		if past > capacity.MaxGap {
			r.unobserved += past.Milliseconds()
			continue
		}
		r.milli[g.Account] += past.Milliseconds()
	}
	r.at = at
}

// TestLedgerAddsUp lives random histories: clocks that jump, units that come late, twice or never, restarts. At every
// moment the columns add up to what is paid, and the time of all states to the time that was paid.
func TestLedgerAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, r := capacity.New(), &recount{gpus: map[capacity.ID]capacity.GPU{}, milli: map[capacity.Account]int64{}}
		now := start
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "clock") {
			case 0:
				now = now.Add(-time.Duration(rapid.Int64Range(0, 3*int64(capacity.MaxGap/time.Millisecond)).Draw(t, "back")) * time.Millisecond)
			case 1:
				now = now.Add(time.Duration(rapid.Int64Range(0, 3*int64(capacity.MaxGap/time.Millisecond)).Draw(t, "jump")) * time.Millisecond)
			default:
				now = now.Add(time.Duration(rapid.Int64Range(0, 120_000).Draw(t, "on")) * time.Millisecond)
			}
			unit := fmt.Sprintf("unit-%d", rapid.IntRange(0, 4).Draw(t, "unit"))
			gpus := drawUnit(t, unit)
			for range rapid.IntRange(1, 2).Draw(t, "times") { // the same observation may come twice
				if err := l.Observe(now, unit, gpus); err != nil {
					t.Fatal(err)
				}
			}
			r.advance(now)
			for id := range r.gpus {
				if id.Unit == unit {
					delete(r.gpus, id)
				}
			}
			for _, g := range gpus {
				r.gpus[g.ID] = g
			}
			if rapid.IntRange(0, 5).Draw(t, "restart") == 0 {
				l = reloaded(t, l)
			}
			r.compare(t, l)
		}
	})
}

func drawUnit(t *rapid.T, unit string) []capacity.GPU {
	n := rapid.IntRange(0, 4).Draw(t, "gpus")
	price := capacity.Price{Known: rapid.Bool().Draw(t, "priced")}
	if price.Known {
		price.Micro, price.Currency = capacity.Micro(rapid.Int64Range(0, 99_999_999).Draw(t, "price")), rapid.SampledFrom([]string{"USD", "EUR"}).Draw(t, "currency")
	}
	out := make([]capacity.GPU, n)
	for i := range out {
		out[i] = capacity.GPU{ID: capacity.ID{Unit: unit, Index: i}, Price: price, Account: capacity.Account{
			Reservation: rapid.SampledFrom([]string{"", "r"}).Draw(t, "reservation"), Stage: capacity.Stage(rapid.IntRange(0, int(capacity.Busy)).Draw(t, "stage")),
			Cause: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "cause"),
		}}
	}
	return rapid.Permutation(out).Draw(t, "order")
}

func reloaded(t *rapid.T, l *capacity.Ledger) *capacity.Ledger {
	text, err := l.Dump()
	if err != nil {
		t.Fatal(err)
	}
	again, err := capacity.Load(text)
	if err != nil {
		t.Fatal(err)
	}
	second, err := again.Dump()
	if err != nil || string(second) != string(text) {
		t.Fatalf("a dump that is loaded dumps something else:\n%s\n%s %v", text, second, err)
	}
	return again
}

func (r *recount) compare(t *rapid.T, l *capacity.Ledger) {
	all, sums := l.GPUs(), l.Sums()
	if len(all) != len(r.gpus) {
		t.Fatalf("%d GPUs, want %d", len(all), len(r.gpus))
	}
	for _, g := range all {
		if want := r.gpus[g.ID]; g.Account != want.Account || g.Price != want.Price {
			t.Fatalf("GPU %v is %v, want %v", g.ID, g, want)
		}
	}
	milli, have := make(map[capacity.Account]int64), int64(0)
	for _, s := range sums {
		milli[s.Account] += s.GPUMilliseconds
		have += s.GPUMilliseconds
	}
	if diff := gocmp.Diff(nonzero(r.milli), nonzero(milli)); diff != "" {
		t.Fatalf("GPU-milliseconds (-recounted +ledger):\n%s", diff)
	}
	if have+l.Unobserved() != r.paid || l.Unobserved() != r.unobserved {
		t.Fatalf("%d and %d unobserved, want %d in all", have, l.Unobserved(), r.paid)
	}
	paid := int64(0)
	for _, row := range capacity.Rows(sums, func(s *capacity.Sum) string { return s.Reservation }) {
		lost := int64(0)
		for stage, n := range row.Lost {
			if stage > 0 && row.GPUs[stage] != row.GPUs[stage-1]-row.Lost[stage-1] {
				t.Fatalf("row %v does not add up", row)
			}
			lost += n
		}
		if lost != row.GPUs[capacity.Paid] {
			t.Fatalf("of %d paid GPUs %d are accounted for", row.GPUs[capacity.Paid], lost)
		}
		paid += lost
	}
	if paid != int64(len(r.gpus)) {
		t.Fatalf("rows have %d GPUs, want %d", paid, len(r.gpus))
	}
}

func nonzero(m map[capacity.Account]int64) map[capacity.Account]int64 {
	for k, v := range m {
		if v == 0 {
			delete(m, k)
		}
	}
	return m
}

// TestMoney is a bill by hand: 8 GPUs at 63.296 an hour together for 90 minutes are 94.944, in two states.
func TestMoney(t *testing.T) {
	price, err := capacity.ParsePrice("63.296")
	if err != nil {
		t.Fatal(err)
	}
	unit := func(stage capacity.Stage) (out []capacity.GPU) {
		for i := range 8 {
			out = append(out, capacity.GPU{ID: capacity.ID{Unit: "r/0", Index: i}, Account: capacity.Account{Stage: stage}, Price: capacity.Price{Known: true, Micro: price.Share(i, 8), Currency: "USD"}})
		}
		return out
	}
	l := capacity.New()
	for _, o := range []struct {
		after time.Duration
		stage capacity.Stage
	}{{0, capacity.Paid}, {20 * time.Minute, capacity.Paid}, {30 * time.Minute, capacity.Schedulable}, {90 * time.Minute, capacity.Schedulable}} {
		if err := l.Observe(start.Add(o.after), "r/0", unit(o.stage)); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, s := range l.Sums() {
		got = append(got, fmt.Sprintf("%s %d %s %s", s.Stage, s.GPUMilliseconds/3_600_000, s.Spent.Text(), s.PerHour.Text()))
	}
	if diff := gocmp.Diff([]string{"paid 4 31.648 0.00", "schedulable 8 63.296 63.296"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestPrices(t *testing.T) {
	for text, want := range map[string]string{"63.296": "63.296", "0": "0.00", "999999999.999999": "999999999.999999", "1.5": "1.50", "0.000001": "0.000001"} {
		m, err := capacity.ParsePrice(text)
		if err != nil || m.Text() != want {
			t.Errorf("%s: %s %v", text, m.Text(), err)
		}
	}
	for _, text := range []string{"", ".", "1.", ".5", "-1", "1e3", "1,5", "1234567890", "1.1234567", "١"} {
		if m, err := capacity.ParsePrice(text); err == nil {
			t.Errorf("%q is read as %s", text, m.Text())
		}
	}
	if got := capacity.Micro(1_005_000).Cents() + " " + capacity.Micro(-1_004_999).Cents(); got != "1.01 -1.00" {
		t.Error(got)
	}
	rapid.Check(t, func(t *rapid.T) {
		m, n := capacity.Micro(rapid.Int64Range(0, int64(capacity.MaxPrice)).Draw(t, "price")), rapid.IntRange(1, 64).Draw(t, "gpus")
		sum := capacity.Micro(0)
		for i := range n {
			sum += m.Share(i, n)
		}
		if sum != m {
			t.Fatalf("shares of %d add up to %d", m, sum)
		}
	})
}

// TestRefused holds the ledger to what it does not take: nothing of a refused observation counts.
func TestRefused(t *testing.T) {
	l := capacity.New()
	one := capacity.GPU{ID: capacity.ID{Unit: "a"}}
	for name, gpus := range map[string][]capacity.GPU{
		"of another unit": {{ID: capacity.ID{Unit: "b"}}},
		"twice":           {one, one},
		"no stage":        {{ID: one.ID, Account: capacity.Account{Stage: 9}}},
		"below zero":      {{ID: one.ID, Price: capacity.Price{Known: true, Micro: -1}}},
		"not known":       {{ID: one.ID, Price: capacity.Price{Micro: 1}}},
	} {
		if err := l.Observe(start, "a", gpus); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if len(l.GPUs()) != 0 {
		t.Error("something of it counts")
	}
	for _, text := range []string{"", "{}", `{"version":2}`, `{"version":1,"sums":[{"gpuMilliseconds":-1}]}`, `{"version":1,"gpus":[{"Unit":"a","Stage":"paid"},{"Unit":"a","Stage":"paid"}]}`} {
		if _, err := capacity.Load([]byte(text)); err == nil {
			t.Errorf("%s: loaded", text)
		}
	}
}

// TestEndOfAll: the time until the last unit ends is counted, though no unit is observed any more.
func TestEndOfAll(t *testing.T) {
	l := capacity.New()
	at := time.Date(2026, 11, 17, 6, 0, 0, 0, time.UTC)
	for i, all := range [][]capacity.GPU{{{ID: capacity.ID{Unit: "u"}}}, nil} {
		if err := l.Sync(at.Add(time.Duration(i)*time.Minute), all); err != nil {
			t.Fatal(err)
		}
	}
	if sums := l.Sums(); len(sums) != 1 || sums[0].GPUMilliseconds != 60_000 {
		t.Errorf("%+v", sums)
	}
}

// TestSince keeps the earliest time at which a state is known to have begun, and not longer than the state lasts.
func TestSince(t *testing.T) {
	l := capacity.New()
	g := capacity.GPU{ID: capacity.ID{Unit: "a"}, Account: capacity.Account{Stage: capacity.Paid, Cause: "x"}}
	see := func(after time.Duration, g capacity.GPU) time.Duration {
		if err := l.Observe(start.Add(after), "a", []capacity.GPU{g}); err != nil {
			t.Fatal(err)
		}
		return l.GPUs()[0].Since.Sub(start)
	}
	late := g
	late.Since = start.Add(time.Hour)
	other := g
	other.Cause, other.Since = "y", start.Add(2*time.Minute)
	got := []time.Duration{see(0, g), see(time.Minute, g), see(2*time.Minute, late), see(3*time.Minute, other), see(4*time.Minute, g)}
	want := []time.Duration{0, 0, 0, 2 * time.Minute, 4 * time.Minute}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestLeaks are sorted by money, and what is no leak is none.
func TestLeaks(t *testing.T) {
	l := capacity.New()
	var all []capacity.GPU
	add := func(n int, stage capacity.Stage, cause string, price capacity.Micro) {
		for i := range n {
			all = append(all, capacity.GPU{ID: capacity.ID{Unit: cause, Index: i}, Account: capacity.Account{Stage: stage, Cause: cause, Owner: "o"}, Price: capacity.Price{Known: true, Micro: price, Currency: "USD"}})
		}
	}
	add(8, capacity.Ready, "device-plugin-missing", 1)
	add(2, capacity.Launched, "machine-never-registered", 100)
	add(4, capacity.Busy, "", 1000)
	add(4, capacity.Allocated, capacity.NotMeasured, 1000)
	if err := l.Sync(start, all); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, k := range capacity.Leaks(l.Sums()) {
		got = append(got, fmt.Sprintf("%s %d %d", k.Cause, k.GPUs, k.PerHour[0].Micro))
	}
	if diff := gocmp.Diff([]string{"machine-never-registered 2 200", "device-plugin-missing 8 8"}, got); diff != "" {
		t.Error(diff)
	}
	if !slices.IsSortedFunc(l.GPUs(), func(a, b capacity.GPU) int {
		return cmp.Or(cmp.Compare(a.Unit, b.Unit), cmp.Compare(a.Index, b.Index))
	}) {
		t.Error("GPUs are not sorted")
	}
}

// TestMoneyIsBounded has more machines at the highest price than 63 bits hold. Nothing comes out below zero, and once they are gone the rest
// is exact.
func TestMoneyIsBounded(t *testing.T) {
	const most = capacity.Micro(1<<63 - 1)
	l := capacity.New()
	one := func(unit string, m capacity.Micro) []capacity.GPU {
		return []capacity.GPU{{ID: capacity.ID{Unit: unit}, Price: capacity.Price{Known: true, Micro: m, Currency: "IDR"}, Account: capacity.Account{Reservation: unit[:1]}}}
	}
	see := func(after time.Duration, unit string, gpus []capacity.GPU) {
		t.Helper()
		if err := l.Observe(start.Add(after), unit, gpus); err != nil {
			t.Fatal(err)
		}
	}
	see(0, "cheap", one("cheap", 7))
	for i := range 20_000 {
		see(0, fmt.Sprintf("dear-%d", i), one(fmt.Sprintf("dear-%d", i), capacity.MaxPrice))
		see(0, fmt.Sprintf("c-%d", i), one(fmt.Sprintf("c-%d", i), capacity.MaxPrice))
	}
	for hour := range 3 {
		see(time.Duration(hour)*time.Hour, "cheap", one("cheap", 7))
		rows := capacity.Rows(l.Sums(), func(*capacity.Sum) string { return "all" })
		if got := rows[0].PerHour[0].Micro; got != most {
			t.Fatalf("hour %d: %d an hour in all", hour, got)
		}
		for _, s := range l.Sums() {
			if s.PerHour != most || s.Spent < 0 || hour > 0 && s.Spent != most {
				t.Fatalf("hour %d: %s costs %d an hour, %d so far", hour, s.Reservation, s.PerHour, s.Spent)
			}
		}
		if leaks := capacity.Leaks(l.Sums()); len(leaks) > 0 && leaks[0].PerHour[0].Micro != most {
			t.Fatalf("hour %d: %v", hour, leaks)
		}
	}
	for i := range 20_000 {
		see(2*time.Hour, fmt.Sprintf("dear-%d", i), nil)
		see(2*time.Hour, fmt.Sprintf("c-%d", i), nil)
	}
	for _, s := range l.Sums() {
		if want := map[string]capacity.Micro{"c": 7, "d": 0}[s.Reservation]; s.PerHour != want {
			t.Errorf("%s costs %d an hour, want %d", s.Reservation, s.PerHour, want)
		}
	}
}
