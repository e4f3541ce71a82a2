package engine_test

import (
	"fmt"
	"math"
	"os"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/internal/oracle"
)

// soakLife is how many cycles a world lives.
const soakLife = 500

// Small worlds live through failures, edits of queues, refusals and jumps of the clock, and everything that is said of
// the engine over time holds in each of their cycles: accounts do not drift, nobody is evicted twice or too young, and
// where nothing changes nothing is done. SOAK_CYCLES says how many cycles, SOAK_WORLD the one world to live again, and
// SOAK_LOG the file in which worlds are noted that have been lived: a test that is run again with it goes on from there.
func TestSoak(t *testing.T) {
	if world := os.Getenv("SOAK_WORLD"); world != "" {
		seed, err := strconv.ParseUint(world, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		w := newSoakWorld(seed)
		w.diary = func(format string, args ...any) {
			t.Logf("%3d %s  %s", w.cycle, w.now.Format("02 15:04:05"), fmt.Sprintf(format, args...))
		}
		if f := w.lead(soakLife); f != nil {
			t.Fatalf("cycle %d: %s\n%s", w.cycle, f.text, w.portrait())
		}
		return
	}
	defer debug.SetGCPercent(debug.SetGCPercent(800)) // worlds are small, and make garbage fast: a sixth of the time
	cycles := soakNumber("SOAK_CYCLES", 20_000)
	if testing.Short() {
		cycles = 2_000
	}
	base := uint64(soakNumber("RAPID_SEED", 1)) * 1_000_000
	worlds := (cycles + soakLife - 1) / soakLife
	book := openSoakLog(t, os.Getenv("SOAK_LOG"))
	cores := runtime.GOMAXPROCS(0)
	if cycles > 100_000 {
		t.Logf("worlds %d to %d, %d of them lived before, on %d cores", base, base+uint64(worlds)-1, book.count(base, worlds), cores)
	}
	begin, lived := time.Now(), 0
	var turn, failed atomic.Int64
	var all soakCount
	var lock sync.Mutex
	all.causes = map[engine.EvictionCause]int{}
	kinds := map[string][]uint64{} // by kind of failure, the worlds
	rate := func() string {
		return fmt.Sprintf("%.0f a second on %d cores", float64(lived*soakLife)/time.Since(begin).Seconds(), cores)
	}
	var crew sync.WaitGroup
	for range cores {
		crew.Go(func() {
			for {
				n := int(turn.Add(1)) - 1
				if n >= worlds || failed.Load() > 1000 {
					return
				}
				if kind, done := book.lived[base+uint64(n)]; done {
					if kind != soakFine {
						lock.Lock()
						failed.Add(1)
						kinds[kind] = append(kinds[kind], base+uint64(n))
						lock.Unlock()
					}
					continue
				}
				w := newSoakWorld(base + uint64(n))
				f := w.lead(soakLife)
				lock.Lock()
				lived++
				all.add(w.seen)
				book.note(w.seed, f)
				if f != nil {
					failed.Add(1)
					if kinds[f.kind] = append(kinds[f.kind], w.seed); len(kinds[f.kind]) <= 3 {
						t.Errorf("world %d (policy %s), cycle %d: %s\nagain with: SOAK_WORLD=%d go test -v -run TestSoak ./engine", w.seed, w.cfg.Policy, w.cycle, soakShort(f.text), w.seed)
					}
				}
				if cycles > 100_000 && (n+1)%100 == 0 {
					t.Logf("%d cycles, %s", (n+1)*soakLife, rate())
				}
				lock.Unlock()
			}
		})
	}
	crew.Wait()
	if len(kinds) > 0 {
		t.Errorf("%d of %d worlds failed: %v", failed.Load(), worlds, kinds)
	}
	t.Logf("%d cycles in %d worlds, %d of them now, %s: %+v", worlds*soakLife, worlds, lived, rate(), all)
}

// soakFine is noted of a world in which nothing was wrong.
const soakFine = "fine"

// soakLog notes the worlds that have been lived, one on each line, and what was wrong.
type soakLog struct {
	lived map[uint64]string
	to    *os.File // nil: nowhere
}

// openSoakLog reads what was noted and goes on noting. A line that was not written to its end is a world to live again.
func openSoakLog(t *testing.T, path string) *soakLog {
	l := &soakLog{lived: map[uint64]string{}}
	if path == "" {
		return l
	}
	old, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(old)) {
		var world uint64
		var kind string
		if n, _ := fmt.Sscanf(line, "%d %q\n", &world, &kind); n == 2 && strings.HasSuffix(line, "\n") {
			l.lived[world] = kind
		}
	}
	if l.to, err = os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644); err != nil {
		t.Fatal(err)
	}
	if len(old) > 0 && old[len(old)-1] != '\n' {
		fmt.Fprintln(l.to)
	}
	t.Cleanup(func() { l.to.Close() })
	return l
}

// note notes a world that has been lived.
func (l *soakLog) note(world uint64, f *soakFailure) {
	if l.to == nil {
		return
	}
	kind := soakFine
	if f != nil {
		kind = f.kind
	}
	fmt.Fprintf(l.to, "%d %q\n", world, kind)
}

// count is how many of so many worlds have been lived.
func (l *soakLog) count(base uint64, worlds int) (n int) {
	for world := range l.lived {
		if world >= base && world < base+uint64(worlds) {
			n++
		}
	}
	return n
}

