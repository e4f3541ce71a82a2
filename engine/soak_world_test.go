package engine_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/engine"
)

// soakWorld is a small cluster that lives: what is true of it, what the engine was told, and what the engine
// remembers. Everything that happens in it follows from its seed.
type soakWorld struct {
	seed    uint64
	r       *rand.Rand
	cfg     engine.Config
	state   *engine.State
	flavors *rand.Rand // see chance
	names   *rand.Rand
	spreads *rand.Rand
	widths  *rand.Rand
	wishes  *rand.Rand
	now     time.Time
	latest  time.Time // that it ever was
	cycle   int
	version uint64
	frozen  bool // nothing happens but what was planned
	diary   func(format string, args ...any)

	nodes       map[string]engine.Node
	away        map[string]engine.Node // nodes that failed
	queues      map[string]engine.Queue
	jobs        map[string]*soakJob
	pods        map[string]*soakPod
	disruptions map[string]engine.Disruption

	// What the engine remembers, as its plans' changes say.
	assumptions map[string]engine.Assumption
	holds       map[string]engine.Hold
	evictions   map[string]engine.Eviction
	promises    map[string]engine.Promise

	surges map[string]*soakSurge // by pod: it stays until another runs

	late []engine.Placement // bindings on their way
	ends map[string]time.Time
	born int
	seen soakCount
}

// soakCount is how much happened.
type soakCount struct {
	starts, evictions, refused, returned, ended, promised, frozen, surged int
	causes                                                                map[engine.EvictionCause]int
}

// soakPod is a pod with what only the world knows.
type soakPod struct {
	engine.Pod
	job  *soakJob
	gone int // the cycle by which a terminating pod is gone at the latest
}

// soakSurge is a pod that stays until another runs.
type soakSurge struct {
	uid   string // of the pod that stays
	next  string // the job that follows it
	looks int    // while the world stands still
}

// soakJob is a workload with what only the world knows.
type soakJob struct {
	key     string
	gang    *engine.Gang // nil: a pod by itself
	pods    []string
	run     time.Duration // how long it really runs
	began   time.Time     // zero: it does not run
	returns bool          // what is evicted of it comes back
	lives   int           // of pods, for UIDs
}

func newSoakWorld(seed uint64) *soakWorld {
	w := &soakWorld{
		seed: seed, r: rand.New(rand.NewPCG(seed, 6)), now: noon, diary: func(string, ...any) {},
		nodes: map[string]engine.Node{}, away: map[string]engine.Node{}, queues: map[string]engine.Queue{}, jobs: map[string]*soakJob{}, pods: map[string]*soakPod{},
		disruptions: map[string]engine.Disruption{}, assumptions: map[string]engine.Assumption{}, holds: map[string]engine.Hold{},
		evictions: map[string]engine.Eviction{}, surges: map[string]*soakSurge{}, promises: map[string]engine.Promise{}, ends: map[string]time.Time{},
		seen: soakCount{causes: map[engine.EvictionCause]int{}},
	}
	w.cfg = engine.Config{
		Levels: levels, Packing: soakPick(w, engine.Tight, engine.Loose, engine.LeastF, engine.Priced),
		Policy: []engine.Policy{engine.Default, engine.TimeShare, engine.FIFO, engine.Strict}[seed%4],
		Heads:  soakPick(w, 0, 0, 1, -1), HalfLife: soakPick(w, 0, time.Hour), MinRun: soakPick(w, 0, time.Minute, 5*time.Minute),
		Moves: engine.Moves{Off: w.odds(4), Background: soakPick[int64](w, 0, 0, 7200)}, Overtake: []time.Duration{0, 10 * time.Minute, -1}[seed%3],
	}
	if w.odds(4) {
		w.cfg.Rates = []engine.Rate{{Model: "A", Units: 2}}
	}
	w.widenConfig()
	w.askConfig()
	w.state = engine.Load(engine.Snapshot{Version: engine.SnapshotVersion}, w.cfg)
	for i := range 5 + w.upTo(7) {
		w.addNode(fmt.Sprintf("n%02d", i))
	}
	for i := range 4 + w.upTo(4) {
		w.editQueue(fmt.Sprintf("q%d", i))
	}
	for i := range 2 {
		d := engine.Disruption{Key: fmt.Sprint("ns/pdb", i), Allowed: w.upTo(2)}
		w.disrupt(d)
	}
	return w
}

