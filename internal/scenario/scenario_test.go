package scenario

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
	"github.com/google/go-cmp/cmp"
)

func TestSplit(t *testing.T) {
	for _, c := range []struct {
		line string
		want []string
	}{
		{"", nil},
		{"  # nothing", nil},
		{"pods a-0  gpus=1\t# one", []string{"pods", "a-0", "gpus=1"}},
		{`pods a-0 affinity="k in (a,b)" x=""`, []string{"pods", "a-0", "affinity=k in (a,b)", "x="}},
		{"issue#3", []string{"issue#3"}},
	} {
		got, err := split(c.line)
		if err != nil {
			t.Errorf("%q: %v", c.line, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.line, diff)
		}
	}
}

func TestExpand(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"n0", "n0"}, {"n[08-10]", "n08 n09 n10"}, {"n[8-10]", "n8 n9 n10"}, {"a,b[0-1]", "a b0 b1"},
		{"r[1-2]-n[0-1]", "r1-n0 r1-n1 r2-n0 r2-n1"}, {"[0-1]x", "0x 1x"},
	} {
		got, err := texts(c.text)
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
		}
		if diff := cmp.Diff(c.want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.text, diff)
		}
	}
	for _, bad := range []string{"", "a,", "n[", "n[1-]", "n[3-1]", "n[a-b]", "n]", "n[0-1", "n[0-999999999]", "n[0-999][0-999]", "n[0-1]]"} {
		if got, err := texts(bad); err == nil {
			t.Errorf("%q gave %q, want an error", bad, got)
		}
	}
}

