package stream

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestLogErrorsKeepTheirStatus(t *testing.T) {
	tests := []struct {
		err    error
		status int
		body   string
	}{
		{NotFound(`pod "p" does not exist`), 404, `pod "p" does not exist`},
		{BadRequest(`previous terminated container "c" in pod "p" not found`), 400, `previous terminated container "c" in pod "p" not found`},
		{errors.New("disk on fire"), 500, "disk on fire"},
	}
	var answer error
	s := serve(t, &fake{logs: func(context.Context, Ref, *corev1.PodLogOptions, io.Writer) error { return answer }})
	for _, test := range tests {
		answer = test.err
		if status, body := s.get(t, "/containerLogs/ns/p/c", nil); status != test.status || body != test.body {
			t.Errorf("%v: %d %q, want %d %q", test.err, status, body, test.status, test.body)
		}
	}
}

// A log that breaks off in the middle is not taken for a whole one.
func TestLogThatBreaksOff(t *testing.T) {
	s := serve(t, &fake{logs: func(_ context.Context, _ Ref, _ *corev1.PodLogOptions, w io.Writer) error {
		io.WriteString(w, "half\n")
		return errors.New("disk on fire")
	}})
	resp, err := s.client.Get(s.url("/containerLogs/ns/p/c", nil).String())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if string(body) != "half\n" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("body %q, error %v", body, err)
	}
}

func TestLogReachesTheBackend(t *testing.T) {
	var ref Ref
	var opts *corev1.PodLogOptions
	s := serve(t, &fake{logs: func(_ context.Context, r Ref, o *corev1.PodLogOptions, w io.Writer) error {
		ref, opts = r, o
		_, err := io.WriteString(w, "hello\n")
		return err
	}})
	status, body := s.get(t, "/containerLogs/ns/p/c", url.Values{"tailLines": {"3"}, "timestamps": {"true"}})
	if status != 200 || body != "hello\n" {
		t.Errorf("%d %q", status, body)
	}
	want := &corev1.PodLogOptions{Container: "c", Timestamps: true, TailLines: pick(int64(3)), Stream: pick(corev1.LogStreamAll)}
	if diff := cmp.Diff(want, opts); diff != "" || ref != (Ref{Namespace: "ns", Pod: "p", Container: "c"}) {
		t.Errorf("ref %+v, options (-want +got):\n%s", ref, diff)
	}
}

