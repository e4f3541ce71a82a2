package fd

import (
	"context"
	"io"
	"sync"
)

// pipeBytes is how much a pipe holds before writers wait, as on Linux.
const pipeBytes = 64 << 10

// Pipe makes an in-memory pipe.
func Pipe() (r, w *Stream) {
	p := &pipe{changed: make(chan struct{})}
	return newStream(p, nil, p.closeRead), newStream(nil, p, func() { p.closeWrite(io.EOF) })
}

type pipe struct {
	mu      sync.Mutex
	buf     []byte
	end     error         // what readers get once buf is empty; nil while writers exist
	broken  bool          // no readers
	changed chan struct{} // closed and replaced whenever any of the above changes
}

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
	for len(p.buf) == 0 {
		if p.end != nil {
			return 0, p.end
		}
		if err := p.await(ctx); err != nil {
			return 0, err
		}
	}
	n := copy(b, p.buf)
	p.buf = p.buf[n:]
	if len(p.buf) == 0 {
		p.buf = nil
	}
	p.wake()
	return n, nil
}

func (p *pipe) WriteContext(ctx context.Context, b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	done := 0
	for len(b) > 0 {
		if p.broken {
			return done, ErrBroken
		}
		room := pipeBytes - len(p.buf)
		if room <= 0 {
			if err := p.await(ctx); err != nil {
				return done, err
			}
			continue
		}
		n := min(room, len(b))
		p.buf = append(p.buf, b[:n]...)
		b, done = b[n:], done+n
		p.wake()
	}
	return done, nil
}

func (p *pipe) closeRead() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.broken, p.buf = true, nil
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
