package scheduler

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/berth-dev/berth/engine"
)

// ReadState reads the cluster once and returns what a scheduler that started now would plan from. It writes nothing
// and takes no part in any election. What only a running scheduler knows (what is on its way, which nodes refused which workloads)
// is not in it.
func ReadState(ctx context.Context, o Options) (*engine.State, error) {
	client, err := connect(o.Config)
	if err != nil {
		return nil, err
	}
	return readState(ctx, client, o)
}

func readState(ctx context.Context, client kubernetes.Interface, o Options) (*engine.State, error) {
	o.Shadow = true
	s, err := newScheduler(client, o.normal())
	if err != nil {
		return nil, err
	}
	watching, end := context.WithCancel(ctx)
	stop, err := s.watch(watching)
	end()
	if err != nil {
		return nil, err
	}
	stop()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("scheduler: read state: %w", err)
	}
	now := time.Now()
	s.restore(now)
	s.restoreMemory(now)
	s.feed.Settle()
	s.apply(s.inbox.take())
	return s.state, nil
}
