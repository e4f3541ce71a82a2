package engine_test

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
)

// The benchmarks put one question at a time to a cluster of each size, in the default configuration, with
// the 200 pod classes warm. `make bench PATTERN=Engine` runs them on one core; BENCH_SEED and BENCH_LAYOUT
// choose another cluster, BENCH_PACKING another policy. An op is a whole turn: objects are made, the question is put, the answer is
// checked, the objects are taken away, and elsewhere a pod moves, so that no answer can be last turn's.
// What the bars are about is reported beside it: ns/answer is Apply and Plan, ns/plan the Plan alone.

var benchNow = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

// bed is a loaded cluster that questions are put to. It is the same before each turn.
type bed struct {
	*testing.B
	*site
	state   *engine.State
	version uint64
	turn    int
}

func newBed(b *testing.B, nodes int) *bed {
	b.Helper()
	s := newSite(b, nodes)
	d := &bed{B: b, site: s, state: engine.Load(s.snapshot, s.config()), version: 1}
	d.warm()
	return d
}

// warm plans one pod of every class and takes them away.
func (d *bed) warm() {
	var pods []engine.Change
	for k, spec := range d.specs {
		pods = append(pods, d.pod(fmt.Sprintf("warm/%d", k), spec))
	}
	d.apply(pods)
	d.apply(slices.DeleteFunc(d.state.Plan(benchNow).Changes, func(c engine.Change) bool { return c.RequestMix == nil }))
	d.version += 1 << 20 // above the mix's
	d.state.Plan(benchNow)
	d.apply(d.gone(pods))
}

func (d *bed) apply(changes []engine.Change) {
	if rejected := d.state.Apply(changes...); len(rejected) > 0 {
		d.Fatalf("%d changes rejected, the first: %+v", len(rejected), rejected[0])
	}
}

func (d *bed) next() uint64 {
	d.version++
	return d.version
}

func (d *bed) pod(key string, spec engine.Spec) engine.Change {
	return engine.Change{Pod: &engine.Pod{Key: key, UID: key, Version: d.next(), Created: benchNow, Spec: spec}}
}

// gang is a gang of like pods, all of which it needs.
func (d *bed) gang(key string, size int, spec engine.Spec, layout engine.Layout) []engine.Change {
	g := &engine.Gang{Key: key, Version: d.next(), Created: benchNow, Group: engine.Group{Min: size, Layout: layout}}
	changes := []engine.Change{{Gang: g}}
	for rank := range size {
		c := d.pod(fmt.Sprintf("%s-%d", key, rank), spec)
		c.Pod.Gang, c.Pod.Rank = key, rank
		changes = append(changes, c)
	}
	return changes
}

// gone takes the pods and gangs of changes away.
func (d *bed) gone(changes []engine.Change) []engine.Change {
	var out []engine.Change
	for _, c := range changes {
		ref := &engine.Ref{Kind: engine.KindPod, Version: d.next()}
		if c.Pod != nil {
			ref.Key = c.Pod.Key
		} else {
			ref.Kind, ref.Key = engine.KindGang, c.Gang.Key
		}
		out = append(out, engine.Change{Gone: ref})
	}
	return out
}

// stir moves a small pod to another node.
func (d *bed) stir() {
	spec := engine.Spec{Requests: engine.Resources{{Resource: engine.CPU, Value: 10}}}
	c := d.pod("stir/stir", spec)
	c.Pod.Node = d.snapshot.Nodes[d.turn*7919%len(d.snapshot.Nodes)].Name
	d.apply([]engine.Change{c})
}

// question is what is put to the engine and how its answer is checked.
type question struct {
	ask   func(turn int) []engine.Change
	check func(engine.Plan)
}

// put puts a question once and returns how long Apply and Plan took.
func (d *bed) put(q question) (apply, plan time.Duration) {
	d.turn++
	changes := q.ask(d.turn)
	start := time.Now()
	d.apply(changes)
	applied := time.Now()
	p := d.state.Plan(benchNow)
	planned := time.Now()
	q.check(p)
	d.apply(d.gone(changes))
	d.stir()
	return applied.Sub(start), planned.Sub(applied)
}

// sizes runs a benchmark on clusters of each size.
func sizes(b *testing.B, run func(*bed)) {
	for _, nodes := range []int{500, 5_000, 50_000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) { run(newBed(b, nodes)) })
	}
}

// questions measures a question on clusters of each size, its classes warm.
func questions(b *testing.B, of func(*bed) question) {
	sizes(b, func(d *bed) {
		q := of(d)
		d.put(q)
		var applying, planning time.Duration
		for d.Loop() {
			apply, plan := d.put(q)
			applying, planning = applying+apply, planning+plan
		}
		d.per("answer", applying+planning)
		d.per("plan", planning)
	})
}