// portrait describes the world: its queues, what is on its nodes, what is remembered, and what was planned last.
func (w *soakWorld) portrait() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, config %+v\n", w.now.Format(time.RFC3339), w.cfg)
	for _, name := range soakKeys(w.queues) {
		q := w.queues[name]
		fmt.Fprintf(&b, "queue %+v uses %v\n", q, w.used(name, ""))
	}
	for _, name := range soakKeys(w.nodes) {
		n := w.nodes[name]
		fmt.Fprintf(&b, "node %s cordoned %v %v %v\n", name, n.Cordoned, n.Allocatable, n.Labels)
		for _, key := range soakKeys(w.pods) {
			if p := w.pods[key]; p != nil {
				if node, devices := w.seatOf(p); node == name {
					queue, user := p.queueOf()
					fmt.Fprintf(&b, "  %s %v devices %v queue %q user %q priority %d evictable %v since %s idle %v terminating %v until %s surges %v budgets %v%s\n", key, p.Requests, devices, queue, user, p.priority(), p.Evictable, p.Started.Format(time.TimeOnly), !p.Idle.IsZero(), p.Terminating, p.ReleaseAt.Format(time.TimeOnly), p.Surges, p.Budgets, soakRules(&p.Pod))
				}
			}
		}
	}
	for _, key := range soakKeys(w.jobs) {
		if g := w.jobs[key].gang; g != nil {
			fmt.Fprintf(&b, "gang %s queue %q user %q priority %d core %v whole %v %+v %+v since %s\n", key, g.Queue, g.User, g.Priority, g.Core, g.Whole, g.Group, g.Terms, g.Created.Format(time.TimeOnly))
		}
	}
	snap := w.state.Dump()
	for _, p := range snap.Pods {
		if p.Node == "" {
			fmt.Fprintf(&b, "pod %s %v models %v %s queue %q user %q priority %d evictable %v %+v%s\n", p.Key, p.Requests, p.GPU.Models, p.GPU.Which(), p.Queue, p.User, p.Priority, p.Evictable, p.Terms, soakRules(&p))
		}
	}
	fmt.Fprintf(&b, "evictions %+v\nholds %+v\npromises %+v\nassumptions %+v\nbookings %+v\n", snap.Evictions, snap.Holds, snap.Promises, snap.Assumptions, snap.Bookings)
	fmt.Fprintf(&b, "the plan from the facts:\n%s", engine.Describe(engine.Load(snap, w.cfg).Plan(w.now)))
	return b.String()
}

// soakShort is the beginning of a long text.
func soakShort(text string) string {
	if len(text) > 3000 {
		return text[:3000] + "\n..."
	}
	return text
}

func soakNumber(variable string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil && n > 0 {
		return n
	}
	return otherwise
}

func (c *soakCount) add(o soakCount) {
	c.starts += o.starts
	c.evictions += o.evictions
	c.refused += o.refused
	c.returned += o.returned
	c.ended += o.ended
	c.promised += o.promised
	c.frozen += o.frozen
	c.surged += o.surged
	for cause, n := range o.causes {
		c.causes[cause] += n
	}
}

// lead lets the world live for so many cycles, and returns what was wrong.
func (w *soakWorld) lead(cycles int) (f *soakFailure) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case soakFailure:
			f = &r
		default:
			buf := make([]byte, 4096)
			f = &soakFailure{"panic", fmt.Sprintf("panic: %v\n%s", r, buf[:runtime.Stack(buf, false)])}
		}
	}()
	for w.cycle < cycles {
		w.live()
		w.step()
		if w.odds(100) {
			w.freeze()
		}
	}
	return nil
}

// step plans, checks the plan, and mostly carries it out.
func (w *soakWorld) step() engine.Plan {
	plan := w.plan()
	if !w.frozen && w.odds(30) {
		return plan // lost: nobody hears of it
	}
	before := w.allowed()
	w.checkEvictions(plan, before)
	w.remember(plan)
	w.checkStarts(plan)
	w.checkRules(plan)
	w.checkRoom(plan)
	for _, e := range plan.Evictions {
		w.checkSurge(e, w.pods[e.Pod])
	}
	w.checkGangs(plan)
	w.checkTree(plan)
	w.checkStopped(plan)
	w.checkTaints(plan)
	w.checkAsks(plan)
	for _, s := range plan.Starts {
		w.diary("starts %s (%s): %v", s.Gang, s.Kind, s.Placements)
	}
	for _, e := range plan.Evictions {
		w.diary("evicts %s: %s for %q, at %s", e.Pod, e.Cause, e.For, e.At.Format(time.TimeOnly))
		w.seen.causes[e.Cause]++
	}
	for _, p := range plan.Promises {
		w.diary("promise %s: %s on %v", p.Gang, p.Start.Format(time.TimeOnly), p.Nodes)
	}
	w.seen.starts += len(plan.Starts)
	w.seen.evictions += len(plan.Evictions)
	w.seen.promised += len(plan.Promises)
	w.carryOut(plan)
	return plan
}