// odds is true once in n times.
func (w *soakWorld) odds(n int) bool { return w.r.IntN(n) == 0 }

func (w *soakWorld) upTo(n int) int { return w.r.IntN(n + 1) }

func (w *soakWorld) seconds(n int) time.Duration { return time.Duration(w.upTo(n)) * time.Second }

func soakPick[E any](w *soakWorld, of ...E) E { return of[w.r.IntN(len(of))] }

// soakKeys are the keys of a map in order, so that chance does not depend on the order of maps.
func soakKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// soakSome is one of a map's keys; "" where it has none.
func soakSome[V any](w *soakWorld, m map[string]V) string {
	if len(m) == 0 {
		return ""
	}
	return soakPick(w, soakKeys(m)...)
}

func (w *soakWorld) next() uint64 {
	w.version++
	return w.version
}

// tell lets the engine know, which has to make sense of it.
func (w *soakWorld) tell(changes ...engine.Change) {
	if bad := w.state.Apply(changes...); len(bad) > 0 {
		w.fail("nonsense", "the world told nonsense: %v", bad)
	}
}

func (w *soakWorld) gone(kind engine.Kind, key string) {
	w.tell(engine.Change{Gone: &engine.Ref{Kind: kind, Key: key, Version: w.next()}})
}

func (w *soakWorld) tellNode(n engine.Node) {
	n.Version = w.next()
	w.nodes[n.Name] = n
	w.tell(engine.Change{Node: &n})
}

func (w *soakWorld) tellPod(p *soakPod) {
	p.Version = w.next()
	w.pods[p.Key] = p
	told := p.Pod
	w.tell(engine.Change{Pod: &told})
}

func (w *soakWorld) disrupt(d engine.Disruption) {
	d.Version = w.next()
	w.disruptions[d.Key] = d
	w.tell(engine.Change{Disruption: &d})
}

func (w *soakWorld) addNode(name string) {
	count := soakPick(w, 4, 4, 2, 8, 0)
	n := engine.Node{Name: name, Labels: map[string]string{hostname: name, "block": soakPick(w, "0", "1"), "rack": soakPick(w, "0", "1")}}
	n.Allocatable = engine.Resources{{Resource: gpu, Value: int64(count)}, {Resource: engine.CPU, Value: 32_000}, {Resource: engine.Pods, Value: soakPick[int64](w, 110, 110, 6)}}
	w.label(&n)
	model := soakPick(w, "A", "A", "B", "C")
	if !w.odds(6) {
		for i := range count {
			n.Devices = append(n.Devices, engine.Device{ID: fmt.Sprintf("%s-%d", name, i), Model: model, Clique: name, NUMA: i / 2})
		}
	}
	if w.odds(3) {
		for i := range n.Devices {
			n.Devices[i].Memory, n.Devices[i].Parts = soakCard, soakSharers
		}
	}
	if w.odds(4) { // shared by replicas, or cut by MIG beside GPUs that are not
		n.Devices, n.Model = nil, soakPick(w, model, model, model+"-MIG-1g.10gb", "")
		n.Slices = []engine.Slice{soakPick(w, engine.Slice{Resource: gpu, Memory: 500, Compute: 500}, engine.Slice{Resource: gpu, Memory: 250, Compute: 250}, engine.Slice{Resource: soakMIG, Memory: 500, Compute: 428}, engine.Slice{Resource: soakMIG, Memory: 250, Compute: 285})}
		if n.Slices[0].Resource == soakMIG {
			n.Allocatable = append(n.Allocatable, engine.Amount{Resource: soakMIG, Value: soakPick[int64](w, 2, 4, 7)})
		}
	}
	// Network cards for claims, on GPU nodes and others: they are nobody's business who asks for GPUs. They are drawn from nothing, so that
	// the rest of a world stays what it is.
	if (w.seed+uint64(len(w.nodes)))%3 == 0 {
		for i := range 2 {
			n.Offers = append(n.Offers, engine.Offer{ID: fmt.Sprintf("nic/%s/%d", name, i), Selections: []string{"nic"}})
		}
	}
	w.askNode(&n)
	w.tellNode(n)
}

