package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine"
)

// The oracle of evictions looks at every set of victims that the rules allow, on clusters that have nothing but GPUs. It
// shares no code with the engine.

// claimWorld is a claim in a small cluster, as the oracle sees it.
type claimWorld struct {
	snap     engine.Snapshot
	cfg      engine.Config
	claimant engine.Gang
	pods     int
	gpus     int64 // of each
	head     int64 // GPUs of one more pod; 0: there is none
	all      []runner
	abroad   bool // nobody of the claimant's own queue is to be evicted
}

// runner is a workload that runs.
type runner struct {
	key      string
	queue    string
	priority int32
	started  time.Time
	terms    engine.Terms
	core     bool
	pods     []engine.Pod // by rank
	spare    int          // how many of the last ranks it can lose
}

// asks is how many GPUs the claimant asks for.
func (r *claimWorld) asks() int64 { return int64(r.pods)*r.gpus + r.head }

// owed says whether the claimant's queue has quota for it.
func (r *claimWorld) owed() bool {
	own := r.claimant.Queue
	return r.used(own)+r.asks() <= r.queue(own).Quota.Get(gpu)
}

func (r *claimWorld) queue(name string) engine.Queue {
	i := slices.IndexFunc(r.snap.Queues, func(q engine.Queue) bool { return q.Name == name })
	if i < 0 {
		return engine.Queue{}
	}
	return r.snap.Queues[i]
}

// chain is the queue and those above it, by name.
func (r *claimWorld) chain(name string) (out []string) {
	for ; name != ""; name = r.queue(name).Parent {
		out = append(out, name)
	}
	return out
}

// runners lists what runs in the queue or below it, those first that quota covers first: of a department, what the quotas of
// the queues in it cover. Of "*" everything.
func (r *claimWorld) runners(queue string) (out []runner) {
	if queue == "*" && r.all != nil {
		return r.all
	}
	at := map[string]int{}
	for _, p := range r.snap.Pods {
		if p.Node == "" {
			continue
		}
		w := runner{key: p.Key, queue: p.Queue, priority: p.Priority, terms: p.Terms}
		if p.Gang != "" {
			g := r.snap.Gangs[slices.IndexFunc(r.snap.Gangs, func(g engine.Gang) bool { return g.Key == p.Gang })]
			w = runner{key: g.Key, queue: g.Queue, priority: g.Priority, terms: g.Terms, core: g.Core, spare: -g.Min}
			if g.Whole {
				w.spare = -len(r.snap.Pods)
			}
		}
		if queue != "*" && !slices.Contains(r.chain(w.queue), queue) {
			continue
		}
		i, ok := at[w.key]
		if !ok {
			i = len(out)
			at[w.key] = i
			out = append(out, w)
		}
		o := &out[i]
		if len(o.pods) == 0 || p.Started.Before(o.started) {
			o.started = p.Started
		}
		o.pods = append(o.pods, p)
	}
	for i := range out {
		if out[i].pods[0].Gang == "" {
			continue
		}
		out[i].spare = max(0, out[i].spare+len(out[i].pods))
	}
	borrows := map[string]bool{}
	if queue == "dep" {
		for _, w := range out {
			_, borrows[w.key] = r.uncovered(w.queue, w)
		}
	}
	slices.SortFunc(out, func(a, b runner) int {
		if borrows[a.key] != borrows[b.key] {
			if borrows[b.key] {
				return -1
			}
			return 1
		}
		if a.priority != b.priority {
			return int(b.priority - a.priority)
		}
		if c := a.started.Compare(b.started); c != 0 {
			return c
		}
		return strings.Compare(a.key, b.key)
	})
	return out
}

func (w *runner) size() (sum int64) {
	for _, p := range w.pods {
		sum += p.Requests.Get(gpu)
	}
	return sum
}

func (r *claimWorld) used(queue string) (sum int64) {
	for _, w := range r.runners(queue) {
		sum += w.size()
	}
	return sum
}