// plan makes a plan, and checks that making it changed nothing and that it is the plan of the facts alone.
func (w *soakWorld) plan() engine.Plan {
	var before engine.Snapshot
	if w.cycle%50 == 0 {
		before = w.state.Dump()
	}
	plan := w.state.Plan(w.now)
	if w.now.After(w.latest) {
		w.latest = w.now
	}
	if w.cycle%50 == 0 {
		if after := w.state.Dump(); !reflect.DeepEqual(before, after) {
			w.fail("dump", "planning changed the dump:\n%s", cmp.Diff(before, after))
		}
	}
	// An account that drifts stays wrong: a recount in every eighth cycle finds it, at a tenth of the cost of the soak.
	if w.cycle%8 == 0 {
		if found, _ := w.state.Audit(0, math.MaxInt); len(found) > 0 {
			w.fail("audit", "the accounts drifted: %v", found)
		}
	}
	if w.cycle%10 == 0 {
		if again := w.state.Plan(w.now); !reflect.DeepEqual(plan, again) {
			fresh := engine.Load(w.state.Dump(), w.cfg).Plan(w.now)
			w.fail("twice", "asked twice, the dump says as the first time: %v, as the second: %v (-first +second):\n%s", reflect.DeepEqual(plan, fresh), reflect.DeepEqual(again, fresh), cmp.Diff(plan, again))
		}
	}
	if w.cycle%25 == 0 {
		snap := w.state.Dump()
		if fresh := engine.Load(snap, w.cfg).Plan(w.now); !reflect.DeepEqual(soakDone(plan), soakDone(fresh)) {
			if diff := cmp.Diff(soakDone(plan), soakDone(fresh)); diff != "" {
				w.fail("load", "planned from the dump (-lived +loaded):\n%s", diff)
			}
		}
		// The oracle knows nothing of clocks that go back, nor of evictions that are refused in part.
		odd := w.now.Before(w.latest) || slices.ContainsFunc(snap.Evictions, func(e engine.Eviction) bool { return e.Refused })
		if err := oracle.Valid(judged(w.state), w.cfg, w.now, plan); err != nil && !odd {
			w.fail("oracle", "%v", err)
		}
		w.checkWake(plan)
	}
	return plan
}

// soakDone is the plan without what is entered for the time that passed, which waits for the next cycle that has
// something to do, and without the versions that shifts.
func soakDone(plan engine.Plan) engine.Plan {
	if len(plan.Starts)+len(plan.Evictions) > 0 {
		return plan
	}
	var rest []engine.Change
	for _, c := range plan.Changes {
		switch {
		case c.Usage != nil:
			continue
		case c.Promise != nil:
			p := *c.Promise
			p.Version = 0
			c.Promise = &p
		case c.Degradation != nil:
			l := *c.Degradation
			l.Version = 0
			c.Degradation = &l
		case c.RequestMix != nil:
			m := *c.RequestMix
			m.Version = 0
			c.RequestMix = &m
		}
		rest = append(rest, c)
	}
	plan.Changes, plan.Promises = rest, slices.Clone(plan.Promises)
	for i := range plan.Promises {
		plan.Promises[i].Version = 0
	}
	return plan
}

// checkWake checks that until the plan's WakeAt nothing could start, nobody be evicted, and nothing else be said.
func (w *soakWorld) checkWake(plan engine.Plan) {
	if wrong := beforeWake(w.state.Dump(), w.cfg, plan); wrong != "" {
		w.fail("wake", "%s", wrong)
	}
}

// beforeWake says what a plan made just before the plan's WakeAt does or says that it does not; "": nothing. What
// is dated, promises and holds, is said anew.
func beforeWake(snap engine.Snapshot, cfg engine.Config, plan engine.Plan) string {
	if len(plan.Starts)+len(plan.Evictions) > 0 || plan.WakeAt.IsZero() {
		return ""
	}
	later := plan.WakeAt.Add(-time.Nanosecond)
	if later.Before(plan.Now) {
		return fmt.Sprintf("WakeAt %s is not after now, %s", plan.WakeAt, plan.Now)
	}
	loaded := engine.Load(snap, cfg)
	for _, c := range plan.Changes {
		if c.Degradation != nil {
			loaded.Apply(c) // since when a gang runs short is told once: what follows from it is at a time of its own
		}
	}
	then := loaded.Plan(later)
	if len(then.Starts)+len(then.Evictions) > 0 {
		return fmt.Sprintf("something starts or is evicted before WakeAt, %s after now:\n%s", plan.WakeAt.Sub(plan.Now), engine.Describe(then))
	}
	dated := slices.ContainsFunc(plan.Changes, func(c engine.Change) bool { return c.Promise != nil || c.Hold != nil })
	if now, then := soakSaid(plan), soakSaid(then); !dated && !reflect.DeepEqual(now, then) {
		return fmt.Sprintf("before WakeAt, %s after now, other things are said (-now +then):\n%s", plan.WakeAt.Sub(plan.Now), cmp.Diff(now, then))
	}
	return ""
}

// soakSaid is what a plan says, its memory and its time apart.
func soakSaid(plan engine.Plan) engine.Plan {
	said := engine.Plan{Waiting: plan.Waiting, Certificates: plan.Certificates, Short: plan.Short, WakeAt: plan.WakeAt}
	for _, p := range plan.Promises {
		p.Version = 0
		said.Promises = append(said.Promises, p)
	}
	return said
}

