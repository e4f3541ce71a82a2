package record

import (
	"os"
	"time"

	"github.com/berth-dev/berth/engine"
)

// record writes a cycle, into a new segment where that is due, and keeps track of what is live.
func (w *Writer) record(c cycle) {
	if because := w.due(c.now); because != "" {
		w.because = because
		w.end()
	}
	if w.segment == nil {
		w.begin(c.now)
	}
	if w.segment == nil {
		w.missed.Add(1)
	} else {
		m := mark{Now: c.now, Digest: w.digester.of(&c.plan), Starts: len(c.plan.Starts), Waiting: len(c.plan.Waiting), Evictions: c.plan.Evictions}
		if err := w.segment.cycle(c.changes, m); err != nil {
			w.fail(err)
		}
	}
	w.known.apply(c.changes)
	w.known.apply(c.plan.Changes)
	w.last = c.now
}

// due says why the segment ends before a cycle at now; "": it goes on, or there is none.
func (w *Writer) due(now time.Time) Because {
	s := w.segment
	switch {
	case s == nil:
		return ""
	case now.Before(w.last):
		return TimeBack
	case s.plain.n-s.opening >= max(w.opts.SegmentBytes, s.opening):
		return Full
	case now.Sub(s.start) >= w.opts.SegmentAge:
		return Aged
	}
	return ""
}

// begin opens a segment for a cycle at now, if it is not too early to try again.
func (w *Writer) begin(now time.Time) {
	if w.backoff > 0 && time.Now().Before(w.retryAt) {
		return
	}
	files, err := w.folder.list()
	if err != nil {
		w.fail(err)
		return
	}
	w.older = prune(files, 0, w.opts.TotalBytes)
	path, out, err := w.folder.next(files, now)
	if err != nil {
		w.fail(err)
		return
	}
	h := head{
		Format: Format, Values: engine.SnapshotVersion, Berth: w.opts.Berth,
		Start: now, Because: w.because, Latest: w.known.latest, Config: w.cfg,
	}
	if w.segment, err = newSegment(path, out, h, w.known); err != nil {
		w.fail(err)
	}
}

// end closes the segment, if one is open.
func (w *Writer) end() {
	if w.segment == nil {
		return
	}
	n, err := w.segment.close()
	if err != nil {
		w.fail(err)
		return
	}
	w.wrote(n)
	w.segment = nil
}

// wrote takes note that so many cycles more are on disk.
func (w *Writer) wrote(cycles int) {
	w.recorded.Add(int64(cycles))
	if w.backoff > 0 {
		w.backoff = 0
		w.opts.Log.Info("decisions are recorded again", "folder", w.opts.Dir, "missed", w.Missed())
	}
}

// fail gives up the segment, if there is one, and lets some time pass before the next is tried.
func (w *Writer) fail(err error) {
	if s := w.segment; s != nil {
		w.missed.Add(int64(s.pending))
		s.out.Close()
		if s.kept == 0 {
			os.Remove(s.path)
		}
		w.segment = nil
	}
	if w.backoff == 0 {
		w.opts.Log.Error("decisions are not recorded for now", "folder", w.opts.Dir, "err", err)
	}
	w.because = AfterGap
	w.backoff = min(max(2*w.backoff, retryFirst), retryLast)
	w.retryAt = time.Now().Add(w.backoff)
}
