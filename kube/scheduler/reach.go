package scheduler

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// reach knows since when the API server has not been reached: since the first request without an answer after the last one
// that had one. A nil reach knows nothing.
type reach struct {
	mu    sync.Mutex
	since time.Time // zero: it answers
	last  error     // of requests without an answer
}

const (
	// outageAfter is from when on an API server counts as unreachable: single requests fail all the time.
	outageAfter = 10 * time.Second
	// outageEvery is how often that is said.
	outageEvery = time.Minute
)

func newReach() *reach { return &reach{} }

// through is a transport that is listened to.
func (r *reach) through(next http.RoundTripper) http.RoundTripper { return listening{next, r} }

type listening struct {
	next http.RoundTripper
	to   *reach
}

func (l listening) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := l.next.RoundTrip(r)
	switch {
	case err == nil && answer.StatusCode == http.StatusGatewayTimeout: // of a webhook, of the server, or of a proxy before it
	case err == nil && (answer.StatusCode == http.StatusBadGateway || answer.StatusCode == http.StatusServiceUnavailable):
		l.to.failed(errors.New(answer.Status))
	case err == nil:
		l.to.answered()
	case !errors.Is(err, context.Canceled): // which was ours
		l.to.failed(err)
	}
	return answer, err
}

func (r *reach) answered() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since, r.last = time.Time{}, nil
}

func (r *reach) failed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last = err; r.since.IsZero() {
		r.since = time.Now()
	}
}

// outage is how long the API server has been unreachable, and why; 0: it is reached, or may well be.
func (r *reach) outage() (time.Duration, error) {
	if r == nil {
		return 0, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if lasts := time.Since(r.since); !r.since.IsZero() && lasts >= outageAfter {
		return lasts, r.last
	}
	return 0, nil
}

// report logs when the API server is unreachable, now and then how long, and when it is back, until the returned function
// is called.
func (r *reach) report(log *slog.Logger) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() {
		var lasted, said time.Duration
		for sleep(ctx, time.Second) {
			lasts, err := r.outage()
			switch {
			case lasts > 0 && (said == 0 || lasts-said >= outageEvery):
				log.Warn("the API server is unreachable", "for", lasts.Round(time.Second), "err", err)
				said = lasts
			case lasts == 0 && said > 0:
				log.Info("the API server is reachable again", "after", lasted.Round(time.Second))
				said = 0
			}
			lasted = lasts
		}
	})
	return func() { cancel(); ended.Wait() }
}
