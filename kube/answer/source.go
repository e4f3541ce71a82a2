package answer

import (
	"context"
	"errors"
)

// Source is a scheduler that leads. It answers in full; the server leaves out what the caller may not read. What it
// returns may share memory with later answers, and is not written to.
type Source interface {
	// Workloads are those of the namespace, "" for all, in the order of WorkloadList, with their gates and
	// certificates and without their holders and those ahead of them.
	Workloads(ctx context.Context, namespace string) ([]Workload, error)
	// Workload is one with all there is to say, or ErrNotFound.
	Workload(ctx context.Context, namespace, name string) (Workload, error)
	// Queues are all, by name.
	Queues(ctx context.Context) ([]Queue, error)
	// Configuration is how it is set up, with its name.
	Configuration() Configuration
	// Ready says what keeps it from scheduling, nil if nothing does.
	Ready() error
}

var (
	// ErrNotFound is of a workload that is over, or never was.
	ErrNotFound = errors.New("no such workload")
	// ErrBusy is of a scheduler that has no time to answer now.
	ErrBusy = errors.New("the scheduler is busy: ask again")
	// errNotLeading is of a process that stands by.
	errNotLeading = errors.New("this scheduler does not lead")
)
