package engine_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
)

// stream lets a job of one GPU come every few minutes for two days, until the workload starts. None says how long it
// runs.
func (x *simulation) stream(queue string, every, run time.Duration, until *job) {
	for i := 0; until.waits() && x.now.Before(noon.Add(hours(48))); i++ {
		x.submit(&job{key: fmt.Sprintf("%s-small-%04d", queue, i), queue: queue, gpus: 1, true: run})
		x.until(x.now.Add(every))
	}
}

// crowded is a cluster of two nodes on which sixteen jobs of the queue run, of which each says nothing and ends at another
// time.
func crowded(t rapid.TB, cfg engine.Config, queues ...engine.Queue) *simulation {
	x := newSimulation(t, engine.Snapshot{Nodes: eights(2), Queues: queues}, cfg)
	for i := range 16 {
		x.submit(&job{key: fmt.Sprintf("old-%02d", i), queue: "q", gpus: 1, true: time.Duration(10+5*i) * time.Minute})
	}
	x.settle()
	return x
}

// A large gang for which nobody can tell a start waits behind a stream of small jobs for an hour, and not for longer
// than what ran then runs.
func TestLargeGangAgainstAnEndlessStream(t *testing.T) {
	for _, policy := range []engine.Policy{engine.Default, engine.TimeShare, engine.FIFO, engine.Strict} {
		x := crowded(t, engine.Config{Policy: policy}, engine.Queue{Name: "q", Version: 1}, engine.Queue{Name: "p", Version: 1})
		big := &job{key: "big", queue: "q", size: 2, gpus: 8, true: time.Hour}
		x.submit(big)
		x.stream("q", 5*time.Minute, 80*time.Minute, big)
		if waited := big.started.Sub(big.arrives); big.waits() || waited > hours(1)+80*time.Minute {
			t.Errorf("%s: the gang waited for %v", policy, waited)
		}
	}
}

// What is shut is the head's own queue, for its own priority and lower ones; who could never start shuts nothing.
func TestWhoWaitsBehindTheHead(t *testing.T) {
	limit := engine.Resources{{Resource: gpu, Value: 12}}
	for _, c := range []struct {
		name  string
		head  job
		other job
		queue engine.Queue
		cfg   engine.Config
		age   time.Duration
		stays bool // what runs does not end by itself
		waits bool
	}{
		{name: "of its queue", waits: true},
		{name: "too young a head", age: 59 * time.Minute},
		{name: "a head of half an hour", age: 30 * time.Minute, cfg: engine.Config{Overtake: 30 * time.Minute}, waits: true},
		{name: "never", cfg: engine.Config{Overtake: -1}},
		{name: "of another queue", other: job{queue: "p"}},
		{name: "of no queue", other: job{queue: "-"}},
		{name: "of a higher priority", other: job{priority: 1}},
		{name: "of a lower priority", other: job{priority: -1}, waits: true},
		{name: "of a higher priority, by age alone", other: job{priority: 1}, cfg: engine.Config{Policy: engine.FIFO}, waits: true},
		{name: "behind one that waits for the limit", head: job{size: 1}, queue: engine.Queue{Limits: limit}, waits: true},
		{name: "behind one above the limit", head: job{size: 2}, queue: engine.Queue{Limits: limit}},
		{name: "behind one that is larger than the cluster", head: job{size: 3}},
		{name: "behind one that may not borrow so much", head: job{firm: true}, queue: engine.Queue{Quota: limit}},
		{name: "behind one that waits for what never ends", stays: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.queue.Name, c.queue.Version = "q", 1
			x := newSimulation(t, engine.Snapshot{Nodes: eights(2), Queues: []engine.Queue{c.queue, {Name: "p", Version: 1}}}, c.cfg)
			for i := range 2 {
				run := &job{key: fmt.Sprintf("run-%d", i), queue: "q", gpus: 3, true: hours(99)}
				x.submit(run)
			}
			x.settle()
			if c.stays {
				for i := range 2 {
					p := x.pod(x.jobs[i], 0)
					p.Node, p.Started, p.Endless = x.jobs[i].nodes[0], noon, true
					x.apply(engine.Change{Pod: p})
				}
			}
			head := c.head
			head.key, head.queue, head.gpus, head.size = "head", "q", 8, max(2, head.size)
			if c.head.size == 1 {
				head.size = 1
			}
			x.submit(&head)
			x.settle()
			if c.age == 0 {
				c.age = time.Hour
			}
			x.until(noon.Add(c.age))
			other := c.other
			switch other.queue {
			case "":
				other.queue = "q"
			case "-":
				other.queue = ""
			}
			other.key, other.gpus = "other", 1
			x.submit(&other)
			x.settle()
			if !head.waits() || other.waits() != c.waits {
				t.Fatalf("the head waits: %v, the other waits: %v, want %v\n%s", head.waits(), other.waits(), c.waits, engine.Describe(x.plan))
			}
			if w := x.waiting("other"); c.waits && (w.Cause != why.BehindTheHead || w.Gates[0].Object != "head" || len(w.Gates) != 1) {
				t.Errorf("it waits because %s", text(t, w))
			}
		})
	}
}

