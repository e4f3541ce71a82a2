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
	broken.Allocatable = withAmount(node.Allocatable, "nvidia.com/gpu", 1)
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