// follow opens a followed log whose lines come from the returned channel.
func follow(t *testing.T) (s *service, lines chan<- string, ended <-chan error, open func(ctx context.Context) *bufio.Reader) {
	t.Helper()
	feed, done := make(chan string), make(chan error, 1)
	s = serve(t, &fake{logs: func(ctx context.Context, _ Ref, _ *corev1.PodLogOptions, w io.Writer) error {
		for {
			select {
			case line := <-feed:
				io.WriteString(w, line)
			case <-ctx.Done():
				done <- ctx.Err()
				return ctx.Err()
			}
		}
	}})
	return s, feed, done, func(ctx context.Context) *bufio.Reader {
		req, err := http.NewRequestWithContext(ctx, "GET", s.url("/containerLogs/ns/p/c", url.Values{"follow": {"true"}}).String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		go func() { feed <- "first\n" }()
		resp, err := s.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return bufio.NewReader(resp.Body)
	}
}

// Every line arrives before the next one is written, and the reader's going away ends the call.
func TestFollowedLogIsLive(t *testing.T) {
	_, lines, ended, open := follow(t)
	ctx, cancel := context.WithCancel(t.Context())
	body := open(ctx)
	for _, want := range []string{"first\n", "second\n", "third\n"} {
		if got, err := body.ReadString('\n'); got != want || err != nil {
			t.Fatalf("read %q, %v; want %q", got, err, want)
		}
		if want != "third\n" {
			lines <- map[string]string{"first\n": "second\n", "second\n": "third\n"}[want]
		}
	}
	cancel()
	if err := soon(t, "end of the backend's call", ended); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}

func TestStopEndsFollowedLog(t *testing.T) {
	s, _, ended, open := follow(t)
	body := open(t.Context())
	if _, err := body.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	s.shutdown(t)
	soon(t, "end of the backend's call", ended)
	if _, err := body.ReadString('\n'); err == nil {
		t.Error("the reader was not told")
	}
}

func TestLogOptions(t *testing.T) {
	all, since := pick(corev1.LogStreamAll), time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	tests := []struct {
		query string
		want  *corev1.PodLogOptions
		err   string
	}{
		{"", &corev1.PodLogOptions{Stream: all}, ""},
		{"follow=true&previous=true&timestamps=true", &corev1.PodLogOptions{Follow: true, Previous: true, Timestamps: true, Stream: all}, ""},
		{"follow=false&previous=0", &corev1.PodLogOptions{Stream: all}, ""},
		{"follow&timestamps=", &corev1.PodLogOptions{Follow: true, Timestamps: true, Stream: all}, ""},
		{"tailLines=0&limitBytes=1&sinceSeconds=5", &corev1.PodLogOptions{TailLines: pick(int64(0)), LimitBytes: pick(int64(1)), SinceSeconds: pick(int64(5)), Stream: all}, ""},
		{"tail=7", &corev1.PodLogOptions{TailLines: pick(int64(7)), Stream: all}, ""},
		{"tail=all", &corev1.PodLogOptions{Stream: all}, ""},
		{"sinceTime=2026-07-01T12:00:00Z", &corev1.PodLogOptions{SinceTime: pick(metav1.NewTime(since)), Stream: all}, ""},
		{"stream=Stderr&unknown=1", &corev1.PodLogOptions{Stream: pick(corev1.LogStreamStderr)}, ""},
		{"follow=maybe", nil, `Unable to decode query: follow="maybe" is not true or false`},
		{"tailLines=many", nil, `Unable to decode query: tailLines="many" is not a number`},
		{"sinceTime=yesterday", nil, `Unable to decode query: sinceTime="yesterday" is not an RFC 3339 time`},
		{"tailLines=-1", nil, "Invalid request: tailLines is -1 and must be at least 0"},
		{"limitBytes=0", nil, "Invalid request: limitBytes is 0 and must be at least 1"},
		{"sinceSeconds=0", nil, "Invalid request: sinceSeconds is 0 and must be at least 1"},
		{"sinceSeconds=1&sinceTime=2026-07-01T12:00:00Z", nil, "Invalid request: sinceSeconds and sinceTime exclude each other"},
		{"stream=stdout", nil, `Invalid request: stream "stdout" is none of All, Stdout, Stderr`},
		{"stream=Stdout&tailLines=1", nil, "Invalid request: tailLines and one single stream exclude each other"},
	}
	for _, test := range tests {
		query, err := url.ParseQuery(test.query)
		if err != nil {
			t.Fatal(err)
		}
		got, err := logOptions(query)
		if test.err != "" {
			if err == nil || err.Error() != test.err {
				t.Errorf("%s: error %v, want %s", test.query, err, test.err)
			}
			continue
		}
		if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
			t.Errorf("%s: error %v (-want +got):\n%s", test.query, err, diff)
		}
	}
}

// FuzzLogOptions: no query crashes the decoder, and what it lets through obeys the rules.
func FuzzLogOptions(f *testing.F) {
	f.Add("follow=true&tailLines=3")
	f.Add("sinceSeconds=9223372036854775807&stream=All")
	f.Add("sinceTime=2026-07-01T12:00:00+02:00&limitBytes=1")
	f.Fuzz(func(t *testing.T, text string) {
		query, err := url.ParseQuery(text)
		if err != nil {
			return
		}
		opts, err := logOptions(query)
		if err != nil {
			return
		}
		if opts.Stream == nil || (opts.TailLines != nil && *opts.TailLines < 0) || (opts.LimitBytes != nil && *opts.LimitBytes < 1) {
			t.Errorf("%q gives %+v", text, opts)
		}
	})
}
