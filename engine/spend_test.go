package engine

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/queue"
)

// spend lets the state add up at the time, as a plan would, and applies it.
func spend(s *State, now time.Time) []api.Change {
	s.freshen()
	changes := s.ledger.Accrue(now)
	for _, c := range changes {
		if c.Usage != nil {
			c.Usage.Version = s.m.Latest + 1
			s.m.Latest++
		}
	}
	s.Apply(changes...)
	return changes
}

// spentBy is what the queue has spent, without its version.
func spentBy(s *State, queue string) api.QueueUsage {
	u := s.m.Usages[queue]
	if u == nil {
		return api.QueueUsage{}
	}
	out := *u
	out.Version = 0
	return out
}

func after(d time.Duration) time.Time { return shareNoon.Add(d) }

func TestSpendingAddsUp(t *testing.T) {
	// A holds two GPUs, b below it four from 12:02:30 on. C holds none.
	snap := with(clusterOf(1, api.Queue{Name: "a", Version: 1}, api.Queue{Name: "b", Version: 1, Parent: "a"}, api.Queue{Name: "c", Version: 1}),
		work("x", "a", "n0", gpus(2)), edited(work("y", "b", "n0", gpus(4)), func(p *api.Pod) { p.Started = after(150 * time.Second) }))
	s := Load(snap, api.Config{})
	spend(s, after(10*time.Second))
	if diff := cmp.Diff(api.QueueUsage{Queue: "a", At: shareNoon}, spentBy(s, "a")); diff != "" {
		t.Fatalf("seen first (-want +got):\n%s", diff)
	}
	if changes := spend(s, after(59*time.Second)); len(changes) > 0 {
		t.Fatalf("within a minute: %+v", changes)
	}
	spend(s, after(5*time.Minute+30*time.Second))
	want := []api.QueueUsage{{Queue: "a", At: after(5 * time.Minute), Total: 2*300 + 4*150}, {Queue: "b", At: after(5 * time.Minute), Total: 4 * 150}, {}}
	got := []api.QueueUsage{spentBy(s, "a"), spentBy(s, "b"), spentBy(s, "c")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("after five minutes (-want +got):\n%s", diff)
	}
	if at := s.ledger.AccruesAt(after(5*time.Minute + 30*time.Second)); !at.Equal(after(6 * time.Minute)) {
		t.Errorf("adds up next at %s", at)
	}
}

func TestNothingIsSaidWhereNothingIsSpent(t *testing.T) {
	snap := with(clusterOf(1, api.Queue{Name: "a", Version: 1, Budgets: []api.Budget{{Resource: testGPU, Seconds: 9, Period: time.Hour}}}, api.Queue{Name: "bad", Version: 1, Weight: -1}),
		work("x", "bad", "n0", gpus(2)), work("y", "unknown", "n0", gpus(2)), work("z", "a", "", gpus(2)))
	s := Load(snap, api.Config{HalfLife: time.Hour})
	for _, d := range []time.Duration{0, time.Minute, time.Hour} {
		if changes := spend(s, after(d)); len(changes) > 0 {
			t.Fatalf("%s: %+v", d, changes)
		}
	}
	if at := s.ledger.AccruesAt(shareNoon); !at.IsZero() {
		t.Errorf("adds up next at %s", at)
	}
}

// A queue that was idle for a day is not charged for the day when work starts again.
func TestIdleTimeIsNotCharged(t *testing.T) {
	snap := with(clusterOf(1, api.Queue{Name: "a", Version: 1}), edited(work("x", "a", "n0", gpus(2)), func(p *api.Pod) { p.Started = after(24 * time.Hour) }))
	snap.Usages = []api.QueueUsage{{Queue: "a", Version: 1, At: shareNoon, Total: 7}}
	s := Load(snap, api.Config{})
	spend(s, after(24*time.Hour+2*time.Minute))
	if got := spentBy(s, "a").Total; got != 7+2*120 {
		t.Errorf("total is %d", got)
	}
}

func TestHalvesOnTheGrid(t *testing.T) {
	for _, half := range []time.Duration{time.Minute, 7 * time.Minute, time.Hour, 7 * 24 * time.Hour} {
		s := Load(api.Snapshot{Version: api.SnapshotVersion}, api.Config{HalfLife: half})
		for k := range int64(20) {
			if got := s.ledger.Factor(k * int64(half/time.Second)); got != queue.Unity>>k {
				t.Errorf("half-life %s: after %d of them %d, want %d", half, k, got, uint64(queue.Unity)>>k)
			}
		}
	}
}