// A head whose start nobody can tell wakes the scheduler when it is old enough, whether or not it is among the first in
// line: from then on those after it wait behind it.
func TestWakesWhenTheHeadIsOldEnough(t *testing.T) {
	for _, heads := range []int{0, 1, -1} {
		queue := engine.Queue{Name: "q", Version: 1, Quota: engine.Resources{{Resource: gpu, Value: 8}}}
		x := newSimulation(t, engine.Snapshot{Nodes: eights(1), Queues: []engine.Queue{queue}}, engine.Config{Heads: heads})
		x.submit(&job{key: "run", gpus: 4, firm: true, true: hours(99)})
		x.settle()
		x.submit(&job{key: "head", queue: "q", gpus: 8, firm: true, true: time.Hour})
		x.settle()
		old, at := noon.Add(time.Hour), x.plan.WakeAt
		for !at.IsZero() && at.Before(old) {
			at = x.s.Plan(at).WakeAt
		}
		if !at.Equal(old) {
			t.Errorf("%d heads: wakes at %v", heads, at)
		}
	}
}

// Whoever could ever run starts within a time that does not depend on how many come after it: once it is old enough, as
// soon as what ran then is over, for it and for each that waited before it.
func TestNobodyStarves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := 1 + upTo(t, 2)
		queue := engine.Queue{Name: "q", Version: 1, FairUsers: seldom(t, 2), MaxRunning: pick(t, 0, 0, 5)}
		if seldom(t, 2) {
			queue.Limits = engine.Resources{{Resource: gpu, Value: int64(8*nodes - 2)}}
		}
		if seldom(t, 2) {
			queue.Quota = engine.Resources{{Resource: gpu, Value: pick[int64](t, 2, 4, 6)}}
		}
		cfg := engine.Config{Overtake: pick(t, 10*time.Minute, 0), Heads: pick(t, 0, 1, -1), Policy: pick(t, engine.Default, engine.TimeShare, engine.FIFO)}
		x := newSimulation(t, engine.Snapshot{Nodes: eights(nodes), Queues: []engine.Queue{queue}}, cfg)
		const longest = 90 * time.Minute
		bounds := make(map[*job]time.Duration)
		for i := range 60 {
			d := time.Duration(10+upTo(t, 80)) * time.Minute
			j := &job{key: fmt.Sprintf("j%03d", i), queue: "q", user: pick(t, "", "ann", "ben", fmt.Sprint(i)), gpus: pick[int64](t, 1, 1, 2, 6), true: d}
			if seldom(t, 3) {
				j.size, j.gpus = 1+upTo(t, nodes-1), pick[int64](t, 4, 6, 8)
			}
			if seldom(t, 2) {
				j.terms = expected(d)
			}
			if j.gpus*int64(max(1, j.size)) <= 8*int64(nodes)-2 || len(queue.Limits) == 0 {
				wait := max(time.Hour, cfg.Overtake) + 2*longest
				for _, o := range x.jobs {
					if o.waits() && bounds[o] > 0 {
						wait += longest
					}
				}
				bounds[j] = wait
			}
			x.submit(j)
			x.until(x.now.Add(time.Duration(upTo(t, 9)) * time.Minute))
		}
		x.until(noon.Add(hours(200)))
		for j, most := range bounds {
			if waited := j.started.Sub(j.arrives); j.waits() || waited > most {
				t.Fatalf("%s waited for %v, at most %v\n%s\n%s", j.key, waited, most, x.story(), engine.Describe(x.plan))
			}
		}
	})
}

