package shell

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"
)

// output is a writer for tests that may be read while it is written.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func newContainer() *Container {
	return &Container{Hostname: "pod-0", IP: "10.1.2.3", FS: NewFS(), Net: NewNet()}
}

// result is what a command left behind.
type result struct {
	Stdout, Stderr string
	Status         int
}

// runIn runs a command in a container to its end, at most ten seconds of it.
func runIn(t testing.TB, c *Container, stdin string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var out, errs output
	p := &Process{Args: args, Stdout: &out, Stderr: &errs, Container: c}
	if stdin != "" {
		p.Stdin = strings.NewReader(stdin)
	}
	status := Run(ctx, p)
	if ctx.Err() != nil {
		t.Errorf("%q did not end; stdout %q stderr %q", args, out.String(), errs.String())
	}
	return result{out.String(), errs.String(), status}
}

// sh runs a script in a fresh container.
func sh(t testing.TB, script string) result {
	t.Helper()
	return runIn(t, newContainer(), "", "sh", "-c", script)
}
