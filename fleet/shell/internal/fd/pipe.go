package fd

import (
	"context"
	"io"
	"sync"

	"github.com/berth-dev/berth/fleet/shell/budget"
)

// pipeBytes is how much a pipe holds before writers wait, as on Linux.
const pipeBytes = 64 << 10

// Pipe makes an in-memory pipe. What is written and not yet read counts in mem.
func Pipe(mem *budget.Scope) (r, w *Stream) {
	p := newPipe(mem)
	return newStream(p, nil, p.closeRead), newStream(nil, p, func() { p.closeWrite(io.EOF) })
}

type pipe struct {
	mem     *budget.Scope
	mu      sync.Mutex
	buf     []byte // what is not read yet lies at start; its capacity is counted
	start   int
	end     error         // what readers get once buf is empty; nil while writers exist
	broken  bool          // no readers
	changed chan struct{} // closed and replaced whenever any of the above changes
}

func newPipe(mem *budget.Scope) *pipe { return &pipe{mem: mem, changed: make(chan struct{})} }

// wake is called with the lock held, after a change.
func (p *pipe) wake() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// await gives the lock up until something changes or ctx ends.
func (p *pipe) await(ctx context.Context) error {
	changed := p.changed
	p.mu.Unlock()
	defer p.mu.Lock()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *pipe) ReadContext(ctx context.Context, b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.start == len(p.buf) {
		if p.end != nil {
			return 0, p.end
		}
		if err := p.await(ctx); err != nil {
			return 0, err
		}
	}
	n := copy(b, p.buf[p.start:])
	if p.start += n; p.start == len(p.buf) {
		p.buf, p.start = p.buf[:0], 0
	}
	p.wake()
	return n, nil
}

// room makes the buffer take n more bytes: at its end, at its start, or by growing.
func (p *pipe) room(n int) error {
	if len(p.buf)+n <= cap(p.buf) {
		return nil
	}
	held := len(p.buf) - p.start
	if held+n <= cap(p.buf) {
		p.buf, p.start = p.buf[:copy(p.buf, p.buf[p.start:])], 0
		return nil
	}
	size := min(max(held+n, 2*cap(p.buf), 512), pipeBytes)
	if err := p.mem.Take(int64(size)); err != nil {
		return err
	}
	p.mem.Give(int64(cap(p.buf)))
	p.buf, p.start = append(make([]byte, 0, size), p.buf[p.start:]...), 0
	return nil
}

func (p *pipe) WriteContext(ctx context.Context, b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	done := 0
	for len(b) > 0 {
		if p.broken {
			return done, ErrBroken
		}
		room := pipeBytes - (len(p.buf) - p.start)
		if room <= 0 {
			if err := p.await(ctx); err != nil {
				return done, err
			}
			continue
		}
		n := min(room, len(b))
		if err := p.room(n); err != nil {
			return done, err
		}
		p.buf = append(p.buf, b[:n]...)
		b, done = b[n:], done+n
		p.wake()
	}
	return done, nil
}

func (p *pipe) closeRead() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mem.Give(int64(cap(p.buf)))
	p.broken, p.buf, p.start = true, nil, 0
	p.wake()
}

// closeWrite makes readers get end after what is left.
func (p *pipe) closeWrite(end error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.end == nil {
		p.end = end
	}
	p.wake()
}
