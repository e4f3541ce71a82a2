package diagnose_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/diagnose"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/cluster"
)

// A shown case lies beside its cause, as a .txtar of three files: what was read of a small cluster, what is asked, and
// the whole answer. The corpus in testdata has the variants, the healthy twins and the neighbours.
type shownCase struct {
	path     string
	archive  *txtar.Archive
	question question
}

type question struct {
	Target     string    `json:"target"`
	Namespace  string    `json:"namespace"`
	At         time.Time `json:"at"`
	Kubernetes string    `json:"kubernetes"`
}

func shownCases(t *testing.T) []shownCase {
	t.Helper()
	paths, err := filepath.Glob("check/l*/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var out []shownCase
	for _, p := range paths {
		a, err := txtar.ParseFile(p)
		if err != nil {
			t.Fatal(err)
		}
		if len(a.Files) != 3 || a.Files[0].Name != "cluster.yaml" || a.Files[1].Name != "question.yaml" || a.Files[2].Name != "answer.yaml" {
			t.Fatalf("%s: want cluster.yaml, question.yaml and answer.yaml", p)
		}
		c := shownCase{path: p, archive: a}
		if err := yaml.UnmarshalStrict(a.Files[1].Data, &c.question); err != nil {
			t.Fatalf("%s: %v", p, err)
		}
		out = append(out, c)
	}
	return out
}

// documents are the objects of a cluster, one each.
func documents(cluster []byte) []string {
	return regexp.MustCompile(`(?m)^---\n`).Split(strings.TrimPrefix(string(cluster), "---\n"), -1)
}

// answerTo is the answer, as YAML, for the cluster of the documents; "" where there is no such target in it.
func (q *question) answerTo(t *testing.T, name string, documents []string) string {
	t.Helper()
	f := readFacts(t, name, []byte(strings.Join(documents, "\n---\n")), &drawn{now: q.At})
	f.Kubernetes = q.Kubernetes
	word, target, _ := strings.Cut(q.Target, "/")
	kind, err := facts.ParseKind(word)
	if err != nil {
		t.Fatalf("%s: target %s: %v", name, q.Target, err)
	}
	got, err := diagnose.New(f, cluster.NewModel(cluster.ModelOptions{})).Why(facts.Ref{Kind: kind, Namespace: q.Namespace, Name: target})
	if err != nil {
		return ""
	}
	b, err := yaml.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestShownCases holds the answers of the cases beside the causes; -update writes them.
func TestShownCases(t *testing.T) {
	shown := make(map[string]bool)
	for _, c := range shownCases(t) {
		cause := strings.ReplaceAll(strings.TrimSuffix(filepath.Base(c.path), ".txtar"), "_", "-")
		shown[cause] = true
		t.Run(cause, func(t *testing.T) {
			got := c.question.answerTo(t, c.path, documents(c.archive.Files[0].Data))
			if *update {
				c.archive.Files[2].Data = []byte(got)
				if err := os.WriteFile(c.path, txtar.Format(c.archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(c.archive.Files[2].Data), got); diff != "" {
				t.Errorf("%s (-want +got)\n%s", c.path, diff)
			}
			if !bytes.Contains([]byte(got), []byte("\ncause: "+cause+"\n")) {
				t.Errorf("the answer's cause is not %s:\n%s", cause, got)
			}
		})
	}
	for _, check := range diagnose.Checks() {
		if !shown[string(check.Cause)] {
			t.Errorf("no .txtar beside the check %s shows it", check.Cause)
		}
	}
}

// TestEveryObjectIsNeeded keeps shown cases small: without any one of its objects the answer is another one.
func TestEveryObjectIsNeeded(t *testing.T) {
	for _, c := range shownCases(t) {
		all := documents(c.archive.Files[0].Data)
		for i := range all {
			less := append(append([]string{}, all[:i]...), all[i+1:]...)
			if c.question.answerTo(t, c.path, less) == string(c.archive.Files[2].Data) {
				t.Errorf("%s: the answer needs no\n%s", c.path, all[i])
			}
		}
	}
}
