package fd

import (
	"context"
	"io"
	"sync"

	"github.com/berth-dev/berth/fleet/shell/budget"
)

// Input is the caller's reader as a stream. Its Read may not know contexts, so a goroutine
// does the reading, from the first read on; after the stream is closed it ends as soon as
// the Read it is in returns. A nil r reads as empty. What waits to be read counts in mem.
func Input(r io.Reader, mem *budget.Scope) *Stream {
	if r == nil {
		return Null()
	}
	p := newPipe(mem)
	pump := &pump{pipe: p, from: r}
	return newStream(pump, nil, p.closeRead)
}

type pump struct {
	*pipe
	from  io.Reader
	start sync.Once
}

func (p *pump) ReadContext(ctx context.Context, b []byte) (int, error) {
	p.start.Do(func() { go p.run() })
	return p.pipe.ReadContext(ctx, b)
}

func (p *pump) run() {
	buf := make([]byte, 4096)
	for {
		n, err := p.from.Read(buf)
		if _, broken := p.WriteContext(context.Background(), buf[:n]); broken != nil {
			return
		}
		if err != nil {
			p.closeWrite(err)
			return
		}
	}
}

// Outputs are the caller's writers as streams. They are written to one call at a time, the
// two together, since they may be the same writer. A nil writer swallows what it is given.
func Outputs(stdout, stderr io.Writer) (out, err *Stream) {
	turn := make(chan struct{}, 1)
	return output(stdout, turn), output(stderr, turn)
}

// Output is a single writer as a stream, written to one call at a time.
func Output(w io.Writer) *Stream { return output(w, make(chan struct{}, 1)) }

func output(w io.Writer, turn chan struct{}) *Stream {
	if w == nil {
		return Null()
	}
	return newStream(nil, serial{w, turn}, nil)
}

type serial struct {
	w    io.Writer
	turn chan struct{}
}

func (s serial) WriteContext(ctx context.Context, b []byte) (int, error) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	defer func() { <-s.turn }()
	return s.w.Write(b)
}

// Terminal is a stream to a person: in gives the lines typed, out takes what is shown.
// Released like any other, it leaves both open.
func Terminal(in, out *Stream) *Stream {
	s := newStream(in, out, nil)
	s.tty = true
	return s
}

// Source is a reader that knows contexts as a stream.
func Source(r source) *Stream { return newStream(r, nil, nil) }
