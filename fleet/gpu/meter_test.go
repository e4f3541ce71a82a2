package gpu

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func meterOf(t interface{ Fatal(...any) }, model string) *Meter {
	m, ok := Lookup(model)
	if !ok {
		t.Fatal("no model", model)
	}
	return NewMeter(Devices("n", []Group{{Model: m, Count: 2, NVLink: true}})[0])
}

func (m *Meter) reading() Reading {
	r := Reading{Device: m.device}
	m.Read(&r)
	return r
}

// The moment before anything ran, and what an hour at rest costs.
func TestMeterAtRest(t *testing.T) {
	m := meterOf(t, "h100")
	before := m.temp
	m.Advance(time.Hour, nil)
	got := m.reading()
	if got.UtilPercent != 0 || got.Activity != 0 || got.NVLinkBytes != 0 || math.Abs(m.temp-before) > 1e-9 {
		t.Errorf("at rest: %+v, %v and %v degrees", got, before, m.temp)
	}
	if want := uint64(3600 * got.Model.IdleWatts * 1000); got.EnergyMillijoules != want {
		t.Errorf("%d mJ, want %d", got.EnergyMillijoules, want)
	}
}

// Power is there in seconds, warmth in a minute or two, and both go again; the clock falls at the power limit only.
func TestMeterFollowsLoad(t *testing.T) {
	m := meterOf(t, "h100")
	loads := []Load{{From: 10 * time.Second, To: 310 * time.Second, Share: 1, Linked: true}}
	type moment struct {
		Util, Watts, TempC int
		Capped             bool
	}
	around := func(at time.Duration) moment {
		m.Advance(at, loads)
		r := m.reading()
		near := func(n, unit int) int { return (n + unit/2) / unit * unit } // without the noise
		return moment{near(r.UtilPercent, 20), near(r.PowerWatts, 100), near(r.TempC, 10), r.PowerCapped() && r.SMClockMHz() < r.Model.SMClockMHz}
	}
	got := []moment{around(9 * time.Second), around(15 * time.Second), around(300 * time.Second), around(316 * time.Second), around(600 * time.Second)}
	want := []moment{{0, 100, 30, false}, {100, 700, 40, true}, {100, 700, 70, true}, {0, 100, 60, false}, {0, 100, 30, false}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// What a meter shows does not depend on who looked before, counters only rise, and energy is the integral of power.
func TestMeterProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var loads []Load
		moment := rapid.Int64Range(0, int64(10*time.Minute))
		for range rapid.IntRange(0, 5).Draw(t, "loads") {
			from := time.Duration(moment.Draw(t, "from"))
			to := from + time.Duration(moment.Draw(t, "for"))
			if rapid.Bool().Draw(t, "still") {
				to = Still
			}
			loads = append(loads, Load{from, to, rapid.Float64Range(0, 1).Draw(t, "share"), rapid.Bool().Draw(t, "linked")})
		}
		end := 15 * time.Minute
		once, often := meterOf(t, "h100"), meterOf(t, "h100")
		once.Advance(end, loads)
		energy, last := 0.0, often.reading()
		for at := time.Duration(0); at < end; {
			next := min(end, at+time.Duration(rapid.Int64Range(1, int64(time.Minute)).Draw(t, "look")))
			for ; at < next; at = min(next, at+50*time.Millisecond) {
				often.Advance(at, loads)
				energy += often.watts(often.busy) * min(next-at, 50*time.Millisecond).Seconds()
			}
			often.Advance(at, loads)
			r := often.reading()
			if r.EnergyMillijoules < last.EnergyMillijoules || r.NVLinkBytes < last.NVLinkBytes || r.PowerViolation < last.PowerViolation {
				t.Fatalf("a counter fell: %+v after %+v", r, last)
			}
			if r.UtilPercent < 0 || r.UtilPercent > 100 || r.PowerWatts > r.Model.PowerWatts || r.PowerWatts < r.Model.IdleWatts*9/10 || r.TempC < 20 || r.TempC > 80 {
				t.Fatalf("no GPU shows this: %+v", r)
			}
			last = r
		}
		a, b := once.reading(), often.reading()
		near := func(x, y uint64) bool { return math.Abs(float64(x)-float64(y)) <= 1+1e-6*float64(x) }
		if !near(a.EnergyMillijoules, b.EnergyMillijoules) || !near(a.NVLinkBytes, b.NVLinkBytes) || (a.PowerViolation-b.PowerViolation).Abs() > time.Millisecond {
			t.Fatalf("seen once %+v, seen often %+v", a, b)
		}
		a.EnergyMillijoules, a.NVLinkBytes, b.EnergyMillijoules, b.NVLinkBytes = 0, 0, 0, 0
		a.PowerViolation, b.PowerViolation = 0, 0
		a.Activity, b.Activity, a.LinkActivity, b.LinkActivity = math.Round(a.Activity*1e6), math.Round(b.Activity*1e6), 0, 0
		if diff := cmp.Diff(a, b); diff != "" {
			t.Fatal(diff)
		}
		if math.Abs(once.joules-energy) > 0.01*energy {
			t.Fatalf("%v J by the meter, %v J summed up", once.joules, energy)
		}
	})
}

func BenchmarkMeter(b *testing.B) {
	m := meterOf(b, "h100")
	loads := []Load{{0, Still, 0.9, true}}
	for i := 0; b.Loop(); i++ {
		m.Advance(time.Duration(i)*time.Second, loads)
		m.reading()
	}
}
