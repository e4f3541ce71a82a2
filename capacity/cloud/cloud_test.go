package cloud_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/capacity/cloud"
)

var update = flag.Bool("update", false, "rewrite what is wanted")

var at = time.Date(2026, 11, 17, 6, 0, 0, 0, time.UTC)

// TestRead reads what each cloud prints and compares with what is wanted, a line per reservation and per item that is left out.
func TestRead(t *testing.T) {
	paths, _ := filepath.Glob("testdata/*.txtar")
	if len(paths) < 3 {
		t.Fatal("no files")
	}
	for _, path := range paths {
		a, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		provider := v1alpha1.Provider(strings.TrimSuffix(filepath.Base(path), ".txtar"))
		var got strings.Builder
		for _, f := range a.Files {
			if f.Name == "want" {
				continue
			}
			out, skipped, err := cloud.Read(provider, f.Data, at)
			if err != nil {
				t.Fatal(f.Name, err)
			}
			for _, r := range out {
				left := "?"
				if r.Status.Available != nil {
					left = fmt.Sprint(*r.Status.Available)
				}
				start, end := "-", "-"
				if r.Spec.Start != nil {
					start = r.Spec.Start.Format(time.RFC3339)
				}
				if r.Spec.End != nil {
					end = r.Spec.End.Format(time.RFC3339)
				}
				aside, _ := json.Marshal(r.Status.Reported)
				fmt.Fprintf(&got, "%s %s %s %dx%d %s %s of %d left %s %s %s %s %s\n", r.Name, r.Spec.ID, r.Spec.InstanceType, r.Spec.GPUs.Count, r.Spec.Instances, r.Spec.GPUs.Model, left, r.Spec.Instances, r.Status.State, r.Spec.Match, start, end, aside)
			}
			for _, s := range skipped {
				fmt.Fprintf(&got, "skipped %s\n", s)
			}
		}
		want := ""
		for i, f := range a.Files {
			if f.Name == "want" {
				want = string(f.Data)
				a.Files[i].Data = []byte(got.String())
			}
		}
		if *update {
			if err := os.WriteFile(path, txtar.Format(a), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if diff := cmp.Diff(want, got.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

// FuzzRead gives the readers any text: they answer or refuse, the same each time, within the bounds of the kind.
func FuzzRead(f *testing.F) {
	paths, _ := filepath.Glob("testdata/*.txtar")
	for _, path := range paths {
		a, err := txtar.ParseFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range a.Files {
			f.Add(file.Data)
		}
	}
	f.Add([]byte(`{"CapacityReservations":[{"CapacityReservationId":"..-","TotalInstanceCount":1e99}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, p := range []v1alpha1.Provider{v1alpha1.ProviderAWS, v1alpha1.ProviderGCP, v1alpha1.ProviderAzure} {
			out, skipped, err := cloud.Read(p, text, at)
			again, _, _ := cloud.Read(p, text, at)
			first, _ := json.Marshal(out)
			second, _ := json.Marshal(again)
			if !bytes.Equal(first, second) {
				t.Fatal("two readings differ")
			}
			if err != nil && (out != nil || skipped != nil) {
				t.Fatal("an error, and an answer")
			}
			for _, r := range out {
				if r.Name == "" || len(r.Name) > 63 || r.Spec.Instances < 0 || r.Spec.GPUs.Count < 1 || r.Spec.GPUs.Count > 64 || len(r.Status.Reported) > 64 || r.Status.Available != nil && *r.Status.Available < 0 {
					t.Fatalf("%+v", r)
				}
				for k, v := range r.Status.Reported {
					if len(k) > 256 || len(v) > 512 {
						t.Fatalf("%q: %q", k, v)
					}
				}
			}
		}
	})
}

func TestRefused(t *testing.T) {
	for _, text := range []string{"", "no json", `"text"`, `[1]`, "[" + strings.Repeat("{},", 10_001) + "{}]"} {
		if out, _, err := cloud.Read(v1alpha1.ProviderAWS, []byte(text), at); err == nil {
			t.Errorf("%.20s: %v", text, out)
		}
	}
}
