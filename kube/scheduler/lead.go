package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// ErrLostLead ends a run whose lease another scheduler took.
var ErrLostLead = errors.New("scheduler: another one leads now")

// leaseNamespace is where schedulers of one name agree on who leads.
const leaseNamespace = "kube-system"

// lead runs while this process has the lease of the scheduler's name.
func lead(ctx context.Context, client kubernetes.Interface, o Options, run func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var began atomic.Bool
	ended := make(chan error, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: leaseNamespace, Name: o.Name + "-scheduler"},
			Client:    client.CoordinationV1(), LockConfig: resourcelock.ResourceLockConfig{Identity: o.Identity},
		},
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				began.Store(true)
				o.Log.Info("leading")
				ended <- run(leading)
				stop()
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("scheduler: %w", err)
	}
	elector.Run(ctx)
	lost := ctx.Err() == nil
	if began.Load() {
		err = <-ended
	}
	if lost {
		return errors.Join(ErrLostLead, err)
	}
	return err
}
