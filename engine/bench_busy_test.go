package engine_test

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
)

// The benchmarks of the busy cluster: the engine as it is asked live, where many pods start and end between two cycles and
// pods ask in many ways. `make bench PATTERN=Busy` runs them on one core. Beside wall-clock time the processor time of
// the process is reported (cpu-ns/...), which says more on a machine that others use too. A turn is: 500 pods have moved,
// and a question is put.
//
//   - ns/change is Apply of one of the changes between the questions, and
//   - ns/answer Apply and Plan of the question; ns/all is both, the changes and the question.

const busyNodes = 5_000

// stopwatch adds up wall-clock and processor time of parts of a turn.
type stopwatch struct {
	names     []string
	wall, cpu map[string]time.Duration
	per       map[string]int
}

// time runs a part of a turn, of so many equal steps.
func (w *stopwatch) time(name string, steps int, run func()) {
	if w.wall == nil {
		w.wall, w.cpu, w.per = make(map[string]time.Duration), make(map[string]time.Duration), make(map[string]int)
	}
	if w.per[name] == 0 {
		w.names = append(w.names, name)
	}
	start, used := time.Now(), cpuTime()
	run()
	w.cpu[name] += cpuTime() - used
	w.wall[name] += time.Since(start)
	w.per[name] += steps
}

// report reports the mean of a step of each part, and, with the name of a sum, of the turns as a whole.
func (w *stopwatch) report(b *testing.B, sum string, turns int) {
	var wall, cpu time.Duration
	for _, name := range w.names {
		b.ReportMetric(float64(w.wall[name])/float64(w.per[name]), "ns/"+name)
		b.ReportMetric(float64(w.cpu[name])/float64(w.per[name]), "cpu-ns/"+name)
		wall, cpu = wall+w.wall[name], cpu+w.cpu[name]
	}
	if sum != "" {
		b.ReportMetric(float64(wall)/float64(turns), "ns/"+sum)
		b.ReportMetric(float64(cpu)/float64(turns), "cpu-ns/"+sum)
	}
}

// cpuTime is the processor time that the process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// busyBed is a loaded busy cluster.
type busyBed struct {
	*testing.B
	*busySite
	state *engine.State
	turn  int
}

// newBusyBed loads the cluster, and puts one question of every shape to it.
func newBusyBed(b *testing.B, f *busySite) *busyBed {
	b.Helper()
	d := &busyBed{B: b, busySite: f, state: engine.Load(f.snapshot, busyConfig())}
	var pods []engine.Change
	for k, sh := range f.specs {
		pods = append(pods, d.pod(fmt.Sprintf("warm/%d", k), k%busyTeams, sh))
	}
	d.apply(pods)
	d.apply(d.state.Plan(f.now).Changes) // what queues have used is added up once a minute
	d.version += 1 << 20                 // above the plan's own
	d.apply(d.gone(pods))
	d.apply(d.state.Plan(f.now).Changes) // forgets what was assumed of them, or every turn would
	d.version += 1 << 20
	return d
}

func (d *busyBed) apply(changes []engine.Change) {
	if rejected := d.state.Apply(changes...); len(rejected) > 0 {
		d.Fatalf("%d changes rejected, the first: %+v", len(rejected), rejected[0])
	}
}

func (d *busyBed) pod(key string, team int, sh busyShape) engine.Change {
	return engine.Change{Pod: &engine.Pod{
		Key: key, UID: key, Version: d.next(), Created: d.now, Spec: sh.Spec, Queue: busyTeam(team), Priority: sh.priority, Evictable: true,
	}}
}

func (d *busyBed) gang(key string, team, size int, sh busyShape, layout engine.Layout) []engine.Change {
	out := []engine.Change{{Gang: &engine.Gang{Key: key, Version: d.next(), Created: d.now, Queue: busyTeam(team), Priority: sh.priority, Group: engine.Group{Min: size, Layout: layout}}}}
	for rank := range size {
		c := d.pod(fmt.Sprintf("%s-%d", key, rank), team, sh)
		c.Pod.Gang, c.Pod.Rank, c.Pod.Queue = key, rank, ""
		out = append(out, c)
	}
	return out
}

// gone takes the pods and gangs of changes away.
func (f *busySite) gone(changes []engine.Change) (out []engine.Change) {
	for _, c := range changes {
		ref := &engine.Ref{Kind: engine.KindPod, Version: f.next()}
		if c.Gang != nil {
			ref.Kind, ref.Key = engine.KindGang, c.Gang.Key
		} else {
			ref.Key = c.Pod.Key
		}
		out = append(out, engine.Change{Gone: ref})
	}
	return out
}

