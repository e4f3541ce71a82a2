// Command failover measures how long nothing is bound when the scheduler that leads goes away. Two schedulers run as processes
// against an embedded cluster, with the rights that `berth install` gives, under a steady load of pods. It kills the leader with
// SIGKILL many times, and then replaces both schedulers as a rolling update does: a new one is Ready before an old one
// is asked to end. After each it measures the time until a pod is bound that was created afterwards. `make failover` runs
// it (docs/install.md). It looks at Berth only from the outside, through processes, their readiness and the API server.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"k8s.io/klog/v2"
)

type options struct {
	berth, dir   string
	kills, rolls int
	nodes        int
	every        time.Duration
}

// The bars: how long nothing may be bound after a SIGKILL, and in a rolling update.
const (
	killBar = 10 * time.Second
	rollBar = time.Second
)

func main() { os.Exit(run(os.Args[1:])) }

// run returns 0 if the bars hold, 1 if one does not, and 2 where it could not measure.
func run(args []string) int {
	var o options
	f := flag.NewFlagSet("failover", flag.ExitOnError)
	f.StringVar(&o.berth, "berth", "bin/berth", "the binary")
	f.IntVar(&o.kills, "kills", 50, "how often the leader is killed")
	f.IntVar(&o.rolls, "rolls", 10, "how many rolling updates there are")
	f.IntVar(&o.nodes, "nodes", 50, "simulated nodes of 8 GPUs")
	f.DurationVar(&o.every, "every", 50*time.Millisecond, "time between two new pods")
	f.StringVar(&o.dir, "dir", "", "folder for data and logs (default: a new one, removed if the bars hold)")
	f.Parse(args)
	klog.LogToStderr(false) // watches break here
	klog.SetOutput(io.Discard)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if o.dir == "" {
		dir, err := os.MkdirTemp("", "berth-failover-")
		if err != nil {
			fmt.Fprintln(os.Stderr, "failover:", err)
			return 2
		}
		o.dir = dir
	}
	ok, err := measure(ctx, o)
	switch {
	case err != nil:
		fmt.Fprintf(os.Stderr, "failover: %v (logs: %s)\n", err, o.dir)
		return 2
	case !ok:
		fmt.Printf("MISSED; logs: %s\n", o.dir)
		return 1
	}
	if err := os.RemoveAll(o.dir); err != nil {
		fmt.Fprintln(os.Stderr, "failover:", err)
	}
	return 0
}

func measure(ctx context.Context, o options) (ok bool, err error) {
	w, err := newWorld(ctx, o)
	if err != nil {
		return false, err
	}
	defer w.close()
	var kills, rolls []time.Duration
	for i := range o.kills {
		gap, err := w.kill(ctx)
		if err != nil {
			return false, fmt.Errorf("kill %d: %w", i+1, err)
		}
		kills = append(kills, gap)
		fmt.Printf("kill %d of %d: %.2f s\n", i+1, o.kills, gap.Seconds())
	}
	for i := range o.rolls {
		gap, err := w.roll(ctx)
		if err != nil {
			return false, fmt.Errorf("rolling update %d: %w", i+1, err)
		}
		rolls = append(rolls, gap)
		fmt.Printf("rolling update %d of %d: %.2f s\n", i+1, o.rolls, gap.Seconds())
	}
	held := report("SIGKILL of the leader", kills, killBar)
	return report("rolling update", rolls, rollBar) && held, nil
}

// report prints the figures, and says whether the longest is within the bar.
func report(what string, gaps []time.Duration, bar time.Duration) bool {
	if len(gaps) == 0 {
		return true
	}
	slices.Sort(gaps)
	longest := gaps[len(gaps)-1]
	word := "held"
	if longest > bar {
		word = "MISSED"
	}
	fmt.Printf("%s, %d times: next binding after %.2f s (median), %.2f s (longest); bar %v: %s\n", what, len(gaps), gaps[len(gaps)/2].Seconds(), longest.Seconds(), bar, word)
	return longest <= bar
}
