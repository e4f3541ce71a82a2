package quota

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/draft"
	"github.com/berth-dev/berth/engine/internal/preempt"
	"github.com/berth-dev/berth/engine/internal/quantity"
	"github.com/berth-dev/berth/engine/why"
)

var noon = time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)

func gpus(n int64) api.Resources { return api.Resources{{Resource: "nvidia.com/gpu", Value: n}} }

// nobody is preemption in a cycle in which nobody is evicted and nothing is held.
type nobody struct{}

func (nobody) Settles(*cluster.Gang) bool                                   { return false }
func (nobody) Rights() []preempt.Right                                      { return nil }
func (nobody) Returning(int) int64                                          { return 0 }
func (nobody) OverShare(*cluster.Gang) (over preempt.OverShare, ok bool)    { return }
func (nobody) EachAwaited(func(string, *cluster.Gang, []*cluster.Hold))     {}
func anyModel(*cluster.Gang) []string                                       { return []string{""} }
func notPlain(*cluster.Gang) (demands []quantity.Demand, need int, ok bool) { return nil, 0, false }
func world(queues []api.Queue, pods ...api.Pod) (*cluster.Model, *Limits) {
	config, _ := api.Config{}.Normal()
	m := cluster.NewModel(config)
	for i := range pods {
		pods[i].Version = 1
	}
	for i := range queues {
		queues[i].Version = 1
	}
	m.LoadAll(&api.Snapshot{
		Version: api.SnapshotVersion, Queues: queues, Pods: pods,
		Nodes: []api.Node{{Name: "n", Version: 1, Allocatable: append(gpus(16), api.Amount{Resource: api.Pods, Value: 99})}},
	})
	m.Freshen()
	d := draft.New(noon, 0)
	return m, New(m, &d, Questions{Models: anyModel, AllModels: func() []string { return []string{""} }, Plain: notPlain}, nobody{})
}

// Every limit of the queue, and of those above it, is told: not only the first.
func TestGatesOfQueues(t *testing.T) {
	runs := api.Pod{Key: "runs", Queue: "team", Node: "n", Evictable: true, Spec: api.Spec{Requests: gpus(4)}}
	asks := api.Pod{Key: "asks", Queue: "team", User: "eve", Spec: api.Spec{Requests: gpus(4)}}
	for _, c := range []struct {
		name string
		team api.Queue
		top  api.Queue
		firm bool
		want []why.Cause
	}{
		{"free", api.Queue{}, api.Queue{}, false, nil},
		{"limit", api.Queue{Limits: gpus(7)}, api.Queue{}, false, []why.Cause{why.OverQueueLimit}},
		{"limit above", api.Queue{}, api.Queue{Limits: gpus(7)}, false, []why.Cause{why.OverQueueLimit}},
		{"never", api.Queue{Limits: gpus(3)}, api.Queue{}, false, []why.Cause{why.ExceedsQueueMaximum}},
		{"both, and too many run", api.Queue{Limits: gpus(7), MaxRunning: 1}, api.Queue{Limits: gpus(6)}, false, []why.Cause{why.OverQueueLimit, why.OverQueueLimit, why.QueueBusy}},
		{"user", api.Queue{UserLimits: gpus(3)}, api.Queue{}, false, []why.Cause{why.OverUserLimit}},
		{"firm beyond quota", api.Queue{Quota: gpus(3)}, api.Queue{Quota: gpus(16)}, true, []why.Cause{why.OverQuota}},
		{"evictable beyond quota", api.Queue{Quota: gpus(3)}, api.Queue{Quota: gpus(16)}, false, nil},
	} {
		team, top, pod := c.team, c.top, asks
		team.Name, team.Parent, top.Name, pod.Evictable = "team", "top", "top", !c.firm
		m, l := world([]api.Queue{team, top}, runs, pod)
		var got []why.Cause
		for _, g := range l.Gates(m.WorkloadNamed("asks"), "", nil) {
			got = append(got, g.Cause)
		}
		if len(got) != len(c.want) {
			t.Errorf("%s: %v, not %v", c.name, got, c.want)
			continue
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%s: %v, not %v", c.name, got, c.want)
			}
		}
	}
}

// What a queue does not lend is kept from those that would borrow it, and not from those with quota of their own.
func TestWhatIsNotLentIsKept(t *testing.T) {
	queues := []api.Queue{{Name: "miser", Quota: gpus(10), Lend: gpus(2)}, {Name: "poor"}, {Name: "rich", Quota: gpus(6)}}
	for queue, may := range map[string]bool{"poor": false, "rich": true, "miser": true} {
		m, l := world(queues,
			api.Pod{Key: "runs", Queue: "poor", Node: "n", Evictable: true, Spec: api.Spec{Requests: gpus(6)}},
			api.Pod{Key: "asks", Queue: queue, Evictable: true, Spec: api.Spec{Requests: gpus(6)}})
		if gates := l.Gates(m.WorkloadNamed("asks"), "", nil); (len(gates) == 0) != may {
			t.Errorf("%s: %v", queue, gates)
		}
	}
}

