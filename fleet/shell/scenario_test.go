package shell

import (
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "rewrite the expectations in testdata")

// TestScenarios plays testdata/*.txtar. An archive has files of the container (names that
// start with a slash) and steps played one after the other in that container: a cmd, run by
// sh -c, with the stdout, stderr and status expected of it; what is left out is empty or 0.
func TestScenarios(t *testing.T) {
	names, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			t.Parallel()
			playScenario(t, name)
		})
	}
}

func playScenario(t *testing.T, name string) {
	a, err := txtar.ParseFile(name)
	if err != nil {
		t.Fatal(err)
	}
	c := newContainer()
	got := &txtar.Archive{Comment: a.Comment}
	for i, f := range a.Files {
		switch {
		case strings.HasPrefix(f.Name, "/"):
			if err := c.FS.WriteFile(f.Name, f.Data, 0o755); err != nil {
				t.Fatal(err)
			}
			got.Files = append(got.Files, f)
		case f.Name == "cmd":
			stdin := ""
			got.Files = append(got.Files, f)
			if i+1 < len(a.Files) && a.Files[i+1].Name == "stdin" {
				stdin = string(a.Files[i+1].Data)
				got.Files = append(got.Files, a.Files[i+1])
			}
			got.Files = append(got.Files, step(runIn(t, c, stdin, "sh", "-c", string(f.Data)))...)
		}
	}
	text := string(txtar.Format(got))
	if *update {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(txtar.Format(a)), text); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// step is what is expected of a command, as files of an archive.
func step(r result) []txtar.File {
	var files []txtar.File
	add := func(name, text string) {
		if text == "" {
			return
		}
		if !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		files = append(files, txtar.File{Name: name, Data: []byte(text)})
	}
	add("stdout", r.Stdout)
	add("stderr", r.Stderr)
	if r.Status != 0 {
		add("status", strconv.Itoa(r.Status))
	}
	return files
}
