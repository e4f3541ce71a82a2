package doctor_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/diagnose/doctor"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/exposition"
)

var update = flag.Bool("update", false, "rewrite the answers of the cases")

// A case lies beside its item, as a .txtar: what was read of a small cluster, what was measured where the item is about
// that, and the item's whole answer.
type shown struct {
	path    string
	archive *txtar.Archive
}

func (s *shown) file(name string) *txtar.File {
	for i := range s.archive.Files {
		if s.archive.Files[i].Name == name {
			return &s.archive.Files[i]
		}
	}
	return nil
}

func shownCases(t *testing.T) []shown {
	t.Helper()
	paths, err := filepath.Glob("*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var out []shown
	for _, p := range paths {
		a, err := txtar.ParseFile(p)
		if err != nil {
			t.Fatal(err)
		}
		s := shown{p, a}
		if s.file("cluster.yaml") == nil || s.file("answer.yaml") == nil {
			t.Fatalf("%s: want cluster.yaml and answer.yaml", p)
		}
		out = append(out, s)
	}
	return out
}

// code is the item's, as the file is named.
func (s *shown) code() string {
	return strings.ReplaceAll(strings.TrimSuffix(s.path, ".txtar"), "_", "-")
}

var document = regexp.MustCompile(`(?m)^---\n`)

func (s *shown) documents() []string {
	return document.Split(string(s.file("cluster.yaml").Data), -1)
}

// answer is the item's, as YAML, for the cluster of the documents.
func (s *shown) answer(t *testing.T, documents []string) string {
	t.Helper()
	w := &world{Facts: &facts.Facts{At: now, Kubernetes: "v1.37.1"}}
	for _, d := range documents {
		addObject(t, &w.Objects, d)
	}
	if m := s.file("metrics.txt"); m != nil {
		samples, err := exposition.Read(bytes.NewReader(m.Data), doctor.Reads)
		if err != nil {
			t.Fatalf("%s: %v", s.path, err)
		}
		w.samples = samples
	}
	b, err := yaml.Marshal(w.checkup(s.code()).Items)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func addObject(t *testing.T, objects *facts.Objects, text string) {
	t.Helper()
	var meta metav1.TypeMeta
	if err := yaml.Unmarshal([]byte(text), &meta); err != nil {
		t.Fatal(err)
	}
	kind := facts.KindOf(meta.GroupVersionKind().Group, meta.Kind)
	if kind == nil && strings.Contains(meta.GroupVersionKind().Group, ".") { // of a project that no check knows
		kind = facts.Found(meta.GroupVersionKind())
	}
	if kind == nil {
		t.Fatalf("kind of\n%s", text)
	}
	o := kind.New()
	var err error
	if u, ok := o.(*unstructured.Unstructured); ok {
		err = yaml.Unmarshal([]byte(text), &u.Object)
	} else {
		err = yaml.UnmarshalStrict([]byte(text), o)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	kind.Add(objects, o)
}

// TestShownCases holds the answers beside the items; -update writes them.
func TestShownCases(t *testing.T) {
	seen := make(map[string]bool)
	for _, s := range shownCases(t) {
		seen[s.code()] = true
		t.Run(s.code(), func(t *testing.T) {
			got := s.answer(t, s.documents())
			want := s.file("answer.yaml")
			if *update {
				want.Data = []byte(got)
				if err := os.WriteFile(s.path, txtar.Format(s.archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(want.Data), got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if !strings.Contains(got, "severity: fail") && !strings.Contains(got, "severity: warn") {
				t.Errorf("the case shows nothing wrong:\n%s", got)
			}
		})
	}
	for _, item := range doctor.Items {
		if !seen[item.Code] {
			t.Errorf("no .txtar beside the item %s shows it", item.Code)
		}
	}
}

// TestEveryObjectIsNeeded keeps the cases small: without any one of its objects the answer is another one.
func TestEveryObjectIsNeeded(t *testing.T) {
	for _, s := range shownCases(t) {
		all := s.documents()
		for i := range all {
			less := append(append([]string{}, all[:i]...), all[i+1:]...)
			if s.answer(t, less) == string(s.file("answer.yaml").Data) {
				t.Errorf("%s: the answer needs no\n%s", s.path, all[i])
			}
		}
	}
}
