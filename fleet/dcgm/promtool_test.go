package dcgm

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// names are complaints about how metrics and labels are called, which are NVIDIA's.
var names = regexp.MustCompile(`label names should be written in 'snake_case'|should have "_total" suffix|should not include type|should not have "_total" suffix|abbreviated units`)

// Prometheus' own checker accepts every page, names aside.
func TestPromtool(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed (package prometheus of Debian)")
	}
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		page, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(promtool, "check", "metrics")
		cmd.Stdin = page
		out, err := cmd.CombinedOutput()
		page.Close()
		exit, isExit := errors.AsType[*exec.ExitError](err)
		if err != nil && (!isExit || exit.ExitCode() != 3) { // 3: it reads well, and there is something to say
			t.Errorf("%s: %v\n%s", file, err, out)
		}
		for line := range strings.Lines(string(out)) {
			if !names.MatchString(line) {
				t.Errorf("%s: %s", file, line)
			}
		}
	}
}