// per reports the mean of a part of the turn.
func (d *bed) per(what string, total time.Duration) {
	d.ReportMetric(float64(total.Nanoseconds())/float64(d.N), "ns/"+what)
}

// started checks that so many gangs and pods start and none waits.
func (d *bed) started(gangs, pods int) func(engine.Plan) {
	return func(p engine.Plan) {
		got := 0
		for _, s := range p.Starts {
			got += len(s.Placements)
		}
		if len(p.Starts) != gangs || got != pods || len(p.Waiting) != 0 {
			d.Fatalf("%d gangs with %d pods start and %d wait, want %d with %d and 0", len(p.Starts), got, len(p.Waiting), gangs, pods)
		}
	}
}

// refused checks that the one gang is proved impossible.
func (d *bed) refused(cause why.Cause) func(engine.Plan) {
	return func(p engine.Plan) {
		if len(p.Starts) != 0 || len(p.Waiting) != 1 || p.Waiting[0].Verdict != why.Impossible || p.Waiting[0].Cause != cause {
			d.Fatalf("%d start, waiting: %+v, want one that is impossible for %s", len(p.Starts), p.Waiting, cause)
		}
		if len(p.Certificates) != 1 {
			d.Fatalf("%d certificates, want 1", len(p.Certificates))
		}
	}
}

// ones are the pod classes with one GPU.
func (d *bed) ones() (specs []engine.Spec) {
	for _, s := range d.specs {
		if amount(s.Requests, benchGPU) == 1 {
			specs = append(specs, s)
		}
	}
	return specs
}

// anywhere is a pod of that many GPUs that asks nothing else of its node.
func anywhere(gpus int64) engine.Spec {
	return engine.Spec{
		Requests: engine.Resources{
			{Resource: engine.CPU, Value: gpus * 8000}, {Resource: engine.Memory, Value: gpus * 64 * gib}, {Resource: benchGPU, Value: gpus},
		},
		Tolerations: []engine.Toleration{{Op: "Exists"}},
	}
}

// BenchmarkEnginePlaceOne places a pod with one GPU, of another class each turn.
func BenchmarkEnginePlaceOne(b *testing.B) {
	questions(b, func(d *bed) question {
		ones := d.ones()
		return question{
			ask:   func(turn int) []engine.Change { return []engine.Change{d.pod("bench/one", ones[turn%len(ones)])} },
			check: d.started(1, 1),
		}
	})
}

// BenchmarkEngineNewClass places the first pod of a class: no pod asked for so much CPU before.
func BenchmarkEngineNewClass(b *testing.B) {
	questions(b, func(d *bed) question {
		ones := d.ones()
		return question{
			ask: func(turn int) []engine.Change {
				spec := own(ones[turn%len(ones)])
				spec.Requests[0].Value = 2000 + int64(turn%2000)
				return []engine.Change{d.pod("bench/new", spec)}
			},
			check: d.started(1, 1),
		}
	})
}

// BenchmarkEngineNewLabel places the first pod that asks about a label, so that nodes which were alike may
// not be any more.
func BenchmarkEngineNewLabel(b *testing.B) {
	questions(b, func(d *bed) question {
		return question{
			ask: func(turn int) []engine.Change {
				spec := anywhere(1)
				unheard := engine.Requirement{Key: fmt.Sprintf("example.com/label-%d", turn), Op: engine.DoesNotExist}
				spec.Affinity = []engine.Term{{Labels: []engine.Requirement{unheard}}}
				return []engine.Change{d.pod("bench/new", spec)}
			},
			check: d.started(1, 1),
		}
	})
}

// BenchmarkEngineGang512 places 512 pods of 8 GPUs, or as many as there are whole nodes, in as few racks
// as possible.
func BenchmarkEngineGang512(b *testing.B) {
	questions(b, func(d *bed) question {
		size := min(512, d.whole)
		if size == 0 {
			d.Skip("no whole node is free")
		}
		return question{
			ask: func(int) []engine.Change {
				return d.gang("bench/gang", size, anywhere(8), engine.Layout{Preferred: d.level()})
			},
			check: d.started(1, size),
		}
	})
}

// BenchmarkEngineGangs1000 places 1,000 gangs of 8 pods with one GPU, each in one rack, or as many as take
// half of the free GPUs.
func BenchmarkEngineGangs1000(b *testing.B) {
	questions(b, func(d *bed) question {
		if d.crowded {
			d.Skip("no rack has eight GPUs free")
		}
		ones, gangs := d.ones(), min(1000, d.free/16)
		return question{
			ask: func(int) (changes []engine.Change) {
				for g := range gangs {
					changes = append(changes, d.gang(fmt.Sprintf("bench/gang-%d", g), 8, ones[g%len(ones)], engine.Layout{Required: d.level()})...)
				}
				return changes
			},
			check: d.started(gangs, 8*gangs),
		}
	})
}

