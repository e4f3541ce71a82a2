package why

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// constants are the values of the constants of one type in why.go.
func constants(t *testing.T, typ string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "why.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if id, ok := spec.Type.(*ast.Ident); !ok || id.Name != typ {
			return true
		}
		for _, v := range spec.Values {
			s, err := strconv.Unquote(v.(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, s)
		}
		return true
	})
	if len(out) == 0 {
		t.Fatalf("why.go has no constants of type %s", typ)
	}
	return out
}

func TestEveryCauseHasAMeaningAndASentence(t *testing.T) {
	seen := map[string]string{}
	for _, c := range constants(t, "Cause") {
		m := Meaning(Cause(c))
		if m == "" || strings.Contains(m, "\n") {
			t.Errorf("cause %s has the meaning %q, want one line", c, m)
		}
		if other, ok := seen[m]; ok {
			t.Errorf("causes %s and %s mean the same", c, other)
		}
		seen[m] = c
		if s := (Gate{Cause: Cause(c), Object: "thing", Need: 3, Have: 1, Limit: 2, Certificate: -1}).Sentence(nil); s == "" {
			t.Errorf("cause %s has no sentence", c)
		}
	}
	if m := Meaning("no-such-cause"); m != "" {
		t.Errorf("an unknown cause means %q, want nothing", m)
	}
}

func TestEveryClauseKindHasAPhraseOfItsOwn(t *testing.T) {
	seen := map[string]string{}
	for _, k := range constants(t, "ClauseKind") {
		s := Clause{Kind: ClauseKind(k), Detail: "x", Nodes: 4}.Text()
		if !strings.Contains(s, "4 nodes") {
			t.Errorf("clause %s reads %q: how many nodes?", k, s)
		}
		if other, ok := seen[s]; ok {
			t.Errorf("clauses %s and %s read the same: %q", k, other, s)
		}
		seen[s] = k
	}
}