// soakMIG is what instances of MIG are counted as.
const soakMIG = "nvidia.com/mig-3g.40gb"

// soakCard is the memory of cards that give parts, in MiB, and soakSharers how many pods may have one.
const (
	soakCard    = 80_000
	soakSharers = 4
)

// editQueue makes a queue, or makes another of it.
func (w *soakWorld) editQueue(name string) {
	q := engine.Queue{
		Name: name, Version: w.next(), Parent: w.parent(name), Weight: int64(w.upTo(3)), Priority: int32(w.upTo(1)),
		MinRun: soakPick(w, 0, 0, time.Minute, 10*time.Minute), Warning: soakPick(w, 0, 0, 30*time.Second),
		PromoteAfter: soakPick(w, 0, 0, 20*time.Minute), ReclaimIdle: soakPick(w, 0, 0, 5*time.Minute), KeepBudgets: w.odds(4),
		MaxRunning: soakPick(w, 0, 0, 0, 0, 0, 9), FairUsers: w.odds(3), DevicesOnly: w.odds(4),
		Strict: w.seed%8 == 2 && len(w.queues)%2 == 0, // drawn from nothing, so that the worlds of other seeds stay what they are
	}
	if !w.odds(3) {
		q.Quota = append(q.Quota, engine.Amount{Resource: gpu, Value: int64(w.upTo(12))})
	}
	if w.odds(4) && len(q.Quota) > 0 {
		q.Quota[0].Milli = int64(w.upTo(3)) * 250
	}
	q.PartsBy = soakPick[engine.PartsBy](w, "", "", "larger", "compute", "memory")
	if w.odds(6) {
		q.Quota = append(q.Quota, engine.Amount{Resource: engine.OfModel(gpu, "A"), Value: int64(w.upTo(4))})
	}
	if w.odds(5) {
		q.Limits = append(q.Limits, engine.Amount{Resource: gpu, Value: q.Quota.Get(gpu) + int64(w.upTo(12)), Milli: q.Quota.Of(gpu).Milli})
	}
	if w.odds(8) {
		q.Limits = append(q.Limits, engine.Amount{Resource: engine.OfModel(gpu, "A"), Value: q.Quota.Get(engine.OfModel(gpu, "A")) + int64(w.upTo(4))})
	}
	if w.odds(4) {
		q.Lend = engine.Resources{{Resource: gpu, Value: int64(w.upTo(6))}}
	}
	if w.odds(5) {
		q.UserLimits = engine.Resources{{Resource: gpu, Value: int64(2 + w.upTo(8))}}
	}
	if w.odds(6) {
		q.Budgets = []engine.Budget{{Resource: gpu, Seconds: int64(w.upTo(100_000)), Period: time.Hour}}
	}
	w.flavor(&q)
	w.widenQueue(&q)
	if w.asking() {
		q.Packing = soakWant(w, "", "", engine.Loose, engine.Tight, engine.LeastF, engine.Priced)
	}
	q.Keeps = w.seed%4 == 1 && q.Version%3 == 0 // drawn from nothing, too
	w.queues[name] = q
	w.tell(engine.Change{Queue: &q})
	w.diary("queue %s: below %q, quota %v, limits %v, lend %v, min run %v", name, q.Parent, q.Quota, q.Limits, q.Lend, q.MinRun)
}

// parent is mostly a queue that exists already; circles and unknown ones come too.
func (w *soakWorld) parent(name string) string {
	if w.odds(30) {
		return soakPick(w, "nowhere", name)
	}
	if w.odds(2) {
		return ""
	}
	up := soakSome(w, w.queues)
	if up >= name && !w.odds(20) {
		return ""
	}
	return up
}