// BenchmarkEngineProveTooLarge asks for 10 pods of 16 GPUs where nodes have 8.
func BenchmarkEngineProveTooLarge(b *testing.B) {
	questions(b, func(d *bed) question {
		return question{ask: d.tooLarge, check: d.refused(why.LargerThanAnyNode)}
	})
}

// BenchmarkEngineProveFragmented asks for 64 whole nodes in one rack; of a crowded cluster, for 8.
func BenchmarkEngineProveFragmented(b *testing.B) {
	questions(b, func(d *bed) question {
		cause := why.TopologyFragmented
		if d.crowded {
			cause = why.Fragmented
		}
		return question{ask: d.fragmented, check: d.refused(cause)}
	})
}

// BenchmarkEngineProveSelector asks for 8 pods on an instance type that no node has.
func BenchmarkEngineProveSelector(b *testing.B) {
	questions(b, func(d *bed) question {
		return question{ask: d.unmatched, check: d.refused(why.NoMatchingNode)}
	})
}

func (d *bed) tooLarge(int) []engine.Change {
	return d.gang("bench/large", 10, anywhere(16), engine.Layout{Required: d.level()})
}

// fragmented asks, where there are no racks, for two whole nodes on one.
func (d *bed) fragmented(int) []engine.Change {
	size, level := 64, d.level()
	switch {
	case d.flat:
		size, level = 2, engine.NodeLevel
	case d.crowded:
		size = 8
	}
	return d.gang("bench/apart", size, anywhere(8), engine.Layout{Required: level})
}

func (d *bed) unmatched(int) []engine.Change {
	spec := anywhere(1)
	spec.Selector = map[string]string{typeLabel: "gpu8-z"}
	return d.gang("bench/nowhere", 8, spec, engine.Layout{Required: d.level()})
}

// BenchmarkEnginePlanNothingChanged plans again with 99 gangs waiting that fit nowhere.
func BenchmarkEnginePlanNothingChanged(b *testing.B) {
	sizes(b, func(d *bed) {
		const each = 33
		for i := range each {
			for _, ask := range []func(int) []engine.Change{d.tooLarge, d.fragmented, d.unmatched} {
				d.apply(renamed(ask(i), fmt.Sprintf("-%d", i)))
			}
		}
		waits := func(p engine.Plan) {
			if len(p.Starts) != 0 || len(p.Waiting) != 3*each {
				d.Fatalf("%d start and %d wait, want 0 and %d", len(p.Starts), len(p.Waiting), 3*each)
			}
		}
		waits(d.state.Plan(benchNow))
		now := benchNow
		for d.Loop() {
			now = now.Add(time.Millisecond)
			waits(d.state.Plan(now))
		}
	})
}

// renamed gives a gang and its pods a suffix.
func renamed(changes []engine.Change, suffix string) []engine.Change {
	for _, c := range changes {
		if c.Gang != nil {
			c.Gang.Key += suffix
			continue
		}
		c.Pod.Key, c.Pod.Gang = c.Pod.Key+suffix, c.Pod.Gang+suffix
	}
	return changes
}

// BenchmarkEngineApply10k applies 10,000 changes of a busy cluster: ns/apply. What Apply leaves for later
// shows in ns/plan, the next Plan, which also has 2,250 new pods to place.
func BenchmarkEngineApply10k(b *testing.B) {
	sizes(b, func(d *bed) {
		var applying, planning time.Duration
		for d.Loop() {
			r := d.rush()
			d.apply(r.before)
			start := time.Now()
			d.apply(r.rush)
			applied := time.Now()
			p := d.state.Plan(benchNow)
			applying, planning = applying+applied.Sub(start), planning+time.Since(applied)
			if got := len(p.Starts) + len(p.Waiting); len(r.rush) != 10_000 || got != rushPods/4 {
				d.Fatalf("%d changes, %d pods considered, want 10,000 and %d", len(r.rush), got, rushPods/4)
			}
			d.apply(r.after)
		}
		d.per("apply", applying)
		d.per("plan", planning)
	})
}

// rush is 10,000 changes, what they need to be there before, and what takes them back.
type rush struct{ before, rush, after []engine.Change }

const rushPods, rushNodes = 9_000, 1_000

// rush spreads the changes over the cluster. Of the pods a quarter go, a quarter begin to terminate, a
// quarter come, and a quarter are bound where one went.
func (d *bed) rush() *rush {
	r := &rush{}
	stride := len(d.snapshot.Pods) / (rushPods / 2)
	for i := range rushPods / 4 {
		d.rushPods(r, i, d.snapshot.Pods[2*i*stride], d.snapshot.Pods[(2*i+1)*stride])
		for n := i * rushNodes * 4 / rushPods; n < (i+1)*rushNodes*4/rushPods; n++ {
			d.rushNode(r, n, d.snapshot.Nodes[n*max(1, len(d.snapshot.Nodes)/rushNodes)%len(d.snapshot.Nodes)])
		}
	}
	return r
}