// questions puts a question after every 500 moved pods.
func (d *busyBed) questions(ask func(turn int) []engine.Change, check func(engine.Plan)) {
	const moved = 500
	var w stopwatch
	for d.Loop() {
		d.StopTimer()
		d.turn++
		moves, question := d.moves(d.turn, moved), ask(d.turn)
		var plan engine.Plan
		d.StartTimer()
		w.time("change", moved, func() { d.apply(moves) })
		w.time("answer", 1, func() {
			d.apply(question)
			plan = d.state.Plan(d.now)
		})
		d.StopTimer()
		check(plan)
		d.apply(d.gone(question))
		d.StartTimer()
	}
	w.report(d.B, "all", d.N)
}

// BenchmarkBusyPlaceOne places a pod with one GPU, of another shape and queue each turn.
func BenchmarkBusyPlaceOne(b *testing.B) {
	d := newBusyBed(b, newBusySite(b, busyNodes, 85, 0))
	var ones []busyShape
	for _, sh := range d.specs {
		if amount(sh.Requests, benchGPU) == 1 && sh.Selector == nil {
			ones = append(ones, sh)
		}
	}
	started := 0
	d.questions(func(turn int) []engine.Change {
		return []engine.Change{d.pod("bench/one", turn%busyTeams, ones[turn%len(ones)])}
	}, func(p engine.Plan) {
		started += len(p.Starts)
	})
	if started*10 < 9*b.N { // some teams are at their limits
		b.Fatalf("%d of %d start", started, b.N)
	}
}

// BenchmarkBusyProve proves of gangs that they cannot start: 10 pods of 16 GPUs where nodes have 8, 64 whole nodes in one
// rack, and 8 pods on an instance type that no node has.
func BenchmarkBusyProve(b *testing.B) {
	large, whole, nowhere := busyShape{Spec: anywhere(16)}, busyShape{Spec: anywhere(8)}, busyShape{Spec: anywhere(1)}
	nowhere.Selector = map[string]string{typeLabel: "gpu8-z"}
	for _, c := range []struct {
		name   string
		size   int
		shape  busyShape
		causes []why.Cause
	}{
		{"large", 10, large, []why.Cause{why.LargerThanAnyNode}},
		{"fragmented", 64, whole, []why.Cause{why.TopologyFragmented, why.Fragmented}},
		{"selector", 8, nowhere, []why.Cause{why.NoMatchingNode}},
	} {
		b.Run(c.name, func(b *testing.B) {
			d := newBusyBed(b, newBusySite(b, busyNodes, 85, 0))
			d.questions(func(turn int) []engine.Change {
				return d.gang("bench/gang", turn%busyTeams, c.size, c.shape, engine.Layout{Required: "rack"})
			}, func(p engine.Plan) {
				at := slices.IndexFunc(p.Waiting, func(w engine.Waiting) bool { return w.Gang == "bench/gang" })
				if at < 0 || !slices.ContainsFunc(p.Waiting[at].Gates, func(g why.Gate) bool { return slices.Contains(c.causes, g.Cause) }) {
					b.Fatalf("%+v", p.Waiting)
				}
			})
		})
	}
}

// BenchmarkBusyCycle plans with 10,000 workloads waiting in the full cluster: from a state that has just been told of them,
// and when ten things have happened since the last plan: nine that wait are written to, and a pod ends whose place somebody
// takes. ns/change is what one more object costs Apply.
func BenchmarkBusyCycle(b *testing.B) {
	b.Run("all", func(b *testing.B) {
		f := newBusySite(b, busyNodes, 100, 2*busyNodes)
		var w stopwatch
		for b.Loop() {
			b.StopTimer()
			s := engine.Load(f.snapshot, busyConfig())
			b.StartTimer()
			w.time("change", len(f.waiting), func() { s.Apply(f.waiting...) })
			w.time("plan", 1, func() {
				if plan := s.Plan(f.now); len(plan.Waiting) < 2*busyNodes {
					b.Fatalf("%d wait", len(plan.Waiting))
				}
			})
		}
		w.report(b, "all", b.N)
	})
	b.Run("ten", func(b *testing.B) {
		f := newBusySite(b, busyNodes, 100, 2*busyNodes)
		d := &busyBed{B: b, busySite: f, state: engine.Load(f.snapshot, busyConfig())}
		d.apply(f.waiting)
		d.apply(d.state.Plan(f.now).Changes)
		var w stopwatch
		for b.Loop() {
			b.StopTimer()
			d.turn++
			d.version += 1 << 20 // above the plan's own
			changes := d.ten()
			var plan engine.Plan
			b.StartTimer()
			w.time("change", len(changes), func() { d.apply(changes) })
			w.time("plan", 1, func() { plan = d.state.Plan(f.now) })
			b.StopTimer()
			d.apply(plan.Changes)
			d.version += 1 << 20
			d.bind(d.state, plan)
			b.StartTimer()
		}
		w.report(b, "all", b.N)
	})
}

