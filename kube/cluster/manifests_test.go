package cluster

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "write what manifests come to into their files")

// minManifests is how many manifests each dialect has at least.
const minManifests = 15

// TestManifests has manifests as users of other schedulers write them, in the shape of those projects' documentation: who starts, who
// waits and why, what has no effect, and the status that is written back. A folder is of a dialect; each file says what it teaches,
// has its manifests, applied in order, and what they come to. "nodes" has a number of nodes and of GPUs on each, "delete" the names of
// pods that end.
func TestManifests(t *testing.T) {
	for _, name := range []string{"coscheduling", "kai", "kueue", "upstream", "volcano"} {
		files, err := filepath.Glob(filepath.Join("testdata", "manifests", name, "*.txtar"))
		if err != nil || len(files) < minManifests {
			t.Errorf("%s has %d manifests (%v): want %d", name, len(files), err, minManifests)
		}
		for _, file := range files {
			t.Run(name+"/"+strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { playManifests(t, name, file) })
		}
	}
}

func playManifests(t *testing.T, dialect, file string) {
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Comment) == 0 {
		t.Error("it does not say what it teaches")
	}
	nodes, gpus := 2, 8
	for _, f := range a.Files {
		if f.Name == "nodes" {
			if _, err := fmt.Sscan(string(f.Data), &nodes, &gpus); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := newStage(t, dialect)
	s.nodes(nodes, int64(gpus))
	var got strings.Builder
	for _, f := range a.Files {
		switch {
		case strings.HasSuffix(f.Name, ".yaml"):
			s.apply(t, string(f.Data))
		case f.Name == "delete":
			for _, pod := range strings.Fields(string(f.Data)) {
				if m := s.members.pods["default/"+pod]; m == nil {
					t.Errorf("there is no pod %s", pod)
				} else {
					s.gone(m)
				}
			}
		default:
			continue
		}
		s.run(t)
		fmt.Fprintf(&got, "after %s\n%s", f.Name, s.report())
	}
	want := &a.Files[len(a.Files)-1]
	if want.Name != "want" {
		a.Files = append(a.Files, txtar.File{Name: "want"})
		want = &a.Files[len(a.Files)-1]
	}
	if *update {
		want.Data = []byte(got.String())
		if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if diff := cmp.Diff(string(want.Data), got.String()); diff != "" {
		t.Error(diff)
	}
}