// arrive lets a workload come.
func (w *soakWorld) arrive() {
	w.born++
	job := &soakJob{key: fmt.Sprintf("ns/j%d", w.born), run: time.Minute + w.seconds(1500), returns: !w.odds(6)}
	spec := engine.Spec{Requests: engine.Resources{{Resource: gpu, Value: soakPick[int64](w, 1, 1, 2, 4, 1, 1, 2, 8)}, {Resource: engine.CPU, Value: int64(w.upTo(4)) * 1000}}}
	if w.odds(8) {
		spec.Requests = spec.Requests[1:]
	} else {
		spec.GPU.Models = soakPick(w, nil, nil, nil, []string{"A"}, []string{"B", "A"}, []string{"A-MIG-1g.10gb", "B"})
		spec.GPU.Clique = soakPick(w, "", "", "", engine.Prefer, engine.Require)
	}
	if w.odds(4) {
		spec.Requests = engine.Resources{{Resource: engine.CPU, Value: 1000}}
		spec.GPU = engine.GPU{Models: spec.GPU.Models}
		spec.Part = &engine.Part{Cards: soakPick(w, 1, 1, 1, 2), Compute: soakPick[int64](w, 0, 0, 250, 500, 1000)}
		if w.odds(2) {
			spec.Part.Memory = soakPick[int64](w, 10_000, 20_000, 40_000, 70_000)
		} else {
			spec.Part.Share = soakPick[int64](w, 100, 250, 333, 500, 1000)
		}
	}
	if spec.Part == nil && w.odds(6) {
		spec.GPU = engine.GPU{}
		spec.Requests = engine.Resources{{Resource: soakMIG, Value: soakPick[int64](w, 1, 1, 2)}, {Resource: engine.CPU, Value: 1000}}
	}
	w.name(&spec)
	w.spread(&spec)
	w.ask(&spec)
	terms := engine.Terms{
		Expected: soakPick(w, 0, job.run, job.run/2, 2*job.run), Max: soakPick(w, 0, 0, 0, 0, 0, 0, 0, 0, job.run/2+time.Second, 3*job.run),
		Checkpoint: soakPick(w, 0, 0, 5*time.Minute), Grace: soakPick(w, 0, 30*time.Second), Delay: soakPick(w, 0, 0, 0, 2*time.Minute), Patient: w.odds(10),
		Like: soakPick(w, "", "train"),
	}
	queue, user := soakSome(w, w.queues), soakPick(w, "", "ann", "bob")
	if w.odds(12) {
		queue = ""
	}
	priority, evictable := int32(w.upTo(2)), !w.odds(6)
	size, in := 1, func(int) string { return "" }
	if w.odds(2) {
		size = 1 + w.upTo(4)
		g := &engine.Gang{Key: job.key, Version: w.next(), Queue: queue, User: user, Priority: priority, Created: w.told(), Terms: terms, Core: w.odds(4)}
		g.Whole = w.odds(6)
		g.Min, g.Size = soakPick(w, size, size, 1+w.upTo(size-1)), soakPick(w, 0, size)
		g.Layout.Required = soakPick(w, "", "", "", "rack", "block")
		g.Layout.WholeNodes = w.odds(12)
		in = w.grow(g, size)
		w.askLayout(g)
		if len(g.Groups) == 0 {
			g.Each = g.Layout.Segment == 0 && w.odds(5)
		}
		job.gang = g
		w.tell(engine.Change{Gang: g})
	}
	w.jobs[job.key] = job
	var budgets []string
	if w.odds(3) {
		budgets = []string{soakPick(w, "ns/pdb0", "ns/pdb1")}
	}
	for i := range size {
		p := engine.Pod{Key: job.key, Spec: spec, Evictable: evictable, Budgets: budgets}
		w.rule(&p)
		w.askPod(&p)
		if job.returns {
			p.Owner = job.key
		}
		if job.gang != nil {
			p.Key, p.Gang, p.Subgroup, p.Rank = fmt.Sprintf("%s-%d", job.key, i), job.key, in(i), i
		} else {
			p.Queue, p.User, p.Priority, p.Terms = queue, user, priority, terms
			p.Surges = job.returns && w.born%2 == 0
		}
		job.pods = append(job.pods, p.Key)
		w.spawn(job, p)
	}
	w.diary("arrives %s: %d pods of %v %v, queue %q, user %q, priority %d, evictable %v, terms %+v", job.key, size, spec.Requests, spec.Part, queue, user, priority, evictable, terms)
}

