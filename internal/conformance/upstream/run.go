package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

const (
	atOnce = 3 // folders whose tests run at the same time: they wait more than they work
	tries  = 3 // of a test whose process died without a word on it
)

// group is the tests of one folder.
type group struct {
	dir   string
	tests []test
}

// grouped is the tests by folder.
func grouped(chosen []test) []group {
	by := map[string][]test{}
	for _, t := range chosen {
		by[t.dir] = append(by[t.dir], t)
	}
	var out []group
	for _, dir := range slices.Sorted(maps.Keys(by)) {
		out = append(out, group{dir, by[dir]})
	}
	return out
}

// outcomes is the last word of each test and case that ran: PASS, FAIL or SKIP, by folder.test/case.
type outcomes map[string]string

// runAll runs the tests of all folders, of each the cases that match part; "": all.
func (w workshop) runAll(ctx context.Context, todo []group, part, etcd string) outcomes {
	all := outcomes{}
	var mu sync.Mutex
	var wait sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for _, g := range todo {
		wait.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			got := w.runGroup(ctx, g, part, etcd)
			mu.Lock()
			defer mu.Unlock()
			maps.Copy(all, got)
		})
	}
	wait.Wait()
	return all
}

// runGroup runs the tests of one folder. Those that nothing was heard of are run again: an API server that cannot
// start in time takes the whole process with it. A case that fails and is no exception is run once more, alone: the
// tests have deadlines of their own, which a busy machine may miss.
func (w workshop) runGroup(ctx context.Context, g group, part, etcd string) outcomes {
	all := outcomes{}
	left := g.tests
	for try := range tries {
		if len(left) == 0 || ctx.Err() != nil {
			break
		}
		pattern := names(left)
		if part != "" {
			pattern += "/" + part
		}
		fmt.Printf("%s: %s\n", g.dir, pattern)
		maps.Copy(all, w.start(ctx, g.dir, pattern, skipped(left), fmt.Sprint(try), etcd))
		left = slices.DeleteFunc(slices.Clone(left), func(t test) bool { return all[t.key()] != "" })
	}
	for i, r := range judge(all, g.tests, exceptions).failures {
		name := strings.TrimPrefix(r, g.dir+".")
		fmt.Printf("%s: %s once more\n", g.dir, name)
		maps.Copy(all, w.start(ctx, g.dir, exactly(name), "", fmt.Sprint("again", i), etcd))
	}
	return all
}

// exactly is the pattern of one test or case.
func exactly(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}

// start runs a process for the tests of the pattern and returns what it said.
func (w workshop) start(ctx context.Context, dir, pattern, skip, label, etcd string) outcomes {
	args := []string{"-test.v", "-test.timeout=40m", "-test.run=" + pattern}
	if skip != "" {
		args = append(args, "-test.skip="+skip)
	}
	cmd := exec.CommandContext(ctx, w.binary(dir), args...)
	cmd.Dir = filepath.Join(w.source, "test", "integration", dir)
	cmd.Env = append(append(os.Environ(), w.found()...), "KUBE_INTEGRATION_ETCD_URL="+etcd)
	var out strings.Builder
	cmd.Stdout = &out
	log, err := os.Create(w.binary(dir) + "." + label + ".log")
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		return nil
	}
	defer log.Close()
	cmd.Stderr = log
	if err := cmd.Run(); err != nil {
		fmt.Fprintf(log, "%s: %v\n", dir, err)
	}
	fmt.Fprint(log, out.String())
	return parse(dir, out.String())
}

// found tells tests that look for files beside their own source where that is. A binary without paths knows it only below the module cache,
// and upstream's helpers complete it by these two variables (cmd/kube-apiserver/app/testing/testserver.go, pkgPath).
func (w workshop) found() []string {
	return []string{"TEST_SRCDIR=" + w.cache, "TEST_WORKSPACE=."}
}

var word = regexp.MustCompile(`(?m)^ *--- (PASS|FAIL|SKIP): (\S+) \(`)

// parse reads the words on tests and cases in the output of a test binary.
func parse(dir, out string) outcomes {
	got := outcomes{}
	for _, m := range word.FindAllStringSubmatch(out, -1) {
		got[dir+"."+m[2]] = m[1]
	}
	return got
}

// names is the pattern of the tests' names.
func names(todo []test) string {
	var out []string
	for _, t := range todo {
		out = append(out, t.name)
	}
	return "^(" + strings.Join(out, "|") + ")$"
}

// skipped is the pattern of the cases that are about what Berth does not do yet.
func skipped(todo []test) string {
	var out []string
	for _, t := range todo {
		for _, c := range later {
			if c.dir == t.dir && c.test == t.name {
				out = append(out, "^"+t.name+"$/"+c.name)
			}
		}
	}
	return strings.Join(out, "|")
}
