package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestReadme: whoever reads the README learns of every command and every page.
func TestReadme(t *testing.T) {
	data, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := bytes.Cut(data, []byte("\n## Commands\n"))
	if !found {
		t.Fatal("README.md has no table of commands")
	}
	for _, c := range newRoot(Streams{}, Deps{Lab: Lab}).Commands() {
		if c.Hidden || c.Name() == "help" || c.Name() == "version" {
			continue
		}
		if !regexp.MustCompile("(?m)^\\| `[^|]*\\b" + c.Name() + "\\b").Match(table) {
			t.Errorf("README.md has no line for berth %s", c.Name())
		}
	}
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal(err, "no pages")
	}
	for _, page := range pages {
		if !regexp.MustCompile(`\(docs/` + regexp.QuoteMeta(filepath.Base(page)) + `\)`).Match(data) {
			t.Errorf("README.md has no link to docs/%s", filepath.Base(page))
		}
	}
}