// legal says how many of the workload's members above the minimum the rules let be evicted for the claimant, and whether the
// rest of it with them.
func (r *claimWorld) legal(w runner) (spare int, whole bool) {
	if least := max(r.queue(w.queue).MinRun, 0); least > 0 && noon.Before(w.started.Add(least)) {
		return 0, false
	}
	if w.queue == r.claimant.Queue {
		if w.priority < r.claimant.Priority && !r.abroad {
			return w.spare, true
		}
		return 0, false
	}
	if r.queue(w.queue).Keeps {
		return 0, false
	}
	mine, theirs := r.chain(r.claimant.Queue), r.chain(w.queue)
	need := r.asks()
	for i := range mine {
		if r.used(mine[i])+need > r.queue(mine[i]).Quota.Get(gpu) {
			return 0, false
		}
		for _, z := range theirs {
			if z == mine[i] || r.queue(z).Parent != r.queue(mine[i]).Parent {
				continue
			}
			if r.used(z) <= r.queue(z).Quota.Get(gpu) {
				return 0, false
			}
			return r.uncovered(z, w)
		}
	}
	return 0, false
}

// uncovered says how many of the workload's members above the minimum the queue's quota is not enough for, and whether it is
// not even enough for the rest of it. It is for what can never be evicted first, then for what all need at the least.
func (r *claimWorld) uncovered(z string, w runner) (spare int, whole bool) {
	left := r.queue(z).Quota.Get(gpu)
	for _, o := range r.runners(z) {
		left -= o.stays()
	}
	for _, o := range r.runners(z) {
		least := o.size() - o.stays()
		for _, p := range o.above() {
			least -= p.Requests.Get(gpu)
		}
		if least > 0 && least > left {
			if o.key == w.key {
				return len(o.above()), true
			}
			continue
		}
		left -= least
	}
	for _, o := range r.runners(z) {
		for _, p := range slices.Backward(o.above()) {
			if need := p.Requests.Get(gpu); need <= left {
				left -= need
			} else if o.key == w.key {
				spare++
			}
		}
	}
	return spare, false
}

// above lists the members that the workload can lose, the last first.
func (w *runner) above() (out []engine.Pod) {
	for _, p := range slices.Backward(w.pods) {
		if len(out) < w.spare && p.Evictable {
			out = append(out, p)
		}
	}
	return out
}

// stays is what of the workload can never be evicted: all but what is above its minimum, if that may not be.
func (w *runner) stays() (sum int64) {
	above, firm := w.above(), w.core
	for _, p := range w.pods {
		if slices.ContainsFunc(above, func(o engine.Pod) bool { return o.Key == p.Key }) {
			continue
		}
		sum += p.Requests.Get(gpu)
		firm = firm || !p.Evictable
	}
	if !firm {
		return 0
	}
	return sum
}

// ways lists the sets of its pods that may be evicted.
func (r *claimWorld) ways(w runner) (out [][]engine.Pod) {
	out = append(out, nil)
	n, whole := r.legal(w)
	may := func(pods []engine.Pod) bool {
		return !slices.ContainsFunc(pods, func(p engine.Pod) bool { return !p.Evictable })
	}
	spare := w.above()
	spare = spare[:min(n, len(spare))]
	for set := 1; set < 1<<len(spare); set++ {
		var pods []engine.Pod
		for i, p := range spare {
			if set>>i&1 == 1 {
				pods = append(pods, p)
			}
		}
		out = append(out, pods)
	}
	if whole && !w.core && may(w.pods) && len(spare) < len(w.pods) {
		out = append(out, w.pods)
	}
	return out
}

