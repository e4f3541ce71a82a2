package launch_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/capacity/launch"
)

// drawWorld is pools that draw on reservations, on demand and spot, and gangs that wait for them.
func drawWorld(t *rapid.T) *world {
	w := newWorld()
	w.whole8 = rapid.Bool().Draw(t, "whole machines")
	draw := func(name string, from, to int) int { return rapid.IntRange(from, to).Draw(t, name) }
	for i := range draw("reservations", 0, 3) {
		line := []string{"reservation", fmt.Sprintf("r%d", i), "instances=" + strconv.Itoa(draw("instances", 0, 6)), "zone=" + rapid.SampledFrom([]string{"a", "b", ""}).Draw(t, "zone")}
		line = append(line, rapid.SampledFrom([][]string{nil, {"start=1h"}, {"end=3h"}, {"available=1"}, {"failed=true"}}).Draw(t, "state")...)
		must(t, w.tell(line))
	}
	for i := range draw("pools", 1, 3) {
		from := rapid.SampledFrom([]string{"on-demand", "reserved:r0,on-demand", "reserved:r0,reserved:r1", "reserved:r1,spot", "on-demand,reserved:r2,spot"}).Draw(t, "from")
		line := []string{"pool", fmt.Sprintf("p%d", i), "from=" + from, "zones=" + rapid.SampledFrom([]string{"a", "a,b", "b,a"}).Draw(t, "zones"),
			"max=" + strconv.Itoa(draw("max", 0, 9)), "min=" + strconv.Itoa(draw("min", 0, 1)), "headroom=" + strconv.Itoa(draw("headroom", 0, 1)), "rack=" + strconv.Itoa(draw("rack", 0, 3))}
		if draw("static", 0, 5) == 0 {
			line = append(line, "static="+strconv.Itoa(draw("of", 0, 3)))
		}
		must(t, w.tell(line))
	}
	for i := range draw("gangs", 0, 6) {
		drawGang(t, w, i)
	}
	return w
}

func drawGang(t *rapid.T, w *world, i int) {
	line := []string{"gang", fmt.Sprintf("team/g%d", i), "pods=" + strconv.Itoa(rapid.IntRange(1, 5).Draw(t, "pods")), "gpus=" + rapid.SampledFrom([]string{"8", "16", "1", "4"}[:map[bool]int{true: 2, false: 4}[w.whole8]]).Draw(t, "gpus")}
	line = append(line, rapid.SampledFrom([][]string{nil, nil, {"required=zone"}, {"required=rack"}, {"pool=p0"}, {"capacity=on-demand"}}).Draw(t, "asks")...)
	must(t, w.tell(line))
}

func must(t *rapid.T, err error) {
	if err != nil {
		t.Fatal(err)
	}
}

// bounds holds what is never exceeded: a pool's maximum, a reservation's instances, what its provider has.
func (w *world) bounds(t *rapid.T) {
	pools, reserved, since, names := make(map[string]int), make(map[string]int), make(map[string]int), make(map[string]bool)
	for _, m := range w.Machines {
		if names[m.Name] {
			t.Fatalf("two machines are named %s", m.Name)
		}
		names[m.Name] = true
		if m.State == launch.Failed && m.Launched.IsZero() {
			continue
		}
		pools[m.Pool]++
		if m.From.Capacity == launch.Reserved {
			reserved[m.From.Reservation]++
			since[m.From.Reservation]++ // providers say what is left before any machine is launched
		}
		if !slices.Contains(w.pools[m.Pool].From, m.From) || !slices.Contains(w.pools[m.Pool].Zones, m.Zone) {
			t.Fatalf("%+v is nothing that the pool may have", m)
		}
	}
	for name, n := range pools {
		most := w.pools[name].Max
		if s := w.pools[name].Static; s != nil {
			most = *s
		}
		if n > most {
			t.Fatalf("pool %s has %d machines of at most %d", name, n, most)
		}
	}
	for _, r := range w.Reservations {
		if reserved[r.Name] > r.Instances {
			t.Fatalf("%d machines of reservation %s, which has %d", reserved[r.Name], r.Name, r.Instances)
		}
		if r.Available != nil && since[r.Name] > *r.Available {
			t.Fatalf("%d machines of reservation %s since its provider said that %d are left", since[r.Name], r.Name, *r.Available)
		}
	}
}

