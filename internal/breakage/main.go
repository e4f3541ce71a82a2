// Breakage measures `berth why` on faults that nobody wrote down. It starts a cluster with healthy workloads, lists every
// field of the live objects that bear on them, breaks one field at a time through the API, and waits until the workloads
// show an effect. A mutation that changes nothing is not counted. For the others it asks `berth why` and holds the answer
// against what was broken: layer, cause, owner and fix; a printed fix is run by its command and must work. Then everything
// is put back. It is a program, not a test: `make mutations` runs it, CI with few mutations and `make verify` with many
// (docs/mutations.md). It looks at Berth from the outside only, through the binary and the API server, and knows no check.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/klog/v2"
)

type options struct {
	count int           // counted mutations wanted
	total time.Duration // no new mutation is begun after it
	seed  uint64
	cells int
	fixes int   // how many printed fixes of each answer are tried; 0: all
	only  []int // places in the order of the seed; nil: all
	berth string
	dir   string // data and logs
	keep  bool
	loud  bool
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run returns 0 if all bars are met, 1 if one is not, 2 for wrong usage and 3 where it could not measure.
func run(args []string, out, errs io.Writer) int {
	o, err := parse(args, errs)
	if err != nil {
		return 2
	}
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	fmt.Fprintf(out, "seed %d; data and logs in %s\n", o.seed, o.dir)
	results, err := measure(ctx, o, out)
	if err != nil {
		fmt.Fprintf(errs, "breakage: %v (logs: %s)\n", err, o.dir)
		return 3
	}
	ok := report(out, o, results)
	if ok && !o.keep {
		if err := os.RemoveAll(o.dir); err != nil {
			fmt.Fprintf(errs, "breakage: %v\n", err)
		}
	}
	if !ok {
		return 1
	}
	return 0
}

func parse(args []string, errs io.Writer) (o options, err error) {
	f := flag.NewFlagSet("breakage", flag.ContinueOnError)
	f.SetOutput(errs)
	f.IntVar(&o.count, "count", 50, "counted mutations, after which it ends")
	f.DurationVar(&o.total, "for", 2*time.Hour, "no new mutation is begun after this time")
	f.Uint64Var(&o.seed, "seed", uint64(time.Now().Unix()), "of the order of mutations")
	f.IntVar(&o.cells, "cells", 4, "mutations at a time, each in a namespace and a pool of its own")
	f.IntVar(&o.fixes, "fixes", 1, "how many printed fixes of an answer are tried, drawn by the seed; 0: all")
	only := f.String("only", "", "SEED/INDEX[,INDEX...]: these mutations alone, as a report names them")
	f.StringVar(&o.berth, "berth", "bin/berth", "the binary")
	f.StringVar(&o.dir, "dir", "", "a folder for data and logs (default: a new one, removed if all bars are met)")
	f.BoolVar(&o.keep, "keep", false, "keep the folder in any case")
	f.BoolVar(&o.loud, "v", false, "print every mutation as it ends")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		err = fmt.Errorf("no arguments are taken, got %q", f.Args())
	}
	if err == nil && *only != "" {
		err = o.replay(*only)
	}
	if err == nil && (o.count < 1 || o.cells < 1) {
		err = errors.New("-count and -cells are at least 1")
	}
	if err == nil {
		err = o.locate()
	}
	if err != nil {
		fmt.Fprintf(errs, "breakage: %v\n", err)
	}
	return o, err
}

// replay reads SEED/INDEX,INDEX.
func (o *options) replay(text string) (err error) {
	seed, list, ok := strings.Cut(text, "/")
	if !ok {
		return fmt.Errorf("-only %q is not SEED/INDEX", text)
	}
	if o.seed, err = strconv.ParseUint(seed, 10, 64); err != nil {
		return fmt.Errorf("-only %q is not SEED/INDEX: %w", text, err)
	}
	for _, word := range strings.Split(list, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 0 {
			return fmt.Errorf("-only %q is not SEED/INDEX", text)
		}
		o.only = append(o.only, n)
	}
	o.loud = true
	return nil
}

// locate makes paths absolute, and the folder where none was given.
func (o *options) locate() (err error) {
	if o.berth, err = filepath.Abs(o.berth); err != nil {
		return err
	}
	if _, err := os.Stat(o.berth); err != nil {
		return fmt.Errorf("%w: build it with `make build`", err)
	}
	if o.dir == "" {
		o.dir, err = os.MkdirTemp("", "berth-breakage-")
		return err
	}
	if o.dir, err = filepath.Abs(o.dir); err != nil {
		return err
	}
	return os.MkdirAll(o.dir, 0o700)
}