// Added up every minute or at once, the sum is the one of the continuous formula, small amounts included.
func TestDecayDoesNotDependOnHowOften(t *testing.T) {
	const half = 7 * 24 * time.Hour
	for _, start := range []int64{50, 1000, 1e6, 1e12} {
		snap := clusterOf(1, api.Queue{Name: "a", Version: 1})
		s := Load(snap, api.Config{HalfLife: half})
		s.freshen()
		value := start
		for minute := int64(1); minute <= int64(half/time.Minute); minute++ {
			value = s.ledger.Fade(value, 60, minute)
		}
		if math.Abs(float64(value)-float64(start)/2) > 8+float64(start)*1e-9 {
			t.Errorf("%d is %d after a half-life of minutes", start, value)
		}
	}
	s := Load(clusterOf(1), api.Config{HalfLife: half})
	f := math.Exp2(-60 / half.Seconds())
	for _, seconds := range []int64{0, 59, 60, 90, 3600, 86400 * 30} {
		n := float64(seconds / 60)
		want := 5*60*(1-math.Pow(f, n))/(1-f) + 5*float64(seconds%60)*math.Pow(f, n)
		if got := s.ledger.Stream(5, seconds); math.Abs(float64(got)-want) > 2+want*1e-9 {
			t.Errorf("five GPUs for %d s leave %d, want %g", seconds, got, want)
		}
	}
}

func TestIdleQueueFades(t *testing.T) {
	snap := clusterOf(1, api.Queue{Name: "a", Version: 1})
	snap.Usages = []api.QueueUsage{{Queue: "a", Version: 1, At: shareNoon, Decayed: 1 << 20, Total: 5}}
	s := Load(snap, api.Config{HalfLife: 16 * time.Hour})
	if changes := spend(s, after(40000*time.Hour)); len(changes) > 0 {
		t.Errorf("it is said again: %+v", changes)
	}
	for hours, want := range map[time.Duration]int64{0: 1 << 20, 16: 1 << 19, 32: 1 << 18, 40000: 0} {
		if got := s.ledger.PastUse(s.m.Queues["a"], after(hours*time.Hour)); got != want {
			t.Errorf("it counts as %d after %d hours, want %d", got, hours, want)
		}
	}
}

func TestBudgetsRollOver(t *testing.T) {
	budgets := []api.Budget{
		{Resource: testGPU, Seconds: 1000, Period: time.Hour, From: after(30*time.Minute - 48*time.Hour)}, // periods begin at half past
		{Resource: api.CPU, Seconds: 1000, Period: 24 * time.Hour},                                        // at midnight
		{Resource: api.OfModel(testGPU, "H100"), Seconds: 5, Period: time.Minute},                         // nobody has one
	}
	snap := with(clusterOf(1, api.Queue{Name: "a", Version: 1, Budgets: budgets}), work("x", "a", "n0", api.Resources{{Resource: testGPU, Value: 2}, {Resource: api.CPU, Value: 10}}))
	s := Load(snap, api.Config{})
	for _, step := range []struct {
		at   time.Duration
		want []int64
	}{
		{0, []int64{0, 0, 0}},
		{29 * time.Minute, []int64{2 * 29 * 60, 10 * 29 * 60, 0}},
		{30 * time.Minute, []int64{0, 10 * 30 * 60, 0}},
		{45 * time.Minute, []int64{2 * 15 * 60, 10 * 45 * 60, 0}},
		{5*time.Hour + 40*time.Minute, []int64{2 * 10 * 60, 10 * 340 * 60, 0}}, // five periods on
		{4 * time.Hour, []int64{2 * 10 * 60, 10 * 340 * 60, 0}},                // the clock is back: nothing
		{5*time.Hour + 41*time.Minute, []int64{2 * 11 * 60, 10 * 341 * 60, 0}},
		{300 * 24 * time.Hour, []int64{2 * 30 * 60, 10 * 12 * 3600, 0}}, // far ahead
	} {
		spend(s, after(step.at))
		if diff := cmp.Diff(step.want, spentBy(s, "a").Spent); diff != "" {
			t.Errorf("after %s (-want +got):\n%s", step.at, diff)
		}
	}
}

