package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// findIn looks for marks in a file with these lines as the body of a function.
func findIn(t *testing.T, body string) ([]mark, error) {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("m.go", []byte("package m\n\nfunc f(a, b int) int {\n"+body+"\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return find(".", regexp.MustCompile(""))
}

func TestWrongMarks(t *testing.T) {
	for name, c := range map[string]struct{ body, want string }{
		"no name":           {"//mutate:\nreturn a", "m.go:4:1: \"//mutate:\" is not of the form //mutate: NAME or //mutate: NAME -> EXPR"},
		"capitals":          {"//mutate: Gate\nreturn a", "m.go:4:1: \"//mutate: Gate\" is not of the form //mutate: NAME or //mutate: NAME -> EXPR"},
		"twice":             {"//mutate: x\na++\n//mutate: x\nb++\nreturn a", "m.go:7: mark x is also at m.go:5"},
		"nothing below":     {"//mutate: x\n\nreturn a", "m.go:4:1: no statement begins on the line below mark x"},
		"above a function":  {"return a\n}\n//mutate: x\nfunc g() {", "m.go:6:1: no statement begins on the line below mark x"},
		"definition":        {"//mutate: x\nc := a\nreturn c", "m.go:4:1: mark x: the variables it defines are needed: say what to assign with -> EXPR"},
		"not an expression": {"//mutate: x -> a +\nreturn a", "m.go:4:1: mark x: \"a +\" is not an expression"},
		"call with one":     {"//mutate: x -> 1\nf(a, b)\nreturn a", "m.go:4:1: mark x: only a condition, a return or an assignment can take an expression"},
		"declaration":       {"//mutate: x\nvar c int\nreturn c", "m.go:4:1: mark x: a declaration, a label or a case of a select cannot be switched off"},
		"case with a tag":   {"switch a {\n//mutate: x\ncase 1:\n}\nreturn a", "m.go:5:1: mark x: only a case with one condition, of a switch without a tag, can be switched off"},
		"none":              {"return a", "no marks under . match \"\""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := findIn(t, c.body)
			if err == nil {
				t.Fatal("accepted")
			}
			if diff := cmp.Diff(c.want, err.Error()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSwitchOff(t *testing.T) {
	for name, c := range map[string]struct{ body, want string }{
		"if":                {"//mutate: x\nif a > b {\n}", "if (!mutate_x && (a > b)) {\n}"},
		"if with init":      {"//mutate: x\nif c := a; c > b {\n}", "if c := a; (!mutate_x && (c > b)) {\n}"},
		"if, another":       {"//mutate: x -> a < b\nif a > b {\n}", "if (mutate_x && (a < b) || !mutate_x && (a > b)) {\n}"},
		"else if":           {"if a > b {\n//mutate: x\n} else if a < b {\n}", "} else if (!mutate_x && (a < b)) {\n}"},
		"case":              {"switch {\n//mutate: x\ncase a > b:\n}", "case (!mutate_x && (a > b)):\n}"},
		"return":            {"//mutate: x\nreturn a", "if !mutate_x { return a }"},
		"return another":    {"//mutate: x -> b\nreturn a", "if mutate_x { return b }; return a"},
		"assignment":        {"//mutate: x\na = b", "if !mutate_x { a = b }"},
		"another value":     {"//mutate: x -> 0\na += b", "if mutate_x { a = 0 } else { a += b }"},
		"definition":        {"//mutate: x -> 1, 2\nc, d := a, b", "c, d := a, b; if mutate_x { c, d = 1, 2 }"},
		"call over lines":   {"//mutate: x\nf(a,\nb)", "if !mutate_x { f(a,\nb) }"},
		"defer":             {"//mutate: x\ndefer f(a, b)", "if !mutate_x { defer f(a, b) }"},
		"loop":              {"//mutate: x\nfor range a {\n}", "if !mutate_x { for range a {\n} }"},
		"after other words": {"// why\n//mutate: x\na++", "if !mutate_x { a++ }"},
		"before other ones": {"//mutate: x\n// why\na++", "if !mutate_x { a++ }"},
		"two":               {"//mutate: x\n//mutate: y-z -> 1\na = b", "if !mutate_x { if mutate_y_z { a = 1 } else { a = b } }"},
		"one in another":    {"//mutate: x\nfor range a {\n//mutate: y\na++\n}", "if !mutate_x { for range a {\n//mutate: y\nif !mutate_y { a++ }\n} }"},
	} {
		t.Run(name, func(t *testing.T) {
			marks, err := findIn(t, c.body)
			if err != nil {
				t.Fatal(err)
			}
			source, err := os.ReadFile("m.go")
			if err != nil {
				t.Fatal(err)
			}
			var edits []edit
			for _, m := range marks {
				edits = append(edits, m.edit)
			}
			lines := strings.SplitAfter(string(withEdits(source, edits)), "\n")
			got := strings.TrimSuffix(strings.Join(lines[marks[0].line-1:], ""), "\n}\n")
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTestsAreNotMarked(t *testing.T) {
	t.Chdir(t.TempDir())
	const marked = "package m\n\nfunc f() {\n\t//mutate: x\n\tf()\n}\n"
	for _, path := range []string{"m.go", "m_test.go", "testdata/m.go"} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(marked), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	marks, err := find(".", regexp.MustCompile(""))
	if err != nil || len(marks) != 1 || marks[0].place() != "m.go:5" {
		t.Errorf("got %v, %v; want the mark of m.go alone", marks, err)
	}
}
