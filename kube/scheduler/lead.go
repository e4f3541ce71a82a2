package scheduler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// errLostLead ends a run whose lease another scheduler took.
var errLostLead = errors.New("scheduler: another one leads now")

// leaseNamespace is where schedulers of one name elect their leader.
const leaseNamespace = v1alpha1.SystemNamespace

const (
	// leaseFor is how long a lease holds without being renewed. Writes end leaseMargin earlier.
	leaseFor = 8 * time.Second
	// renewEvery is how often the lease is renewed, at most.
	renewEvery = 800 * time.Millisecond
	// lookEvery is how often those that do not lead look at the lease; client-go waits for up to 2.2 times as long. They count
	// leaseFor from when they first see the last renewal, and look again when it is over, so that it comes twice on top.
	lookEvery = 300 * time.Millisecond
)

// lead runs while this process has the lease of the scheduler's name. Whatever ends the run, the order is the same: the
// context of its work ends, all writes in flight end, by finishFor or by the leadership's own end, and then the lease is
// given back, so that no successor meets requests that are still on their way. Where the server may still work on one,
// because it was not answered, the lease is not given back but runs out, which is later than that.
func lead(ctx context.Context, client kubernetes.Interface, o Options, run func(context.Context) error) error {
	l := newLeadership(o.Identity)
	defer l.end()
	elect, resign := context.WithCancel(context.WithoutCancel(ctx))
	defer resign()
	defer context.AfterFunc(l.ctx, resign)()
	defer context.AfterFunc(ctx, func() {
		if !l.begun() {
			resign()
		}
	})()
	lock := &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: leaseNamespace, Name: o.leaseName()},
		Client:    leases{client, l}, LockConfig: resourcelock.ResourceLockConfig{Identity: o.Identity},
	}
	var began bool
	ended, lost := make(chan error, 1), false
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: leaseFor, RenewDeadline: leaseFor - finishFor, RetryPeriod: lookEvery,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				o.Log.Info("leading", "lease", l.mark())
				working, stop := context.WithCancel(l.under(leading))
				defer stop()
				defer context.AfterFunc(ctx, stop)()
				defer context.AfterFunc(l.ctx, stop)()
				err := run(working)
				lost = leading.Err() != nil || l.ctx.Err() != nil
				ended <- err
				resign()
			},
			OnStoppedLeading: func() { began = l.begun() },
		},
	})
	if err != nil {
		return fmt.Errorf("scheduler: %w", err)
	}
	elector.Run(elect)
	if !began {
		return nil
	}
	err = <-ended
	l.end()
	if l.settled() {
		release(lock, o)
	} else {
		o.Log.Info("writes were not answered: the lease is not given back, and runs out")
	}
	if lost {
		return errors.Join(errLostLead, err)
	}
	return err
}

// releaseFor is how long giving the lease back may take.
const releaseFor = 2 * time.Second

// leaseName is of the lease that schedulers of this name lead by.
func (o *Options) leaseName() string { return o.Name + "-scheduler" }

// release gives the lease back if it is still this process's. A successor need not wait for it to run out then. Where
// the server does not answer it runs out.
func release(lock *resourcelock.LeaseLock, o Options) {
	ctx, cancel := context.WithTimeout(context.Background(), releaseFor)
	defer cancel()
	var err error
	for range 3 { // a renewal that was under way may come between
		var have *resourcelock.LeaderElectionRecord
		have, _, err = lock.Get(ctx)
		if err != nil || have.HolderIdentity != o.Identity {
			break
		}
		now := metav1.Now()
		err = lock.Update(ctx, resourcelock.LeaderElectionRecord{
			LeaderTransitions: have.LeaderTransitions, LeaseDurationSeconds: 1, RenewTime: now, AcquireTime: now,
		})
		if !apierrors.IsConflict(err) {
			break
		}
	}
	if err != nil {
		o.Log.Warn("the lease is not given back, and runs out", "err", err)
	}
}

// endingBody ends the request's context once the answer has been read.
type endingBody struct {
	io.ReadCloser
	end context.CancelFunc
}

func (b endingBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}