// opens says whether the claimant has a place without the pods.
func (r *claimWorld) opens(gone map[string]bool) bool {
	free := map[string]int64{}
	for _, n := range r.snap.Nodes {
		free[n.Name] = n.Allocatable.Get(gpu)
	}
	used := r.asks()
	for _, w := range r.runners("*") {
		for _, p := range w.pods {
			if gone[p.Key] {
				continue
			}
			free[p.Node] -= p.Requests.Get(gpu)
			if w.queue == r.claimant.Queue {
				used += p.Requests.Get(gpu)
			}
		}
	}
	if limits := r.queue(r.claimant.Queue).Limits; len(limits) > 0 && used > limits.Get(gpu) {
		return false
	}
	domain := func(n engine.Node) string {
		return map[string]string{"rack": n.Labels["rack"], engine.NodeLevel: n.Name}[r.claimant.Layout.Required]
	}
	fits := map[string]int64{}
	for _, n := range r.snap.Nodes {
		fits[domain(n)] += free[n.Name] / r.gpus
	}
	for _, n := range r.snap.Nodes {
		x := free[n.Name]
		if x >= r.head && fits[domain(n)]-x/r.gpus+(x-r.head)/r.gpus >= int64(r.pods) {
			return true
		}
	}
	return false
}

// disruption cost is how many evictions are beyond budgets, and what the pods cost, in thousandths of GPU-seconds; -1: a budget that
// must be kept is broken.
func (r *claimWorld) disruption(pods []string) (broken int, cost int64) {
	strict := map[string]bool{}
	count := map[string]int{}
	for _, w := range r.runners("*") {
		for _, p := range w.pods {
			if !slices.Contains(pods, p.Key) {
				continue
			}
			lost := min(noon.Sub(p.Started), time.Hour)
			if c := w.terms.Checkpoint; c > 0 {
				lost = min(lost, noon.Sub(p.Started)%c)
			}
			cost += p.Requests.Get(gpu) * 1000 * int64((lost+time.Minute)/time.Second)
			for _, b := range p.Budgets {
				count[b]++
				strict[b] = strict[b] || r.queue(w.queue).KeepBudgets
			}
		}
	}
	for _, d := range r.snap.Disruptions {
		if over := count[d.Key] - d.Allowed; over > 0 {
			if strict[d.Key] {
				return -1, 0
			}
			broken += over
		}
	}
	return broken, cost
}

// best is the cheapest set that will do; ok is false where there is none. Who has quota for what it asks takes from its own
// queue only what it cannot take from others.
func (r *claimWorld) best() (set []string, broken int, cost int64, ok bool) {
	if r.owed() {
		r.abroad = true
		set, broken, cost, ok = r.cheapest()
		r.abroad = false
	}
	if !ok {
		set, broken, cost, ok = r.cheapest()
	}
	return set, broken, cost, ok
}

// cheapest is the cheapest of the legal sets that will do.
func (r *claimWorld) cheapest() (set []string, broken int, cost int64, ok bool) {
	r.all = r.runners("*")
	all := r.all
	options := make([][][]engine.Pod, len(all))
	for i, w := range all {
		options[i] = r.ways(w)
	}
	gone := map[string]bool{}
	var pods []string
	var walk func(i int)
	walk = func(i int) {
		if i == len(all) {
			b, c := r.disruption(pods)
			if b >= 0 && (!ok || b < broken || b == broken && c < cost) && r.opens(gone) {
				set, broken, cost, ok = slices.Clone(pods), b, c, true
			}
			return
		}
		for _, way := range options[i] {
			for _, p := range way {
				gone[p.Key] = true
				pods = append(pods, p.Key)
			}
			walk(i + 1)
			for _, p := range way {
				delete(gone, p.Key)
			}
			pods = pods[:len(pods)-len(way)]
		}
	}
	walk(0)
	return set, broken, cost, ok
}