// causeless are the causes that need no beneficiary.
var causeless = []engine.EvictionCause{engine.MaxRun, engine.Idled, engine.Booked, engine.Broken, engine.Moved, engine.Drained, engine.Unhealthy}

// dismissed are the causes for which a pod goes whoever asks for its place, and whatever it is: whether it may go is asked of the API server.
var dismissed = []engine.EvictionCause{engine.MaxRun, engine.Broken, engine.Booked, engine.Drained, engine.Unhealthy}

// allowed is how many pods of each budget may still be evicted.
func (w *soakWorld) allowed() map[string]int {
	out := map[string]int{}
	for key, d := range w.disruptions {
		out[key] = d.Allowed
	}
	return out
}

// checkEvictions checks each on its own: a victim that may be evicted, once, old enough, for somebody or something.
func (w *soakWorld) checkEvictions(plan engine.Plan, allowed map[string]int) {
	seen := map[string]bool{}
	for _, e := range plan.Evictions {
		p := w.pods[e.Pod]
		switch {
		case seen[e.Pod]:
			w.fail("victim", "%s is evicted twice in one plan", e.Pod)
		case p == nil || p.UID != e.UID || p.Node == "":
			w.fail("victim", "%s is evicted and is not there: %+v", e.Pod, e)
		case p.Terminating:
			w.fail("victim", "%s is evicted and is terminating already", e.Pod)
		case !p.Evictable && !slices.Contains(dismissed, e.Cause):
			w.fail("victim", "%s is evicted (%s) and may not be", e.Pod, e.Cause)
		case e.For == "" && !slices.Contains(causeless, e.Cause):
			w.fail("for", "%s is evicted (%s) for nobody", e.Pod, e.Cause)
		case e.For != "" && w.jobs[e.For] == nil:
			w.fail("for", "%s is evicted (%s) for %s, which does not exist", e.Pod, e.Cause, e.For)
		}
		seen[e.Pod] = true
		if old, ok := w.evictions[e.Pod]; ok && old.UID == e.UID && (!old.Refused || w.now.Before(old.Until)) && !w.forgotten(plan, e.Pod) {
			w.fail("twice evicted", "%s is evicted (%s), and was already: %+v, now is %s", e.Pod, e.Cause, old, w.now)
		}
		w.checkVictim(plan, e, p)
		w.checkBudget(e, p, allowed)
	}
}

// checkSurge checks that a pod which stays until the next one runs leaves that room: on its node now, and in its queues,
// with all that starts in the same plan, and without what the plan gives up.
func (w *soakWorld) checkSurge(e engine.Eviction, p *soakPod) {
	if !e.Surge {
		return
	}
	n, there := w.nodes[e.To]
	if !there || !p.Surges || p.job.gang != nil || e.Cause != engine.Moved || e.To == p.Node {
		w.fail("surge", "%s, on %s, is to stay until the next one runs: %+v", e.Pod, p.Node, e)
	}
	used := map[string]int64{}
	for _, o := range w.pods {
		if node, _ := w.seatOf(o); node == e.To {
			for _, r := range o.Requests {
				used[r.Resource] += r.Value
			}
		}
	}
	for _, r := range p.Requests {
		if r.Value > 0 && used[r.Resource]+r.Value > n.Allocatable.Get(r.Resource) {
			w.fail("surge", "the next %s has no room on %s: %d of %s are taken, it needs %d", e.Pod, e.To, used[r.Resource], r.Resource, r.Value)
		}
	}
	name, user := p.queueOf()
	within := func(whose string, limits engine.Resources, has map[string]int64) {
		w.charges(p, e.To, func(resource string, v int64) {
			for _, l := range limits {
				if l.Resource == resource && v > 0 && has[resource]+v > soakAmount(l) {
					w.fail("surge", "%s has no room for a second %s: %d of %s, the limit is %d", whose, e.Pod, has[resource], resource, soakAmount(l))
				}
			}
		})
	}
	for _, q := range w.chain(name) {
		within("queue "+q.Name, q.Limits, w.used(q.Name, ""))
		if n := w.workloads(q.Name); q.MaxRunning > 0 && n+1 > q.MaxRunning {
			w.fail("surge", "queue %s runs %d with %s, and has no room for a second, of at most %d", q.Name, n, e.Pod, q.MaxRunning)
		}
	}
	if user != "" {
		within("user "+user, w.queues[name].UserLimits, w.used(name, user))
	}
}

// forgotten says whether the plan drops an older eviction of the pod.
func (w *soakWorld) forgotten(plan engine.Plan, pod string) bool {
	return slices.ContainsFunc(plan.Changes, func(c engine.Change) bool {
		return c.Gone != nil && c.Gone.Kind == engine.KindEviction && c.Gone.Key == pod
	})
}

// minRun is how long the pod's workload runs before it may be evicted for others.
func (w *soakWorld) minRun(p *soakPod) time.Duration {
	name, _ := p.queueOf()
	if q, ok := w.queues[name]; ok && q.MinRun > 0 {
		return q.MinRun
	}
	return w.cfg.MinRun
}

