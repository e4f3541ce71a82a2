package scheduler

import (
	"context"
	"errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// again sends a request until it succeeds, fails for good, or ctx ends. It returns the last answer.
func again(ctx context.Context, send func() error) error {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		err := send()
		if err == nil || !passing(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
	}
}

// passing says whether the same request may well succeed a little later.
func passing(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true // it did not reach the server, or the answer did not reach us
	}
	code := status.Status().Code
	return code == http.StatusTooManyRequests || code >= http.StatusInternalServerError
}

// outlive returns a context for what is being sent: it ends a while after ctx does, so that a request which is
// on its way at the end is finished.
func outlive(ctx context.Context) (context.Context, context.CancelFunc) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(finishFor):
			cancel()
		case <-late.Done():
		}
	})
	return late, func() { stop(); cancel() }
}
