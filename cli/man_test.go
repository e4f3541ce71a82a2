package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every command that help shows has a page with a name, and nothing in a page is taken for a request of the formatter.
func TestManual(t *testing.T) {
	dir := t.TempDir()
	if code, _, stderr := run(t, "man", dir); code != 0 {
		t.Fatal(stderr)
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil || len(pages) < 20 {
		t.Fatalf("%d pages: %v", len(pages), err)
	}
	known := map[string]bool{"TH": true, "SH": true, "B": true, "PP": true, "TP": true, "nf": true, "fi": true}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, section := range []string{".TH ", ".SH NAME\n", ".SH SYNOPSIS\n", ".SH DESCRIPTION\n", ".SH OPTIONS\n"} {
			if !strings.Contains(string(text), section) {
				t.Errorf("%s has no %s", filepath.Base(page), section)
			}
		}
		for _, line := range strings.Split(string(text), "\n") {
			if request, is := strings.CutPrefix(line, "."); is && !known[strings.Fields(request + " x")[0]] || strings.HasPrefix(line, "'") {
				t.Errorf("%s: %q", filepath.Base(page), line)
			}
		}
	}
	if code, _, _ := run(t, "man", filepath.Join(dir, "none")); code != exitFailed {
		t.Errorf("a folder that is not there: code %d", code)
	}
}
