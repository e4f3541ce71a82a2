package lang

import (
	"context"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/berth-dev/berth/fleet/shell/internal/fd"
)

// foreground is the context of what the shell waits for: it ends with the shell's life, and
// when a signal comes that the shell has a trap for. done must be called after.
func (s *Shell) foreground() (ctx context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(s.life)
	s.sig.foreground(cancel)
	return ctx, func() {
		s.sig.foreground(nil)
		cancel(nil)
	}
}

// subshell runs statements in a copy of this shell and takes over their status.
func (s *Shell) subshell(list []*syntax.Stmt) {
	ctx, done := s.foreground()
	defer done()
	c := s.clone(ctx)
	c.runSubshell(list)
	s.status = c.status
}

// runSubshell runs statements in a clone and closes it.
func (s *Shell) runSubshell(list []*syntax.Stmt) {
	defer s.Close()
	defer s.rescue()
	if len(list) == 0 {
		s.status = 0
	}
	s.stmts(list)
}

// pipeline runs both sides at the same time, each in a subshell.
func (s *Shell) pipeline(cmd *syntax.BinaryCmd) {
	ctx, done := s.foreground()
	defer done()
	left, right := s.clone(ctx), s.clone(ctx)
	r, w := fd.Pipe(s.host.Memory())
	left.replaceFD(1, w)
	if cmd.Op == syntax.PipeAll {
		left.replaceFD(2, w.Keep())
	}
	right.replaceFD(0, r)
	_, end, err := s.host.Start([]string{s.name}, left.Signal)
	if err != nil {
		s.fail("can't fork: %v", err)
		left.Close()
		right.Close()
		return
	}
	finished := make(chan struct{})
	s.host.Go(func() {
		defer close(finished)
		defer end()
		left.runSubshell([]*syntax.Stmt{cmd.X})
	})
	right.runSubshell([]*syntax.Stmt{cmd.Y})
	<-finished
	s.status = right.status
	if s.opts.pipefail && s.status == 0 {
		s.status = left.status
	}
}

// replaceFD puts an owned stream in place of a descriptor.
func (s *Shell) replaceFD(n int, f *fd.Stream) {
	s.fds[n].Release()
	s.fds[n] = f
}

// A job is a command in the background. status may be read once done is closed.
type job struct {
	id, pid int
	text    string
	done    chan struct{}
	status  int
}

// background starts a statement as a job. It lives on after this shell, but no longer than
// the host.
func (s *Shell) background(st *syntax.Stmt) {
	fg := *st
	fg.Background, fg.Disown = false, false
	c := s.clone(s.host.Context())
	if !s.interactive {
		c.replaceFD(0, fd.Null())
	}
	s.forget()
	id := 1
	if len(s.jobs) > 0 {
		id = s.jobs[len(s.jobs)-1].id + 1
	}
	j := &job{id: id, text: text(&fg), done: make(chan struct{})}
	pid, end, err := s.host.Start(strings.Fields(j.text), c.Signal)
	if err != nil {
		s.fail("can't fork: %v", err)
		c.Close()
		return
	}
	j.pid, c.pid = pid, s.pid
	if _, simple := fg.Cmd.(*syntax.CallExpr); simple {
		c.replaces, c.pid = true, pid
	}
	s.jobs = append(s.jobs, j)
	s.lastBG, s.status = pid, 0
	s.host.Go(func() {
		defer end()
		c.runSubshell([]*syntax.Stmt{&fg})
		j.status = c.status
		close(j.done)
	})
}

// text is a statement's source, on one line and not too long.
func text(n syntax.Node) string {
	var b strings.Builder
	if err := syntax.NewPrinter(syntax.SingleLine(true)).Print(&b, n); err != nil {
		return "sh"
	}
	line := strings.TrimSpace(strings.ReplaceAll(b.String(), "\n", " "))
	return line[:min(len(line), 200)]
}