// spawn makes the pod, or makes it again, waiting.
func (w *soakWorld) spawn(job *soakJob, p engine.Pod) {
	job.lives++
	p.UID, p.Created = fmt.Sprintf("%s#%d", p.Key, job.lives), w.told()
	p.Node, p.Devices, p.Terminating, p.ReleaseAt, p.Started, p.Idle = "", nil, false, time.Time{}, time.Time{}, time.Time{}
	w.tellPod(&soakPod{Pod: p, job: job})
}

// remove takes a pod away; what comes back of its job waits again.
func (w *soakWorld) remove(p *soakPod, comesBack bool) {
	w.gone(engine.KindPod, p.Key)
	delete(w.pods, p.Key)
	if comesBack && p.job.returns && w.jobs[p.job.key] == p.job {
		w.spawn(p.job, p.Pod)
		w.seen.returned++
		return
	}
	p.job.pods = slices.DeleteFunc(p.job.pods, func(k string) bool { return k == p.Key })
	if len(p.job.pods) == 0 && w.jobs[p.job.key] == p.job {
		w.forget(p.job)
	}
}

// forget ends a job with all that there is of it.
func (w *soakWorld) forget(job *soakJob) {
	delete(w.jobs, job.key)
	if job.gang != nil && w.odds(2) {
		w.gone(engine.KindGang, job.key)
		job.gang = nil
	}
	for _, key := range slices.Clone(job.pods) {
		if p := w.pods[key]; p != nil {
			w.remove(p, false)
		}
	}
	if job.gang != nil {
		w.gone(engine.KindGang, job.key)
		job.gang = nil
	}
}

// terminate lets a pod end within its grace.
func (w *soakWorld) terminate(p *soakPod, grace time.Duration) {
	if p.Terminating {
		return
	}
	p.Terminating, p.ReleaseAt, p.gone = true, w.now.Add(grace), w.cycle+1+w.upTo(4)
	w.tellPod(p)
}

// grace is the time that the pod has to end.
func (p *soakPod) grace() time.Duration {
	if p.job.gang != nil {
		return p.job.gang.Terms.Grace
	}
	return p.Terms.Grace
}

// live lets time pass and things happen.
func (w *soakWorld) live() {
	w.cycle++
	switch {
	case w.odds(80):
		w.now = w.now.Add(-w.seconds(900))
	case w.odds(80):
		w.now = w.now.Add(time.Duration(w.upTo(48)) * time.Hour)
	case !w.odds(4):
		w.now = w.now.Add(w.seconds(60))
	}
	w.widenTime()
	w.leave()
	w.carryOutEvictions()
	w.bindLate()
	w.finish()
	if waiting := w.waiting(); waiting < 25 && w.odds(2) {
		w.arrive()
	} else if waiting > 20 && w.odds(5) {
		w.giveUp()
	}
	w.trouble()
	w.widenTrouble()
	w.askTrouble()
	w.edit()
}

// waiting counts the pods that wait.
func (w *soakWorld) waiting() int {
	n := 0
	for _, p := range w.pods {
		if p.Node == "" {
			n++
		}
	}
	return n
}

// giveUp takes a job back that waits, so that not all of the line is hopeless before long.
func (w *soakWorld) giveUp() {
	if job := w.jobs[soakSome(w, w.jobs)]; job != nil && !w.runs(job) {
		w.diary("given up %s", job.key)
		w.forget(job)
	}
}

// leave takes terminating pods away whose time has come.
func (w *soakWorld) leave() {
	for _, key := range soakKeys(w.pods) {
		if p := w.pods[key]; p != nil && p.Terminating && (!w.now.Before(p.ReleaseAt) || w.cycle >= p.gone) {
			w.diary("gone %s", key)
			w.remove(p, true)
		}
	}
}

// carryOutEvictions ends what is to end and warned long enough; now and then that is refused.
func (w *soakWorld) carryOutEvictions() {
	for _, key := range soakKeys(w.evictions) {
		e, p := w.evictions[key], w.pods[key]
		if e.Refused || p == nil || p.UID != e.UID || p.Terminating || w.now.Before(e.At) && !w.frozen {
			continue
		}
		if !w.frozen && w.odds(15) {
			e.Refused, e.Until, e.Version = true, w.now.Add(time.Minute), w.next()
			w.evictions[key] = e
			w.tell(engine.Change{Eviction: &e})
			w.seen.refused++
			w.diary("refused: eviction of %s", key)
			continue
		}
		if e.Surge && !w.surge(e, p) {
			continue
		}
		w.diary("evicted %s", key)
		w.terminate(p, p.grace())
	}
	w.endSurges()
}