// checkVictim checks age and rank.
func (w *soakWorld) checkVictim(plan engine.Plan, e engine.Eviction, p *soakPod) {
	young := w.now.Sub(p.Started) < w.minRun(p)
	if slices.Contains(dismissed, e.Cause) {
		return
	}
	if young {
		w.fail("young", "%s is evicted (%s) after %s, its minimum is %s", e.Pod, e.Cause, w.now.Sub(p.Started), w.minRun(p))
	}
	if w.cfg.Policy == engine.FIFO && e.Cause != engine.Overran && e.Cause != engine.Moved {
		w.fail("fifo", "%s is evicted (%s) with policy fifo", e.Pod, e.Cause)
	}
	if e.For == "" {
		return
	}
	forPod := w.anyPod(e.For)
	mine, _ := p.queueOf()
	theirs, _ := forPod.queueOf()
	if others := e.Cause == engine.Reclaimed || e.Cause == engine.Shared; others && w.queues[mine].Keeps {
		w.fail("rank", "%s is evicted (%s) for %s, and its queue %s keeps what it borrows", e.Pod, e.Cause, e.For, mine)
	}
	switch e.Cause {
	case engine.Preempted:
		if mine != theirs || p.priority() >= forPod.priority() {
			w.fail("rank", "%s (queue %s, priority %d) is preempted for %s (queue %s, priority %d)", e.Pod, mine, p.priority(), e.For, theirs, forPod.priority())
		}
	case engine.Reclaimed:
		if mine == theirs {
			w.fail("rank", "%s is reclaimed for %s of the same queue", e.Pod, e.For)
		}
		if w.chain(mine) != nil && !w.borrows(mine, plan) {
			w.fail("rank", "%s is reclaimed for %s, and neither its queue %s nor one above it has more than its quota", e.Pod, e.For, mine)
		}
	case engine.Shared:
		if w.cfg.Policy != engine.TimeShare {
			w.fail("rank", "%s is evicted (shared) with policy %s", e.Pod, w.cfg.Policy)
		}
	}
}

// anyPod is one of the workload's.
func (w *soakWorld) anyPod(workload string) *soakPod {
	job := w.jobs[workload]
	for _, key := range job.pods {
		if p := w.pods[key]; p != nil {
			return p
		}
	}
	w.fail("for", "%s has no pods", workload)
	return nil
}

// borrows says whether the queue, or one above it, has more than its quota of something, with what starts in the plan
// and what is held for its workloads: work of its own that cannot be asked back is covered first, and what it ran before
// is borrowed from then on.
func (w *soakWorld) borrows(name string, plan engine.Plan) bool {
	for _, q := range w.chain(name) {
		used := w.used(q.Name, "")
		for _, s := range plan.Starts {
			for _, x := range s.Placements {
				if queue, _ := w.pods[x.Pod].queueOf(); w.below(queue, q.Name) {
					w.charges(w.pods[x.Pod], x.Node, func(resource string, v int64) { used[resource] += v })
				}
			}
		}
		for _, h := range w.holds {
			if w.jobs[h.Gang] == nil {
				continue
			}
			p := w.anyPod(h.Gang)
			if queue, _ := p.queueOf(); w.below(queue, q.Name) {
				for range h.Requests.Get(engine.Pods) {
					w.charges(p, h.Node, func(resource string, v int64) { used[resource] += v })
				}
			}
		}
		for resource, v := range used {
			if v > soakAmount(q.Quota.Of(resource)) && resource != engine.CPU && resource != engine.Pods {
				return true
			}
		}
	}
	return false
}

// checkBudget checks that budgets which are always kept are.
func (w *soakWorld) checkBudget(e engine.Eviction, p *soakPod, allowed map[string]int) {
	name, _ := p.queueOf()
	if e.Surge {
		return // another is ready before it goes
	}
	for _, b := range p.Budgets {
		allowed[b]--
		strict := w.queues[name].KeepBudgets || e.Cause == engine.Moved
		if strict && allowed[b] < 0 && !slices.Contains(dismissed, e.Cause) {
			w.fail("budget", "%s is evicted (%s) against its budget %s, which its queue always keeps", e.Pod, e.Cause, b)
		}
	}
}

// used is what the queue's workloads hold, those below it too; of one user, those of the queue itself.
func (w *soakWorld) used(queue, user string) map[string]int64 {
	out := map[string]int64{}
	for _, p := range w.pods {
		node, _ := w.seatOf(p)
		name, whose := p.queueOf()
		if node == "" || user == "" && !w.below(name, queue) || user != "" && (name != queue || whose != user) {
			continue
		}
		w.charges(p, node, func(resource string, v int64) { out[resource] += v })
	}
	return out
}

// soakAmount is an amount of a queue as charges counts it.
func soakAmount(a engine.Amount) int64 {
	if strings.HasPrefix(a.Resource, gpu) {
		return a.Value*1000 + a.Milli
	}
	return a.Value
}

// parts is what the pod's parts of GPUs count, in thousandths: here all cards are equal.
func (w *soakWorld) parts(p *soakPod) int64 {
	part := p.Part
	memory := part.Share + part.Memory*1000/soakCard // one of them is 0
	compute := part.Compute
	if compute == 0 {
		compute = memory
	}
	if part.Compute == 1000 {
		memory = 1000
	}
	return int64(part.Cards) * max(1, w.countedOf(p, memory, compute))
}