func (d *bed) rushPods(r *rush, i int, goes, ends engine.Pod) {
	waits := d.pod(fmt.Sprintf("rush/waits-%d", i), goes.Spec)
	comes := d.pod(fmt.Sprintf("rush/comes-%d", i), d.specs[i%podClasses])
	bound, ending := *waits.Pod, ends
	bound.Version, bound.Node, bound.Devices = d.next(), goes.Node, goes.Devices
	ending.Version, ending.Terminating, ending.ReleaseAt = d.next(), true, benchNow.Add(time.Minute)
	r.before = append(r.before, waits)
	r.rush = append(r.rush, comes, engine.Change{Pod: &ending})
	r.rush = append(r.rush, d.gone([]engine.Change{{Pod: &goes}})...)
	r.rush = append(r.rush, engine.Change{Pod: &bound})
	r.after = append(r.after, d.gone([]engine.Change{waits, comes})...)
	goes.Version, ends.Version = d.next(), d.next()
	r.after = append(r.after, engine.Change{Pod: &goes}, engine.Change{Pod: &ends})
}

// rushNode changes a node: of twenty one goes, one comes, two get a label, one a taint, one loses a GPU,
// and the rest are as they were under a new version, as after a heartbeat.
func (d *bed) rushNode(r *rush, i int, n engine.Node) {
	is := n
	is.Version = d.next()
	switch i % 20 {
	case 0:
		r.rush = append(r.rush, engine.Change{Gone: &engine.Ref{Kind: engine.KindNode, Key: n.Name, Version: is.Version}})
	case 1:
		is.Name, is.Devices = fmt.Sprintf("extra-%d", i), nil
		r.rush = append(r.rush, engine.Change{Node: &is})
		r.after = append(r.after, engine.Change{Gone: &engine.Ref{Kind: engine.KindNode, Key: is.Name, Version: d.next()}})
		return
	case 2, 3:
		is.Labels = maps.Clone(n.Labels)
		is.Labels[poolLabel] = "pool-0"
	case 4:
		is.Taints = append(slices.Clone(n.Taints), engine.Taint{Key: "maintenance", Effect: engine.NoSchedule})
	case 5:
		is.Devices, is.Allocatable = slices.Clone(n.Devices), slices.Clone(n.Allocatable)
		is.Devices[7].Unhealthy = true
		is.Allocatable[len(is.Allocatable)-1].Value = 7
	}
	if i%20 != 0 {
		r.rush = append(r.rush, engine.Change{Node: &is})
	}
	n.Version = d.next()
	r.after = append(r.after, engine.Change{Node: &n})
}

// BenchmarkEngineLive is the life of a pod with one GPU, all of it: it comes, is planned, assumed and
// bound, and goes while a hundred others run.
func BenchmarkEngineLive(b *testing.B) {
	sizes(b, func(d *bed) {
		const running = 100
		ones, start := d.ones(), time.Now()
		for turn := 0; d.Loop(); turn++ {
			c := d.pod(fmt.Sprintf("live/%d", turn%running), ones[turn%len(ones)])
			d.apply([]engine.Change{c})
			p := d.state.Plan(benchNow)
			d.started(1, 1)(p)
			d.apply(p.Changes)
			bound, place := *c.Pod, p.Starts[0].Placements[0]
			bound.Version, bound.Node, bound.Devices = d.next(), place.Node, place.Devices
			d.apply([]engine.Change{{Pod: &bound}})
			if turn >= running-1 {
				oldest := engine.Change{Pod: &engine.Pod{Key: fmt.Sprintf("live/%d", (turn+1)%running)}}
				d.apply(d.gone([]engine.Change{oldest}))
			}
		}
		d.ReportMetric(float64(d.N)/time.Since(start).Seconds(), "pods/s")
	})
}

// BenchmarkEngineLoad loads a snapshot. MiB is the heap that the state keeps alive, all objects of the
// snapshot with it, and MiB-warm the same with the 200 pod classes warm.
func BenchmarkEngineLoad(b *testing.B) {
	for _, nodes := range []int{500, 5_000, 50_000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			s := newSite(b, nodes)
			for b.Loop() {
				runtime.KeepAlive(engine.Load(s.snapshot, s.config()))
			}
			s = nil
			base := heapMiB()
			d := &bed{B: b, site: newSite(b, nodes), version: 1}
			d.state = engine.Load(d.snapshot, d.config())
			d.snapshot = engine.Snapshot{}
			b.ReportMetric(heapMiB()-base, "MiB")
			d.warm()
			b.ReportMetric(heapMiB()-base, "MiB-warm")
			runtime.KeepAlive(d)
		})
	}
}

func heapMiB() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}