// Who has no place anyway is told so, whoever is before it; and members above a minimum wait behind the head too.
func TestBehindTheHeadOthersWaitForWhatTheyLack(t *testing.T) {
	x := newSimulation(t, engine.Snapshot{Nodes: eights(2), Queues: []engine.Queue{{Name: "q", Version: 1}}}, engine.Config{})
	crew := &job{key: "crew", queue: "q", size: 2, gpus: 4, true: hours(99)}
	x.submit(crew)
	x.submit(&job{key: "run", queue: "q", gpus: 3, true: hours(99)})
	x.settle()
	x.submit(&job{key: "head", queue: "q", size: 2, gpus: 8})
	x.submit(&job{key: "late", queue: "q", size: 1, gpus: 7})
	x.until(noon.Add(time.Hour))
	x.apply(engine.Change{Pod: x.pod(crew, 2)})
	x.settle()
	if w := x.waiting("crew"); w.Cause != why.BehindTheHead || w.Gates[0].Object != "head" {
		t.Errorf("the crew waits because %s", text(t, w))
	}
	if w := x.waiting("late"); w.Cause != why.ClusterFull {
		t.Errorf("late waits because %s", text(t, w))
	}
}

// Where it is known when work ends, the first of each queue that waited for too long is promised a start, however many
// are before it in line; and what is over by then may pass it.
func TestOldHeadsArePromisedAStart(t *testing.T) {
	queues := []engine.Queue{{Name: "a", Version: 1}, {Name: "b", Version: 1}}
	x := newSimulation(t, engine.Snapshot{Nodes: eights(2), Queues: queues}, engine.Config{Heads: 1})
	for i, q := range []string{"a", "b"} {
		x.submit(&job{key: "run-" + q, queue: q, gpus: 4, terms: expected(hours(3)), true: hours(3)})
		x.apply(engine.Change{Pod: &engine.Pod{Key: "pin-" + q, Foreign: true, Node: fmt.Sprintf("n%d", i), Spec: engine.Spec{Requests: engine.Resources{{Resource: gpu, Value: 1}}}}})
	}
	x.settle()
	for _, q := range []string{"a", "b"} {
		x.submit(&job{key: "head-" + q, queue: q, size: 1, gpus: 7})
		x.submit(&job{key: "next-" + q, queue: q, size: 1, gpus: 7})
	}
	x.settle()
	x.wantPromises("head-a +3h0m0s since +0s on [n0]")
	x.until(noon.Add(time.Hour))
	x.wantPromises("head-a +3h0m0s since +0s on [n0]", "head-b +3h0m0s since +1h0m0s on [n1]")
	short := &job{key: "short", queue: "b", gpus: 1, terms: expected(hours(1)), true: hours(1)}
	long := &job{key: "long", queue: "b", gpus: 1, true: hours(1)}
	x.submit(short)
	x.submit(long)
	x.settle()
	if w := x.waiting("long"); short.waits() || w.Cause != why.KeptForPromise {
		t.Errorf("short waits: %v, long waits because %s", short.waits(), text(t, w))
	}
}

// Who was promised a start before somebody older shut the queue has it.
func TestBehindTheHeadPromisesStand(t *testing.T) {
	x := newSimulation(t, engine.Snapshot{Nodes: eights(2), Queues: []engine.Queue{{Name: "q", Version: 1}}}, engine.Config{})
	x.submit(&job{key: "known", queue: "q", gpus: 8, terms: expected(hours(2)), true: hours(2)})
	x.submit(&job{key: "unknown", queue: "q", gpus: 8, true: hours(99)})
	x.settle()
	head, next := &job{key: "head", queue: "q", size: 2, gpus: 8}, &job{key: "next", queue: "q", size: 1, gpus: 8, true: hours(1)}
	x.submit(head)
	x.submit(next)
	x.settle()
	x.wantPromises("next +2h0m0s since +0s on [n0]")
	x.until(noon.Add(hours(2)))
	if next.waits() || !head.waits() {
		t.Errorf("next waits: %v, head waits: %v\n%s", next.waits(), head.waits(), engine.Describe(x.plan))
	}
}

