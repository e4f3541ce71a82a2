// Command older plays kubectl-berth on a kube-apiserver of an older Kubernetes than the one that Berth embeds: it starts etcd and the
// API server as processes on loopback, installs Berth as an administrator does, runs two schedulers with
// the rights of the installed ServiceAccount, and asks every command that reads a cluster. `make test-older` builds the servers
// and calls it for each version (docs/versions.md). It looks at Berth from the outside alone.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/klog/v2"
)

type options struct {
	berth, tools, dir string
	limit             time.Duration
}

func main() { os.Exit(run(os.Args[1:])) }

// run returns 0 if everything was as it should be, 1 if something was not, and 2 where it could not be played.
func run(args []string) int {
	var o options
	f := flag.NewFlagSet("older", flag.ExitOnError)
	f.StringVar(&o.berth, "berth", "bin/kubectl-berth", "the binary that is tested")
	f.StringVar(&o.tools, "tools", "bin/older/v1.35", "folder with etcd and kube-apiserver")
	f.StringVar(&o.dir, "dir", "", "folder for data and logs (default: a new one, removed if all is well)")
	f.DurationVar(&o.limit, "limit", 10*time.Minute, "when to give up")
	f.Parse(args)
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
	kept := o.dir != ""
	if !kept {
		dir, err := os.MkdirTemp("", "berth-older-")
		if err != nil {
			fmt.Fprintln(os.Stderr, "older:", err)
			return 2
		}
		o.dir = dir
	}
	began := time.Now()
	p, err := newPlay(ctx, o)
	if err != nil {
		fmt.Fprintf(os.Stderr, "older: %v (logs: %s)\n", err, o.dir)
		return 2
	}
	defer p.close()
	failed := p.all(ctx)
	fmt.Printf("%s: %d steps, %d failed, in %.0f s\n", p.version, p.steps, failed, time.Since(began).Seconds())
	if failed > 0 {
		fmt.Printf("FAILED; logs: %s\n", o.dir)
		return 1
	}
	if !kept {
		p.close()
		os.RemoveAll(o.dir)
	}
	return 0
}