// needs is how many machines of 8 GPUs a gang can use at most.
func (w *world) needs(gang string) (n int) {
	for _, p := range w.pods {
		if p.Gang == gang {
			n++
		}
	}
	return n
}

// TestDecisionsHold draws worlds and histories in which machines come, fail and are forgotten halfway, and holds every decision to what
// is never done.
func TestDecisionsHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		gangs := len(w.gangs)
		for range rapid.IntRange(1, 4).Draw(t, "steps") {
			first := launch.Decide(w.look())
			if diff := cmp.Diff(first, launch.Decide(shuffled(t, w.look())), cmpopts.EquateComparable()); diff != "" {
				t.Fatalf("another order of the world's lists, another decision:\n%s", diff)
			}
			launches := first.Of(launch.Launch)
			if again := rapid.IntRange(0, 3).Draw(t, "stopped after"); again < 3 && len(launches) > 0 { // the controller is killed on the way
				for _, d := range launches[:rapid.IntRange(0, len(launches)).Draw(t, "launched")] {
					w.carryOut(d)
				}
				w.bounds(t)
				continue
			}
			w.settles(t, first)
			w.happens(t, &gangs)
		}
	})
}

// settles carries decisions out until there are none: what is released makes room, and may let others start.
func (w *world) settles(t *rapid.T, d launch.Decisions) {
	for range 6 {
		for _, x := range d.All {
			w.carryOut(x)
		}
		w.bounds(t)
		w.whole(t, d)
		before := d
		if d = launch.Decide(w.look()); len(d.Of(launch.Launch))+len(d.Of(launch.Release)) == 0 {
			return
		}
		// Parts of machines may be planned otherwise once they exist; whole machines stay with whom they were launched for. What
		// a pool has launched for itself is anybody's once it is there, and is then made good.
		own := slices.ContainsFunc(before.Of(launch.Launch), func(x launch.Decision) bool { return x.Code != launch.ForGang })
		if w.whole8 && !own && len(before.Of(launch.Release)) == 0 {
			t.Fatalf("nothing was released, and another decision is made:\n%v\n%v", before.All, d.All)
		}
	}
	t.Fatalf("decisions do not come to rest: %v", d.All)
}

// whole holds that who has machines launched for it can start when they are ready, and that what is on its way is needed.
func (w *world) whole(t *rapid.T, d launch.Decisions) {
	then := *w
	then.Machines = slices.Clone(w.Machines)
	for i := range then.Machines {
		if m := &then.Machines[i]; m.State == launch.Launching {
			m.State, m.Idle = launch.Ready, w.Now
		}
	}
	ready := launch.Decide(then.look())
	for _, x := range d.Of(launch.Launch) {
		for _, y := range ready.All {
			if w.whole8 && x.For == y.For && (y.Do == launch.Wait || y.Do == launch.Launch && y.Code == launch.ForGang) {
				t.Fatalf("%s; and when all are ready: %s", x, y)
			}
		}
	}
	users := make(map[string]string) // of machines that another starts with than they were launched for, or that their pool has anyway
	for _, x := range d.Of(launch.Keep) {
		switch x.Code {
		case launch.ForGang:
			users[x.Machine] = x.For
		case launch.Minimum, launch.Headroom:
			users[x.Machine] = x.Pool
		}
	}
	launched := make(map[string]int)
	for _, m := range w.Machines {
		if m.State == launch.Launching {
			whom := m.For
			if user := users[m.Name]; user != "" {
				whom = user
			}
			launched[whom]++
		}
	}
	for gang, n := range launched {
		if need := w.needs(gang); w.whole8 && need > 0 && n > need {
			t.Fatalf("%d machines are on their way for %s, which has %d pods", n, gang, need)
		}
	}
}