// awaiting is preemption in a cycle in which places are held, and nobody is evicted.
type awaiting struct {
	nobody
	m    *cluster.Model
	held *cluster.Hold
}

func (a awaiting) EachAwaited(visit func(string, *cluster.Gang, []*cluster.Hold)) {
	visit(a.held.Gang, a.m.WorkloadNamed(a.held.Gang), []*cluster.Hold{a.held})
}

// A workload without a queue needs no quota; but it may not take the loan on which a place depends that is held for
// somebody, neither when it starts nor when it grows.
func TestLoansAreKeptFromWorkWithoutAQueue(t *testing.T) {
	queues := []api.Queue{{Name: "miser", Quota: gpus(10), Lend: gpus(2)}, {Name: "poor"}}
	for _, c := range []struct {
		asks int64
		held bool
		want int
	}{{4, true, 0}, {6, true, 1}, {6, false, 0}} {
		claims := api.Pod{Key: "claims", Queue: "poor", Evictable: true, Spec: api.Spec{Requests: gpus(4)}}
		asks := api.Pod{Key: "asks", Evictable: true, Spec: api.Spec{Requests: gpus(c.asks)}}
		grown := asks
		grown.Key, grown.Node = "grown", "n"
		m, l := world(queues, claims, asks)
		began, lived := world(queues, claims, asks, grown)
		for _, x := range []struct {
			m *cluster.Model
			l *Limits
		}{{m, l}, {began, lived}} {
			if c.held {
				h := &cluster.Hold{Hold: &api.Hold{Gang: "claims", Node: "n", Requests: gpus(4), Until: noon.Add(time.Minute)}}
				x.m.PutHold(h, x.m.Nodes["n"])
				x.l.Preemption = awaiting{m: x.m, held: h}
			}
		}
		if got := l.Gates(m.WorkloadNamed("asks"), "", nil); len(got) != c.want {
			t.Errorf("starts with %d, a place held: %v: %v", c.asks, c.held, got)
		}
		if got := lived.Overdrawn(began.WorkloadNamed("asks"), []*cluster.Pod{began.Pods["grown"]}); len(got) != c.want {
			t.Errorf("grows by %d, a place held: %v: %v", c.asks, c.held, got)
		}
	}
}

// What others were evicted for counts against its user's limit, for all others of the user: else they take it, and somebody is
// evicted for it again and again.
func TestUserLimitsCountWhatIsHeld(t *testing.T) {
	queues := []api.Queue{{Name: "team", UserLimits: gpus(4)}}
	for _, c := range []struct {
		user string
		want int
	}{{"eve", 1}, {"bob", 0}} {
		claims := api.Pod{Key: "claims", Queue: "team", User: "eve", Evictable: true, Spec: api.Spec{Requests: gpus(3)}}
		asks := api.Pod{Key: "asks", Queue: "team", User: c.user, Evictable: true, Spec: api.Spec{Requests: gpus(2)}}
		grown := asks
		grown.Key, grown.Node = "grown", "n"
		m, l := world(queues, claims, asks, grown)
		h := &cluster.Hold{Hold: &api.Hold{Gang: "claims", Node: "n", Requests: gpus(3), Until: noon.Add(time.Minute)}}
		m.PutHold(h, m.Nodes["n"])
		l.Preemption = awaiting{m: m, held: h}
		if got := l.Gates(m.WorkloadNamed("asks"), "", nil); len(got) != c.want {
			t.Errorf("%s starts: %v", c.user, got)
		}
		if got := l.Overdrawn(m.WorkloadNamed("asks"), []*cluster.Pod{m.Pods["grown"]}); len(got) != c.want {
			t.Errorf("%s grows: %v", c.user, got)
		}
		if got := l.Gates(m.WorkloadNamed("claims"), "", nil); c.user == "bob" && len(got) != 0 {
			t.Errorf("its own place counts against it: %v", got)
		}
	}
}

// A workload is owed a place as far up as there is quota for it without a gap.
func TestOwedReachesAsFarAsQuota(t *testing.T) {
	for _, c := range []struct{ team, top, want int64 }{{4, 8, 2}, {4, 3, 1}, {3, 8, 0}} {
		m, l := world([]api.Queue{{Name: "team", Parent: "top", Quota: gpus(c.team)}, {Name: "top", Quota: gpus(c.top)}},
			api.Pod{Key: "asks", Queue: "team", Evictable: true, Spec: api.Spec{Requests: gpus(4)}})
		if got := l.Owed(m.WorkloadNamed("asks")); int64(got) != c.want {
			t.Errorf("with quotas of %d and %d it is owed %d up, not %d", c.team, c.top, got, c.want)
		}
	}
}

