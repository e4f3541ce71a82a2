// Command live measures the live scheduler beside the stock kube-scheduler and beside bare binding requests, in
// one run on one machine: `make bench-live`.
//
// It is not a test and changes nothing: every measurement has an API server of its own, in a process of its own,
// with nobody else on it; so has every scheduler. Nodes are objects without machines behind them. One watcher,
// here, sees when a pod gets its node, in all variants alike. docs/performance.md keeps the figures.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench-live:", err)
		os.Exit(1)
	}
}

// parts are what runs in processes of their own: this program, started again with the part's name.
func parts() map[string]func(context.Context, []string) error {
	return map[string]func(context.Context, []string) error{
		"serve": serve, "stock": stock, "bare": bare, "ours": ours, "kubelets": kubelets,
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 {
		if part := parts()[args[0]]; part != nil {
			return profiled(ctx, args[1:], part)
		}
	}
	o, err := parse(args)
	if err != nil {
		return err
	}
	return measure(ctx, o)
}

// options are the command line.
type options struct {
	berth   string  // the binary that ships
	only    string  // names of measurements, with commas between
	who     string  // whom to measure, with commas between; "": all
	count   int     // rounds
	scale   float64 // of nodes and pods, for a quick trial
	json    string  // file
	profile string  // folder
}

func parse(args []string) (options, error) {
	var o options
	fs := flag.NewFlagSet("bench-live", flag.ContinueOnError)
	fs.StringVar(&o.berth, "berth", "bin/berth", "the binary whose `berth scheduler` is measured")
	fs.StringVar(&o.only, "only", "", "measure only these, with commas between: "+strings.Join(names(), ", "))
	fs.StringVar(&o.who, "who", "", "measure only these, with commas between: bare, ours, stock")
	fs.IntVar(&o.count, "count", 1, "rounds; the table shows medians")
	fs.Float64Var(&o.scale, "scale", 1, "share of the nodes and pods, for a quick trial")
	fs.StringVar(&o.json, "json", "", "write every single result to this `file`")
	fs.StringVar(&o.profile, "cpuprofile", "", "write CPU profiles of every part to this `folder`")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("unexpected %q", fs.Arg(0))
	}
	if o.count < 1 || o.scale <= 0 || o.scale > 1 {
		return o, fmt.Errorf("-count is at least 1, and -scale above 0 and at most 1")
	}
	return o, nil
}

// scaled is n at the trial's size, at least 1.
func (o options) scaled(n int) int { return max(1, int(float64(n)*o.scale)) }