func TestSentence(t *testing.T) {
	gpu := []Amount{{Resource: "nvidia.com/gpu", Value: 1}}
	racks := Certificate{
		Need: 16, Level: "rack", Request: gpu, Total: 27, IfEvicted: 9,
		Domains: []Domain{
			{Name: "", Rows: []Row{{Nodes: 2, Short: []Short{{"nvidia.com/gpu", 2, 1}}}}},
			{Name: "r1", Fits: 8, Rows: []Row{{Nodes: 4, Removed: []Clause{{ByTaint, "team=vision:NoSchedule", 3}}, Short: []Short{{"nvidia.com/gpu", 1, 1}}}}},
			{Name: "r2", Fits: 9, Rows: []Row{{Nodes: 2, Short: []Short{{"nvidia.com/gpu", 2, 1}}}, {Nodes: 1, Removed: []Clause{{ByTaint, "team=vision:NoSchedule", 1}}}}},
			{Name: "r3", Fits: 9, Rows: []Row{{Nodes: 7, Short: []Short{{"nvidia.com/gpu", 7, 1}}}}},
		},
	}
	anywhere := Certificate{
		Need: 1, Request: []Amount{{Resource: "cpu", Value: 1500}, {Resource: "memory", Value: 64 << 30}, {Resource: "nvidia.com/gpu", Value: 8}}, Model: "H100", Total: 0, IfEvicted: 1,
		Domains: []Domain{{Rows: []Row{{Nodes: 1, Short: []Short{{"cpu", 1, 500}}}}}},
		Classes: []Class{{Allocatable: []Amount{{Resource: "cpu", Value: 1000}, {Resource: "nvidia.com/gpu", Value: 8}}}, {Allocatable: []Amount{{Resource: "cpu", Value: 1200}, {Resource: "memory", Value: 64 << 30}}}},
	}
	segmented := Certificate{
		Need: 8, Level: "block", Segment: 4, SegmentLevel: "rack", Request: gpu, Total: 9,
		Domains: []Domain{{Name: "b1", Fits: 6, Segments: 0}, {Name: "b2", Fits: 5, Segments: 1}},
	}
	pinned := Certificate{
		Need: 2, Level: "rack", Pinned: "r1", Request: gpu, Total: 9, IfEvicted: 1,
		Domains: []Domain{{Name: "r1", Fits: 1}, {Name: "r2", Fits: 8}},
	}
	shared := Certificate{Need: 1, Request: gpu, Domains: []Domain{{Rows: []Row{{Nodes: 4, Removed: []Clause{
		{BySelector, "a=b", 1}, {BySelector, "c=d", 1}, {ByWholeNode, "x", 2}, {ByWholeNode, "y", 1}, {ByWholeNode, "z", 1},
	}}}}}}
	certs := []Certificate{racks, anywhere, segmented, pinned, shared}
	for _, c := range []struct {
		name string
		gate Gate
		want string
	}{
		{"best domain", Gate{Cause: TopologyFragmented, Certificate: 0},
			"needs 16 pods of 1 nvidia.com/gpu, all in one rack; the best, r2, fits 9 (27 in all); nvidia.com/gpu short by at least 1 on 12 nodes; taint team=vision:NoSchedule excludes 4 nodes; 2 nodes in no rack"},
		{"anywhere", Gate{Cause: Stranded, Certificate: 1},
			"needs 1 pod of 1.5 cpu + 64Gi memory + 8 nvidia.com/gpu + model H100; 0 fit; cpu short by 0.5 on 1 node"},
		{"eviction", Gate{Cause: ClusterFull, Certificate: 1},
			"needs 1 pod of 1.5 cpu + 64Gi memory + 8 nvidia.com/gpu + model H100; 0 fit; cpu short by 0.5 on 1 node; up to 1 would fit if all that may be evicted or is leaving were gone"},
		{"pinned", Gate{Cause: TopologyFragmented, Object: "rack", Certificate: 3},
			"needs 2 pods of 1 nvidia.com/gpu, all in one rack; r1, where its members run, fits 1 (9 in all)"},
		{"as many workloads as nodes", Gate{Cause: Fragmented, Certificate: 4},
			"needs 1 pod of 1 nvidia.com/gpu; 0 fit; selector a=b excludes 1 node; selector c=d excludes 1 node; 4 nodes cannot be shared with 3 other workloads"},
		{"tried", Gate{Cause: TopologyFragmented, Need: 10, Certificate: -1}, "needs 10 pods together; every way to place them was tried and none works"},
		{"larger", Gate{Cause: LargerThanAnyNode, Certificate: 1}, "one pod needs 1.5 cpu; the largest node has 1.2"},
		{"segments", Gate{Cause: TopologyFragmented, Object: "workers", Certificate: 2},
			"workers needs 8 pods of 1 nvidia.com/gpu in segments of 4, each in one rack, all in one block; the best, b2, fits 1 whole segment (9 pods in all)"},
		{"incomplete", Gate{Cause: GangIncomplete, Object: "team/a", Need: 8, Have: 1, Certificate: -1}, "team/a needs 8 members to start; 1 exists"},
		{"too few groups", Gate{Cause: GangIncomplete, Resource: Groups, Need: 2, Have: 1, Certificate: -1}, "needs 2 groups to start; 1 exists"},
		{"no composite group", Gate{Cause: GangMissing, Object: "team/compositepodgroup/a", Certificate: -1}, "CompositePodGroup team/a does not exist"},
		{"limit", Gate{Cause: OverQueueLimit, Object: "q", Resource: "memory", Need: 1 << 30, Have: 1 << 20, Limit: 1<<30 + 1, Certificate: -1},
			"needs 1Gi memory of queue q, which uses 1Mi of 1073741825"},
		{"maximum", Gate{Cause: ExceedsQueueMaximum, Object: "q", Resource: "nvidia.com/gpu", Need: 16, Limit: 8, Certificate: -1},
			"needs 16 nvidia.com/gpu of queue q, whose limit is 8"},
		{"budget", Gate{Cause: SearchBudget, Need: 20000, Certificate: -1}, "no place found in 20000 steps; one may exist"},
		{"a certificate that is not there", Gate{Cause: ClusterFull, Need: 3, Have: 2, Certificate: 7}, "needs 3 pods; there is room for 2"},
	} {
		if diff := cmp.Diff(c.want, c.gate.Sentence(certs)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestQuantity(t *testing.T) {
	for _, c := range []struct {
		resource string
		value    int64
		want     string
	}{
		{"cpu", 64000, "64"}, {"cpu", 1500, "1.5"}, {"cpu", 1, "0.001"}, {"cpu", -500, "-0.5"}, {"cpu", 0, "0"},
		{"memory", 512 << 30, "512Gi"}, {"memory", 1 << 40, "1Ti"}, {"memory", 3 << 20, "3Mi"}, {"memory", 1 << 10, "1Ki"},
		{"memory", 1000, "1000"}, {"memory", 0, "0"}, {"memory", -(2 << 30), "-2Gi"},
		{"ephemeral-storage", 1 << 30, "1Gi"}, {"hugepages-2Mi", 4 << 20, "4Mi"}, {"nvidia.com/gpu", 1024, "1024"},
	} {
		if got := Quantity(c.resource, c.value); got != c.want {
			t.Errorf("Quantity(%s, %d) = %s, want %s", c.resource, c.value, got, c.want)
		}
	}
}

// What a workload needs of a queue's flavor is said in words, not in the engine's name of the two.
func TestNeeds(t *testing.T) {
	for want, g := range map[string]Gate{
		"16 amd.com/gpu in flavor cpu-only": {Resource: "amd.com/gpu#cpu-only", Need: 16},
		"1.5 nvidia.com/gpu":                {Resource: "nvidia.com/gpu", Need: 1500, Milli: true},
		"2 pods":                            {Need: 2},
	} {
		if got := g.Needs(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
