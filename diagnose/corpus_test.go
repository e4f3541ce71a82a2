package diagnose_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/diagnose"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/cluster"
	"github.com/berth-dev/berth/kube/devices"
)

var seed = flag.Uint64("seed", 0, "draws names, counts and versions of the corpus; 0: for TestScore by the clock, for others 1")

// fixedSeed is for tests that pass or fail for good.
func fixedSeed() uint64 { return cmp.Or(*seed, 1) }

// drawn is what one run makes of a case: names, counts and a Kubernetes version, the same for objects and answer.
type drawn struct {
	rand    *rand.Rand
	now     time.Time
	version int // minor
	names   map[string]string
	counts  map[string]int
}

func draw(t *testing.T, seed uint64) *drawn {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	return &drawn{rand: r, now: time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC), version: 30 + r.IntN(8), names: map[string]string{}, counts: map[string]int{}}
}

func (d *drawn) name(key string) string {
	if d.names[key] == "" {
		b := make([]byte, 5)
		for i := range b {
			b[i] = "bcdfghjklmnpqrstvwxz"[d.rand.IntN(20)]
		}
		d.names[key] = key + "-" + string(b)
	}
	return d.names[key]
}

func (d *drawn) count(key string, from, to int) int {
	if _, ok := d.counts[key]; !ok {
		d.counts[key] = from + d.rand.IntN(to-from+1)
	}
	return d.counts[key]
}

// refused is the scheduler's message in the words of the drawn version. never is of how many nodes preemption is not helpful.
func (d *drawn) refused(nodes int, reasons []any, never int) string {
	var words []string
	for _, r := range reasons {
		words = append(words, fmt.Sprint(r))
	}
	s := fmt.Sprintf("0/%d nodes are available: %s. ", nodes, strings.Join(words, ", "))
	if d.version >= 34 && d.version <= 36 {
		s += "no new claims to deallocate, "
	}
	var suffix []string
	if never > 0 {
		suffix = append(suffix, fmt.Sprintf("%d Preemption is not helpful for scheduling", never))
	}
	if never < nodes {
		suffix = append(suffix, fmt.Sprintf("%d No preemption victims found for incoming pod", nodes-never))
	}
	return s + fmt.Sprintf("preemption: 0/%d nodes are available: %s.", nodes, strings.Join(suffix, ", "))
}

func (d *drawn) render(t *testing.T, file string) []byte {
	t.Helper()
	funcs := template.FuncMap{
		"name": d.name, "n": d.count, "refused": d.refused,
		"mark":    why.NewMarker([]byte("the cluster's secret")).Mark,
		"minor":   func() int { return d.version },
		"version": func() string { return fmt.Sprintf("v1.%d.1", d.version) },
		"pin":     func(minor int) string { d.version = minor; return "" },
		"ago": func(s string) string {
			x, err := time.ParseDuration(s)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			return d.now.Add(-x).Format(time.RFC3339)
		},
		"seq": func(n int) []int {
			out := make([]int, n)
			for i := range out {
				out[i] = i
			}
			return out
		},
		"add": func(a, b int) int { return a + b }, "mul": func(a, b int) int { return a * b },
		"list": func(v ...any) []any { return v },
		"dict": func(kv ...any) map[string]any {
			m := map[string]any{}
			for i := 0; i+1 < len(kv); i += 2 {
				m[kv[i].(string)] = kv[i+1]
			}
			return m
		},
		"isSet": func(m map[string]any, key string) bool { _, ok := m[key]; return ok },
		"json":  func(v any) string { b, _ := json.Marshal(v); return string(b) },
	}
	parts, err := filepath.Glob("testdata/*.tmpl")
	if err != nil {
		t.Fatal(err)
	}
	tmpl, err := template.New(filepath.Base(file)).Option("missingkey=zero").Funcs(funcs).ParseFiles(append(parts, file)...)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	var b bytes.Buffer
	if err := tmpl.ExecuteTemplate(&b, filepath.Base(file), map[string]any{}); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return b.Bytes()
}

// answer is what a case must come to. Fix is a regular expression for the words of one of the fixes; "none" says that
// there must be none, and "" does not care.
type answer struct {
	Target    string   `json:"target"`
	Namespace string   `json:"namespace"`
	State     string   `json:"state"`
	Layer     string   `json:"layer"`
	Cause     string   `json:"cause"`
	Owner     string   `json:"owner"`
	Fix       string   `json:"fix"`
	Also      []string `json:"also"`  // causes of further blockers
	Names     string   `json:"names"` // a regular expression for the leading blocker's message and evidence
}

// testCase is one case, drawn.
type testCase struct {
	name  string
	facts *facts.Facts
	answer
}

func loadCase(t *testing.T, name string, seed uint64) testCase {
	t.Helper()
	d := draw(t, seed)
	objects := d.render(t, filepath.Join("testdata/cases", name))
	facts := readFacts(t, name, objects, d)
	var a answer
	if err := yaml.UnmarshalStrict(d.render(t, filepath.Join("testdata/answers", name)), &a); err != nil {
		t.Fatalf("answer %s: %v", name, err)
	}
	return testCase{name: name, facts: facts, answer: a}
}

// readBeside are kinds of groups that have rows in the table, and have none themselves: clusters serve them, and they are read.
var readBeside = []string{"VolumeAttachment", "MultiKueueConfig", "MultiKueueCluster"}

