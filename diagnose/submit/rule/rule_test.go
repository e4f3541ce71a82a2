package rule

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/submit/workload"
	"github.com/berth-dev/berth/kube/manifest"
)

// TestRules plays a story for every rule: a manifest with the mistake, which it finds and nothing else, and one without, in
// which nothing is found by any rule.
func TestRules(t *testing.T) {
	codes := make(map[string]bool)
	for _, r := range Rules() {
		if codes[r.Code] || r.Title == "" || r.Why == "" || strings.HasSuffix(r.Title, ".") {
			t.Errorf("%s %s: the code is not its own, or it does not say what it is", r.Code, r.Name)
		}
		codes[r.Code] = true
		t.Run(r.Name, func(t *testing.T) {
			a, err := txtar.ParseFile(filepath.Join("testdata", r.Name+".txtar"))
			if err != nil {
				t.Fatal("every rule has a story: ", err)
			}
			text := make(map[string]string)
			for _, f := range a.Files {
				text[f.Name] = string(f.Data)
			}
			if diff := cmp.Diff(text["want"], play(t, text["cluster.yaml"], text["bad.yaml"], text["server"])); diff != "" {
				t.Error(diff)
			}
			if got := play(t, text["cluster.yaml"], text["good.yaml"], ""); got != "" {
				t.Errorf("found in what has no mistake: %s", got)
			}
		})
	}
}

// play looks at the manifests in the cluster, and words what is found. server is what the API server says: lines of "drop PATH",
// "change PATH WAS NOW", "warn TEXT", and "vain TEXT" and "reclaimed TEXT", which the plan says.
func play(t *testing.T, cluster, given, server string) string {
	t.Helper()
	now := time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)
	n := 0
	o := workload.Options{At: now, Namespace: "default", UID: func() types.UID { n++; return types.UID(fmt.Sprintf("submitted-%d", n)) }}
	f := &facts.Facts{At: now}
	for _, d := range parse(t, cluster) {
		object, err := workload.Typed(&unstructured.Unstructured{Object: d.Object}, "")
		if err != nil {
			t.Fatal(err)
		}
		object.SetUID(types.UID(object.GetName()))
		facts.KindOfObject(object).Add(&f.Objects, object)
	}
	var all []*Case
	var said Said
	reclaimed := ""
	for line := range strings.Lines(server) {
		switch verb, rest, _ := strings.Cut(strings.TrimSpace(line), " "); verb {
		case "drop":
			said.Altered = append(said.Altered, Altered{Path: rest, Dropped: true})
		case "change":
			w := strings.Fields(rest)
			said.Altered = append(said.Altered, Altered{Path: w[0], Was: w[1], Now: w[2]})
		case "warn":
			said.Warned = append(said.Warned, rest)
		case "vain":
			said.Unheeded = append(said.Unheeded, rest)
		case "unplanned":
			said.Unplanned = rest
		case "reclaimed":
			reclaimed = rest
		}
	}
	found := Server(said)
	fits := func(_ facts.Object, pods int64) (int, bool) { return int(min(pods, 16)), true }
	for _, d := range parse(t, given) {
		w, object, err := workload.Of(d.Object, o)
		if err != nil {
			t.Fatal(err)
		}
		if w == nil {
			if k := facts.KindOfObject(object); k != nil {
				k.Add(&f.Objects, object)
			}
			continue
		}
		if k := facts.KindOfObject(w.Object); k != nil {
			k.Add(&f.Objects, w.Object)
		}
		for _, p := range w.Parts {
			if p.Maker != w.Object {
				facts.KindOfObject(p.Maker).Add(&f.Objects, p.Maker)
			}
			for _, pod := range p.Pods {
				workload.Fill(pod, f)
			}
		}
		all = append(all, &Case{Facts: f, Workload: w, Object: d.Object, Reclaimed: reclaimed})
	}
	for _, d := range parse(t, given) {
		found = append(found, Objects(&World{Facts: f, Namespace: "default", Fits: fits}, d.Object)...)
	}
	for _, c := range all {
		found = append(found, Find(c)...)
	}
	var b strings.Builder
	for _, f := range found {
		fmt.Fprintf(&b, "%s %s %s\n", f.Code, f.Path, f.Message)
		for _, op := range f.Patch {
			fmt.Fprintf(&b, "  %s %s %v\n", op.Op, op.Path, op.Value)
		}
	}
	return b.String()
}

func parse(t *testing.T, text string) []manifest.Document {
	t.Helper()
	docs, err := manifest.Parse("given", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return docs
}