// countedOf is which of the two shares the pod's queue counts.
func (w *soakWorld) countedOf(p *soakPod, memory, compute int64) int64 {
	name, _ := p.queueOf()
	by := engine.PartsBy("")
	for _, q := range w.chain(name) {
		if by == "" {
			by = q.PartsBy
		}
	}
	switch by {
	case "compute":
		return compute
	case "memory":
		return memory
	}
	return max(memory, compute)
}

// charges visits what the pod counts in its queue, GPUs in thousandths.
func (w *soakWorld) charges(p *soakPod, node string, visit func(string, int64)) {
	visit(engine.Pods, 1)
	model := ""
	if n := w.nodes[node]; len(n.Devices) > 0 {
		model = n.Devices[0].Model
	} else {
		model = n.Model
	}
	var requests engine.Resources
	if p.Part != nil {
		requests = append(requests, engine.Amount{Resource: gpu, Value: w.parts(p)})
	}
	for _, r := range p.Requests {
		each := int64(0)
		if r.Resource == gpu {
			each = 1000
		} else {
			requests = append(requests, r)
		}
		for _, s := range w.nodes[node].Slices {
			if s.Resource == r.Resource {
				each = w.countedOf(p, s.Memory, s.Compute)
			}
		}
		requests = append(requests, engine.Amount{Resource: gpu, Value: r.Value * each})
	}
	queue, _ := p.queueOf()
	for _, r := range requests {
		w.inFlavor(queue, node, r.Resource, r.Value, visit)
		if r.Resource != gpu {
			visit(r.Resource, r.Value)
			continue
		}
		rate := int64(1)
		model, _, _ := strings.Cut(model, "-MIG-")
		for _, x := range w.cfg.Rates {
			if x.Model == model {
				rate = x.Units
			}
		}
		visit(gpu, r.Value*rate)
		visit(engine.OfModel(gpu, model), r.Value)
	}
}

// checkStarts checks, of what started, the limits of its queues.
func (w *soakWorld) checkStarts(plan engine.Plan) {
	for _, s := range plan.Starts {
		p := w.pods[s.Placements[0].Pod]
		if p == nil {
			w.fail("start", "%s starts and does not exist", s.Gang)
		}
		for _, at := range s.Placements {
			w.checkNames(w.pods[at.Pod], at)
		}
		name, user := p.queueOf()
		if name == "" {
			continue
		}
		chain := w.chain(name)
		if chain == nil {
			w.fail("start", "%s starts in queue %s, which makes no sense", s.Gang, name)
		}
		for _, q := range chain {
			used := w.used(q.Name, "")
			for _, l := range q.Limits {
				if w.asks(s, l.Resource) && used[l.Resource] > soakAmount(l) {
					w.fail("limit", "with %s (%s) queue %s has %d of %s, its limit is %d", s.Gang, s.Kind, q.Name, used[l.Resource], l.Resource, soakAmount(l))
				}
			}
			if n := w.workloads(q.Name); s.Kind == engine.Begin && q.MaxRunning > 0 && n > q.MaxRunning {
				w.fail("running", "with %s queue %s runs %d, at most %d may", s.Gang, q.Name, n, q.MaxRunning)
			}
			w.checkFirm(s, q)
		}
		used := w.used(name, user)
		for _, l := range chain[0].UserLimits {
			if user != "" && w.asks(s, l.Resource) && used[l.Resource] > soakAmount(l) {
				w.fail("user", "with %s (%s) %s has %d of %s in queue %s, the limit is %d", s.Gang, s.Kind, user, used[l.Resource], l.Resource, name, soakAmount(l))
			}
		}
	}
}

// asks says whether the start takes some of the resource.
func (w *soakWorld) asks(s engine.Start, resource string) bool {
	found := false
	for _, x := range s.Placements {
		w.charges(w.pods[x.Pod], x.Node, func(r string, v int64) { found = found || r == resource && v > 0 })
	}
	return found
}

// workloads is how many of the queue hold something.
func (w *soakWorld) workloads(queue string) int {
	seen := map[*soakJob]bool{}
	for _, p := range w.pods {
		if node, _ := w.seatOf(p); node != "" {
			if name, _ := p.queueOf(); w.below(name, queue) {
				seen[p.job] = true
			}
		}
	}
	return len(seen)
}

// checkFirm checks that what may not be evicted stays within quota where GPUs are promised.
func (w *soakWorld) checkFirm(s engine.Start, q engine.Queue) {
	promised := false
	for _, name := range soakKeys(w.queues) {
		promised = promised || w.chain(name) != nil && slices.ContainsFunc(w.queues[name].Quota, func(a engine.Amount) bool { return a.Resource == gpu && soakAmount(a) > 0 })
	}
	if !promised || !w.asks(s, gpu) || !slices.ContainsFunc(s.Placements, func(x engine.Placement) bool { return w.firm(w.pods[x.Pod]) }) {
		return
	}
	sum := int64(0)
	for _, p := range w.pods {
		node, _ := w.seatOf(p)
		if name, _ := p.queueOf(); node != "" && w.firm(p) && w.below(name, q.Name) {
			w.charges(p, node, func(r string, v int64) {
				if r == gpu {
					sum += v
				}
			})
		}
	}
	if most := soakAmount(q.Quota.Of(gpu)); sum > most {
		w.fail("firm", "with %s (%s) queue %s has %d thousandths of GPUs that cannot be asked back, its quota is %d", s.Gang, s.Kind, q.Name, sum, most)
	}
}

