package stream

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// logs serves one container's log. An error after the first byte cannot change the status
// any more: the connection is cut, so that the reader does not take a part for the whole.
func (s *Server) logs(w http.ResponseWriter, r *http.Request) error {
	opts, err := logOptions(r.URL.Query())
	if err != nil {
		return err
	}
	ref := refOf(r)
	opts.Container = ref.Container
	out := &flusher{ctx: r.Context(), w: w, control: http.NewResponseController(w)}
	err = s.opts.Backend.Logs(r.Context(), ref, opts, out)
	if err == nil || !out.started {
		return err
	}
	if r.Context().Err() == nil {
		s.opts.Log.Info("container log cut short", "path", r.URL.Path, "err", err)
	}
	panic(http.ErrAbortHandler)
}

// flusher sends every write on at once, and refuses them when the reader is gone.
type flusher struct {
	ctx     context.Context
	w       http.ResponseWriter
	control *http.ResponseController
	started bool
}

func (f *flusher) Write(p []byte) (int, error) {
	if err := f.ctx.Err(); err != nil {
		return 0, err
	}
	f.started = true
	n, err := f.w.Write(p)
	if err != nil {
		return n, err
	}
	return n, f.control.Flush()
}

// logOptions decodes the query of a log request as the kubelet does, "tail" being an older
// name for tailLines, and refuses what its validation refuses.
func logOptions(query url.Values) (*corev1.PodLogOptions, error) {
	q := queryReader{values: query}
	all := corev1.LogStreamAll
	opts := &corev1.PodLogOptions{
		Follow:       q.flag("follow"),
		Previous:     q.flag("previous"),
		Timestamps:   q.flag("timestamps"),
		SinceSeconds: q.number("sinceSeconds", 1),
		SinceTime:    q.instant("sinceTime"),
		TailLines:    q.number("tailLines", 0),
		LimitBytes:   q.number("limitBytes", 1),
		Stream:       &all,
	}
	if tail := query.Get("tail"); tail != "" && tail != "all" {
		opts.TailLines = q.number("tail", 0)
	}
	if name := query.Get("stream"); name != "" {
		opts.Stream = &name
	}
	if q.err != nil {
		return nil, q.err
	}
	return opts, validate(opts)
}

// validate holds the rules between fields.
func validate(opts *corev1.PodLogOptions) error {
	if opts.SinceSeconds != nil && opts.SinceTime != nil {
		return unprocessable("sinceSeconds and sinceTime exclude each other")
	}
	switch *opts.Stream {
	case corev1.LogStreamAll:
		return nil
	case corev1.LogStreamStdout, corev1.LogStreamStderr:
		if opts.TailLines != nil {
			return unprocessable("tailLines and one single stream exclude each other")
		}
		return nil
	}
	return unprocessable(fmt.Sprintf("stream %q is none of All, Stdout, Stderr", *opts.Stream))
}

func unprocessable(msg string) error {
	return &statusError{http.StatusUnprocessableEntity, "Invalid request: " + msg}
}

// queryReader reads optional values and keeps the first error.
type queryReader struct {
	values url.Values
	err    error
}

// flag reads a boolean as Kubernetes writes one into a query: the bare name counts as true.
func (q *queryReader) flag(name string) bool {
	if !q.values.Has(name) {
		return false
	}
	text := q.values.Get(name)
	on, err := strconv.ParseBool(text)
	if text != "" && err != nil {
		q.fail(name, text, "true or false")
	}
	return on || text == ""
}

// number reads an integer of at least lowest; nil means not given.
func (q *queryReader) number(name string, lowest int64) *int64 {
	text := q.values.Get(name)
	if text == "" {
		return nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		q.fail(name, text, "a number")
		return nil
	}
	if n < lowest && q.err == nil {
		q.err = unprocessable(fmt.Sprintf("%s is %d and must be at least %d", name, n, lowest))
	}
	return &n
}

// instant reads an RFC 3339 time; nil means not given.
func (q *queryReader) instant(name string) *metav1.Time {
	text := q.values.Get(name)
	if text == "" {
		return nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		q.fail(name, text, "an RFC 3339 time")
		return nil
	}
	return &metav1.Time{Time: at}
}

func (q *queryReader) fail(name, text, want string) {
	if q.err == nil {
		q.err = BadRequest(fmt.Sprintf("Unable to decode query: %s=%q is not %s", name, text, want))
	}
}
