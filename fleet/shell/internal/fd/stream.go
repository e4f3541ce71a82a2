// Package fd has the open files of a simulated process: reference-counted streams over
// in-memory pipes, virtual files and the caller's readers and writers.
//
// Every read and write takes a context and ends with it, which is what lets a script be
// stopped wherever it is. There are no host descriptors here. Packages lang and shell use it.
package fd

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"

	"github.com/berth-dev/berth/fleet/shell/budget"
	"github.com/berth-dev/berth/fleet/shell/vfs"
)

// ErrBroken is what a write to a pipe without readers returns.
//
//lint:ignore ST1005 users know it in these words
var ErrBroken = errors.New("Broken pipe")

// A source can be read, a sink written, both until the context ends.
type (
	source interface {
		ReadContext(ctx context.Context, b []byte) (int, error)
	}
	sink interface {
		WriteContext(ctx context.Context, b []byte) (int, error)
	}
)

// Stream is an open file. Whoever made it or called Keep owns one reference and gives it
// back with Release; the last one closes it. Safe for concurrent use.
type Stream struct {
	refs  atomic.Int64
	in    source
	out   sink
	close func()
	tty   bool
}

func newStream(in source, out sink, close func()) *Stream {
	s := &Stream{in: in, out: out, close: close}
	s.refs.Store(1)
	return s
}

// Keep takes another reference and returns s.
func (s *Stream) Keep() *Stream {
	s.refs.Add(1)
	return s
}

// Release gives one reference back. A nil stream has nothing to release.
func (s *Stream) Release() {
	if s == nil {
		return
	}
	if s.refs.Add(-1) == 0 && s.close != nil {
		s.close()
	}
}

// TTY says whether a person's terminal is at the other end.
func (s *Stream) TTY() bool { return s != nil && s.tty }

// ReadContext reads as io.Reader does, until ctx ends.
func (s *Stream) ReadContext(ctx context.Context, b []byte) (int, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if s == nil || s.in == nil {
		return 0, vfs.EBADF
	}
	return s.in.ReadContext(ctx, b)
}

// WriteContext writes as io.Writer does, until ctx ends.
func (s *Stream) WriteContext(ctx context.Context, b []byte) (int, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if s == nil || s.out == nil {
		return 0, vfs.EBADF
	}
	return s.out.WriteContext(ctx, b)
}

// Reader is the stream as an io.Reader bound to ctx.
func (s *Stream) Reader(ctx context.Context) io.Reader { return bound{ctx, s} }

// Writer is the stream as an io.Writer bound to ctx.
func (s *Stream) Writer(ctx context.Context) io.Writer { return bound{ctx, s} }

type bound struct {
	ctx context.Context
	s   *Stream
}

func (b bound) Read(p []byte) (int, error)  { return b.s.ReadContext(b.ctx, p) }
func (b bound) Write(p []byte) (int, error) { return b.s.WriteContext(b.ctx, p) }

// File is an open virtual file as a stream.
func File(f *vfs.File) *Stream {
	p := plain{f, f}
	return newStream(p, p, func() { f.Close() })
}

// Text is a stream that reads s, as a here-document does. It counts in mem until it is closed.
func Text(s string, mem *budget.Scope) (*Stream, error) {
	if err := mem.Take(int64(len(s))); err != nil {
		return nil, err
	}
	return newStream(plain{r: strings.NewReader(s)}, nil, func() { mem.Give(int64(len(s))) }), nil
}

// Null reads nothing and swallows what is written.
func Null() *Stream {
	p := plain{strings.NewReader(""), io.Discard}
	return newStream(p, p, nil)
}

// plain is for what never waits.
type plain struct {
	r io.Reader
	w io.Writer
}

func (p plain) ReadContext(_ context.Context, b []byte) (int, error)  { return p.r.Read(b) }
func (p plain) WriteContext(_ context.Context, b []byte) (int, error) { return p.w.Write(b) }
