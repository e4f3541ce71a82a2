package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/berth-dev/berth/engine"
)

// Some worlds go where the others do not: their clock knows fractions of a second, as a plan's does and no time in Kubernetes;
// what queues used fades within minutes; queues are stopped, drained and frozen, and have budgets of short periods;
// several bookings stand, for queues and for nobody, some of them for good, and are withdrawn; hardware is
// quarantined; and other schedulers bind pods of theirs and nominate ours. What is drawn for that is drawn apart, so that the worlds of
// other seeds stay what they are.

// wide says whether the world is one of them.
func (w *soakWorld) wide() bool { return slices.Contains([]uint64{1, 4, 8, 9}, w.seed%11) }

// dice is drawn from for what only these worlds have.
func (w *soakWorld) dice() *rand.Rand {
	if w.widths == nil {
		w.widths = rand.New(rand.NewPCG(w.seed, 11))
	}
	return w.widths
}

func soakDraw[E any](w *soakWorld, of ...E) E { return of[w.dice().IntN(len(of))] }

// widenConfig changes what a config has in other worlds.
func (w *soakWorld) widenConfig() {
	if !w.wide() {
		return
	}
	w.cfg.HalfLife = soakDraw(w, w.cfg.HalfLife, 0, time.Minute, 10*time.Minute, 7*24*time.Hour)
	w.cfg.GangGrace = soakDraw(w, 0, 0, 30*time.Second, time.Hour)
	w.cfg.AssumeFor = soakDraw(w, 0, 0, 5*time.Second, 5*time.Minute)
	w.cfg.Restart = soakDraw(w, 0, 0, 10*time.Minute)
	if w.dice().IntN(3) == 0 {
		w.cfg.Rates = append(w.cfg.Rates, engine.Rate{Model: "B", Units: 3})
	}
}

// widenQueue stops the queue, or freezes it, and gives it a budget that ends soon.
func (w *soakWorld) widenQueue(q *engine.Queue) {
	if !w.wide() {
		return
	}
	r := w.dice()
	switch r.IntN(12) {
	case 0:
		q.Stop = engine.StopHold
	case 1:
		q.Stop = engine.StopDrain
	case 2, 3:
		q.Frozen = true
	}
	if r.IntN(4) == 0 {
		q.Budgets = []engine.Budget{{Resource: soakDraw(w, gpu, engine.CPU), Seconds: r.Int64N(10_000), Period: soakDraw(w, 7*time.Minute, 24*time.Hour)}}
		if r.IntN(2) == 0 {
			q.Budgets[0].From = noon.Add(time.Duration(r.IntN(3600)) * time.Second)
		}
	}
	if r.IntN(6) == 0 {
		q.Lend = engine.Resources{{Resource: gpu, Value: r.Int64N(4), Milli: 250 * r.Int64N(4)}}
	}
	if r.IntN(8) == 0 {
		q.Namespaces = soakDraw(w, []string{"ns"}, []string{"other"}, []string{})
	}
}

// widenTime lets a fraction of a second pass.
func (w *soakWorld) widenTime() {
	if w.wide() {
		w.now = w.now.Add(time.Duration(w.dice().IntN(1_000_000_000)))
	}
}

// told is the time as objects of Kubernetes have it.
func (w *soakWorld) told() time.Time {
	if w.wide() {
		return w.now.Truncate(time.Second)
	}
	return w.now
}

// widenTrouble is what happens there now and then.
func (w *soakWorld) widenTrouble() {
	if !w.wide() {
		return
	}
	r := w.dice()
	switch r.IntN(60) {
	case 0, 1:
		w.book()
	case 2:
		name := soakDraw(w, "ns/b", "ns/b1", "ns/b2")
		w.diary("booking %s is withdrawn", name)
		w.gone(engine.KindBooking, name)
	case 3, 4:
		w.bindForeign()
	case 5, 6:
		w.nominate()
	case 7:
		w.quarantine()
	}
}

