package engine_test

import (
	"testing"
	"time"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
)

// booked is a node of eight GPUs that is kept for queue q from one o'clock to two.
func booked(t *testing.T) *simulation {
	return newSimulation(t, engine.Snapshot{
		Nodes:    eights(1),
		Queues:   []engine.Queue{{Name: "q", Version: 1}, {Name: "below", Parent: "q", Version: 1}, {Name: "p", Version: 1}},
		Bookings: []engine.Booking{{Name: "course", Version: 1, Queue: "q", Nodes: []string{"gone", "n0"}, From: noon.Add(time.Hour), To: noon.Add(2 * time.Hour)}},
	}, engine.Config{})
}

// Before a booking begins its nodes are for who is over by then or can be sent away; from then on for its queue alone.
func TestBooking(t *testing.T) {
	for _, c := range []struct {
		name  string
		at    time.Duration
		job   job
		cause why.Cause // "": it starts
	}{
		{"over by then", 0, job{queue: "p", firm: true, terms: expected(time.Hour)}, ""},
		{"over a second later", 0, job{queue: "p", firm: true, terms: expected(time.Hour + time.Second)}, why.KeptByBooking},
		{"nobody knows when it is over", 0, job{queue: "p", firm: true}, why.KeptByBooking},
		{"it can be evicted", 0, job{queue: "p"}, ""},
		{"of no queue", 0, job{firm: true}, why.KeptByBooking},
		{"of the queue", 0, job{queue: "q", firm: true}, ""},
		{"of a queue below it", 0, job{queue: "below", firm: true}, ""},
		{"it has begun", time.Hour, job{queue: "p", terms: expected(time.Second)}, why.KeptByBooking},
		{"it has begun, for the queue", time.Hour, job{queue: "below"}, ""},
		{"it is over", 2 * time.Hour, job{queue: "p", firm: true}, ""},
		{"the clock is far back", -100 * time.Hour, job{queue: "p", firm: true, terms: expected(hours(101))}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := booked(t)
			x.now = noon.Add(c.at)
			j := c.job
			j.key, j.gpus, j.true = "job", 8, time.Hour
			x.submit(&j)
			x.settle()
			if w := x.waiting("job"); w.Cause != c.cause || j.waits() != (c.cause != "") {
				t.Errorf("waits %v, because %q", j.waits(), w.Cause)
			} else if c.cause != "" && (w.Gates[0].Object != "course" || w.Verdict != why.Blocked) {
				t.Errorf("waits as %+v", w)
			}
		})
	}
}

// A booking for nobody says that the nodes go away: being evictable does not help, saving does.
func TestNodesThatGoAway(t *testing.T) {
	saves := func(every, runs time.Duration) engine.Terms { return engine.Terms{Expected: runs, Checkpoint: every} }
	for _, c := range []struct {
		name  string
		in    time.Duration // until they go
		job   job
		cause why.Cause
	}{
		{"over by then", time.Hour, job{queue: "p", terms: expected(time.Hour)}, ""},
		{"not over, and can be evicted", time.Hour, job{queue: "p", terms: expected(time.Hour + time.Second)}, why.KeptByBooking},
		{"not over, and saves", time.Hour, job{queue: "p", firm: true, terms: saves(10*time.Minute, hours(5))}, ""},
		{"not over, and saves too late", 5 * time.Minute, job{queue: "p", terms: saves(10*time.Minute, hours(5))}, why.KeptByBooking},
		{"nobody knows, and there is time", hours(20), job{queue: "p", firm: true}, ""},
		{"nobody knows, and there is none", 59 * time.Minute, job{queue: "p"}, why.KeptByBooking},
		{"of no queue", time.Hour, job{terms: expected(hours(2))}, why.KeptByBooking},
		{"they are gone", 0, job{queue: "p", terms: expected(time.Second)}, why.KeptByBooking},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newSimulation(t, engine.Snapshot{
				Nodes: eights(1), Queues: []engine.Queue{{Name: "p", Version: 1}},
				Bookings: []engine.Booking{{Name: "end of reservation block", Version: 1, Nodes: []string{"n0"}, From: noon.Add(c.in)}},
			}, engine.Config{})
			j := c.job
			j.key, j.gpus, j.true = "job", 8, time.Hour
			x.submit(&j)
			x.settle()
			if w := x.waiting("job"); w.Cause != c.cause || j.waits() != (c.cause != "") {
				t.Errorf("waits %v, because %q", j.waits(), w.Cause)
			}
		})
	}
}

// When a booking begins others' work that can be evicted is, once, and the queue's own is not.
func TestBookingBegins(t *testing.T) {
	x := booked(t)
	jobs := map[string]*job{}
	for _, j := range []*job{
		{key: "stranger", queue: "p"}, {key: "firm", queue: "p", firm: true, terms: expected(time.Hour)}, {key: "own", queue: "below"},
	} {
		j.gpus, j.true, jobs[j.key] = 2, hours(9), j
		x.submit(j)
	}
	x.settle()
	if x.plan.WakeAt.IsZero() || x.plan.WakeAt.After(noon.Add(time.Hour)) {
		t.Fatalf("wakes at %v", x.plan.WakeAt)
	}
	x.until(noon.Add(time.Hour))
	if g := jobs["stranger"]; len(g.evicted) != 1 || g.evicted[0] != engine.Booked || !g.waits() {
		t.Errorf("the stranger: %v, waits %v", g.evicted, g.waits())
	}
	if n := len(jobs["firm"].evicted) + len(jobs["own"].evicted); n > 0 {
		t.Errorf("%d others were evicted", n)
	}
	if x.plan.WakeAt.IsZero() || x.plan.WakeAt.After(noon.Add(2*time.Hour)) {
		t.Errorf("wakes at %v", x.plan.WakeAt)
	}
	x.until(noon.Add(2 * time.Hour))
	if g := jobs["stranger"]; g.waits() {
		t.Errorf("the stranger waits after the booking: %+v", x.waiting("stranger"))
	}
}

// A start that is promised keeps clear of bookings: over before one, or after it.
func TestPromiseBesideABooking(t *testing.T) {
	for _, c := range []struct {
		run  time.Duration
		want string
	}{
		{30 * time.Minute, "big +30m0s since +0s on [n0]"},
		{40 * time.Minute, "big +2h0m0s since +0s on [n0]"},
	} {
		x := booked(t)
		x.submit(&job{key: "old", queue: "p", gpus: 8, firm: true, terms: expected(30 * time.Minute), true: 30 * time.Minute})
		x.settle()
		x.submit(&job{key: "big", queue: "p", size: 1, gpus: 8, firm: true, terms: expected(c.run)})
		x.wantPromises(c.want)
	}
}
