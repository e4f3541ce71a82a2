package scheduler

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"pgregory.net/rapid"
)

// registry is an API server that knows one lease and takes bindings. It works on a request for as long as the schedule
// says, does not notice when a client gives up, and heeds the deadline that it is told.
type registry struct {
	mu      sync.Mutex
	lease   *coordinationv1.Lease
	version int
	written []string // bindings, "TIME CLIENT HOLDER", HOLDER being whose the lease was
	rivals  []string // those of them that came while the lease was another's
}

// wire is the connection of one client. It is down from time to time: what is sent then hangs, and is lost where the
// client gives up before the connection is back. The server takes its time with every so many requests.
type wire struct {
	to     *registry
	client string
	began  time.Time
	down   [][2]time.Duration
	slow   []time.Duration // of the requests in turn, round and round

	mu   sync.Mutex
	sent int
}

func (w *wire) pass(ctx context.Context) error {
	for {
		at, up := time.Since(w.began), true
		for _, d := range w.down {
			if d[0] <= at && at < d[1] {
				up = false
				if !sleep(ctx, d[1]-at) {
					return ctx.Err()
				}
			}
		}
		if up {
			return ctx.Err()
		}
	}
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := w.pass(r.Context()); err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.sent++
	slow := w.slow[w.sent%len(w.slow)]
	w.mu.Unlock()
	body, _ := bodyOf(r)
	answered := make(chan *http.Response, 1)
	go func() { answered <- w.to.serve(w.client, r, body, slow) }()
	select {
	case a := <-answered:
		if err := w.pass(r.Context()); err != nil {
			return nil, err
		}
		return a, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

func (s *registry) serve(client string, r *http.Request, body []byte, slow time.Duration) *http.Response {
	if limit, err := time.ParseDuration(r.URL.Query().Get("timeout")); err == nil && limit < slow {
		time.Sleep(limit)
		return answerOf(http.StatusGatewayTimeout, status(http.StatusGatewayTimeout, metav1.StatusReasonTimeout))
	}
	time.Sleep(slow)
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.HasSuffix(r.URL.Path, "/binding") {
		holder := ""
		if s.lease != nil && s.lease.Spec.HolderIdentity != nil {
			holder = *s.lease.Spec.HolderIdentity
		}
		line := fmt.Sprint(time.Now().Format("04:05.000 "), client, " ", holder)
		s.written = append(s.written, line)
		if holder != client {
			s.rivals = append(s.rivals, line)
		}
		return answerOf(http.StatusCreated, &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess})
	}
	return s.swap(r.Method, body)
}

// swap reads the lease, or compares and swaps it.
func (s *registry) swap(method string, body []byte) *http.Response {
	var got coordinationv1.Lease
	_ = json.Unmarshal(body, &got)
	switch {
	case method == http.MethodGet && s.lease == nil:
		return answerOf(http.StatusNotFound, status(http.StatusNotFound, metav1.StatusReasonNotFound))
	case method == http.MethodGet:
		return answerOf(http.StatusOK, s.lease)
	case method == http.MethodPost && s.lease != nil:
		return answerOf(http.StatusConflict, status(http.StatusConflict, metav1.StatusReasonAlreadyExists))
	case method == http.MethodPut && (s.lease == nil || got.ResourceVersion != s.lease.ResourceVersion):
		return answerOf(http.StatusConflict, status(http.StatusConflict, metav1.StatusReasonConflict))
	}
	s.version++
	got.ResourceVersion, got.UID = strconv.Itoa(s.version), "lease"
	s.lease = &got
	return answerOf(http.StatusOK, s.lease)
}

func status(code int32, reason metav1.StatusReason) *metav1.Status {
	return &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: code, Reason: reason}
}

func answerOf(code int, o any) *http.Response {
	body, _ := json.Marshal(o)
	return &http.Response{StatusCode: code, Status: http.StatusText(code), Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body))}
}

// rival leads whenever it can, and binds as fast as it can while it does.
func rival(ctx context.Context, t testing.TB, w *wire) {
	plain := &rest.Config{Host: "http://api", Transport: w, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"}}
	lease, err := kubernetes.NewForConfig(plain)
	if err != nil {
		t.Error(err)
		return
	}
	o := Options{Config: plain, Name: "berth", Identity: w.client, Log: slog.New(slog.DiscardHandler)}
	client, err := kubernetes.NewForConfig(o.fenced())
	if err != nil {
		t.Error(err)
		return
	}
	for ctx.Err() == nil {
		err := lead(ctx, lease, o, func(ctx context.Context) error {
			sending, end := outlive(ctx)
			defer end()
			g := newGate(binders)
			var all sync.WaitGroup
			for sleep(ctx, 250*time.Millisecond) {
				all.Go(func() {
					_ = g.again(sending, "team", func(ctx context.Context) error {
						return client.CoreV1().Pods("team").Bind(ctx, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p"}}, metav1.CreateOptions{})
					})
				})
			}
			all.Wait()
			return nil
		})
		if err != nil && !errors.Is(err, errLostLead) {
			t.Error(err)
		}
	}
}

// Connections hang, the server is slow, in any order: whoever writes has the lease at that moment, according to the server.
func TestTwoLeadersNeverBothWrite(t *testing.T) {
	seconds := func(r *rapid.T, most int, name string) time.Duration {
		return time.Duration(rapid.IntRange(0, most*10).Draw(r, name)) * 100 * time.Millisecond
	}
	rapid.Check(t, func(r *rapid.T) {
		var wires []*wire
		for _, client := range []string{"one", "two", "three"} {
			w := &wire{client: client, slow: []time.Duration{time.Millisecond}}
			at := time.Duration(0)
			for range rapid.IntRange(0, 6).Draw(r, "outages") {
				at += seconds(r, 20, "up")
				from := at
				at += seconds(r, 20, "down")
				w.down = append(w.down, [2]time.Duration{from, at})
			}
			for range rapid.IntRange(0, 20).Draw(r, "requests") {
				if rapid.IntRange(0, 3).Draw(r, "kind") == 0 {
					w.slow = append(w.slow, seconds(r, 15, "slow"))
				} else {
					w.slow = append(w.slow, time.Millisecond)
				}
			}
			wires = append(wires, w)
		}
		synctest.Test(t, func(t *testing.T) {
			s := &registry{}
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
			defer cancel()
			var all sync.WaitGroup
			for _, w := range wires {
				w.to, w.began = s, time.Now()
				all.Go(func() { rival(ctx, t, w) })
			}
			all.Wait()
			time.Sleep(time.Minute) // what the server still works on
			s.mu.Lock()
			defer s.mu.Unlock()
			if len(s.rivals) > 0 {
				t.Errorf("%d of %d bindings came while the lease was another's:\n%s", len(s.rivals), len(s.written), strings.Join(s.rivals[:min(5, len(s.rivals))], "\n"))
			}
		})
	})
}

func bodyOf(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	return io.ReadAll(r.Body)
}
