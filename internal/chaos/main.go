// Chaos runs a cluster of Berth's, with schedulers beside it and work on it, and breaks all of them in turn: it
// kills and pauses processes, stands between schedulers and the API server and answers in its place or loses its
// answers, and takes nodes away while pods are being bound to them. Every minute or so it lets go, waits until
// all is quiet, and checks what must be true of a cluster at rest whatever happened before (docs/chaos.md). It
// is a program, not a test: `make chaos` runs it for an hour, CI for five minutes. It looks at Berth only from
// the outside, through processes and the API server.
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
	"syscall"
	"time"

	"k8s.io/klog/v2"
)

type options struct {
	total time.Duration
	parts int // lives of pods with parts of GPUs, in place of everything else; 0: none
	seed  uint64
	berth string // the binary
	dir   string // for data and logs
	keep  bool
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run returns 0 if nothing was found, 1 if something was, 2 for wrong usage and 3 where it could not look.
func run(args []string, out, errs io.Writer) int {
	o, err := parse(args, errs)
	if err != nil {
		return 2
	}
	klog.LogToStderr(false) // requests fail all the time here
	klog.SetOutput(io.Discard)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	found, err := o.game()(ctx, o, out)
	switch {
	case err != nil:
		fmt.Fprintf(errs, "chaos: %v (logs: %s)\n", err, o.dir)
		return 3
	case found > 0:
		fmt.Fprintf(out, "\nFAIL: %d findings; seed %d; logs and data: %s\n", found, o.seed, o.dir)
		return 1
	}
	if !o.keep {
		if err := os.RemoveAll(o.dir); err != nil {
			fmt.Fprintf(errs, "chaos: %v\n", err)
		}
	}
	fmt.Fprintf(out, "\nPASS; seed %d\n", o.seed)
	return 0
}

// game is what is played.
func (o *options) game() func(context.Context, options, io.Writer) (int, error) {
	if o.parts > 0 {
		return playParts
	}
	return play
}

func parse(args []string, errs io.Writer) (o options, err error) {
	f := flag.NewFlagSet("chaos", flag.ContinueOnError)
	f.SetOutput(errs)
	f.DurationVar(&o.total, "for", time.Hour, "how long to go on")
	f.IntVar(&o.parts, "parts", 0, "let this many pods with parts of GPUs live and kill the cluster now and then, in place of everything else")
	f.Uint64Var(&o.seed, "seed", uint64(time.Now().Unix()), "of the schedule of faults and of the work; their moments are never quite the same")
	f.StringVar(&o.berth, "berth", "bin/berth", "the binary")
	f.StringVar(&o.dir, "dir", "", "a folder for data and logs (default: a new one, removed if nothing is found)")
	f.BoolVar(&o.keep, "keep", false, "keep the folder in any case")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		fmt.Fprintf(errs, "chaos: no arguments are taken, got %q\n", f.Args())
		return o, errors.New("usage")
	}
	return o, o.locate(errs)
}

// locate makes paths absolute and the folder, where none was given.
func (o *options) locate(errs io.Writer) (err error) {
	defer func() {
		if err != nil {
			fmt.Fprintf(errs, "chaos: %v\n", err)
		}
	}()
	if o.berth, err = filepath.Abs(o.berth); err != nil {
		return err
	}
	if _, err := os.Stat(o.berth); err != nil {
		return fmt.Errorf("%w: build it with `make build`", err)
	}
	if o.dir == "" {
		o.dir, err = os.MkdirTemp("", "berth-chaos-")
		return err
	}
	if o.dir, err = filepath.Abs(o.dir); err != nil {
		return err
	}
	return os.MkdirAll(o.dir, 0o700)
}
