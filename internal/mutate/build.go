package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// chosen is the environment variable that says which mark's mutant a test binary is. Without it, it is none.
const chosen = "MUTANT"

// suite is the tests of one package, compiled with all mutants in them.
type suite struct {
	dir    string // of the package, where its tests run
	binary string
}

// build compiles the tests of each package below root once, with every mark in its place as a variable that is true where chosen
// names it. So a mutant costs a run of the tests and no compilation. It returns what the compiler said where it fails.
func build(ctx context.Context, dir, root string, marks []mark) (suites []suite, said string, err error) {
	overlay, err := overlay(dir, marks)
	if err != nil {
		return nil, "", err
	}
	list := exec.CommandContext(ctx, "go", "list", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}", below(root))
	out, err := list.Output()
	if err != nil {
		return nil, "", fmt.Errorf("list the packages of %s: %w", root, err)
	}
	for i, at := range strings.Fields(string(out)) {
		s := suite{dir: at, binary: filepath.Join(dir, strconv.Itoa(i)+".test")}
		compile := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", s.binary, ".")
		compile.Dir = at
		if out, err := compile.CombinedOutput(); err != nil {
			return nil, string(out), ctx.Err()
		}
		suites = append(suites, s)
	}
	return suites, "", nil
}

// compiles says whether the package of the mark does with that mutant in it alone, and else what the compiler says.
func compiles(ctx context.Context, dir string, m mark) (said string, err error) {
	overlay, err := overlay(dir, []mark{m})
	if err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, "go", "build", "-overlay", overlay, "-o", os.DevNull, "./"+filepath.ToSlash(filepath.Dir(m.file))).CombinedOutput()
	if err == nil {
		return "", nil
	}
	return string(out), ctx.Err()
}

// overlay writes what makes the compiler read the marked files with their mutants in them, and for each of their packages a file
// with the variables.
func overlay(dir string, marks []mark) (string, error) {
	replace := map[string]string{}
	write := func(real string, content []byte) error {
		abs, err := filepath.Abs(real)
		if err != nil {
			return err
		}
		replace[abs] = filepath.Join(dir, strconv.Itoa(len(replace))+"-"+filepath.Base(real))
		return os.WriteFile(replace[abs], content, 0o600)
	}
	files, flags := map[string][]edit{}, map[string][]mark{}
	for _, m := range marks {
		files[m.file] = append(files[m.file], m.edit)
		flags[filepath.Dir(m.file)] = append(flags[filepath.Dir(m.file)], m)
	}
	for file, edits := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		slices.SortStableFunc(edits, func(a, b edit) int { return a.from - b.from })
		if err := write(file, withEdits(source, edits)); err != nil {
			return "", err
		}
	}
	for folder, of := range flags {
		content, err := variables(of)
		if err != nil {
			return "", err
		}
		if err := write(filepath.Join(folder, "mutate_variables.go"), content); err != nil {
			return "", err
		}
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, list, 0o600)
}

// variables is a file of the marks' package.
func variables(marks []mark) ([]byte, error) {
	name, err := packageOf(marks[0].file)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "package %s\n\nimport \"os\"\n\nvar (\n", name)
	for _, m := range marks {
		fmt.Fprintf(&b, "\t%s = os.Getenv(%q) == %q\n", m.flag(), chosen, m.name)
	}
	b.WriteString(")\n")
	return []byte(b.String()), nil
}

// below is a pattern for the packages of the folder and of those in it.
func below(root string) string { return "./" + filepath.ToSlash(filepath.Join(root, "...")) }
