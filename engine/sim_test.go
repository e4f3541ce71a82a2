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

// simulation plays a cluster in virtual time: jobs arrive, the engine plans, jobs end after their true run time, which
// may not be what they said.
type simulation struct {
	t       rapid.TB
	s       *engine.State
	now     time.Time
	version uint64
	jobs    []*job
	plan    engine.Plan
	log     []string // promises that moved
}

// job is a gang of like pods, or with size 0 one pod by itself.
type job struct {
	key      string
	queue    string
	user     string
	size     int
	gpus     int64
	priority int32
	terms    engine.Terms
	true     time.Duration // how long it really runs
	firm     bool          // it may not be evicted

	arrives, started, ended time.Time
	evicted                 []engine.EvictionCause
	promised                []engine.Promise // as it was told, one for each change
	pods                    []string
	nodes                   []string
}

func (j *job) waits() bool { return j.started.IsZero() }
func (j *job) runs() bool  { return !j.started.IsZero() && j.ended.IsZero() }

func newSimulation(t rapid.TB, snap engine.Snapshot, cfg engine.Config) *simulation {
	snap.Version = engine.SnapshotVersion
	return &simulation{t: t, s: engine.Load(snap, cfg), now: noon, version: 1000}
}

// eights are nodes of eight GPUs.
func eights(n int) (nodes []engine.Node) {
	for i := range n {
		nodes = append(nodes, engine.Node{Name: fmt.Sprintf("n%d", i), Allocatable: engine.Resources{{Resource: gpu, Value: 8}, {Resource: engine.Pods, Value: 110}}})
	}
	return nodes
}

func (x *simulation) apply(changes ...engine.Change) {
	x.t.Helper()
	for i := range changes {
		x.version++
		switch c := &changes[i]; {
		case c.Pod != nil:
			c.Pod.Version = x.version
		case c.Gang != nil:
			c.Gang.Version = x.version
		case c.Gone != nil:
			c.Gone.Version = x.version
		case c.Node != nil:
			c.Node.Version = x.version
		}
	}
	if bad := x.s.Apply(changes...); len(bad) > 0 {
		x.t.Fatalf("rejected: %v", bad)
	}
}

// submit lets the job arrive now.
func (x *simulation) submit(j *job) {
	if !slices.Contains(x.jobs, j) {
		x.jobs = append(x.jobs, j)
		j.arrives = x.now
	}
	j.started, j.ended, j.pods, j.nodes = time.Time{}, time.Time{}, nil, nil
	if j.size > 0 {
		x.apply(engine.Change{Gang: &engine.Gang{Key: j.key, Queue: j.queue, User: j.user, Priority: j.priority, Created: j.arrives, Terms: j.terms, Group: engine.Group{Min: j.size}}})
	}
	for i := range max(1, j.size) {
		x.apply(engine.Change{Pod: x.pod(j, i)})
	}
}

func (x *simulation) pod(j *job, i int) *engine.Pod {
	p := &engine.Pod{Key: j.key, UID: fmt.Sprint(len(j.evicted)), Evictable: !j.firm, Spec: engine.Spec{Requests: engine.Resources{{Resource: gpu, Value: j.gpus}}}}
	if j.size > 0 {
		p.Key, p.Gang, p.Rank = fmt.Sprintf("%s-%d", j.key, i), j.key, i
		return p
	}
	p.Queue, p.User, p.Priority, p.Created, p.Terms = j.queue, j.user, j.priority, j.arrives, j.terms
	return p
}

func (x *simulation) jobOf(pod string) *job {
	i := slices.IndexFunc(x.jobs, func(j *job) bool { return j.ended.IsZero() && slices.Contains(x.podKeys(j), pod) })
	if i < 0 {
		x.t.Fatalf("no job has pod %s", pod)
	}
	return x.jobs[i]
}

func (x *simulation) podKeys(j *job) (keys []string) {
	for i := range max(1, j.size) {
		keys = append(keys, x.pod(j, i).Key)
	}
	return keys
}

// settle plans and carries out until nothing more happens now.
func (x *simulation) settle() {
	x.t.Helper()
	for range 100 {
		x.plan = x.s.Plan(x.now)
		x.s.Apply(x.plan.Changes...)
		for _, p := range x.plan.Promises {
			if j := x.gang(p.Gang); len(j.promised) == 0 || !j.promised[len(j.promised)-1].Start.Equal(p.Start) {
				j.promised = append(j.promised, p)
				if len(j.promised) > 1 && p.Start.After(j.promised[len(j.promised)-2].Start) {
					x.log = append(x.log, fmt.Sprintf("+%v: %s is promised +%v, not +%v, since +%v\n%s", x.now.Sub(noon), j.key, p.Start.Sub(noon), j.promised[len(j.promised)-2].Start.Sub(noon), p.Since.Sub(noon), engine.Describe(x.plan)))
				}
			}
		}
		if len(x.plan.Starts)+len(x.plan.Evictions) == 0 {
			return
		}
		for _, s := range x.plan.Starts {
			x.start(s)
		}
		var gone []*job
		for _, e := range x.plan.Evictions {
			j := x.jobOf(e.Pod)
			if !slices.Contains(gone, j) {
				gone = append(gone, j)
				j.evicted = append(j.evicted, e.Cause)
			}
		}
		for _, j := range gone {
			x.remove(j)
			j.ended = time.Time{}
			x.submit(j) // it starts over
		}
	}
	x.t.Fatalf("no fixed point after 100 plans at %v", x.now)
}