// readFacts reads objects as an API server would give them. Two kinds of document are not objects: "kind: Unseen"
// lists what may not be read, and "kind: Logs" has the last lines of containers.
func readFacts(t *testing.T, name string, objects []byte, d *drawn) *facts.Facts {
	t.Helper()
	f := &facts.Facts{At: d.now, Kubernetes: fmt.Sprintf("v1.%d.1", d.version), Logs: map[string]string{}, Matches: devices.NewMatcher(), NewAllocator: devices.NewAllocator()}
	for _, doc := range regexp.MustCompile(`(?m)^---\s*$`).Split(string(objects), -1) {
		if strings.TrimSpace(doc) == "" {
			continue
		}
		b, err := yaml.YAMLToJSON([]byte(doc))
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, doc)
		}
		var head struct {
			APIVersion, Kind string
			Items            []facts.Unseen
			Lines            map[string]string
		}
		if err := json.Unmarshal(b, &head); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, doc)
		}
		switch head.Kind {
		case "Unseen":
			f.Unseen = append(f.Unseen, head.Items...)
			continue
		case "Logs":
			for k, v := range head.Lines {
				f.Logs[k] = v
			}
			continue
		}
		group, _, ok := strings.Cut(head.APIVersion, "/")
		if !ok {
			group = ""
		}
		k := facts.KindOf(group, head.Kind)
		beside := slices.Contains(readBeside, head.Kind) || !slices.ContainsFunc(facts.Kinds, func(k *facts.KindInfo) bool { return k.Group == group })
		if k == nil && beside { // of a project that no check knows, or a kind that is read beside the table
			k = facts.Found(schema.FromAPIVersionAndKind(head.APIVersion, head.Kind))
		}
		if k == nil {
			t.Fatalf("%s: nobody gathers %s of %s", name, head.Kind, head.APIVersion)
		}
		o := k.New()
		if u, ok := o.(*unstructured.Unstructured); ok {
			err = json.Unmarshal(b, &u.Object)
		} else {
			err = json.Unmarshal(b, o)
		}
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, doc)
		}
		k.Add(&f.Objects, o)
	}
	return f
}

// caseNames are all cases, like "quota-exceeded/job.yaml".
func caseNames(t *testing.T) []string {
	t.Helper()
	var out []string
	err := fs.WalkDir(os.DirFS("testdata/cases"), ".", func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (c *testCase) diagnose(t *testing.T) diagnose.Diagnosis {
	t.Helper()
	return c.diagnoseWithout(t, "")
}

// diagnoseWithout does it without a check.
func (c *testCase) diagnoseWithout(t *testing.T, cause why.Cause) diagnose.Diagnosis {
	t.Helper()
	d := diagnose.New(c.facts, cluster.NewModel(cluster.ModelOptions{})).Without(cause)
	kind, name, _ := strings.Cut(c.Target, "/")
	kind, err := facts.ParseKind(kind)
	if err != nil {
		t.Fatalf("%s: target %s: %v", c.name, c.Target, err)
	}
	got, err := d.Why(facts.Ref{Kind: kind, Namespace: c.Namespace, Name: name})
	if err != nil {
		t.Fatalf("%s: %v", c.name, err)
	}
	return got
}

// wrong lists what of the answer is not as it should be.
func (c *testCase) wrong(got diagnose.Diagnosis) (out []string) {
	say := func(what, got, want string) {
		if got != want && want != "" {
			out = append(out, fmt.Sprintf("%s is %q, want %q", what, got, want))
		}
	}
	say("layer", string(got.Layer), c.Layer)
	say("cause", string(got.Cause), c.Cause)
	say("owner", string(got.Owner), c.Owner)
	say("state", string(got.State), c.State)
	var edits []string
	for _, f := range got.Fixes {
		edits = append(edits, f.Edit)
	}
	switch {
	case c.Fix == "none" && len(edits) > 0, c.Fix != "none" && c.Fix != "" && !regexp.MustCompile(c.Fix).MatchString(strings.Join(edits, "\n")):
		out = append(out, fmt.Sprintf("fix is %q, want %q", edits, c.Fix))
	}
	if c.Names != "" {
		b, _ := json.Marshal(got.Blockers[:min(1, len(got.Blockers))])
		if !regexp.MustCompile(c.Names).Match(b) {
			out = append(out, fmt.Sprintf("the first blocker does not name %q", c.Names))
		}
	}
	for _, also := range c.Also {
		found := false
		for _, b := range got.Blockers {
			found = found || string(b.Cause) == also
		}
		if !found {
			out = append(out, "blocker "+also+" is missing")
		}
	}
	return out
}

// TestCorpus draws every case from one seed and holds the diagnosis to its answer.
func TestCorpus(t *testing.T) {
	for _, name := range caseNames(t) {
		t.Run(strings.TrimSuffix(name, ".yaml"), func(t *testing.T) {
			c := loadCase(t, name, fixedSeed())
			got := c.diagnose(t)
			for _, f := range got.Fixes {
				for _, p := range f.Patch {
					written := make(map[string]bool)
					for _, o := range p.Ops {
						if written[o.Path] && !strings.HasSuffix(o.Path, "/-") {
							t.Errorf("%q writes %s of %s twice", f.Edit, o.Path, p.On)
						}
						written[o.Path] = true
					}
				}
			}
			if wrong := c.wrong(got); len(wrong) > 0 {
				b, _ := yaml.Marshal(got)
				t.Errorf("%s (Kubernetes %s)\n%s", strings.Join(wrong, "\n"), c.facts.Kubernetes, b)
			}
		})
	}
}
