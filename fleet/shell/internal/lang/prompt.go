package lang

import (
	"errors"
	"io"

	"mvdan.cc/sh/v3/syntax"
)

// maxSession bounds what may be typed into one shell.
const maxSession = 64 << 20

// errInterrupt ends the reading of a command line when ctrl-C was typed.
var errInterrupt = errors.New("interrupt")

// Stdin runs the commands read from standard input, a line at a time, so that commands may
// read the lines after their own. An interactive shell prompts for them.
func (s *Shell) Stdin() int {
	defer s.rescue()
	for {
		in := &lines{shell: s}
		err := s.readCommands(in)
		switch {
		case s.flow == flowAbort || in.ended == errInterrupt:
			s.flow = flowNone
			continue
		case s.flow == flowExit || err == nil:
			return s.status
		}
		s.errorf("syntax error: %v", err)
		if s.status = 2; !s.interactive || in.ended != nil {
			return s.status
		}
	}
}

// readCommands runs commands until the input ends, a command ends the shell, or the syntax
// is wrong.
func (s *Shell) readCommands(in *lines) (failed error) {
	p := syntax.NewParser(syntax.Variant(syntax.LangBash))
	s.prompt("PS1")
	over := false
	source := &guarded{from: in, left: maxSession, mem: s.mem}
	defer source.next()
	// Not a range loop: after an error the parser's iterator goes on once too often.
	p.InteractiveSeq(source)(func(list []*syntax.Stmt, err error) bool {
		switch {
		case over:
		case err == nil && p.Incomplete():
			s.prompt("PS2")
		default:
			if err == nil {
				err = s.runLine(list)
			}
			failed = err
			source.next()
			over = err != nil || s.flow != flowNone
		}
		return !over
	})
	return failed
}

// runLine runs the statements of a complete line and prompts for the next.
func (s *Shell) runLine(list []*syntax.Stmt) error {
	for _, st := range list {
		if err := accept(st); err != nil {
			return err
		}
	}
	s.stmts(list)
	if s.flow == flowNone {
		s.prompt("PS1")
	}
	return nil
}

func (s *Shell) prompt(name string) {
	if s.interactive {
		s.write(2, s.value(name))
	}
}

// lines gives the parser standard input, never more than one line at a time.
type lines struct {
	shell *Shell
	ended error // why there is no more
	open  bool  // the last line has no newline yet
}

func (l *lines) Read(b []byte) (int, error) {
	n := 0
	for n < len(b) {
		err := l.readByte(b[n : n+1])
		if err == io.EOF && l.open { // the parser gives out a line when it ends
			b[n], err = '\n', nil
		}
		if err != nil {
			l.ended = err
			return n, err
		}
		n++
		if l.open = b[n-1] != '\n'; !l.open {
			break
		}
	}
	return n, nil
}

// readByte reads one byte; a signal that comes meanwhile is handled first.
func (l *lines) readByte(b []byte) error {
	s := l.shell
	for {
		ctx, done := s.foreground()
		_, err := s.fds[0].ReadContext(ctx, b)
		stopped := ctx.Err() != nil
		done()
		if err == nil || !stopped {
			return err
		}
		if s.life.Err() != nil {
			s.stopped()
			return err
		}
		s.handleSignals()
		switch s.flow {
		case flowNone:
		case flowAbort:
			return errInterrupt
		default:
			return err
		}
	}
}