// anyRing makes a small cluster with a claim in it, of at most so many workloads; small ones have a pod with a GPU.
func anyRing(t *rapid.T, nodes, most int, small bool) *claimWorld {
	r := &claimWorld{cfg: engine.Config{Levels: []engine.Level{{Name: "rack", Label: "rack"}}}}
	r.snap.Version = engine.SnapshotVersion
	quota := func(name string) engine.Resources {
		most := map[string]int{"a": 12, "dep": 12}[name]
		return engine.Resources{{Resource: gpu, Value: int64(max(most, 4) - upTo(t, max(most, 4)))}}
	}
	for _, name := range []string{"a", "b", "c", "dep"} {
		q := engine.Queue{Name: name, Version: 1, Quota: quota(name), MinRun: pick(t, 0, 0, 10*time.Minute), KeepBudgets: seldom(t, 2), Keeps: name != "a" && seldom(t, 3)}
		if name == "a" || name == "b" {
			q.Parent = pick(t, "", "dep")
		}
		if name == "a" && seldom(t, 2) {
			q.Limits = engine.Resources{{Resource: gpu, Value: q.Quota.Get(gpu) + int64(upTo(t, 3))}}
		}
		r.snap.Queues = append(r.snap.Queues, q)
	}
	free := []int64{}
	size := int64(pick(t, 4, 2))
	for i := range nodes - upTo(t, 1) {
		free = append(free, size)
		r.snap.Nodes = append(r.snap.Nodes, engine.Node{Name: fmt.Sprint("n", i), Version: 1, Labels: map[string]string{"rack": fmt.Sprint(i / 2)},
			Allocatable: engine.Resources{{Resource: gpu, Value: size}, {Resource: engine.Pods, Value: 50}}})
	}
	for i := range most - upTo(t, most/3) {
		r.anyParty(t, fmt.Sprint("w", i), free, small)
	}
	for _, key := range []string{"p", "q"} {
		r.snap.Disruptions = append(r.snap.Disruptions, engine.Disruption{Key: key, Version: 1, Allowed: upTo(t, 2)})
	}
	r.pods, r.gpus = 3-upTo(t, 2), size-int64(upTo(t, int(size)-1))
	r.claimant = engine.Gang{Key: "new", Version: 1, Queue: "a", Priority: int32(2 - upTo(t, 2)), Created: noon.Add(-time.Minute), Group: engine.Group{Min: r.pods}}
	r.claimant.Layout.Required = pick(t, "", "", "rack", engine.NodeLevel)
	r.snap.Gangs = append(r.snap.Gangs, r.claimant)
	for i := range r.pods {
		r.snap.Pods = append(r.snap.Pods, engine.Pod{Key: fmt.Sprint("new-", i), Version: 1, Gang: "new", Rank: i, Evictable: true, Spec: gpus(r.gpus)})
	}
	return r
}

// anyParty adds a workload that runs where there is room.
func (r *claimWorld) anyParty(t *rapid.T, key string, free []int64, small bool) {
	g := engine.Gang{Key: key, Version: 1, Queue: pick(t, "a", "b", "c"), Priority: int32(upTo(t, 2)), Core: seldom(t, 4)}
	g.Whole = seldom(t, 3)
	g.Terms.Checkpoint = pick(t, 0, 0, 7*time.Minute)
	size := pick(t, 1, 1, 1, 2, 3)
	need := int64(pick(t, 1, 2, 1, 4))
	if small {
		size, need = 1, 1
	}
	started := noon.Add(-time.Duration(1+upTo(t, 90)) * time.Minute)
	var pods []engine.Pod
	for i := range size {
		n := upTo(t, len(free)-1)
		for range free {
			if free[n] < need {
				n = (n + 1) % len(free)
			}
		}
		if free[n] < need {
			continue
		}
		free[n] -= need
		pods = append(pods, engine.Pod{
			Key: fmt.Sprintf("%s-%d", key, i), UID: "u", Version: 1, Rank: i, Gang: key, Spec: gpus(need), Node: fmt.Sprint("n", n), Evictable: !seldom(t, 4), Started: started,
			Budgets: pick(t, nil, nil, []string{"p"}, []string{"q"}, []string{"p", "q"}),
		})
	}
	switch {
	case len(pods) == 0:
		return
	case len(pods) == 1:
		p := &pods[0]
		p.Gang, p.Queue, p.Priority, p.Terms = "", g.Queue, g.Priority, g.Terms
	default:
		g.Min = 1 + upTo(t, len(pods)-1)
		r.snap.Gangs = append(r.snap.Gangs, g)
	}
	r.snap.Pods = append(r.snap.Pods, pods...)
}

