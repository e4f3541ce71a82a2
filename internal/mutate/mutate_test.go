package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var seconds = regexp.MustCompile(`  \d+\.\ds\n`)

// mutate runs the tool in a folder and returns its exit status and output, without times.
func mutate(t *testing.T, dir string, args ...string) (int, string) {
	t.Helper()
	t.Chdir(dir)
	var out bytes.Buffer
	code := run(t.Context(), args, &out, &out)
	return code, seconds.ReplaceAllString(out.String(), "\n")
}

// module writes a module with one file and one test.
func module(t *testing.T, source, test string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"go.mod": "module m\n\ngo 1.26\n", "m.go": source, "m_test.go": test} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestEveryKindOfStatement(t *testing.T) {
	code, got := mutate(t, "testdata/tiny", "-timeout", "2s", ".")
	want := `gate-empty    tiny.go:13  killed by TestAdd/empty
gate-long     tiny.go:18  killed by TestAdd/long
filter-case   tiny.go:22  killed by TestAdd/space
filter-ok     tiny.go:24  killed by TestAdd/space
index-total   tiny.go:29  killed by TestTotal
filter-space  tiny.go:37  killed by TestAdd/space
filter-lower  tiny.go:37  killed by TestLower
rollback      tiny.go:44  killed by TestTryTakesBack
endless       tiny.go:54  killed by TestLast, which timed out
unnoticed     tiny.go:61  SURVIVED
9 killed, 1 survived, 0 do not compile
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if code != 1 {
		t.Errorf("exit status %d with a survivor, want 1", code)
	}
}

func TestAllKilled(t *testing.T) {
	code, got := mutate(t, "testdata/tiny", "-run", "^gate", ".")
	if code != 0 || !strings.HasSuffix(got, "2 killed, 0 survived, 0 do not compile\n") {
		t.Errorf("exit status %d, want 0:\n%s", code, got)
	}
}

func TestList(t *testing.T) {
	code, got := mutate(t, "testdata/tiny", "-list", "-run", "^gate", ".")
	want := "gate-empty  tiny.go:13\ngate-long   tiny.go:18\n"
	if diff := cmp.Diff(want, got); diff != "" || code != 0 {
		t.Errorf("exit status %d, want 0\n%s", code, diff)
	}
}

func TestTestsMustPassWithoutMutation(t *testing.T) {
	dir := module(t,
		"package m\n\nfunc f() int {\n\t//mutate: one -> 1\n\treturn 0\n}\n",
		"package m\n\nimport \"testing\"\n\nfunc TestF(t *testing.T) {\n\tif f() != 1 {\n\t\tt.Error()\n\t}\n}\n")
	code, got := mutate(t, dir, ".")
	if code != 1 || !strings.HasPrefix(got, "the tests fail without any mutation: killed by TestF\n") {
		t.Errorf("exit status %d, output:\n%s", code, got)
	}
}

func TestMutantThatDoesNotCompile(t *testing.T) {
	dir := module(t,
		"package m\n\nfunc f() int {\n\t//mutate: one -> \"one\"\n\treturn 1\n}\n",
		"package m\n\nimport \"testing\"\n\nfunc TestF(t *testing.T) { f() }\n")
	code, got := mutate(t, dir, ".")
	if code != 1 || !strings.Contains(got, "one  m.go:5  DOES NOT COMPILE\n") || !strings.Contains(got, "m.go:5:") {
		t.Errorf("exit status %d, output:\n%s", code, got)
	}
}