// A queue that has nothing left owes no workload a place; what is held for one counts in the queue and is owed it all the same.
func TestQueuesThatOweNothing(t *testing.T) {
	for _, c := range []struct {
		name        string
		quota, held int64
		owes        bool
		reach       int
	}{
		{"used up", 4, 0, false, 0},
		{"more than used up", 3, 0, false, 0},
		{"some is left, and not enough", 5, 0, true, 0},
		{"enough is left", 8, 0, true, 1},
		{"the rest is held for it", 8, 4, true, 1},
	} {
		m, l := world([]api.Queue{{Name: "team", Quota: gpus(c.quota)}},
			api.Pod{Key: "runs", Queue: "team", Node: "n", Evictable: true, Spec: api.Spec{Requests: gpus(4)}},
			api.Pod{Key: "asks", Queue: "team", Evictable: true, Spec: api.Spec{Requests: gpus(4)}})
		if c.held > 0 {
			m.Apply(&api.Change{Hold: &api.Hold{Gang: "asks", Version: 2, Node: "n", Requests: gpus(c.held), Until: noon.Add(time.Hour)}})
		}
		if got := !l.OwesNothing(m.Queues["team"]); got != c.owes {
			t.Errorf("%s: it may owe something: %t", c.name, got)
		}
		if got := l.Owed(m.WorkloadNamed("asks")); got != c.reach {
			t.Errorf("%s: it owes a place %d up", c.name, got)
		}
	}
}

// A place that is held for work without a queue is taken as far as others borrow: 16 GPUs, less 8 that a queue does not lend and 4 that
// are held, leave 4 to borrow.
func TestWhatIsHeldForUnqueuedWorkIsNotBorrowed(t *testing.T) {
	for asks, want := range map[int64][]why.Gate{
		4: nil,
		5: {{Cause: why.NotLent, Object: "poor", Resource: "nvidia.com/gpu", Need: 5, Have: 4, Certificate: -1}},
	} {
		m, l := world([]api.Queue{{Name: "miser", Quota: gpus(10), Lend: gpus(2)}, {Name: "poor"}},
			api.Pod{Key: "free", Evictable: true, Spec: api.Spec{Requests: gpus(4)}},
			api.Pod{Key: "asks", Queue: "poor", Evictable: true, Spec: api.Spec{Requests: gpus(asks)}})
		m.Apply(&api.Change{Hold: &api.Hold{Gang: "free", Version: 2, Node: "n", Requests: gpus(4), Until: noon.Add(time.Hour)}})
		if diff := cmp.Diff(want, l.Gates(m.WorkloadNamed("asks"), "", nil)); diff != "" {
			t.Errorf("it asks for %d (-want +got):\n%s", asks, diff)
		}
	}
}

// Placed members exceed what any others beside them would exceed too: limits, limits of users, quota of work that may not be
// evicted. Budgets and lending are questions about the whole minimum.
func TestExceedsIsAnAnswerForAllThatBeginsSo(t *testing.T) {
	used := []api.Budget{{Resource: "nvidia.com/gpu", Period: time.Hour}}
	for _, c := range []struct {
		name      string
		team, top api.Queue
		evictable bool
		placed    int // the fewest members that exceed something; 0: never
		overdrawn bool
	}{
		{"free", api.Queue{}, api.Queue{}, true, 0, false},
		{"limit", api.Queue{Limits: gpus(5)}, api.Queue{}, true, 3, true},
		{"limit above", api.Queue{}, api.Queue{Limits: gpus(3)}, true, 2, true},
		{"limit that suffices", api.Queue{Limits: gpus(6)}, api.Queue{}, true, 0, false},
		{"limit of the user", api.Queue{UserLimits: gpus(2)}, api.Queue{}, true, 2, true},
		{"firm", api.Queue{Quota: gpus(4)}, api.Queue{Quota: gpus(16)}, false, 3, true},
		{"may be evicted", api.Queue{Quota: gpus(4)}, api.Queue{Quota: gpus(16)}, true, 0, false},
		{"budget", api.Queue{Budgets: used}, api.Queue{}, true, 0, true},
		{"not lent", api.Queue{Quota: gpus(1)}, api.Queue{Quota: gpus(16)}, true, 0, true},
	} {
		team, top := c.team, c.top
		team.Name, team.Parent, top.Name = "team", "top", "top"
		miser := api.Queue{Name: "miser", Parent: "top", Quota: gpus(15), Lend: api.Resources{{Resource: "nvidia.com/gpu"}}}
		queues := []api.Queue{team, top}
		if c.name == "not lent" {
			queues = append(queues, miser)
		}
		var pods []api.Pod
		for _, key := range []string{"a", "b", "c"} {
			pods = append(pods, api.Pod{Key: key, Queue: "team", User: "eve", Evictable: c.evictable, Spec: api.Spec{Requests: gpus(2)}})
		}
		m, l := world(queues, pods...)
		g := m.WorkloadNamed("a")
		var placed []*cluster.Pod
		for i, key := range []string{"a", "b", "c"} {
			m.PutOn(m.Pods[key], m.Nodes["n"], nil)
			placed = append(placed, m.Pods[key])
			if got, want := l.Exceeds(g, placed), c.placed > 0 && i+1 >= c.placed; got != want {
				t.Errorf("%s: %d members exceed something: %v", c.name, i+1, got)
			}
		}
		if gates := l.Overdrawn(g, placed); (len(gates) > 0) != c.overdrawn {
			t.Errorf("%s: %+v", c.name, gates)
		}
	}
}
