package scheduler

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// attemptFor is how long one request may take.
	attemptFor = 5 * time.Second
	// writeFor is how long a request is sent again and again where nothing shorter is said.
	writeFor = 2 * time.Minute
	// firstWait and lastWait bound the time between two attempts, which doubles.
	firstWait = 50 * time.Millisecond
	lastWait  = 2 * time.Second
)

// again sends a request about an object of the namespace until it succeeds, fails for good, or its time is up: writeFor
// at most, and earlier where ctx ends or this process leads no more. It returns the last answer.
func (g *gate) again(ctx context.Context, namespace string, send func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, writeFor)
	defer cancel()
	return retried(ctx, func(ctx context.Context) error { return g.once(ctx, namespace, send) })
}

// once sends a request a single time. It returns within attemptFor of being sent.
func (g *gate) once(ctx context.Context, namespace string, send func(context.Context) error) error {
	p, err := g.enter(ctx, namespace)
	if err != nil {
		return err
	}
	err = attempt(ctx, send)
	p.done(err)
	return err
}

// again sends a request about an object of no namespace.
func again(ctx context.Context, send func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, writeFor)
	defer cancel()
	return retried(ctx, func(ctx context.Context) error { return attempt(ctx, send) })
}

// attempt sends a request with its deadline, unless this process leads no more.
func attempt(ctx context.Context, send func(context.Context) error) error {
	ctx, cancel, err := leadershipOf(ctx).bound(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	return send(ctx)
}

// retried calls send, ever more rarely, while its answer may pass. Of the answers it returns the last one that says more
// than that there was no more time.
func retried(ctx context.Context, send func(context.Context) error) (last error) {
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		err := send(ctx)
		if last == nil || ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
			last = err
		}
		if err == nil || !passing(err) || errors.Is(err, errNotLeading) || !sleep(ctx, wait) {
			return last
		}
	}
}

// passing says whether the same request may well succeed a little later.
func passing(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true
	}
	code := status.Status().Code
	return code == http.StatusTooManyRequests || code >= http.StatusInternalServerError || fenced(err)
}

// lost says whether a request did not reach the server, or its answer did not come back.
func lost(err error) bool {
	var status apierrors.APIStatus
	return !errors.As(err, &status) && !errors.Is(err, context.DeadlineExceeded)
}

// fenced says whether the API server takes another scheduler for the leader. Who has just come to lead meets this until
// the server's policy has heard of it.
func fenced(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && strings.Contains(status.Status().Message, "ValidatingAdmissionPolicy '"+fencePolicy+"'")
}

// fencePolicy is the admission policy that rejects bindings of schedulers that no longer lead (kube/policy/manifests).
const fencePolicy = "berth-leader"

// unanswered says whether a request ended without an answer of its own: it hung on its way, in the server, or in a webhook
// that the server asked.
func unanswered(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err)
}

// outlive returns a context for what is being sent: it ends a while after ctx does, so that a request which is
// on its way at the end is finished, and not later than the leadership.
func outlive(ctx context.Context) (context.Context, context.CancelFunc) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if sleep(late, finishFor) {
			cancel()
		}
	})
	lost := context.AfterFunc(leadershipOf(ctx).context(), cancel)
	return late, func() { stop(); lost(); cancel() }
}

// clip shortens a text to what the API server takes, in bytes, and says that it did.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	const more = "..."
	return strings.ToValidUTF8(text[:most-len(more)], "") + more
}