// surge has another pod made in place of this one, and says whether that runs: then this one goes, and does not come back.
func (w *soakWorld) surge(e engine.Eviction, p *soakPod) bool {
	s := w.surges[p.Key]
	if s == nil || s.uid != p.UID {
		w.born++
		job := &soakJob{key: fmt.Sprintf("ns/j%d", w.born), run: p.job.run, returns: true}
		next := p.Pod
		next.Key = job.key
		job.pods = []string{job.key}
		w.jobs[job.key], w.surges[p.Key] = job, &soakSurge{uid: p.UID, next: job.key}
		w.spawn(job, next)
		w.diary("follows %s: %s", p.Key, job.key)
		w.seen.surged++
		return false
	}
	s.looks++
	next := w.pods[s.next]
	switch {
	case next != nil && next.Node != "" && !next.Terminating:
		p.job.returns = false
		return true
	case next == nil || w.frozen && s.looks > 5:
		e.Refused, e.Surge, e.Until, e.Version = true, false, w.now.Add(time.Hour), w.next()
		w.evictions[p.Key] = e
		w.tell(engine.Change{Eviction: &e})
		w.seen.refused++
		w.diary("given up: surge of %s", p.Key)
	}
	return false
}

// endSurges takes away what was to follow a pod that stays for good.
func (w *soakWorld) endSurges() {
	for _, key := range soakKeys(w.surges) {
		s, p, e := w.surges[key], w.pods[key], w.evictions[key]
		if p != nil && p.UID == s.uid && (p.Terminating || e.UID == s.uid && !e.Refused) {
			continue
		}
		delete(w.surges, key)
		if job := w.jobs[s.next]; job != nil && p != nil && p.UID == s.uid {
			w.forget(job)
		}
	}
}

// finish ends jobs that have run as long as they run.
func (w *soakWorld) finish() {
	for _, key := range soakKeys(w.jobs) {
		job := w.jobs[key]
		if !w.runs(job) {
			job.began = time.Time{}
			continue
		}
		if job.began.IsZero() || job.began.After(w.now) {
			job.began = w.now
		}
		if !w.now.Before(job.began.Add(job.run)) {
			w.diary("done %s", key)
			w.seen.ended++
			w.forget(job)
		}
	}
}

// runs says whether the job has its minimum.
func (w *soakWorld) runs(job *soakJob) bool {
	least, bound := len(job.pods), 0
	if job.gang != nil && len(job.gang.Groups) > 0 {
		return enough(job.gang, w.bound(job))
	}
	if job.gang != nil {
		least = job.gang.Min
	}
	for _, key := range job.pods {
		if p := w.pods[key]; p != nil && p.Node != "" && !p.Terminating {
			bound++
		}
	}
	return bound > 0 && bound >= least
}

// trouble is all that happens now and then.
func (w *soakWorld) trouble() {
	if w.odds(40) {
		w.failNode()
	}
	if w.odds(20) && len(w.away) > 0 {
		n := w.away[soakSome(w, w.away)]
		delete(w.away, n.Name)
		w.diary("node %s is back", n.Name)
		w.tellNode(n)
	}
	if w.odds(30) {
		w.changeNode()
	}
	if w.odds(40) {
		if w.odds(6) {
			if name := soakSome(w, w.queues); name != "" {
				delete(w.queues, name)
				w.gone(engine.KindQueue, name)
				w.diary("queue %s is gone", name)
			}
		} else {
			w.editQueueAtWill()
		}
	}
	if w.odds(20) {
		w.failPod()
	}
	if w.odds(20) {
		w.spend()
	}
	if w.odds(30) {
		d := w.disruptions[soakSome(w, w.disruptions)]
		d.Allowed = w.upTo(2)
		w.disrupt(d)
	}
	if w.odds(40) {
		w.idle()
	}
	if w.odds(60) {
		l := engine.RunTimeEstimate{Like: "train", Version: w.next(), Count: 9, Short: time.Minute, Median: time.Minute + w.seconds(600), Long: time.Hour}
		w.tell(engine.Change{RunTimeEstimate: &l})
	}
	if w.odds(80) {
		b := engine.Booking{Name: "ns/b", Version: w.next(), Queue: soakPick(w, "q0", "q1"), Nodes: []string{soakSome(w, w.nodes)}, From: w.now.Add(w.seconds(900))}
		b.To = b.From.Add(10*time.Minute + w.seconds(1800))
		w.tell(engine.Change{Booking: &b})
		w.diary("booking %+v", b)
	}
}

