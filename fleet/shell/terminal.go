package shell

import (
	"bytes"
	"context"
	"io"
	"sync"
	"unicode/utf8"

	"github.com/berth-dev/berth/fleet/shell/internal/fd"
	"github.com/berth-dev/berth/fleet/shell/internal/lang"
)

// maxTyped bounds a line being typed, maxReady the lines that wait to be read.
const (
	maxTyped = 4096
	maxReady = 64 << 10
)

// Keys that a terminal handles itself.
const (
	ctrlC  = 0x03
	ctrlD  = 0x04
	ctrlH  = 0x08
	ctrlU  = 0x15
	ctrlW  = 0x17
	escape = 0x1b
	del    = 0x7f
)

// terminal is the line discipline between a raw terminal and the processes on it: it echoes
// and edits the line being typed and hands it over when it is complete.
type terminal struct {
	raw       io.Reader
	out       io.Writer // shows characters; turns \n into \r\n
	interrupt func()

	mu      sync.Mutex
	line    []byte
	ready   []byte        // typed, not yet read
	eof     bool          // ctrl-D: one read ends
	closed  bool          // there will be no more
	changed chan struct{} // closed and replaced when one of the above changes
	escaped int           // position in an escape sequence that is being skipped
}

// connectTerminal makes a terminal of the caller's streams.
func (s *session) connectTerminal(cmd *lang.Command, p *Process, proc *process) (closeAll func()) {
	screen := fd.Output(crlf{p.Stdout})
	t := &terminal{
		raw: p.Stdin, out: screen.Writer(s.ctx), changed: make(chan struct{}),
		interrupt: func() { proc.send(Interrupt) },
	}
	if p.Stdin != nil {
		go t.run() // it ends when Stdin does: see Process.Stdin
	} else {
		t.closed = true
	}
	tty := fd.Terminal(fd.Source(t), screen)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	return func() {
		tty.Release()
		screen.Release()
	}
}

// crlf is a writer for terminals in raw mode.
type crlf struct{ w io.Writer }

func (c crlf) Write(b []byte) (int, error) {
	if c.w == nil {
		return len(b), nil
	}
	if _, err := c.w.Write(bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n"))); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (t *terminal) run() {
	buf := make([]byte, 256)
	for {
		n, err := t.raw.Read(buf)
		for _, key := range buf[:n] {
			t.key(key)
		}
		if err != nil {
			t.change(func() { t.closed = true })
			return
		}
	}
}

// change does f and wakes those who wait.
func (t *terminal) change(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f()
	close(t.changed)
	t.changed = make(chan struct{})
}

func (t *terminal) echo(text string) { _, _ = io.WriteString(t.out, text) }

// key handles one typed byte.
func (t *terminal) key(k byte) {
	if t.skipped(k) {
		return
	}
	switch k {
	case '\r', '\n':
		t.echo("\n")
		t.change(func() {
			if len(t.ready) < maxReady { // what is typed beyond that is lost, as on Linux
				t.ready = append(append(t.ready, t.line...), '\n')
			}
			t.line = nil
		})
	case ctrlC:
		t.echo("^C\n")
		t.change(func() { t.line, t.ready = nil, nil })
		t.interrupt()
	case ctrlD:
		t.change(func() {
			if len(t.line) == 0 && len(t.ready) == 0 {
				t.eof = true
			}
			if len(t.ready) < maxReady {
				t.ready = append(t.ready, t.line...)
			}
			t.line = nil
		})
	case ctrlH, del:
		t.erase(1)
	case ctrlU:
		t.erase(len(t.line))
	case ctrlW:
		word := bytes.LastIndexByte(bytes.TrimRight(t.line, " "), ' ') + 1
		t.erase(utf8.RuneCount(t.line[word:]))
	default:
		if k < ' ' && k != '\t' || len(t.line) >= maxTyped {
			return
		}
		t.line = append(t.line, k)
		t.echo(string([]byte{k}))
	}
}

// skipped swallows escape sequences such as arrow keys: there is no history to move in.
func (t *terminal) skipped(k byte) bool {
	switch {
	case k == escape:
		t.escaped = 1
	case t.escaped == 1 && (k == '[' || k == 'O'):
		t.escaped = 2
	case t.escaped == 2 && k >= '@' && k <= '~', t.escaped == 1:
		t.escaped = 0
	case t.escaped == 0:
		return false
	}
	return true
}

// erase takes n characters off the line being typed.
func (t *terminal) erase(n int) {
	for ; n > 0 && len(t.line) > 0; n-- {
		_, size := utf8.DecodeLastRune(t.line)
		t.line = t.line[:len(t.line)-size]
		t.echo("\b \b")
	}
}

// ReadContext gives a process the lines typed.
func (t *terminal) ReadContext(ctx context.Context, b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		switch {
		case len(t.ready) > 0:
			n := copy(b, t.ready)
			t.ready = t.ready[n:]
			return n, nil
		case t.eof || t.closed:
			t.eof = false
			return 0, io.EOF
		}
		changed := t.changed
		t.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		t.mu.Lock()
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
	}
}
