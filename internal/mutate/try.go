package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// try runs the tests against each mark and writes a row for each, in order. It reports whether all were killed; an error says
// that there is nothing to report.
func try(ctx context.Context, o options, marks []mark, t *table) (bool, error) {
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	marks, bad, suites, err := compile(ctx, dir, o.root, marks)
	if err != nil {
		return false, err
	}
	for _, b := range bad {
		t.row(b.mark, b.verdict, 0)
	}
	tester := tester{suites: suites, timeout: o.timeout}
	if v := tester.all(ctx); v.outcome != survived {
		return false, fmt.Errorf("the tests fail without any mutation: %s\n%s", v, v.output)
	}
	inTurn(len(marks), o.parallel, func(i int) func() {
		start := time.Now()
		v := tester.mutant(ctx, marks[i])
		took := time.Since(start)
		return func() {
			if ctx.Err() == nil {
				t.row(marks[i], v, took)
			}
		}
	})
	if err := ctx.Err(); err != nil {
		return false, err
	}
	return t.summary(), nil
}

// judged is a mark with its verdict.
type judged struct {
	mark
	verdict
}

// compile builds the tests with all marks that compile, and lists those that do not. Only if they do not compile together is each
// tried by itself.
func compile(ctx context.Context, dir, root string, marks []mark) (good []mark, bad []judged, _ []suite, _ error) {
	suites, said, err := build(ctx, dir, root, marks)
	if err != nil || said == "" {
		return marks, nil, suites, err
	}
	for _, m := range marks {
		switch said, err := compiles(ctx, dir, m); {
		case err != nil:
			return nil, nil, nil, err
		case said != "":
			bad = append(bad, judged{m, verdict{outcome: broken, output: said}})
		default:
			good = append(good, m)
		}
	}
	if len(bad) > 0 {
		suites, said, err = build(ctx, dir, root, good)
	}
	if said != "" {
		err = errors.Join(err, fmt.Errorf("the tests do not compile:\n%s", said))
	}
	return good, bad, suites, err
}

// inTurn does n things, some at once, and then what each returns, in order.
func inTurn(n, atOnce int, do func(i int) func()) {
	after := make([]chan func(), n)
	for i := range after {
		after[i] = make(chan func(), 1)
	}
	var next atomic.Int64
	var crew sync.WaitGroup
	for range max(1, atOnce) {
		crew.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				after[i] <- do(i)
			}
		})
	}
	for _, c := range after {
		(<-c)()
	}
	crew.Wait()
}

// tester runs the tests, each package's binary by itself.
type tester struct {
	suites  []suite
	timeout time.Duration // of a package
}

// all runs the tests of all packages without a mutant.
func (t tester) all(ctx context.Context) verdict {
	for _, s := range t.suites {
		if v := t.test(ctx, s, "", false); v.outcome != survived {
			return v
		}
	}
	return verdict{outcome: survived}
}

// mutant judges one mark: by the short tests beside it, which are the quickest to notice, then by the short ones of all packages, and
// by all tests if none of them does.
func (t tester) mutant(ctx context.Context, m mark) verdict {
	own, _ := filepath.Abs(filepath.Dir(m.file))
	for _, s := range t.suites {
		if s.dir == own {
			if v := t.test(ctx, s, m.name, true); v.outcome != survived {
				return v
			}
		}
	}
	for _, short := range []bool{true, false} {
		for _, s := range t.suites {
			if short && s.dir == own {
				continue
			}
			if v := t.test(ctx, s, m.name, short); v.outcome != survived {
				return v
			}
		}
	}
	return verdict{outcome: survived}
}

// test runs the tests of one package as the mutant of that name; "" is none.
func (t tester) test(ctx context.Context, s suite, name string, short bool) verdict {
	cmd := exec.CommandContext(ctx, s.binary, "-test.failfast", "-test.timeout="+t.timeout.String(), fmt.Sprintf("-test.short=%t", short))
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Dir = s.dir
	// A property that fails on purpose is neither kept for next time nor shrunk, and fails every time.
	cmd.Env = append(os.Environ(), chosen+"="+name, "RAPID_NOFAILFILE=true", "RAPID_SHRINKTIME=0s", "RAPID_SEED=1")
	out, err := cmd.CombinedOutput()
	return judge(string(out), err == nil)
}
