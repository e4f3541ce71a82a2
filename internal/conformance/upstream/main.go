// Command upstream runs upstream's integration tests of its scheduler, unchanged, against Berth's. The tests start
// their schedulers through one file of helpers; the program compiles them with that file patched, so that the
// stock scheduler only watches and kube/scheduler decides in its place. Nothing of upstream is copied into this
// repository: the patch is made from the module's own source. `make conformance` calls it.
//
// It prints what became of each row of the checklist, and fails if a case fails that is not among the exceptions,
// or if an exception passes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"time"
)

func main() {
	only := flag.String("run", "", "run only the tests whose folder.name matches, such as dra/ga.TestDRA")
	part := flag.String("case", "", "of these, run only the cases that match, as go test has it: GA/PrioritizedList")
	table := flag.Bool("table", false, "print the tables of docs/conformance.md and run nothing")
	flag.Parse()
	if *table {
		fmt.Print(document())
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *only, *part); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only, part string) error {
	match, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	dir, err := filepath.Abs("bin/conformance")
	if err != nil {
		return err
	}
	w, err := prepare(ctx, dir)
	if err != nil {
		return err
	}
	began := time.Now()
	fmt.Println("Building upstream's tests with Berth in them. The first time takes some minutes.")
	chosen := slices.DeleteFunc(slices.Clone(tests), func(t test) bool { return !match.MatchString(t.key()) })
	todo := grouped(chosen)
	for _, g := range todo {
		if err := w.build(ctx, g.dir); err != nil {
			return err
		}
	}
	fmt.Printf("Built in %s.\n", time.Since(began).Round(time.Second))
	url, stop, err := startEtcd(dir)
	if err != nil {
		return err
	}
	defer stop()
	got := w.runAll(ctx, todo, part, url)
	report := judge(got, chosen, exceptions)
	fmt.Print(report.text())
	fmt.Printf("In %s. What the tests said is in %s.\n", time.Since(began).Round(time.Second), dir)
	if !report.fine() {
		return errors.New("not as docs/conformance.md says")
	}
	return nil
}