// editQueueAtWill changes a queue; what makes no sense is rejected and mended later.
func (w *soakWorld) editQueueAtWill() {
	w.editQueue(fmt.Sprintf("q%d", w.upTo(7)))
}

func (w *soakWorld) failNode() {
	if len(w.nodes) < 3 {
		return
	}
	name := soakSome(w, w.nodes)
	w.diary("node %s fails", name)
	w.away[name] = w.nodes[name]
	delete(w.nodes, name)
	w.gone(engine.KindNode, name)
	w.evacuate(name, w.odds(2))
}

// changeNode cordons it or not, takes a GPU away or gives it back.
func (w *soakWorld) changeNode() {
	name := soakSome(w, w.nodes)
	if name == "" {
		return
	}
	n := w.nodes[name]
	n.Allocatable, n.Devices = slices.Clone(n.Allocatable), slices.Clone(n.Devices)
	switch w.upTo(2) {
	case 0:
		n.Cordoned = !n.Cordoned
	case 1:
		n.Allocatable[0].Value = max(0, n.Allocatable[0].Value-1)
		if len(n.Devices) > 0 {
			n.Devices[w.r.IntN(len(n.Devices))].Unhealthy = true
		}
	default:
		n.Cordoned = false
		if len(n.Devices) > 0 {
			n.Allocatable[0].Value = int64(len(n.Devices))
		}
		for i := range n.Devices {
			n.Devices[i].Unhealthy = false
		}
	}
	if w.flavored() && w.chance().IntN(3) == 0 {
		n.Labels = maps.Clone(n.Labels)
		w.label(&n)
	}
	w.diary("node %s: cordoned %v, %v, %v", name, n.Cordoned, n.Allocatable, n.Labels)
	w.tellNode(n)
}

// failPod ends one that runs, which comes back.
func (w *soakWorld) failPod() {
	p := w.pods[soakSome(w, w.pods)]
	if p != nil && p.Node != "" {
		w.diary("fails %s", p.Key)
		if w.odds(2) {
			w.remove(p, true)
		} else {
			w.terminate(p, w.seconds(60))
		}
	}
}

// spend enters what queues have used.
func (w *soakWorld) spend() {
	for _, name := range soakKeys(w.queues) {
		u := engine.QueueUsage{Queue: name, Version: w.next(), At: w.now, Decayed: int64(w.upTo(200_000)), Total: int64(w.cycle) * 1000}
		for range w.queues[name].Budgets {
			u.Spent = append(u.Spent, int64(w.upTo(120_000)))
		}
		w.tell(engine.Change{Usage: &u})
	}
}

// idle has a pod measured to do nothing, or to be busy again.
func (w *soakWorld) idle() {
	p := w.pods[soakSome(w, w.pods)]
	if p == nil || p.Node == "" || p.Terminating {
		return
	}
	if p.Idle.IsZero() {
		p.Idle = w.now.Add(-w.seconds(600))
	} else {
		p.Idle = time.Time{}
	}
	w.tellPod(p)
}

// bind puts the pod where it was placed.
func (w *soakWorld) bind(x engine.Placement) {
	p := w.pods[x.Pod]
	if p == nil || p.UID != x.UID || p.Node != "" || p.Terminating {
		return
	}
	p.Node, p.Devices, p.Started = x.Node, x.Devices, w.told()
	w.tellPod(p)
}

// bindLate carries out bindings that took their time, unless they were given up.
func (w *soakWorld) bindLate() {
	for _, x := range w.late {
		a, assumed := w.assumptions[x.Pod]
		_, there := w.nodes[x.Node]
		if assumed && a.UID == x.UID && a.Node == x.Node && there && w.now.Before(a.Until) {
			w.bind(x)
		}
	}
	w.late = nil
}