func (x *simulation) gang(key string) *job {
	i := slices.IndexFunc(x.jobs, func(j *job) bool { return j.key == key })
	return x.jobs[i]
}

func (x *simulation) start(s engine.Start) {
	j := x.gang(s.Gang)
	j.started = x.now
	for i, p := range s.Placements {
		pod := x.pod(j, i)
		pod.Key, pod.Node, pod.Started = p.Pod, p.Node, x.now
		j.pods, j.nodes = append(j.pods, p.Pod), append(j.nodes, p.Node)
		x.apply(engine.Change{Pod: pod})
	}
}

func (x *simulation) remove(j *job) {
	for _, key := range x.podKeys(j) {
		x.apply(engine.Change{Gone: &engine.Ref{Kind: engine.KindPod, Key: key}})
	}
	if j.size > 0 {
		x.apply(engine.Change{Gone: &engine.Ref{Kind: engine.KindGang, Key: j.key}})
	}
}

// next is when something happens by itself: a job ends, or the plan wants to be made again.
func (x *simulation) next() time.Time {
	at := x.plan.WakeAt
	for _, j := range x.jobs {
		if end := j.started.Add(j.true); j.runs() && (at.IsZero() || end.Before(at)) {
			at = end
		}
	}
	return at
}

// until plays on to the time.
func (x *simulation) until(at time.Time) {
	x.t.Helper()
	for x.settle(); ; x.settle() {
		next := x.next()
		if next.IsZero() || next.After(at) || !next.After(x.now) {
			break
		}
		x.now = next
		for _, j := range x.jobs {
			if j.runs() && !j.started.Add(j.true).After(x.now) {
				j.ended = x.now
				x.remove(j)
			}
		}
	}
	x.now = later(x.now, at)
	x.settle()
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (x *simulation) waiting(key string) engine.Waiting {
	x.t.Helper()
	for _, w := range x.plan.Waiting {
		if w.Gang == key {
			return w
		}
	}
	return engine.Waiting{}
}

// story is what became of the jobs.
func (x *simulation) story() string {
	var b strings.Builder
	for _, j := range x.jobs {
		fmt.Fprintf(&b, "%s %dx%d said %v runs %v: arrived +%v started +%v ended +%v on %v %v\n", j.key, max(1, j.size), j.gpus, j.terms.Expected, j.true, j.arrives.Sub(noon), j.started.Sub(noon), j.ended.Sub(noon), j.nodes, j.evicted)
	}
	b.WriteString(strings.Join(x.log, ""))
	return strings.ReplaceAll(b.String(), "+-2562047h47m16.854775808s", "never")
}

// One large gang against a stream of small jobs: it starts by its promise, small jobs that are over by then pass it,
// and nothing that started after the promise is in its way.
func TestLargeGangAgainstSmallJobs(t *testing.T) {
	x := newSimulation(t, engine.Snapshot{Nodes: eights(4)}, engine.Config{})
	for i := range 32 {
		x.submit(&job{key: fmt.Sprintf("old-%d", i), gpus: 1, terms: engine.Terms{Expected: time.Hour}, true: 30*time.Minute + time.Duration(i)*time.Minute})
	}
	x.settle()
	big := &job{key: "big", size: 4, gpus: 8, true: time.Hour}
	x.submit(big)
	x.settle()
	if len(big.promised) != 1 || !big.promised[0].Start.Equal(noon.Add(time.Hour)) {
		t.Fatalf("promised %v, want a start in an hour", big.promised)
	}
	for i := range 120 {
		run := time.Duration(1+i%70) * time.Minute
		j := &job{key: fmt.Sprintf("small-%d", i), gpus: 1, terms: engine.Terms{Expected: run}, true: run}
		x.submit(j)
		x.until(noon.Add(time.Duration(i) * time.Minute))
		if w := x.waiting(j.key); big.waits() && w.Gang != "" && w.Cause != "kept-for-promise" && w.Cause != "cluster-full" {
			t.Errorf("%s waits because %s", j.key, w.Cause)
		}
	}
	passed := 0
	for _, j := range x.jobs {
		if j != big && j.started.After(big.arrives) && j.started.Before(big.started) {
			passed++
			if j.started.Add(j.true).After(big.promised[0].Start) {
				t.Errorf("%s passed the gang at %v and was over at %v only", j.key, j.started, j.started.Add(j.true))
			}
		}
	}
	switch {
	case big.waits() || big.started.After(big.promised[0].Start):
		t.Errorf("the gang started %v, promised was %v", big.started, big.promised)
	case passed < 5:
		t.Errorf("%d small jobs passed the gang", passed)
	}
}