// A budget of one GPU model is spent by the GPUs of that model, whether or not anything else asks for models.
func TestBudgetOfOneModel(t *testing.T) {
	snap := with(clusterOf(1, api.Queue{Name: "a", Version: 1, Budgets: []api.Budget{{Resource: api.OfModel(testGPU, "H100"), Seconds: 1000, Period: time.Hour}}}), work("x", "a", "n0", gpus(2)))
	snap.Nodes[0].Model = "H100"
	s := Load(snap, api.Config{})
	spend(s, shareNoon)
	spend(s, after(5*time.Minute))
	if diff := cmp.Diff([]int64{2 * 5 * 60}, spentBy(s, "a").Spent); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A clock that was years ahead does not stop the adding up for years once it is right again.
func TestClockThatWasWrong(t *testing.T) {
	snap := with(clusterOf(1, api.Queue{Name: "a", Version: 1, Budgets: []api.Budget{{Resource: testGPU, Seconds: 9, Period: time.Hour}}}), work("x", "a", "n0", gpus(2)))
	snap.Usages = []api.QueueUsage{{Queue: "a", Version: 1, At: after(10000 * time.Hour), Decayed: 50, Spent: []int64{70}, Total: 90}}
	s := Load(snap, api.Config{HalfLife: time.Hour})
	spend(s, shareNoon)
	if diff := cmp.Diff(api.QueueUsage{Queue: "a", At: shareNoon, Decayed: 50, Spent: []int64{0}, Total: 90}, spentBy(s, "a")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	spend(s, after(time.Minute))
	if diff := cmp.Diff([]int64{120}, spentBy(s, "a").Spent); diff != "" {
		t.Errorf("a minute later (-want +got):\n%s", diff)
	}
}

func TestBudgetsAreEdited(t *testing.T) {
	hourly := api.Budget{Resource: testGPU, Seconds: 1000, Period: time.Hour}
	queue := api.Queue{Name: "a", Version: 1, Budgets: []api.Budget{hourly}}
	s := Load(with(clusterOf(1, queue), work("x", "a", "n0", gpus(2))), api.Config{})
	spend(s, shareNoon)
	spend(s, after(time.Minute))
	queue.Version, queue.Budgets = 100, []api.Budget{hourly, {Resource: testGPU, Seconds: 9, Period: 24 * time.Hour}}
	s.Apply(api.Change{Queue: &queue})
	spend(s, after(2*time.Minute))
	if diff := cmp.Diff([]int64{240, 120}, spentBy(s, "a").Spent); diff != "" {
		t.Errorf("one more (-want +got):\n%s", diff)
	}
	fewer := queue
	fewer.Version, fewer.Budgets = 200, nil
	s.Apply(api.Change{Queue: &fewer})
	spend(s, after(3*time.Minute))
	if diff := cmp.Diff(api.QueueUsage{Queue: "a", At: after(3 * time.Minute), Total: 360}, spentBy(s, "a")); diff != "" {
		t.Errorf("none (-want +got):\n%s", diff)
	}
	s.Apply(api.Change{Gone: &api.Ref{Kind: api.KindQueue, Key: "a", Version: 300}})
	spend(s, after(4*time.Minute))
	if diff := cmp.Diff(api.QueueUsage{}, spentBy(s, "a")); diff != "" {
		t.Errorf("gone (-want +got):\n%s", diff)
	}
}

// Usage is the same whether the scheduler restarted along the way or not, and total and budgets do not depend on
// when they were added up. It never shrinks but by decay and new periods.
func TestSpendingSurvivesRestarts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		snap := anyTeams(t)
		for i := range snap.Queues {
			if rapid.Bool().Draw(t, "with a budget") {
				snap.Queues[i].Budgets = []api.Budget{{Resource: testGPU, Seconds: 100, Period: time.Duration(rapid.IntRange(1, 300).Draw(t, "period")) * time.Minute, From: after(-time.Second * time.Duration(rapid.IntRange(0, 9999).Draw(t, "from")))}}
			}
		}
		cfg := api.Config{HalfLife: rapid.SampledFrom([]time.Duration{0, time.Hour, 90 * time.Second}).Draw(t, "half-life")}
		one, two, seldom := Load(snap, cfg), Load(snap, cfg), Load(snap, cfg)
		now := shareNoon
		spend(seldom, now)
		spend(one, now)
		spend(two, now)
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(-100, 9000).Draw(t, "step")) * time.Second)
			spend(one, now)
			two = Load(two.m.Dump(), cfg)
			spend(two, now)
			if diff := cmp.Diff(one.m.Dump(), two.m.Dump()); diff != "" {
				t.Fatalf("restarted (-not +restarted):\n%s", diff)
			}
		}
		latest := now
		for _, u := range one.m.Usages {
			if u.At.After(latest) {
				latest = u.At
			}
		}
		spend(seldom, latest)
		spend(one, latest)
		for _, q := range snap.Queues {
			a, b := spentBy(one, q.Name), spentBy(seldom, q.Name)
			x, y := one.ledger.PastUse(one.m.Queues[q.Name], latest), seldom.ledger.PastUse(seldom.m.Queues[q.Name], latest)
			if math.Abs(float64(x-y)) > 40+float64(y)*1e-3 {
				t.Fatalf("%s: %d still count, and %d added up at once", q.Name, x, y)
			}
			a.Decayed, b.Decayed, a.At, b.At = 0, 0, time.Time{}, time.Time{}
			if diff := cmp.Diff(b, a); diff != "" {
				t.Fatalf("%s (-at once +in steps):\n%s", q.Name, diff)
			}
		}
	})
}

