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

// errLostLead ends a run whose lease another scheduler took.
var errLostLead = errors.New("scheduler: another one leads now")

// leaseNamespace is where schedulers of one name agree on who leads.
const leaseNamespace = "kube-system"

// leaseFor is how long a lease holds without being renewed. A leader that cannot renew it stops finishFor
// earlier, which is as long as it may take to stop.
const leaseFor = 8 * time.Second

// lead runs while this process has the lease of the scheduler's name. The lease is given back when the run has
// ended, so that its successor does not meet requests that are still on their way.
func lead(ctx context.Context, client kubernetes.Interface, o Options, run func(context.Context) error) error {
	elect, resign := context.WithCancel(context.WithoutCancel(ctx))
	defer resign()
	var began atomic.Bool
	ended := make(chan error, 1)
	defer context.AfterFunc(ctx, func() {
		if !began.Load() {
			resign()
		}
	})()
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: leaseNamespace, Name: o.Name + "-scheduler"},
			Client:    client.CoordinationV1(), LockConfig: resourcelock.ResourceLockConfig{Identity: o.Identity},
		},
		LeaseDuration: leaseFor, RenewDeadline: leaseFor - finishFor, RetryPeriod: time.Second,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				began.Store(true)
				o.Log.Info("leading")
				working, stop := context.WithCancel(leading)
				defer stop()
				defer context.AfterFunc(ctx, stop)()
				ended <- run(working)
				if leading.Err() == nil { // else the lease is lost already, which is not a resignation
					resign()
				}
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("scheduler: %w", err)
	}
	elector.Run(elect)
	lost := elect.Err() == nil
	if began.Load() {
		err = <-ended
	}
	if lost {
		return errors.Join(errLostLead, err)
	}
	return err
}