func TestTerm(t *testing.T) {
	got, err := term("a in (x, y) and b notin (z) and c and !d and e > 5 and f<6 and g=v and h!=w and metadata.name=n1")
	if err != nil {
		t.Fatal(err)
	}
	want := engine.Term{
		Labels: []engine.Requirement{
			{Key: "a", Op: engine.In, Values: []string{"x", "y"}}, {Key: "b", Op: engine.NotIn, Values: []string{"z"}},
			{Key: "c", Op: engine.Exists}, {Key: "d", Op: engine.DoesNotExist},
			{Key: "e", Op: engine.Gt, Values: []string{"5"}}, {Key: "f", Op: engine.Lt, Values: []string{"6"}},
			{Key: "g", Op: engine.In, Values: []string{"v"}}, {Key: "h", Op: engine.NotIn, Values: []string{"w"}},
		},
		Fields: []engine.Requirement{{Key: "metadata.name", Op: engine.In, Values: []string{"n1"}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, bad := range []string{"", "a in x", "=v", "a b", "!", "a in (x) and "} {
		if got, err := term(bad); err == nil {
			t.Errorf("%q gave %v, want an error", bad, got)
		}
	}
}

// told plays the changes of a story and returns what the engine was told, but for versions.
func told(t *testing.T, text string) []engine.Change {
	t.Helper()
	story, err := Parse("story", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(&story.Config, startTime)
	var out []engine.Change
	for _, step := range story.Steps {
		w.now = w.now.Add(step.After)
		for _, e := range step.edits {
			if err := e.apply(w); err != nil {
				t.Fatal(err)
			}
		}
		out = append(out, w.tell(uint64(len(out)))...)
	}
	return out
}

func TestObjects(t *testing.T) {
	got := told(t, `Every kind of object.
-- config --
level rack topology.example/rack
-- start --
node n0 gpus=2 cpu=1.5 memory=2Gi pods=7 storage=1Gi resource=rdma/hca=1 rack=r1 pool=train model=H100:1,A100:1 clique=c numa=2 taint=a=b:NoSchedule label=k=v cordoned
gang ns/g min=2 size=3 queue=q priority=5 created=-1s required=rack preferred=rack segment=2@rack balanced spread=zone whole-nodes
group ns/g x parent=y min=1 required=node
pod ns/p gang=ns/g group=x rank=4 gpus=1 selector=k=v affinity=k prefer="10 k=v" tolerate=a port=80/UDP nodes=n[0-1] models=H100,A100 clique=require numa=prefer feature=mig uid=u
queue q gpus=8
-- then +10s --
refuse ns/p n0 "no room" until=+30s
hold ns/g n0 gpus=1 until=+1m
pod ns/p on=n0 devices=gpu-1 evictable terminating release=+5s
lose n0 gpu-0
gone queue q
`)
	rack := engine.Layout{Required: "rack", Preferred: "rack", Segment: 2, SegmentLevel: "rack", Balanced: true, Spread: "zone", WholeNodes: true}
	node := engine.Node{
		Name: "n0", Version: 1, Pool: "train", Cordoned: true,
		Labels: map[string]string{"topology.example/rack": "r1", "k": "v"},
		Taints: []engine.Taint{{Key: "a", Value: "b", Effect: engine.NoSchedule}},
		Allocatable: engine.Resources{
			{Resource: "cpu", Value: 1500}, {Resource: "memory", Value: 2 << 30}, {Resource: "pods", Value: 7},
			{Resource: "nvidia.com/gpu", Value: 2}, {Resource: "ephemeral-storage", Value: 1 << 30}, {Resource: "rdma/hca", Value: 1},
		},
		Devices: []engine.Device{{ID: "n0/gpu-0", Model: "H100", Clique: "c"}, {ID: "n0/gpu-1", Model: "A100", Clique: "c", NUMA: 1}},
	}
	gang := engine.Gang{
		Key: "ns/g", Version: 2, Queue: "q", Priority: 5, Created: startTime.Add(-time.Second),
		Group:  engine.Group{Min: 2, Size: 3, Layout: rack},
		Groups: []engine.Group{{Name: "x", Parent: "y", Min: 1, Layout: engine.Layout{Required: "node"}}},
	}
	pod := engine.Pod{
		Key: "ns/p", UID: "u", Version: 3, Gang: "ns/g", Subgroup: "x", Rank: 4, Created: startTime,
		Spec: engine.Spec{
			Requests:    engine.Resources{{Resource: "nvidia.com/gpu", Value: 1}},
			Selector:    map[string]string{"k": "v"},
			Affinity:    []engine.Term{{Labels: []engine.Requirement{{Key: "k", Op: engine.Exists}}}},
			Preferred:   []engine.Preference{{Weight: 10, Term: engine.Term{Labels: []engine.Requirement{{Key: "k", Op: engine.In, Values: []string{"v"}}}}}},
			Tolerations: []engine.Toleration{{Key: "a", Op: "Exists"}},
			Ports:       []engine.Port{{Protocol: "UDP", Port: 80}},
			Nodes:       []string{"n0", "n1"},
			GPU:         engine.GPU{Models: []string{"H100", "A100"}, Clique: engine.Require, NUMA: engine.Prefer},
			Features:    []why.Feature{why.MIG},
		},
	}
	bound, broken := pod, node
	bound.Version, bound.Node, bound.Devices = 5, "n0", []string{"n0/gpu-1"}
	bound.Evictable, bound.Terminating, bound.ReleaseAt = true, true, startTime.Add(15*time.Second)
	broken.Version = 6
	broken.Allocatable = withAmount(node.Allocatable, engine.Amount{Resource: "nvidia.com/gpu", Value: 1})
	broken.Devices = []engine.Device{{ID: "n0/gpu-0", Model: "H100", Clique: "c", Unhealthy: true}, node.Devices[1]}
	want := []engine.Change{
		{Node: &node}, {Gang: &gang}, {Pod: &pod}, {Queue: &engine.Queue{Name: "q", Version: 4, Limits: engine.Resources{{Resource: "nvidia.com/gpu", Value: 8}}}},
		{Pod: &bound}, {Node: &broken}, {Gone: &engine.Ref{Kind: engine.KindQueue, Key: "q", Version: 7}},
		{Refusal: &engine.Refusal{Pod: "ns/p", UID: "u", Version: 8, Node: "n0", Reason: "no room", Until: startTime.Add(40 * time.Second)}},
		{Hold: &engine.Hold{Gang: "ns/g", Version: 9, Node: "n0", Requests: engine.Resources{{Resource: "nvidia.com/gpu", Value: 1}}, Until: startTime.Add(70 * time.Second)}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestObjectsOfPolicy(t *testing.T) {
	got := told(t, `What decides who gets what, and when.
-- config --
gpu gpu
-- start --
queue q[0-1] parent=all quota=gpus=8,gpus@H100=4 limit=cpu=64 gpus=16 lend=gpus=2 user-limit=gpus=4 weight=2 priority=3 max-running=5 fair-users budget=gpus=100h/24h budget=cpu=1h/2h min-run=5m warning=30s promote-after=1h reclaim-idle=10m keep-budgets packing=loose
gang ns/g queue=q0 user=ann expected=1h max-run=2h like=train checkpoint=10m restart=1m grace=30s delay=2m patient core
pod ns/p queue=q0 user=bob expected=1h patient started=-1h idle=-10m budgets=ns/b,ns/a evictable surges
pod ns/other foreign
disruption ns/a allowed=1
booking b queue=q0 nodes=n[0-1] from=+1h to=+2h
-- then +1m --
queue q1 quota= lend= fair-users= keep-budgets= budget= min-run= limit=
pod ns/p evictable= started= patient= surges=
eviction ns/p moved for=ns/g to=n1 at=+30s until=+2m refused surge
promise ns/g since=-1m start=+1h nodes=n[0-1]
usage q0 decayed=60 spent=10,20 total=90 at=-1m
run-time-estimate train count=20 short=30m median=1h long=2h
degradation ns/g since=-30s
hold ns/g n0 gpus=1 until=+1m coming
gone booking b
gone eviction ns/old
`)
	amount := func(resource string, v int64) engine.Amount { return engine.Amount{Resource: resource, Value: v} }
	at := func(d time.Duration) time.Time { return startTime.Add(d) }
	queue := engine.Queue{
		Name: "q0", Version: 1, Parent: "all", Quota: engine.Resources{amount("gpu", 8), amount("gpu@H100", 4)},
		Limits: engine.Resources{amount("cpu", 64000), amount("gpu", 16)}, Lend: engine.Resources{amount("gpu", 2)},
		UserLimits: engine.Resources{amount("gpu", 4)}, Weight: 2, Priority: 3, MaxRunning: 5, FairUsers: true, KeepBudgets: true, Packing: engine.Loose,
		Budgets: []engine.Budget{
			{Resource: "gpu", Seconds: 360_000, Period: 24 * time.Hour, From: startTime},
			{Resource: "cpu", Seconds: 3_600_000, Period: 2 * time.Hour, From: startTime},
		},
		MinRun: 5 * time.Minute, Warning: 30 * time.Second, PromoteAfter: time.Hour, ReclaimIdle: 10 * time.Minute,
	}
	second := queue
	second.Name, second.Version = "q1", 2
	less := second
	less.Version, less.Quota, less.Limits, less.Lend, less.Budgets, less.MinRun, less.FairUsers, less.KeepBudgets = 8, nil, nil, nil, nil, 0, false, false
	gang := engine.Gang{Key: "ns/g", Version: 3, Queue: "q0", User: "ann", Created: startTime, Core: true, Terms: engine.Terms{
		Expected: time.Hour, Max: 2 * time.Hour, Like: "train", Checkpoint: 10 * time.Minute, Restart: time.Minute,
		Grace: 30 * time.Second, Delay: 2 * time.Minute, Patient: true,
	}}
	pod := engine.Pod{
		Key: "ns/p", Version: 4, Queue: "q0", User: "bob", Created: startTime, Terms: engine.Terms{Expected: time.Hour, Patient: true},
		Started: at(-time.Hour), Idle: at(-10 * time.Minute), Budgets: []string{"ns/a", "ns/b"}, Evictable: true, Surges: true,
	}
	kept := pod
	kept.Version, kept.Evictable, kept.Started, kept.Terms.Patient, kept.Surges = 9, false, time.Time{}, false, false
	now := time.Minute
	want := []engine.Change{
		{Queue: &queue}, {Queue: &second}, {Gang: &gang}, {Pod: &pod},
		{Pod: &engine.Pod{Key: "ns/other", Version: 5, Created: startTime, Foreign: true}},
		{Disruption: &engine.Disruption{Key: "ns/a", Version: 6, Allowed: 1}},
		{Booking: &engine.Booking{Name: "b", Version: 7, Queue: "q0", Nodes: []string{"n0", "n1"}, From: at(time.Hour), To: at(2 * time.Hour)}},
		{Queue: &less}, {Pod: &kept}, {Gone: &engine.Ref{Kind: engine.KindBooking, Key: "b", Version: 10}},
		{Eviction: &engine.Eviction{Pod: "ns/p", Version: 11, Cause: engine.Moved, For: "ns/g", To: "n1", Surge: true, At: at(now + 30*time.Second), Until: at(now + 2*time.Minute), Refused: true}},
		{Promise: &engine.Promise{Gang: "ns/g", Version: 12, Since: at(0), Start: at(now + time.Hour), Nodes: []string{"n0", "n1"}}},
		{Usage: &engine.QueueUsage{Queue: "q0", Version: 13, At: at(0), Decayed: 60, Spent: []int64{10, 20}, Total: 90}},
		{RunTimeEstimate: &engine.RunTimeEstimate{Like: "train", Version: 14, Count: 20, Short: 30 * time.Minute, Median: time.Hour, Long: 2 * time.Hour}},
		{Degradation: &engine.Degradation{Gang: "ns/g", Version: 15, Since: at(30 * time.Second)}},
		{Hold: &engine.Hold{Gang: "ns/g", Version: 16, Node: "n0", Requests: engine.Resources{amount("gpu", 1)}, Until: at(now + time.Minute), Coming: true}},
		{Gone: &engine.Ref{Kind: engine.KindEviction, Key: "ns/old", Version: 17}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestConfigOfPolicy(t *testing.T) {
	story, err := Parse("f", []byte("x\n-- config --\npolicy timeshare\nheads -1\nhalf-life 1h\nmin-run 5m\nrestart 2m\nrate H100 2\nrate B200 4\nmoves off\nmoves background 3600\n-- start --\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := engine.Config{
		Policy: engine.TimeShare, Heads: -1, HalfLife: time.Hour, MinRun: 5 * time.Minute, Restart: 2 * time.Minute,
		Rates: []engine.Rate{{Model: "H100", Units: 2}, {Model: "B200", Units: 4}}, Moves: engine.Moves{Off: true, Background: 3600},
	}
	if diff := cmp.Diff(want, story.Config); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A plan's victims are told to end when their time has come and not before, end when their grace is over, and come
// back as new pods that wait.
func TestVictimsEndAndComeBack(t *testing.T) {
	story, err := Parse("f", []byte(`x
-- start --
nodes n0 gpus=8
gang team/a grace=20s
pods team/a-[0-1] gang=team/a gpus=1 on=n0 evictable started=-1h idle=-1m
pod team/b gpus=1 on=n0 evictable
eviction team/a-0 reclaimed for=x/y until=+5m
eviction team/a-1 reclaimed for=x/y at=+30s until=+5m
eviction team/b reclaimed for=x/y at=+30s until=+5m
-- then +30s --
gone eviction team/b
-- then +19s --
leave
-- then +1s --
leave
-- then again --
leave team/a-0
`))
	if err != nil {
		t.Fatal(err)
	}
	p := NewPlayer(story)
	shown := func() (out []string) {
		for _, pod := range p.State.Dump().Pods {
			line := pod.Key + " " + pod.Node
			if pod.Terminating {
				line += " until " + pod.ReleaseAt.Sub(startTime).String()
			}
			if pod.Node == "" && pod.UID != "" && pod.Started.IsZero() && pod.Idle.IsZero() && pod.Created.Equal(p.Now) {
				line += "waits, new"
			}
			out = append(out, line)
		}
		return out
	}
	step := func(i int, want ...string) {
		t.Helper()
		if _, err := p.Do(story.Steps[i]); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			p.bind(engine.Plan{Evictions: p.State.Dump().Evictions})
		}
		if diff := cmp.Diff(want, shown()); diff != "" {
			t.Errorf("after step %d (-want +got):\n%s", i, diff)
		}
	}
	step(0, "team/a-0 n0 until 20s", "team/a-1 n0", "team/b n0")
	step(1, "team/a-0 n0 until 20s", "team/a-1 n0 until 50s", "team/b n0 until 30s")
	step(2, "team/a-0 waits, new", "team/a-1 n0 until 50s", "team/b waits, new")
	step(3, "team/a-0 ", "team/a-1 waits, new", "team/b ")
	if _, err := p.Do(story.Steps[4]); err == nil || !strings.Contains(err.Error(), "a pod that is terminating") {
		t.Errorf("a pod that is not terminating left: %v", err)
	}
}

// What the engine gave up before its time is not carried out.
func TestEvictionGivenUp(t *testing.T) {
	story, err := Parse("f", []byte("x\n-- start --\nnodes n0 gpus=8\npod a gpus=1 on=n0 evictable\neviction a reclaimed at=+30s until=+5m\n-- then +10s --\ngone eviction a\n-- then +20s --\n"))
	if err != nil {
		t.Fatal(err)
	}
	p := NewPlayer(story)
	for i, step := range story.Steps {
		if _, err := p.Do(step); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			p.bind(engine.Plan{Evictions: p.State.Dump().Evictions})
		}
	}
	if pod := p.State.Dump().Pods[0]; pod.Terminating {
		t.Errorf("it was told to end: %+v", pod)
	}
}

func TestWorkloadsEnd(t *testing.T) {
	story, err := Parse("f", []byte("x\n-- start --\nnodes n0 gpus=8\ngang t/g\npods t/g-[0-1] gang=t/g\npods t/a,t/b\n-- then they end --\nend t/g,t/a\n-- then again --\nend t/a\n"))
	if err != nil {
		t.Fatal(err)
	}
	p := NewPlayer(story)
	for _, step := range story.Steps[:2] {
		if _, err := p.Do(step); err != nil {
			t.Fatal(err)
		}
	}
	snap := p.State.Dump()
	if len(snap.Gangs) != 0 || len(snap.Pods) != 1 || snap.Pods[0].Key != "t/b" {
		t.Errorf("gangs %v, pods %v, want t/b alone", snap.Gangs, snap.Pods)
	}
	if _, err := p.Do(story.Steps[2]); err == nil || !strings.Contains(err.Error(), "a gang or a pod that exists") {
		t.Errorf("what is gone ended: %v", err)
	}
}

func TestPodsShareNodesInOrder(t *testing.T) {
	var got []string
	for _, c := range told(t, "Four pods on two nodes.\n-- start --\npods p-[8-11] on=n[0-1] devices=gpu-[0-3]\n") {
		got = append(got, c.Pod.Key+" "+c.Pod.Node+" "+c.Pod.Devices[0])
	}
	want := []string{"p-8 n0 n0/gpu-0", "p-9 n0 n0/gpu-1", "p-10 n1 n1/gpu-2", "p-11 n1 n1/gpu-3"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestHeadings(t *testing.T) {
	for _, c := range []struct {
		name string
		want Step
	}{
		{"start", Step{Kind: Change, Title: "start"}},
		{"then a GPU fails", Step{Kind: Change, Title: "a GPU fails"}},
		{"then +30s", Step{Kind: Change, After: 30 * time.Second}},
		{"then -5s the clock is set", Step{Kind: Change, Title: "the clock is set", After: -5 * time.Second}},
		{"explain team/a", Step{Kind: Explain, Key: "team/a"}},
		{"plan only", Step{Kind: PlanOnly}},
		{"queues", Step{Kind: Queues}},
	} {
		got, err := heading(c.name)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if got.Kind != c.want.Kind || got.Title != c.want.Title || got.After != c.want.After || got.Key != c.want.Key {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestErrorsNameTheLineAndWhatWasExpected(t *testing.T) {
	for _, c := range []struct{ text, line, expected string }{
		{"-- start --\n", "f:1:", "what the story teaches"},
		{"x\n", "f:2:", "-- start --"},
		{"x\n-- plan --\n", "f:2:", "-- start --"},
		{"x\n-- start --\n-- start --\n", "f:3:", "no other"},
		{"x\n-- start --\n-- config --\n", "f:3:", "on top"},
		{"x\n-- start --\n-- later --\n", "f:3:", "then ..."},
		{"x\n-- config --\nlevel rack\n-- start --\n", "f:3:", "level NAME LABEL"},
		{"x\n-- config --\n\nspeed 3\n-- start --\n", "f:4:", "search-budget"},
		{"x\n-- start --\n\n# a comment\nnods n0\n", "f:5:", "nodes, pods, gang"},
		{"x\n-- start --\nnodes\n", "f:3:", "a name"},
		{"x\n-- start --\nnodes n[0-\n", "f:3:", "n[00-15]"},
		{"x\n-- start --\nnodes n0 gpu=8\n", "f:3:", "pool="},
		{"x\n-- start --\nnodes n0 gpus=many\n", "f:3:", "whole number"},
		{"x\n-- start --\nnodes n0 gpus\n", "f:3:", "one of"},
		{"x\n-- start --\nnodes n0 memory=9999999Ti\n", "f:3:", "whole number"},
		{"x\n-- start --\nnodes n0 taint=a\n", "f:3:", "KEY:EFFECT"},
		{"x\n-- start --\npods a affinity=\"k in a\"\n", "f:3:", "k in (a,b)"},
		{"x\n-- start --\npods a affinity=\"k\n", "f:3:", `a closing "`},
		{"x\n-- start --\npods a created=5s\n", "f:3:", "+30s"},
		{"x\n-- start --\npods a clique=yes\n", "f:3:", "prefer or require"},
		{"x\n-- start --\ngang a segment=4\n", "f:3:", "SIZE@LEVEL"},
		{"x\n-- start --\nrefuse a n0\n", "f:3:", "REASON"},
		{"x\n-- start --\ngone pod\n", "f:3:", "NAMES"},
		{"x\n-- start --\ngone moon a\n", "f:3:", "run-time-estimate"},
		{"x\n-- config --\nrate H100\n-- start --\n", "f:3:", "rate MODEL UNITS"},
		{"x\n-- config --\nmoves often\n-- start --\n", "f:3:", "moves off"},
		{"x\n-- start --\nqueue q quota=8\n", "f:3:", "gpus=8,cpu=64"},
		{"x\n-- start --\nqueue q budget=gpus=5\n", "f:3:", "gpus=100h/24h"},
		{"x\n-- start --\nqueue q min-run=5\n", "f:3:", "90s"},
		{"x\n-- start --\nqueue q fair-users=yes\n", "f:3:", "an empty one"},
		{"x\n-- start --\neviction a for=b\n", "f:3:", "CAUSE"},
		{"x\n-- start --\nusage q spent=a\n", "f:3:", "whole number"},
		{"x\n-- start --\nend a b\n", "f:3:", "end KEYS"},
		{"x\n-- --\n", "f:2:", "a name"},
		{"x\n-- start --\n-- then --\n", "f:3:", "then ..."},
		// Found only while the story plays.
		{"x\n-- start --\n-- then more --\ncordon n0\n", "f:4:", "a node that exists"},
		{"x\n-- start --\ngroup a b\n", "f:3:", "a gang that exists"},
		{"x\n-- start --\ngone pod a\n", "f:3:", "a pod that exists"},
	} {
		story, err := Parse("f", []byte(c.text))
		if err == nil {
			_, err = Run(story)
		}
		if err == nil || !strings.HasPrefix(err.Error(), c.line) || !strings.Contains(err.Error(), c.expected) {
			t.Errorf("%q: got error %v, want it to start with %s and to contain %q", c.text, err, c.line, c.expected)
		}
	}
}