// A place that is held for who comes after the head is its own.
func TestBehindTheHeadHoldsStand(t *testing.T) {
	x := newSimulation(t, engine.Snapshot{Nodes: eights(2), Queues: []engine.Queue{{Name: "q", Version: 1}}}, engine.Config{})
	x.submit(&job{key: "run", queue: "q", gpus: 3, true: hours(99)})
	x.settle()
	x.submit(&job{key: "head", queue: "q", size: 2, gpus: 8})
	x.until(noon.Add(time.Hour))
	next := &job{key: "next", queue: "q", gpus: 1, true: hours(1)}
	hold := &engine.Hold{Gang: "next", Version: 2000, Node: "n1", Requests: engine.Resources{{Resource: gpu, Value: 1}}, Until: noon.Add(hours(2))}
	x.apply(engine.Change{Hold: hold})
	x.submit(next)
	x.settle()
	if next.waits() {
		t.Errorf("it waits because %s", text(t, x.waiting("next")))
	}
}

// Users of a queue have equal parts of it, but small work of others does not pass a large gang for ever because the quota
// has room for it.
func TestLargeGangOfAUserAgainstSmallJobsOfOthers(t *testing.T) {
	queue := engine.Queue{Name: "q", Version: 1, FairUsers: true, Quota: engine.Resources{{Resource: gpu, Value: 15}}}
	x := newSimulation(t, engine.Snapshot{Nodes: eights(2), Queues: []engine.Queue{queue}}, engine.Config{})
	for i := range 8 {
		x.submit(&job{key: fmt.Sprintf("old-%d", i), queue: "q", user: fmt.Sprint("old", i), gpus: 1, true: time.Duration(10+5*i) * time.Minute})
	}
	x.settle()
	big := &job{key: "big", queue: "q", user: "ann", size: 2, gpus: 8, true: time.Hour}
	x.submit(big)
	for i := 0; big.waits() && i < 300; i++ {
		x.submit(&job{key: fmt.Sprintf("small-%d", i), queue: "q", user: fmt.Sprint("u", i), gpus: 1, true: time.Hour})
		x.until(x.now.Add(5 * time.Minute))
	}
	if waited := big.started.Sub(big.arrives); big.waits() || waited > hours(2.5) {
		t.Errorf("the gang waited for %v", waited)
	}
}

// Only so many are promised a start for their age; the queues of the others are shut.
func TestManyOldHeads(t *testing.T) {
	snap := engine.Snapshot{Nodes: eights(18)}
	for i := range 18 {
		snap.Queues = append(snap.Queues, engine.Queue{Name: fmt.Sprintf("q%02d", i), Version: 1})
	}
	x := newSimulation(t, snap, engine.Config{Heads: 1})
	for i := range 18 {
		x.submit(&job{key: fmt.Sprintf("run%02d", i), queue: fmt.Sprintf("q%02d", i), gpus: 5, terms: expected(hours(3)), true: hours(3)})
		x.settle()
	}
	for i := range 18 {
		x.submit(&job{key: fmt.Sprintf("head%02d", i), queue: fmt.Sprintf("q%02d", i), size: 1, gpus: 7})
	}
	x.until(noon.Add(time.Hour))
	late := &job{key: "late", queue: "q17", gpus: 1, terms: expected(time.Hour), true: time.Hour}
	x.submit(late)
	x.settle()
	if w := x.waiting("late"); len(x.plan.Promises) != 16 || w.Cause != why.BehindTheHead {
		t.Errorf("%d promises; late waits because %s", len(x.plan.Promises), text(t, w))
	}
}