// firm says whether the pod can never be asked back.
func (w *soakWorld) firm(p *soakPod) bool {
	return !p.Evictable || p.job.gang != nil && p.job.gang.Core && p.Rank < p.job.gang.Min
}

// checkRoom checks that nodes where something starts hold what is on them, and that once those on their way out are gone
// there is room too for what the plan holds there.
func (w *soakWorld) checkRoom(plan engine.Plan) {
	touched, held := map[string]string{}, map[string]map[string]bool{}
	for _, s := range plan.Starts {
		for _, x := range s.Placements {
			touched[x.Node] = s.Gang
			p := w.pods[x.Pod]
			if p == nil || p.UID != x.UID || p.Node != "" || p.Terminating {
				w.fail("start", "%s starts on %s and is not there to be started", x.Pod, x.Node)
			}
		}
	}
	for _, c := range plan.Changes {
		if c.Hold == nil {
			continue
		}
		touched[c.Hold.Node] += ""
		if held[c.Hold.Node] == nil {
			held[c.Hold.Node] = map[string]bool{}
		}
		for _, r := range c.Hold.Requests {
			held[c.Hold.Node][r.Resource] = held[c.Hold.Node][r.Resource] || r.Value > 0
		}
	}
	for name, gang := range touched {
		w.checkNode(name, gang, held[name])
	}
}

// checkNode checks the resources that the workload which starts there asks for, and those that the plan holds there. Of
// others the node may have lost some under what runs, or a victim may have stayed where an earlier plan held its place.
func (w *soakWorld) checkNode(name, gang string, held map[string]bool) {
	n, ok := w.nodes[name]
	if !ok || n.Cordoned && gang != "" {
		w.fail("room", "%s starts on %s, which is gone or cordoned", gang, name)
	}
	use, later := map[string]int64{}, map[string]int64{}
	devices := map[string]string{}
	cards := map[string]soakParts{}
	for _, key := range soakKeys(w.pods) {
		p := w.pods[key]
		node, held := w.seatOf(p)
		if node != name {
			continue
		}
		for _, id := range held {
			if strings.Contains(id, "/") {
				continue // for claims: see checkAsks
			}
			if p.Part != nil {
				c := cards[id]
				c.pods, c.memory, c.compute = append(c.pods, key), c.memory+p.Part.Of(soakCard), c.compute+p.Part.Compute
				c.alone = c.alone || p.Part.Compute == 1000
				cards[id] = c
				continue
			}
			if devices[id] != "" {
				w.fail("device", "%s of %s is given to %s and to %s", id, name, devices[id], key)
			}
			devices[id] = key
		}
		for _, r := range append(slices.Clone(p.Requests), engine.Amount{Resource: engine.Pods, Value: 1}) {
			use[r.Resource] += r.Value
			if !w.leaving(p) {
				later[r.Resource] += r.Value
			}
		}
	}
	for id, c := range cards {
		if devices[id] != "" || c.memory > soakCard || c.compute > 1000 || len(c.pods) > soakSharers || c.alone && len(c.pods) > 1 {
			w.fail("parts", "%s of %s has %s whole, and of parts %d MiB and %d thousandths for %v", id, name, devices[id], c.memory, c.compute, c.pods)
		}
	}
	for _, h := range w.holds {
		if h.Node == name {
			for _, r := range h.Requests {
				later[r.Resource] += r.Value
			}
		}
	}
	for _, r := range n.Allocatable {
		if gang != "" && use[r.Resource] > r.Value && w.asksAny(gang, r.Resource) {
			w.fail("room", "with %s node %s has %d of %s in use, and %d there", gang, name, use[r.Resource], r.Resource, r.Value)
		}
		if later[r.Resource] > r.Value && (held[r.Resource] || gang != "" && w.asksAny(gang, r.Resource)) {
			w.fail("held", "with %q node %s has, once all that leaves has left, %d of %s in use or held, and %d there: %v", gang, name, later[r.Resource], r.Resource, r.Value, w.holds)
		}
	}
}

// soakParts is what pods have of one card.
type soakParts struct {
	pods            []string
	memory, compute int64
	alone           bool
}

// asksAny says whether a member of the workload asks for the resource.
func (w *soakWorld) asksAny(workload, resource string) bool {
	return resource == engine.Pods || slices.ContainsFunc(w.jobs[workload].pods, func(key string) bool { return w.pods[key] != nil && w.pods[key].Requests.Get(resource) > 0 })
}