// ten are ten changes: nine pods that wait are written to, and one with a GPU that runs by itself ends.
func (d *busyBed) ten() (out []engine.Change) {
	for i := d.turn * 101; len(out) < 9; i++ {
		if c := d.waiting[i%len(d.waiting)]; c.Pod != nil && d.pods[c.Pod.Key].Node == "" {
			p := *d.pods[c.Pod.Key]
			p.Version = d.next()
			out = append(out, engine.Change{Pod: &p})
		}
	}
	for i := d.turn * 13; ; i++ {
		p := &d.snapshot.Pods[i%len(d.snapshot.Pods)]
		if p.Gang == "" && amount(p.Requests, benchGPU) > 0 && d.pods[p.Key] != nil {
			delete(d.pods, p.Key)
			return append(out, d.gone([]engine.Change{{Pod: p}})...)
		}
	}
}

// BenchmarkBusyApply10k applies 10,000 changes of a busy cluster, as an informer that was away delivers them, and plans: of
// 9,000 pods a quarter go, a quarter begin to end, a quarter come, and a quarter are bound where one went; of 1,000 nodes a
// tenth change a label, a taint or what they have to give, and the rest are as they were under a new version.
func BenchmarkBusyApply10k(b *testing.B) {
	d := newBusyBed(b, newBusySite(b, busyNodes, 85, 0))
	var w stopwatch
	for d.Loop() {
		d.StopTimer()
		d.turn++
		before, rush, after := d.rush()
		d.apply(before)
		d.StartTimer()
		w.time("change", len(rush), func() { d.apply(rush) })
		w.time("plan", 1, func() { d.state.Plan(d.now) })
		d.StopTimer()
		if len(rush) != 10_000 {
			d.Fatalf("%d changes", len(rush))
		}
		d.apply(after)
		d.state.Plan(d.now)
		d.StartTimer()
	}
	w.report(b, "all", b.N)
}

// rush is 10,000 changes, what they need to be there before, and what takes them back.
func (d *busyBed) rush() (before, rush, after []engine.Change) {
	running := make([]*engine.Pod, 0, len(d.snapshot.Pods))
	for i := range d.snapshot.Pods {
		if p := &d.snapshot.Pods[i]; p.Gang == "" && p.Node != "" {
			running = append(running, p)
		}
	}
	for i := range rushPods / 4 {
		goes, ends := *running[2*i*len(running)/(rushPods/2)], *running[(2*i+1)*len(running)/(rushPods/2)]
		sh := d.specs[i%len(d.specs)]
		waits := d.pod(fmt.Sprintf("rush/waits-%d", i), i%busyTeams, busyShape{Spec: goes.Spec, priority: goes.Priority})
		comes := d.pod(fmt.Sprintf("rush/comes-%d", i), i%busyTeams, sh)
		bound := *waits.Pod
		bound.Version, bound.Node, bound.Started = d.next(), goes.Node, d.now
		ends.Version, ends.Terminating, ends.ReleaseAt = d.next(), true, d.now.Add(time.Minute)
		before = append(before, waits)
		rush = append(rush, comes, engine.Change{Pod: &ends})
		rush = append(rush, d.gone([]engine.Change{{Pod: &goes}})...)
		rush = append(rush, engine.Change{Pod: &bound})
		after = append(after, d.gone([]engine.Change{waits, comes})...)
		was := *running[(2*i+1)*len(running)/(rushPods/2)]
		goes.Version, was.Version = d.next(), d.next()
		after = append(after, engine.Change{Pod: &goes}, engine.Change{Pod: &was})
	}
	for i := range rushNodes {
		n := d.snapshot.Nodes[i*len(d.snapshot.Nodes)/rushNodes]
		is := n
		is.Version = d.next()
		switch i % 30 {
		case 0:
			is.Labels = cloneWith(n.Labels, "example.com/driver", "575")
		case 1:
			is.Taints = append(slices.Clone(n.Taints), engine.Taint{Key: "maintenance", Effect: engine.NoSchedule})
		case 2:
			is.Cordoned = !n.Cordoned
		}
		rush = append(rush, engine.Change{Node: &is})
		n.Version = d.next()
		after = append(after, engine.Change{Node: &n})
	}
	return before, rush, after
}

// BenchmarkBusyScrape is what the loop does for a page of metrics: it counts queues, workloads and the fleet, and forecasts
// the first 200 starts.
func BenchmarkBusyScrape(b *testing.B) {
	d := newBusyBed(b, newBusySite(b, busyNodes, 90, 1_000))
	d.state.Plan(d.now)
	for b.Loop() {
		d.state.Tallies("")
		d.state.QueueUses()
		d.state.Report()
		d.state.Forecast(d.now, 200)
	}
}
