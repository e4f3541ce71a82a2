package scheduler

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

// An API server that is gone for an hour when the scheduler starts ends nothing: when it is back pods are bound.
func TestAnOutageEndsNothing(t *testing.T) {
	for name, change := range map[string]func(*Options){"alone": func(*Options) {}, "elected": as("one")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, node("n1", "r1", 1), pod("a", 1))
				back := time.Now().Add(time.Hour)
				w.client.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
					if time.Now().Before(back) {
						return true, nil, errors.New("connection refused")
					}
					return false, nil, nil
				})
				w.start(change)
				w.after(time.Hour + 2*time.Minute)
				if got := w.at("a"); got[0] != "n1" {
					t.Errorf("a is on %q", got[0])
				}
			})
		})
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// How long the server has not answered is known, said from time to time, and over with the first answer.
func TestOutagesAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down bool
		var text bytes.Buffer
		r := newReach()
		through := r.through(roundTrip(func(*http.Request) (*http.Response, error) {
			if down {
				return nil, errors.New("connection refused")
			}
			return &http.Response{StatusCode: http.StatusInternalServerError}, nil
		}))
		stop := r.report(slog.New(slog.NewTextHandler(&text, nil)))
		for s := range 600 {
			down = s >= 100 && s < 400
			_, _ = through.RoundTrip(&http.Request{})
			if s == 399 {
				if lasts, err := r.outage(); lasts.Round(time.Second) != 299*time.Second || err == nil {
					t.Errorf("unreachable for %s: %v", lasts, err)
				}
			}
			time.Sleep(time.Second)
		}
		stop()
		if lasts, _ := r.outage(); lasts != 0 {
			t.Errorf("still unreachable for %s", lasts)
		}
		if got := strings.Count(text.String(), "is unreachable"); got != 5 {
			t.Errorf("said %d times:\n%s", got, &text)
		}
		if !strings.Contains(text.String(), "reachable again") {
			t.Errorf("its end is not said:\n%s", &text)
		}
	})
}