// checkGangs checks that gangs start whole, and that evictions leave none that is torn.
func (w *soakWorld) checkGangs(plan engine.Plan) {
	for _, s := range plan.Starts {
		if job := w.jobs[s.Gang]; job != nil && job.gang != nil {
			if n := w.staying(job); n < job.gang.Min {
				w.fail("whole", "%s starts (%s) with %d members, its minimum is %d", s.Gang, s.Kind, n, job.gang.Min)
			}
		}
	}
	hit := map[*soakJob]int{}
	for _, e := range plan.Evictions {
		if p := w.pods[e.Pod]; p.job.gang != nil && e.Cause != engine.Booked && e.Cause != engine.Drained && e.Cause != engine.Unhealthy {
			hit[p.job]++
		}
	}
	for job, n := range hit {
		left := w.staying(job)
		if len(job.gang.Groups) == 0 && w.refusals(job) == 0 && left > 0 && left < job.gang.Min && left+n >= job.gang.Min {
			w.fail("torn", "%s lost %d members to evictions, %d stay, its minimum is %d", job.key, n, left, job.gang.Min)
		}
	}
	for _, e := range plan.Evictions {
		job := w.pods[e.Pod].job
		if job.gang != nil && job.gang.Whole && slices.Contains([]engine.EvictionCause{engine.Preempted, engine.Reclaimed}, e.Cause) {
			// members that waited may start anew with it
			if left := w.staying(job) - begun(plan, job); left > 0 && w.refusals(job) == 0 {
				w.fail("torn", "%s is evicted (%s), its gang is disrupted whole, and %d members stay", e.Pod, e.Cause, left)
			}
		}
		if job.gang == nil || !job.gang.Core || slices.Contains(dismissed, e.Cause) {
			continue
		}
		if left := w.staying(job); left < job.gang.Min && left+hit[job] >= job.gang.Min {
			w.fail("core", "%s is evicted (%s) and %d members stay, of a core of %d", e.Pod, e.Cause, left, job.gang.Min)
		}
	}
}

// refusals counts the job's members that could not be evicted lately.
func (w *soakWorld) refusals(job *soakJob) int {
	n := 0
	for _, key := range job.pods {
		if e, ok := w.evictions[key]; ok && e.Refused && w.pods[key] != nil && e.UID == w.pods[key].UID {
			n++
		}
	}
	return n
}

// begun is how many members of the job the plan starts.
func begun(plan engine.Plan, job *soakJob) (n int) {
	for _, s := range plan.Starts {
		if s.Gang == job.key {
			n += len(s.Placements)
		}
	}
	return n
}

// staying counts the job's members with a place that are not on their way out.
func (w *soakWorld) staying(job *soakJob) int {
	n := 0
	for _, key := range job.pods {
		if p := w.pods[key]; p != nil && !w.leaving(p) {
			if node, _ := w.seatOf(p); node != "" {
				n++
			}
		}
	}
	return n
}

// soakRest is how many cycles a world may take to come to rest.
const soakRest = 80

// freeze lets nothing happen but what is planned, all of it carried out at once: within a few cycles nothing is done any
// more, nobody was evicted twice on the way, and who others were evicted for has started.
func (w *soakWorld) freeze() {
	w.frozen = true
	defer func() { w.frozen = false }()
	w.seen.frozen++
	step := soakPick(w, 0, 0, time.Second)
	w.diary("the world stands still")
	victims := map[string]engine.Eviction{}
	for n := 0; ; n++ {
		w.cycle++
		w.leaveAtOnce()
		w.bindLate()
		plan := w.step()
		for _, e := range plan.Evictions {
			if first, again := victims[e.Pod]; again {
				w.fail("loop", "%s is evicted again (%s for %q) with nothing changed; the first time %s for %q", e.Pod, e.Cause, e.For, first.Cause, first.For)
			}
			victims[e.Pod] = e
		}
		if len(plan.Starts)+len(plan.Evictions) == 0 && !w.pending() {
			break
		}
		if n > soakRest {
			w.fail("rest", "still at work after %d cycles:\n%s", n, engine.Describe(plan))
		}
		w.now = w.now.Add(step)
		w.carryOutEvictions()
	}
	w.checkServed(victims)
	w.diary("the world moves on")
}

// leaveAtOnce takes terminating pods away.
func (w *soakWorld) leaveAtOnce() {
	for _, key := range soakKeys(w.pods) {
		if p := w.pods[key]; p != nil && p.Terminating {
			w.remove(p, true)
		}
	}
}

// pending says whether something is under way.
func (w *soakWorld) pending() bool {
	for _, p := range w.pods {
		if w.leaving(p) {
			return true
		}
	}
	return false
}

// checkServed checks that nobody was evicted for nothing: who others were evicted for runs, or will run before its place
// is held no longer. Victims may leave sooner than they have to, and the place be booked for others until then.
func (w *soakWorld) checkServed(victims map[string]engine.Eviction) {
	for _, key := range soakKeys(victims) {
		e := victims[key]
		job := w.jobs[e.For]
		if e.For == "" || job == nil || e.Cause == engine.Moved {
			continue
		}
		if w.staying(job) == 0 && !w.startsWhileHeld(e.For) {
			w.fail("nothing", "%s was evicted (%s) for %s, which waits all the same", key, e.Cause, e.For)
		}
	}
}

// startsWhileHeld says whether the workload, for which places are held, starts while they are, with nothing but the time
// that passes from one WakeAt to the next.
func (w *soakWorld) startsWhileHeld(workload string) bool {
	snap, until := w.state.Dump(), time.Time{}
	for _, h := range snap.Holds {
		if h.Gang == workload {
			until = h.Until
		}
	}
	loaded := engine.Load(snap, w.cfg)
	for n, at := 0, w.now; n < soakRest && at.Before(until); n++ {
		plan := loaded.Plan(at)
		if slices.ContainsFunc(plan.Starts, func(s engine.Start) bool { return s.Gang == workload }) {
			return true
		}
		if at = plan.WakeAt; at.IsZero() {
			break
		}
	}
	return false
}
