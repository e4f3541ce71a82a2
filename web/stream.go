package web

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"
)

const (
	// beat is how often a viewer hears that the server lives, where nothing else is to be said.
	beat = 5 * time.Second
	// stuck is how long a viewer may take to read what it was sent. It is then dropped, and comes back by itself.
	stuck = 20 * time.Second
	// mostViewers bounds the streams of one server, and mostOfOne those of one person where people have rights of their own.
	mostViewers = 200
	mostOfOne   = 100
)

// stream sends a table and its changes as server-sent events, for as long as the viewer reads and has a place. Between two writes the
// viewer has a version and nothing else. Which table it is is asked before each write: it is another one when the viewer's rights change.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, namespace, person string, which func(context.Context) (*table, error)) {
	ctx, leave := context.WithCancelCause(r.Context())
	defer leave(nil)
	place, err := s.places.take(namespace, person, leave)
	if err != nil {
		s.fail(w, err)
		return
	}
	defer s.places.give(place)
	s.viewers.Add(1)
	defer s.viewers.Add(-1)
	s.came()
	err = s.follow(w, r.WithContext(ctx), which)
	event, text := "", ""
	switch cause, full := context.Cause(ctx), new(fullError); {
	case errors.As(cause, full), errors.As(err, full): // the place, or the table, is somebody else's
		event, text = "sorry", full.Error()
	case errors.Is(cause, errAgain):
		event = "again"
	case errors.Is(cause, errBye):
		event = "bye"
	default:
		return
	}
	out := http.NewResponseController(w)
	_ = out.SetWriteDeadline(time.Now().Add(s.stuck))
	if send(w, event, encode(text)) {
		_ = out.Flush()
	}
}

// errAgain ends a stream that has lasted long enough. The viewer begins another one at once, with what they have.
var errAgain = errors.New("the stream has lasted long enough")

// errBye ends a stream because the server ends. The browser forgets the key.
var errBye = errors.New("the server ends")

// follow is the stream of a viewer who has a place. It returns why it ended, where something was sent before.
func (s *Server) follow(w http.ResponseWriter, r *http.Request, which func(context.Context) (*table, error)) error {
	out := http.NewResponseController(w)
	version, last := int64(0), (*table)(nil)
	for first := true; ; first = false {
		t, err := which(r.Context())
		if err != nil {
			if first {
				s.fail(w, err)
				return nil
			}
			return err
		}
		if t != last {
			version, last = 0, t
			if q := r.URL.Query(); first && q.Get("of") == t.id { // it has the whole from api/table
				version, _ = strconv.ParseInt(q.Get("since"), 10, 64)
				w.Header().Set("Content-Type", "text/event-stream")
				if !send(w, "now", encode(s.clock.now().UnixMilli())) || out.Flush() != nil { // there may be nothing else to say for a while
					return nil
				}
			}
		}
		texts, to, err := next(r.Context(), t, version)
		if r.Context().Err() != nil || err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return nil
		}
		if err := out.SetWriteDeadline(time.Now().Add(s.stuck)); err != nil && first {
			s.log.Warn("page: no write deadline", "err", err)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		if !send(w, "now", encode(s.clock.now().UnixMilli())) {
			return nil
		}
		for _, t := range texts {
			if !send(w, "table", t) {
				return nil
			}
		}
		if out.Flush() != nil {
			return nil
		}
		version = to
	}
}

// whole sends a table once, as the first event of a stream has it. It waits for one, unless the parameter wait is 0.
func (s *Server) whole(w http.ResponseWriter, r *http.Request, t *table) {
	s.came()
	ctx, cancel := context.WithTimeout(r.Context(), beat)
	defer cancel()
	if r.URL.Query().Get("wait") == "0" {
		cancel()
	}
	texts, to, err := t.since(ctx, 0)
	if err != nil && r.URL.Query().Get("wait") == "0" {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if err != nil {
		s.fail(w, errors.New("the cluster is being read: try again"))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Berth-Version", strconv.FormatInt(to, 10)) // of the table now, which its stream leads to
	w.Write(texts[0])
}

// next waits for a change, and for no longer than a beat.
func next(ctx context.Context, t *table, version int64) ([][]byte, int64, error) {
	within, cancel := context.WithTimeout(ctx, beat)
	defer cancel()
	texts, to, err := t.since(within, version)
	if ctx.Err() != nil {
		return nil, to, ctx.Err()
	}
	return texts, to, err
}

// send writes an event. JSON of encoding/json has no line breaks, as an event's data must not.
func send(w http.ResponseWriter, event string, data []byte) bool {
	for _, part := range [][]byte{[]byte("event: " + event + "\ndata: "), data, []byte("\n\n")} {
		if _, err := w.Write(part); err != nil {
			return false
		}
	}
	return true
}
