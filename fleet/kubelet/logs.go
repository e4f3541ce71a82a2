package kubelet

import (
	"bytes"
	"io"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/berth-dev/berth/fleet/shell/budget"
)

// What logs may hold, each line counted with lineCost on top of its text; the oldest lines go first. A kubelet keeps
// five files of 10 MiB; here it is memory.
const (
	logLimit   = 1 << 20   // of one container instance
	allLogs    = 128 << 20 // of all together
	freeLog    = 64 << 10  // of each whatever the others hold
	lineLimit  = 16 << 10  // a longer line is cut into parts, as container runtimes do
	lineCost   = 128       // the record of a line: its time, its place in lists, the allocator's rounding
	maxViewers = 32        // attached clients of one container
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
// whoever is attached to the raw bytes. The zero value is an empty, open journal that shares no budget.
type journal struct {
	mu      sync.Mutex
	lines   []line
	first   int       // number of lines[0] since the start: how many were dropped
	held    *logHeld  // what lines and open count; nil: nothing yet
	open    [2][]byte // what was written after the last newline, per stream
	ended   bool
	changed chan struct{} // closed at the next change; nil: nobody waits
	viewers map[viewer]struct{}
}

// logHeld is what a journal holds and where it counts. It is apart from the journal so that it can be given back when
// the journal is collected.
type logHeld struct {
	store *budget.Store // nil: the journal's own limit is all there is
	size  int64
}

func (h *logHeld) release() { h.store.Take(h.size, -h.size) }

func newJournal(store *budget.Store) *journal {
	j := &journal{held: &logHeld{store: store}}
	runtime.AddCleanup(j, (*logHeld).release, j.held)
	return j
}

// take counts n more bytes; the oldest lines make room for them. It is false only where there is nothing left to drop.
func (j *journal) take(n int64) bool {
	if j.held == nil {
		j.held = new(logHeld)
	}
	for j.held.size+n > logLimit || !j.held.store.Take(j.held.size, n) {
		if len(j.lines) == 0 {
			return false
		}
		j.drop()
	}
	j.held.size += n
	return true
}

// drop forgets the oldest line.
func (j *journal) drop() {
	cost := lineCost + int64(len(j.lines[0].text))
	j.held.store.Take(j.held.size, -cost)
	j.held.size -= cost
	j.lines[0] = line{} // the list keeps its array for a while
	j.lines = j.lines[1:]
	j.first++
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
		cost := int64(n)
		if len(j.open[s]) == 0 { // a new line
			cost += lineCost
		}
		if !j.take(cost) {
			return
		}
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
	j.lines = append(j.lines, line{now, s, slices.Clip(j.open[s])})
	j.open[s] = nil
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

// maxBatch is how many lines a reader gets at once: what one that does not read on holds of the log.
const maxBatch = 256

// since returns the lines from number n on, or the first of them, the number that comes next, and a channel that is
// closed when there is more; nil: there will never be.
func (j *journal) since(n int) (lines []line, next int, more <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	at := max(0, n-j.first)
	end := min(len(j.lines), at+maxBatch)
	lines, next = slices.Clone(j.lines[at:end]), j.first+end
	if end < len(j.lines) {
		now := make(chan struct{})
		close(now)
		return lines, next, now
	}
	if j.ended {
		return lines, next, nil
	}
	if j.changed == nil {
		j.changed = make(chan struct{})
	}
	return lines, next, j.changed
}

// span is the number of the first line at or after a time and of the one after the last, of which at most tail are
// between them; a negative tail is no limit.
func (j *journal) span(from time.Time, tail int64) (first, end int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	at, _ := slices.BinarySearchFunc(j.lines, from, func(l line, from time.Time) int { return l.at.Compare(from) })
	if left := int64(len(j.lines) - at); tail >= 0 && left > tail {
		at = len(j.lines) - int(tail)
	}
	return j.first + at, j.first + len(j.lines)
}

// attach gives a viewer of all that is written from now on; nil: there are too many.
func (j *journal) attach() viewer {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.viewers) >= maxViewers {
		return nil
	}
	v := make(viewer, 64)
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