// TestNothingIsOfferedToNobody draws worlds with queues, priorities and parts of machines, and holds each decision to the one that is made
// where all that could be had is offered in every round.
func TestNothingIsOfferedToNobody(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		draw := func(name string, from, to int) int { return rapid.IntRange(from, to).Draw(t, name) }
		for i := range draw("queues", 0, 2) {
			must(t, w.tell([]string{"queue", fmt.Sprintf("q%d", i), "limit=" + strconv.Itoa(8*draw("limit", 1, 12))}))
		}
		for i := range draw("more gangs", 0, 12) {
			name := fmt.Sprintf("team/h%d", i)
			line := []string{"gang", name, "pods=" + strconv.Itoa(draw("pods", 1, 5)), "gpus=" + rapid.SampledFrom([]string{"8", "16", "1", "4", "2", "3"}).Draw(t, "gpus")}
			line = append(line, rapid.SampledFrom([][]string{nil, {"required=zone"}, {"required=rack"}, {"pool=p0"}, {"pool=p1"}, {"pool=p3"}, {"capacity=on-demand"}, {"capacity=spot", "pool=p1"}, {"port=80"}}).Draw(t, "asks")...)
			must(t, w.tell(append(line, rapid.SampledFrom([]string{"", "queue=q0", "queue=q1"}).Draw(t, "queue"))))
			priority := int32(draw("priority", 0, 2))
			for key, p := range w.pods {
				if p.Gang == name {
					p.Priority = priority
					w.pods[key] = p
				}
			}
		}
		gangs := len(w.gangs)
		for range draw("steps", 1, 6) {
			got := launch.Decide(w.look())
			if diff := cmp.Diff(launch.DecideOfferingAll(w.look()), got, cmpopts.EquateComparable()); diff != "" {
				t.Fatalf("with all offered (-want), with what is wanted offered (+got):\n%s", diff)
			}
			for _, x := range got.All {
				if draw("carried out", 0, 9) > 0 {
					w.carryOut(x)
				}
			}
			if draw("stockout", 0, 3) == 0 {
				w.Stockouts = append(w.Stockouts, launch.Stockout{Pool: "p0", Zone: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "of zone"), Error: "InsufficientInstanceCapacity", Until: w.Now.Add(10 * time.Minute), Got: draw("got", 0, 2)})
			}
			w.happens(t, &gangs)
		}
	})
}

// happens is what the world does between two decisions.
func (w *world) happens(t *rapid.T, gangs *int) {
	w.Now = w.Now.Add(rapid.SampledFrom([]time.Duration{time.Second, 5 * time.Minute, time.Hour}).Draw(t, "after"))
	switch rapid.IntRange(0, 4).Draw(t, "then") {
	case 0:
		must(t, w.tell([]string{"ready"}))
		w.bind()
	case 1:
		for i := range w.Machines {
			if m := &w.Machines[i]; m.State == launch.Launching && rapid.Bool().Draw(t, "refused") {
				m.State, m.Error, m.Launched = launch.Failed, "InsufficientInstanceCapacity", time.Time{}
				w.Stockouts = append(w.Stockouts, launch.Stockout{Pool: m.Pool, Zone: m.Zone, From: m.From, Error: m.Error, Until: w.Now.Add(10 * time.Minute)})
			}
		}
	case 2:
		drawGang(t, w, *gangs)
		*gangs++
	case 3:
		if len(w.gangs) > 0 {
			w.forget(rapid.SampledFrom(sortedGangs(w)).Draw(t, "over"))
		}
	}
}

func sortedGangs(w *world) (out []string) {
	for _, g := range w.snapshot().Gangs {
		out = append(out, g.Key)
	}
	return out
}

func shuffled(t *rapid.T, w launch.World) launch.World {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	w.Pools, w.Machines, w.Reservations, w.Stockouts = shuffle(r, w.Pools), shuffle(r, w.Machines), shuffle(r, w.Reservations), shuffle(r, w.Stockouts)
	return w
}

func shuffle[T any](r *rand.Rand, list []T) []T {
	list = slices.Clone(list)
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}
