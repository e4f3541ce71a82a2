package cli

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/inspect"
)

// reading is where a read command gets its facts: a cluster as it is now, or a bundle of `berth evidence`.
type reading struct {
	connection
	from string // "": the cluster

	once   sync.Once
	bundle *inspect.Bundle
	err    error // of reading the bundle
}

func (r *reading) flags(cmd *cobra.Command) {
	r.connection.flags(cmd)
	cmd.Flags().StringVar(&r.from, "from", "", "read a `BUNDLE` that berth evidence wrote, not a cluster")
	for _, other := range []string{"name", "kubeconfig", "context"} {
		cmd.MarkFlagsMutuallyExclusive("from", other)
	}
}

// open reads the bundle, once.
func (r *reading) open() (*inspect.Bundle, error) {
	r.once.Do(func() { r.bundle, r.err = inspect.Read(r.from) })
	return r.bundle, r.err
}

// now is the moment that is looked at: of a bundle, when it was taken.
func (r *reading) now() time.Time {
	if r.from != "" {
		if b, err := r.open(); err == nil {
			return b.Facts.At
		}
	}
	return time.Now()
}

// namespace is the current one: here, or where the bundle was taken.
func (r *reading) namespace() string {
	if r.from == "" {
		return r.connection.namespace()
	}
	if b, err := r.open(); err == nil && b.Manifest.Namespace != "" {
		return b.Manifest.Namespace
	}
	return "default"
}

// asker answers from the bundle, or asks the scheduler.
func (r *reading) asker() (asker, error) {
	if r.from == "" {
		return r.connection.asker()
	}
	b, err := r.open()
	return asker{kept: b}, err
}

// asked is a line that says which cluster was asked; "" where no other could have been meant.
func (r *reading) asked() string {
	if r.from != "" {
		return ""
	}
	return r.connection.asked()
}

// kubectl is what printed commands begin with, so that they act on the cluster that was asked and on no other.
func (r *reading) kubectl() string {
	if r.from != "" {
		if b, err := r.open(); err == nil {
			return kubectlOf(b)
		}
	}
	if got, err := r.choose(); err == nil {
		return got.kubectl
	}
	return unaddressed
}

// kubectlOf is what commands for the cluster of a bundle begin with.
func kubectlOf(b *inspect.Bundle) string {
	if b.Manifest.Kubectl != "" {
		return b.Manifest.Kubectl
	}
	return unaddressed
}

// quietFor is how long a person is left without a word.
const quietFor = 2 * time.Second

// facts reads what the command needs. about is what is asked about, whose logs are read too; without a name, nobody's.
func (r *reading) facts(ctx context.Context, s Streams, about facts.Ref) (*facts.Facts, error) {
	if r.from != "" {
		b, err := r.open()
		if err != nil {
			return nil, err
		}
		return b.Facts, nil
	}
	var logsOf func(*facts.Facts) []*corev1.Pod
	if about.Name != "" {
		logsOf = func(f *facts.Facts) []*corev1.Pod {
			own := f.PodsOf(about)
			if slices.ContainsFunc(own, func(p *corev1.Pod) bool { return facts.StateOf(p) == facts.Pending }) {
				own = append(slices.Clone(own), f.CrashingAgents()...) // they may be what it waits for
			}
			return own
		}
	}
	return r.gather(ctx, s, about.Namespace, logsOf)
}

// gather reads the cluster, with a word to people whom it leaves waiting. namespace "" is the current one.
func (r *reading) gather(ctx context.Context, s Streams, namespace string, logsOf func(*facts.Facts) []*corev1.Pod) (*facts.Facts, error) {
	cfg, err := r.config()
	if err != nil {
		return nil, err
	}
	start := time.Now()
	o := inspect.Options{Config: cfg, Namespace: namespace, Targets: logsOf}
	if o.Namespace == "" {
		o.Namespace = r.namespace()
	}
	person := isTerminal(s.Err)
	silence := time.AfterFunc(quietFor, func() {
		if person {
			fmt.Fprintf(s.Err, eraseLine+"waiting for the API server at %s", cfg.Host)
		}
	})
	o.Progress = func(done, total int) {
		silence.Stop()
		if person && time.Since(start) > quietFor {
			fmt.Fprintf(s.Err, eraseLine+"reading the cluster: %d of %d kinds", done, total)
		}
	}
	facts, err := inspect.Gather(ctx, o)
	silence.Stop()
	if person {
		fmt.Fprint(s.Err, eraseLine)
	}
	return facts, err
}
