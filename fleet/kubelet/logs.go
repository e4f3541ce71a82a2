package kubelet

import (
	"bytes"
	"io"
	"sync"
	"time"
)

const (
	logLimit  = 1 << 20  // bytes kept per container instance; the oldest lines go first
	lineLimit = 16 << 10 // a longer line is cut into parts, as container runtimes do
)

// output says which of a process's outputs a line came from.
type output uint8

const (
	stdout output = iota
	stderr
)

// line is one line of a log, with its newline unless it was cut at lineLimit or ended the stream.
type line struct {
	at   time.Time
	from output
	text []byte
}

// journal is the log of one container instance: whole lines in the order they were written, and
// whoever is attached to the raw bytes. The zero value is an empty, open journal.
type journal struct {
	mu      sync.Mutex
	lines   []line
	first   int       // number of lines[0] since the start: how many were dropped
	size    int       // bytes in lines
	open    [2][]byte // what was written after the last newline, per stream
	ended   bool
	changed chan struct{} // closed at the next change; nil: nobody waits
	viewers map[viewer]struct{}
}

// viewer is an attached client: it sees bytes, not lines. One that does not keep up loses some,
// so that nobody can stall a container by not reading. It is closed when the journal ends.
type viewer chan chunk

type chunk struct {
	from output
	data []byte
}

// writer gives the process its stdout or stderr.
func (j *journal) writer(s output) io.Writer { return journalWriter{j, s} }

type journalWriter struct {
	*journal
	from output
}

func (w journalWriter) Write(p []byte) (int, error) {
	w.append(w.from, p, time.Now())
	return len(p), nil
}

func (j *journal) append(s output, p []byte, now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.ended {
		return
	}
	for v := range j.viewers {
		select {
		case v <- chunk{s, bytes.Clone(p)}:
		default:
		}
	}
	rest := p
	for len(rest) > 0 {
		n := bytes.IndexByte(rest, '\n') + 1
		if n == 0 {
			n = len(rest)
		}
		n = min(n, lineLimit-len(j.open[s]))
		j.open[s] = append(j.open[s], rest[:n]...)
		rest = rest[n:]
		if part := j.open[s]; part[len(part)-1] == '\n' || len(part) == lineLimit {
			j.flush(s, now)
		}
	}
	j.signal()
}

// flush makes a line of what is open. Called with j.mu held and something open.
func (j *journal) flush(s output, now time.Time) {
	j.lines = append(j.lines, line{now, s, j.open[s]})
	j.size += len(j.open[s])
	j.open[s] = nil
	for j.size > logLimit {
		j.size -= len(j.lines[0].text)
		j.lines = j.lines[1:]
		j.first++
	}
}

// end closes the journal: followers finish, attached clients are let go.
func (j *journal) end() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for s := range j.open {
		if len(j.open[s]) > 0 {
			j.flush(output(s), time.Now())
		}
	}
	j.ended = true
	for v := range j.viewers {
		close(v)
	}
	j.viewers = nil
	j.signal()
}

func (j *journal) signal() {
	if j.changed != nil {
		close(j.changed)
		j.changed = nil
	}
}

// since returns the lines from number n on, the number that comes next, and, if the journal is
// still open, a channel that closes at the next change.
func (j *journal) since(n int) (lines []line, next int, more <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	lines = j.lines[max(0, n-j.first):]
	next = j.first + len(j.lines)
	if j.ended {
		return lines, next, nil
	}
	if j.changed == nil {
		j.changed = make(chan struct{})
	}
	return lines, next, j.changed
}

// attach gives a viewer of all that is written from now on.
func (j *journal) attach() viewer {
	j.mu.Lock()
	defer j.mu.Unlock()
	v := make(viewer, 256)
	if j.ended {
		close(v)
		return v
	}
	if j.viewers == nil {
		j.viewers = make(map[viewer]struct{})
	}
	j.viewers[v] = struct{}{}
	return v
}

func (j *journal) detach(v viewer) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.viewers, v)
}