// What users of a queue used is added up as what queues did, and forgotten once it does not count any more.
func TestUsersSpend(t *testing.T) {
	fair := api.Queue{Name: "a", Version: 1, FairUsers: true}
	user := func(name string, gpus int64) api.Pod {
		return api.Pod{Key: "x/" + name, Version: 1, Queue: "a", User: name, Node: "n0", Started: shareNoon, Spec: api.Spec{Requests: api.Resources{{Resource: "nvidia.com/gpu", Value: gpus}}}}
	}
	for _, c := range []struct {
		name  string
		queue api.Queue
		half  time.Duration
		want  bool
	}{{"alike", fair, time.Hour, true}, {"not alike", api.Queue{Name: "a", Version: 1}, time.Hour, false}, {"nothing counts", fair, 0, false}} {
		t.Run(c.name, func(t *testing.T) {
			snap := clusterOf(1, c.queue)
			snap.Pods = []api.Pod{user("ann", 3), user("ben", 1)}
			s := Load(snap, api.Config{HalfLife: c.half})
			spend(s, shareNoon)
			spend(s, after(30*time.Minute))
			got := spentBy(s, "a").Users
			if !c.want {
				if got != nil {
					t.Errorf("%+v", got)
				}
				return
			}
			if len(got) != 2 || got[0].User != "ann" || got[0].Decayed < 3*got[1].Decayed-3 || got[0].Decayed > 3*got[1].Decayed+3 || got[1].Decayed < 1200 {
				t.Fatalf("%+v", got)
			}
			s.Apply(api.Change{Gone: &api.Ref{Kind: api.KindPod, Key: "x/ann", Version: 2}})
			spend(s, after(60*time.Hour))
			if got := spentBy(s, "a").Users; len(got) != 1 || got[0].User != "ben" {
				t.Errorf("after sixty half-lives: %+v", got)
			}
		})
	}
}

// Of very many users those who used most are remembered.
func TestOnlySoManyUsersAreRemembered(t *testing.T) {
	snap := clusterOf(1, api.Queue{Name: "a", Version: 1, FairUsers: true})
	u := api.QueueUsage{Queue: "a", Version: 1, At: shareNoon}
	for i := range queue.MostUsers {
		u.Users = append(u.Users, api.UserUsage{User: fmt.Sprintf("u%03d", i), Decayed: int64(1000 + i)})
	}
	snap.Usages = []api.QueueUsage{u}
	snap.Pods = []api.Pod{{Key: "x/new", Version: 1, Queue: "a", User: "new", Node: "n0", Started: shareNoon, Spec: api.Spec{Requests: api.Resources{{Resource: "nvidia.com/gpu", Value: 8}}}}}
	s := Load(snap, api.Config{HalfLife: time.Hour})
	spend(s, after(10*time.Minute))
	got := spentBy(s, "a").Users
	if len(got) != queue.MostUsers || got[0].User != "new" || got[1].User != "u001" {
		t.Errorf("%d: %+v", len(got), got[:2])
	}
	if reason := (&api.QueueUsage{Queue: "a", Users: []api.UserUsage{{User: "b"}, {User: "a"}}}).Check(); reason == "" {
		t.Error("users in no order are taken")
	}
}

// What queues used fades alike for all, so that nothing but its end changes who goes first: until WakeAt the plan is the
// same, to the last second.
func TestPastIsComparedAlikeAtAllTimes(t *testing.T) {
	const half = time.Hour
	snap := clusterOf(1, api.Queue{Name: "a", Version: 1}, api.Queue{Name: "b", Version: 1})
	snap.Usages = []api.QueueUsage{
		{Queue: "a", Version: 1, At: shareNoon, Decayed: 3 << 20},
		{Queue: "b", Version: 1, At: after(time.Hour), Decayed: 1<<20 + 1}, // by then a's is half as much again
	}
	for _, key := range []string{"a", "b"} {
		p := work(key, key, "", api.Resources{{Resource: testGPU, Value: 100}})
		p.Created = shareNoon
		snap = with(snap, p)
	}
	order := func(s *State, at time.Time) string {
		plan := s.Plan(at)
		return plan.Waiting[0].Gang + plan.Waiting[1].Gang
	}
	s := Load(snap, api.Config{HalfLife: half})
	first := order(s, after(time.Hour))
	wake := s.Plan(after(time.Hour)).WakeAt
	if first != "ba" || !wake.After(after(20*half)) {
		t.Fatalf("first %s, then the other, until %v", first[:1], wake)
	}
	for at := after(time.Hour); at.Before(wake); at = at.Add(13 * time.Minute) {
		if got := order(Load(snap, api.Config{HalfLife: half}), at); got != first {
			t.Fatalf("the order is %s %v later", got, at.Sub(after(time.Hour)))
		}
	}
	if got := order(s, after(40*half)); got != "ab" { // of both nothing is left, and the name decides
		t.Errorf("in the end the order is %s", got)
	}
}