// book keeps some nodes for a queue or for nobody, soon or now.
func (w *soakWorld) book() {
	r, names := w.dice(), soakKeys(w.nodes)
	if len(names) == 0 {
		return
	}
	b := engine.Booking{Name: soakDraw(w, "ns/b1", "ns/b2"), Version: w.next(), Queue: soakDraw(w, "", "q0", "q1", "q3"), From: w.told().Add(time.Duration(r.IntN(7200)-600) * time.Second)}
	for range 1 + r.IntN(2) {
		b.Nodes = append(b.Nodes, names[r.IntN(len(names))])
	}
	slices.Sort(b.Nodes)
	b.Nodes = slices.Compact(b.Nodes)
	if b.Queue != "" || r.IntN(2) == 0 {
		b.To = b.From.Add(time.Minute + time.Duration(r.IntN(3600))*time.Second)
	}
	w.diary("booking %+v", b)
	w.tell(engine.Change{Booking: &b})
}

// bindForeign has another scheduler bind a pod of its own where there is room, whatever is held there.
func (w *soakWorld) bindForeign() {
	r, names := w.dice(), soakKeys(w.nodes)
	if len(names) == 0 {
		return
	}
	n := w.nodes[names[r.IntN(len(names))]]
	asks := engine.Resources{{Resource: gpu, Value: r.Int64N(3)}, {Resource: engine.CPU, Value: 1000 * r.Int64N(4)}}
	for _, a := range append(slices.Clone(asks), engine.Amount{Resource: engine.Pods, Value: 1}) {
		used := int64(0)
		for _, p := range w.pods {
			if node, _ := w.seatOf(p); node == n.Name {
				used += p.Requests.Get(a.Resource)
				if a.Resource == engine.Pods {
					used++
				}
				if a.Resource == gpu && p.Part != nil {
					used += int64(p.Part.Cards)
				}
			}
		}
		if used+a.Value > n.Allocatable.Get(a.Resource) {
			return
		}
	}
	w.born++
	job := &soakJob{key: fmt.Sprintf("ns/j%d", w.born), run: time.Duration(60+r.IntN(1500)) * time.Second}
	job.pods = []string{job.key}
	w.jobs[job.key] = job
	p := &soakPod{Pod: engine.Pod{Key: job.key, UID: job.key, Created: w.told(), Started: w.told(), Node: n.Name, Foreign: true, Spec: engine.Spec{Requests: asks}, Priority: int32(r.IntN(3))}, job: job}
	w.diary("bound by others: %s on %s, %v", p.Key, p.Node, p.Requests)
	w.tellPod(p)
}

// nominate has others nominate a pod that waits to a node, or take that back.
func (w *soakWorld) nominate() {
	r, keys, names := w.dice(), soakKeys(w.pods), soakKeys(w.nodes)
	if len(keys) == 0 || len(names) == 0 {
		return
	}
	p := w.pods[keys[r.IntN(len(keys))]]
	if p.Node != "" || p.Terminating {
		return
	}
	if p.Nominated = ""; r.IntN(3) > 0 {
		p.Nominated = names[r.IntN(len(names))]
	}
	w.diary("nominated: %s to %q", p.Key, p.Nominated)
	w.tellPod(p)
}

// quarantine has a node be trusted no more, or again.
func (w *soakWorld) quarantine() {
	names := soakKeys(w.nodes)
	if len(names) == 0 {
		return
	}
	n := w.nodes[names[w.dice().IntN(len(names))]]
	if n.Quarantine == "" {
		n.Quarantine, n.Cordoned = "xid", true
	} else {
		n.Quarantine, n.Cordoned = "", false
	}
	w.diary("node %s: quarantine %q", n.Name, n.Quarantine)
	w.tellNode(n)
}

// checkStopped checks that nothing of a stopped queue begins, and nothing of a frozen one is evicted.
func (w *soakWorld) checkStopped(plan engine.Plan) {
	for _, s := range plan.Starts {
		name, _ := w.pods[s.Placements[0].Pod].queueOf()
		for _, q := range w.chain(name) {
			if q.Stop != "" && s.Kind == engine.Begin {
				w.fail("stopped", "%s begins in queue %s, and %s is stopped", s.Gang, name, q.Name)
			}
		}
	}
	for _, e := range plan.Evictions {
		name, _ := w.pods[e.Pod].queueOf()
		for _, q := range w.chain(name) {
			if q.Frozen {
				w.fail("frozen", "%s is evicted (%s) in queue %s, and %s is frozen", e.Pod, e.Cause, name, q.Name)
			}
		}
	}
}
