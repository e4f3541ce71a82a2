package record

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-dev/berth/engine"
)

const (
	// gather is how long cycles are gathered before they are written: what a crash can lose.
	gather = time.Second
	// retryFirst and retryLast bound the time between two tries to write again after an error; it doubles.
	retryFirst = 5 * time.Second
	retryLast  = time.Minute
	// mostPending is how many changes may wait to be written. Only a disk that does not answer at all gets there.
	mostPending = 4_000_000
)

// Writer records the cycles of one engine.State, from its beginning. A nil Writer records nothing. One goroutine
// owns everything below the line; the scheduler only hands over.
type Writer struct {
	opts Options
	cfg  engine.Config

	mu      sync.Mutex
	cycles  []cycle
	pending int  // changes in cycles
	stuck   bool // the disk does not answer; what comes is not recorded any more
	signal  chan struct{}
	closing chan struct{}
	closed  chan struct{}

	recorded, missed atomic.Int64

	// ---

	folder   folder
	known    *live
	digester digester
	last     time.Time // of the last cycle
	segment  *segment  // nil: none is open
	older    []file
	because  Because       // of the next segment, if none is open
	retryAt  time.Time     // while because is AfterGap: not before
	backoff  time.Duration // 0: the last write was fine
}

// cycle is what the scheduler hands over.
type cycle struct {
	now     time.Time
	changes []engine.Change
	plan    engine.Plan
}

// Start makes a Writer for a state that is told nothing yet and has the config. It returns nil where Dir is "".
func Start(o Options, cfg engine.Config) *Writer {
	if o.Dir == "" {
		return nil
	}
	w := newWriter(o, cfg)
	go w.run()
	return w
}

func newWriter(o Options, cfg engine.Config) *Writer {
	return &Writer{
		opts: o.normal(), cfg: cfg, signal: make(chan struct{}, 1), closing: make(chan struct{}), closed: make(chan struct{}),
		folder: newFolder(o.Dir), known: newLive(), because: Started,
	}
}

// Cycle records that the state was told changes, made the plan at now, and was then told the plan's own changes.
// It never waits. Neither what changes nor what plan points to may be written to afterwards.
func (w *Writer) Cycle(now time.Time, changes []engine.Change, plan engine.Plan) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stuck {
		w.missed.Add(1)
		return
	}
	// Without the monotonic reading: it would hide a clock that was set back, and does not come back from a file.
	w.cycles = append(w.cycles, cycle{now.UTC().Round(0), changes, plan})
	w.pending += len(changes) + len(plan.Changes)
	if w.pending > mostPending {
		w.opts.Log.Error("decisions are not recorded any more: the disk does not answer", "folder", w.opts.Dir, "cycles", len(w.cycles))
		w.missed.Add(int64(len(w.cycles)))
		w.stuck, w.cycles = true, nil
	}
	select {
	case w.signal <- struct{}{}:
	default:
	}
}

// Close writes what is left and ends the log.
func (w *Writer) Close() {
	if w == nil {
		return
	}
	close(w.closing)
	<-w.closed
}

// Recorded is how many cycles are in the log, and Missed how many could not be written.
func (w *Writer) Recorded() int64 { return w.recorded.Load() }
func (w *Writer) Missed() int64   { return w.missed.Load() }

func (w *Writer) run() {
	defer close(w.closed)
	for {
		select {
		case <-w.signal:
			w.wait(gather)
			w.write()
		case <-w.closing:
			w.write()
			w.end()
			return
		}
	}
}

func (w *Writer) wait(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-w.closing:
	}
}

// write takes what was handed over and puts it on disk.
func (w *Writer) write() {
	for _, c := range w.take() {
		w.record(c)
	}
	if w.segment == nil || w.segment.pending == 0 {
		return
	}
	n, err := w.segment.flush()
	if err != nil {
		w.fail(err)
		return
	}
	w.wrote(n)
	w.older = prune(w.older, w.segment.file.n, w.opts.TotalBytes)
}

func (w *Writer) take() []cycle {
	w.mu.Lock()
	defer w.mu.Unlock()
	cycles := w.cycles
	w.cycles, w.pending = nil, 0
	return cycles
}
