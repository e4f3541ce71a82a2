package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// try runs the tests against each mark and writes a row for each as it is known. It reports whether all
// were killed; an error says that there is nothing to report.
func try(ctx context.Context, o options, marks []mark, t *table) (bool, error) {
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	all := "./" + filepath.ToSlash(filepath.Join(o.root, "..."))
	tester := tester{dir: dir, timeout: o.timeout}
	if v := tester.test(ctx, "", all); v.outcome != survived {
		return false, fmt.Errorf("the tests fail without any mutation: %s\n%s", v, v.output)
	}
	for _, m := range marks {
		start := time.Now()
		t.begin(m)
		v, err := tester.mutant(ctx, m, all)
		if err := errors.Join(err, ctx.Err()); err != nil {
			return false, err
		}
		t.end(v, time.Since(start))
	}
	return t.summary(), nil
}

// tester runs the go command. It keeps one changed file and its overlay in dir.
type tester struct {
	dir     string
	timeout time.Duration
}

// mutant judges one mark: by the tests beside it, which are the quickest to notice, then by all.
func (t tester) mutant(ctx context.Context, m mark, all string) (verdict, error) {
	overlay, err := t.overlay(m)
	if err != nil {
		return verdict{}, err
	}
	own := "./" + filepath.ToSlash(filepath.Dir(m.file))
	if v := t.test(ctx, overlay, own); v.outcome != survived {
		return v, nil
	}
	return t.test(ctx, overlay, all), nil
}

// overlay writes what makes the compiler read the mutant in place of the file.
func (t tester) overlay(m mark) (string, error) {
	real, err := filepath.Abs(m.file)
	if err != nil {
		return "", err
	}
	mutated := filepath.Join(t.dir, filepath.Base(m.file))
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {real: mutated}})
	if err != nil {
		return "", err
	}
	path := filepath.Join(t.dir, "overlay.json")
	return path, errors.Join(os.WriteFile(mutated, m.source, 0o600), os.WriteFile(path, replace, 0o600))
}

func (t tester) test(ctx context.Context, overlay, packages string) verdict {
	cmd := exec.CommandContext(ctx, "go", "test", "-failfast", "-vet=off", "-timeout", t.timeout.String(), "-overlay", overlay, packages)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	// A property that fails on purpose is neither kept for next time nor shrunk, and fails every time.
	cmd.Env = append(os.Environ(), "RAPID_NOFAILFILE=true", "RAPID_SHRINKTIME=0s", "RAPID_SEED=1")
	out, err := cmd.CombinedOutput()
	return judge(string(out), err == nil)
}