// rates counts how often the engine's choice was the cheapest.
type rates struct {
	cases, equal int
	worst        float64
}

// judge compares the engine's choice with the oracle's.
func (r *claimWorld) judge(t *rapid.T, s *rates) {
	plan := engine.Load(r.snap, r.cfg).Plan(noon)
	var got []string
	for _, e := range plan.Evictions {
		if e.For == "new" && e.Cause != engine.Moved {
			got = append(got, e.Pod)
		}
	}
	if r.opens(nil) {
		if len(got) > 0 {
			t.Fatalf("it has a place, and %v are evicted\n%s", got, text(t, r.snap))
		}
		return
	}
	_, broken, cost, ok := r.best()
	if ok != (len(got) > 0) {
		t.Fatalf("evicts %v, and the oracle says %v\n%s\n%s", got, ok, text(t, r.snap), text(t, plan))
	}
	if !ok {
		return
	}
	r.lawful(t, got)
	b, c := r.disruption(got)
	s.cases++
	if b == broken && c == cost {
		s.equal++
	}
	if ratio := float64(c) / float64(cost); b == broken {
		s.worst = max(s.worst, ratio)
	} else {
		s.worst = max(s.worst, 2)
	}
}

// lawful checks that the set is one that the rules allow, that it will do, and that no part of it would.
func (r *claimWorld) lawful(t *rapid.T, got []string) {
	var options [][][]engine.Pod
	for _, w := range r.runners("*") {
		var fit [][]engine.Pod
		whole := 0
		for _, way := range r.ways(w) {
			if !slices.ContainsFunc(way, func(p engine.Pod) bool { return !slices.Contains(got, p.Key) }) {
				fit = append(fit, way)
				whole = max(whole, len(way))
			}
		}
		mine := 0
		for _, p := range w.pods {
			if slices.Contains(got, p.Key) {
				mine++
			}
		}
		if whole != mine {
			t.Fatalf("of %s may not be evicted what is, in %v\n%s", w.key, got, text(t, r.snap))
		}
		options = append(options, fit)
	}
	gone := map[string]bool{}
	var walk func(i int)
	walk = func(i int) {
		if i == len(options) {
			if some := r.opens(gone); some != (len(gone) == len(got)) {
				t.Fatalf("of %v: %v would do is %v\n%s", got, gone, some, text(t, r.snap))
			}
			return
		}
		for _, way := range options[i] {
			for _, p := range way {
				gone[p.Key] = true
			}
			walk(i + 1)
			for _, p := range way {
				delete(gone, p.Key)
			}
		}
	}
	walk(0)
}

// The victims are those that brute force finds, in small cases: in 95 of 100, and never above one and a half times. No
// part of them would do, and where nobody is evicted nobody could be.
func TestVictimsEqualBruteForce(t *testing.T) {
	for _, c := range []struct {
		name        string
		nodes, most int
		small       bool
		times       int
	}{{"few", 3, 6, false, 20}, {"more", 5, 10, false, 10}, {"small", 5, 18, true, 1}} {
		t.Run(c.name, func(t *testing.T) {
			var s rates
			often(t, c.times, func(t *rapid.T) { anyRing(t, c.nodes, c.most, c.small).judge(t, &s) })
			t.Logf("%d of %d cases as cheap as can be, the worst at %.3f times", s.equal, s.cases, s.worst)
			if s.cases == 0 && testing.Short() {
				t.Skip("too few draws for a case that can be judged")
			}
			if s.cases == 0 || s.equal*100 < s.cases*95 || s.worst > 1.5 {
				t.Errorf("%d of %d cases as cheap as can be, the worst at %.3f times", s.equal, s.cases, s.worst)
			}
		})
	}
}
