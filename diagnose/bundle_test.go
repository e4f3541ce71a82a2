package diagnose_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/devices"
	"github.com/berth-dev/berth/kube/inspect"
)

// throughBundle are the facts as somebody else reads them from a file.
func throughBundle(t *testing.T, f *facts.Facts, r *inspect.Redaction) *facts.Facts {
	t.Helper()
	path := filepath.Join(t.TempDir(), "evidence.tar.zst")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := inspect.Write(file, f, inspect.BundleOptions{Redact: r}); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := inspect.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	return b.Facts
}

// TestBundleGivesTheSameAnswer diagnoses cases again from a bundle: the answer is the same to the byte. With names
// redacted the verdict is the same, and nothing but names differs. One case in four has its turn, by the seed.
func TestBundleGivesTheSameAnswer(t *testing.T) {
	for i, name := range caseNames(t) {
		if uint64(i)%4 != fixedSeed()%4 || slices.Contains(maskedInBundles, name) {
			continue
		}
		t.Run(strings.TrimSuffix(name, ".yaml"), func(t *testing.T) {
			c := loadCase(t, name, fixedSeed())
			if c.facts.Matches == nil {
				c.facts.Matches, c.facts.NewAllocator = devices.NewMatcher(), devices.NewAllocator()
			}
			withoutApplied(c.facts)
			facts, want := c.facts, c.diagnose(t)
			c.facts = throughBundle(t, facts, nil)
			if diff := cmp.Diff(text(t, want), text(t, c.diagnose(t))); diff != "" {
				t.Errorf("seed %d\n%s", fixedSeed(), diff)
			}
			r := inspect.NewRedaction(facts, []byte("key"))
			c.facts = throughBundle(t, facts, r)
			kind, target, _ := strings.Cut(c.Target, "/")
			c.Target, c.Namespace = kind+"/"+r.Name(target), r.Name(c.Namespace)
			got := c.diagnose(t)
			if diff := cmp.Diff(verdict(want), verdict(got)); diff != "" {
				t.Errorf("redacted, seed %d: %s\n%s", fixedSeed(), got.Summary, diff)
			}
		})
	}
}

// maskedInBundles are cases that need what bundles leave out: the value of an annotation that other work has, of a key that nobody here
// knows, paths in logs, which are names, and the configuration of schedulers in ConfigMaps.
var maskedInBundles = []string{"crash-loop/log-storage-gone.yaml", "crash-loop/value-of-others.yaml", "no-such-scheduler/profile-down.yaml", "no-such-scheduler/profile-typo.yaml"}

// withoutApplied takes away what was last applied, which bundles never have.
func withoutApplied(f *facts.Facts) {
	for _, k := range facts.Kinds {
		for _, o := range k.List(&f.Objects) {
			if a := o.GetAnnotations(); a[corev1.LastAppliedConfigAnnotation] != "" {
				delete(a, corev1.LastAppliedConfigAnnotation)
				o.SetAnnotations(a)
			}
		}
	}
}

func text(t *testing.T, d diagnose.Diagnosis) string {
	t.Helper()
	b, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// verdict is what an answer says without names.
func verdict(d diagnose.Diagnosis) []string {
	out := []string{string(d.State), string(d.Layer), string(d.Cause), string(d.Owner)}
	for _, b := range d.Blockers {
		if b.Binding {
			out = append(out, string(b.Cause))
		}
	}
	for _, f := range d.Fixes {
		out = append(out, string(f.Side))
	}
	return out
}