// carryOut does what the plan says: well, late, or not at all.
func (w *soakWorld) carryOut(plan engine.Plan) {
	for _, s := range plan.Starts {
		fate := w.upTo(24)
		for _, x := range s.Placements {
			switch {
			case w.frozen || fate > 2 || fate == 2 && w.odds(2):
				w.bind(x)
			case fate == 0:
				w.late = append(w.late, x)
			default:
				w.refuse(x)
			}
		}
	}
}

// refuse has the node not have the pod.
func (w *soakWorld) refuse(x engine.Placement) {
	w.diary("refused: %s on %s", x.Pod, x.Node)
	delete(w.assumptions, x.Pod)
	w.tell(
		engine.Change{Refusal: &engine.Refusal{Pod: x.Pod, UID: x.UID, Version: w.next(), Node: x.Node, Reason: "no", Until: w.now.Add(time.Minute)}},
		engine.Change{Gone: &engine.Ref{Kind: engine.KindAssumption, Key: x.Pod, Version: w.next()}})
}

// remember enters a plan's changes.
func (w *soakWorld) remember(plan engine.Plan) {
	for _, c := range plan.Changes {
		switch {
		case c.Assumption != nil:
			w.assumptions[c.Assumption.Pod] = *c.Assumption
		case c.Hold != nil:
			w.holds[c.Hold.Gang+"@"+c.Hold.Node] = *c.Hold
		case c.Eviction != nil:
			w.evictions[c.Eviction.Pod] = *c.Eviction
		case c.Promise != nil:
			w.promises[c.Promise.Gang] = *c.Promise
		case c.Gone != nil:
			switch c.Gone.Kind {
			case engine.KindAssumption:
				delete(w.assumptions, c.Gone.Key)
			case engine.KindHold:
				delete(w.holds, c.Gone.Key)
			case engine.KindEviction:
				delete(w.evictions, c.Gone.Key)
			case engine.KindPromise:
				delete(w.promises, c.Gone.Key)
			}
		}
		if ref, ok := c.Ref(); ok {
			w.version = max(w.version, ref.Version)
		}
	}
	w.tell(plan.Changes...)
}

// seatOf is where the pod is, bound or assumed; "": nowhere.
func (w *soakWorld) seatOf(p *soakPod) (node string, devices []string) {
	if p.Node != "" {
		return p.Node, p.Devices
	}
	if a, ok := w.assumptions[p.Key]; ok && a.UID == p.UID && !p.Terminating {
		return a.Node, a.Devices
	}
	return "", nil
}

// leaving says whether the pod is on its way out.
func (w *soakWorld) leaving(p *soakPod) bool {
	e, ok := w.evictions[p.Key]
	return p.Terminating || ok && e.UID == p.UID && !e.Refused
}

// queueOf is the queue and the user that the pod is charged to.
func (p *soakPod) queueOf() (queue, user string) {
	if p.Foreign { // whatever it names
		return "", ""
	}
	if p.Gang == "" {
		return p.Queue, p.User
	}
	if p.job.gang == nil {
		return "", ""
	}
	return p.job.gang.Queue, p.job.gang.User
}

// priority is the workload's.
func (p *soakPod) priority() int32 {
	if p.job.gang != nil {
		return p.job.gang.Priority
	}
	return p.Priority
}

// chain lists the queue and those above it; nil where there is something wrong with one of them.
func (w *soakWorld) chain(name string) []engine.Queue {
	var out []engine.Queue
	for name != "" {
		q, ok := w.queues[name]
		if !ok || len(out) > len(w.queues) {
			return nil
		}
		out = append(out, q)
		name = q.Parent
	}
	return out
}

// below says whether the queue is the other, or below it.
func (w *soakWorld) below(name, up string) bool {
	return slices.ContainsFunc(w.chain(name), func(q engine.Queue) bool { return q.Name == up })
}

// soakFailure ends a world.
type soakFailure struct{ kind, text string }

func (w *soakWorld) fail(kind, format string, args ...any) {
	panic(soakFailure{kind, strings.TrimSpace(fmt.Sprintf(format, args...))})
}
