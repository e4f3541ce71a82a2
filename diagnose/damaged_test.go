package diagnose_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/diagnose"
	"github.com/berth-dev/berth/diagnose/doctor"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/cluster"
	"github.com/berth-dev/berth/kube/devices"
)

var damage = flag.Int("damage", 0, "how many cases TestDamagedObjects draws; 0: a few")

// TestDamagedObjects diagnoses cases in which a few fields of the objects hold what somebody with rights in one namespace,
// or a broken controller, may write there: nothing, too much, numbers at the edges, the value of another field, which
// closes circles, and in objects of other projects things of another type. An answer comes, in time, and it is JSON.
func TestDamagedObjects(t *testing.T) {
	names, rounds := caseNames(t), 150
	if testing.Short() {
		rounds = 30
	}
	first := fixedSeed()
	if *damage > 0 {
		rounds = *damage
	}
	for seed := first; seed < first+uint64(rounds); seed++ {
		r := rand.New(rand.NewPCG(seed, 29))
		name := names[r.IntN(len(names))]
		f, target := damaged(t, r, name, seed)
		start := time.Now()
		if said := answered(f, target); said != "" {
			t.Errorf("%s, -seed %d -damage 1: %s", name, seed, said)
		}
		if took := time.Since(start); took > 30*time.Second {
			t.Errorf("%s, -seed %d -damage 1: %s", name, seed, took)
		}
	}
}

// answered asks everything of the facts; it returns what went wrong.
func answered(f *facts.Facts, ref facts.Ref) (said string) {
	defer func() {
		if p := recover(); p != nil {
			said = fmt.Sprintf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	d := diagnose.New(f, cluster.NewModel(cluster.ModelOptions{}))
	answers := []any{doctor.Examine(doctor.Input{Facts: f})}
	for _, p := range f.Pods {
		if got, err := d.Why(facts.Ref{Kind: "Pod", Namespace: p.Namespace, Name: p.Name}); err == nil {
			answers = append(answers, got)
		}
		if len(answers) > 3 {
			break
		}
	}
	if got, err := d.Why(ref); err == nil {
		answers = append(answers, got)
	}
	for _, a := range answers {
		if _, err := json.Marshal(a); err != nil {
			return err.Error()
		}
	}
	return ""
}

// damaged are the facts of the case with some fields damaged, and what the case asks about.
func damaged(t *testing.T, r *rand.Rand, name string, seed uint64) (*facts.Facts, facts.Ref) {
	t.Helper()
	d := draw(t, seed)
	objects := d.render(t, filepath.Join("testdata/cases", name))
	var a answer
	if err := yaml.UnmarshalStrict(d.render(t, filepath.Join("testdata/answers", name)), &a); err != nil {
		t.Fatal(err)
	}
	f := &facts.Facts{At: d.now, Kubernetes: fmt.Sprintf("v1.%d.1", d.version), Logs: map[string]string{}, Matches: devices.NewMatcher(), NewAllocator: devices.NewAllocator()}
	var trees []map[string]any
	var texts []string
	for _, doc := range regexp.MustCompile(`(?m)^---\s*$`).Split(string(objects), -1) {
		var tree map[string]any
		if err := yaml.Unmarshal([]byte(doc), &tree); err != nil {
			t.Fatal(err)
		}
		if k, _ := tree["kind"].(string); tree["metadata"] != nil && k != "Unseen" && k != "Logs" {
			trees = append(trees, tree)
			texts = append(texts, textsIn(tree)...)
		}
	}
	for range 1 + r.IntN(6) {
		one := trees[r.IntN(len(trees))]
		harm(r, one, texts)
	}
	for _, tree := range trees {
		enter(f, tree)
	}
	kind, target, _ := strings.Cut(a.Target, "/")
	parsed, err := facts.ParseKind(kind)
	if err != nil {
		t.Fatal(err)
	}
	return f, facts.Ref{Kind: parsed, Namespace: a.Namespace, Name: target}
}

// enter adds the object to the facts, if an API server would take it.
func enter(f *facts.Facts, tree map[string]any) {
	apiVersion, _ := tree["apiVersion"].(string)
	kind, _ := tree["kind"].(string)
	gvk := schema.FromAPIVersionAndKind(apiVersion, kind)
	k := facts.KindOf(gvk.Group, kind)
	if k == nil {
		k = facts.Found(gvk)
	}
	b, err := json.Marshal(tree)
	if err != nil {
		return
	}
	o := k.New()
	if u, ok := o.(*unstructured.Unstructured); ok {
		err = u.UnmarshalJSON(b)
	} else {
		err = json.Unmarshal(b, o)
	}
	if err == nil && o.GetName() != "" {
		k.Add(&f.Objects, o)
	}
}

// textsIn are all texts in the value, in order.
func textsIn(v any) (out []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, item := range v {
			out = append(out, textsIn(item)...)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			out = append(out, textsIn(v[key])...)
		}
	}
	return out
}

// odd are texts that fields of every kind may hold.
var odd = []string{"", " ", "0", "-1", "1e30", "-1e30", "0.0000001", "1e-30", "9223372036854775807", "9999999999999999999", "99999999Ei", "NaN", "Inf", "1/0", "true", "null", "nowhere", "a/b/c", "/", ":", "=", "*", "%s%d", "\x1b[31m", "a\nb", "é", "{", "[[[", `{"a":`, `[null]`, "{}", "2026-11-15T12:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "-5m", "9999999h", "((((", "nvidia.com/gpu", "In", "Exists"}

// harm changes one value somewhere below the tree.
func harm(r *rand.Rand, v any, texts []string) {
	for range 12 {
		switch at := v.(type) {
		case map[string]any:
			keys := slices.Sorted(maps.Keys(at))
			if len(keys) == 0 {
				return
			}
			key := keys[r.IntN(len(keys))]
			if key == "apiVersion" || key == "kind" && len(keys) > 2 {
				continue
			}
			if isTree(at[key]) && r.IntN(8) > 0 {
				v = at[key]
				continue
			}
			if r.IntN(5) == 0 {
				delete(at, key)
				return
			}
			at[key] = instead(r, at[key], texts)
			return
		case []any:
			if len(at) == 0 {
				return
			}
			i := r.IntN(len(at))
			if isTree(at[i]) && r.IntN(8) > 0 {
				v = at[i]
				continue
			}
			at[i] = instead(r, at[i], texts)
			return
		}
	}
}

func isTree(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return true
	}
	return false
}

// instead is what stands where the value stood: mostly of the same type.
func instead(r *rand.Rand, v any, texts []string) any {
	if r.IntN(12) == 0 {
		return []any{nil, "x", float64(7), true, []any{}, map[string]any{}, []any{nil}, map[string]any{"": nil}}[r.IntN(8)]
	}
	switch v := v.(type) {
	case string:
		switch r.IntN(4) {
		case 0:
			return strings.Repeat(v+"-", 200)
		case 1:
			return odd[r.IntN(len(odd))]
		}
		return texts[r.IntN(len(texts))]
	case float64, int64:
		return []float64{0, -1, 1, 1 << 31, -1 << 31, 1 << 53, 9e18, 0.5}[r.IntN(8)]
	case bool:
		return !v
	case []any:
		if len(v) > 0 {
			return slices.Concat(v, v, v[:1])
		}
		return []any{}
	}
	return map[string]any{}
}
