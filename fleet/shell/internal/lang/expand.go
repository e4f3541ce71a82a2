package lang

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"sync"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	"github.com/berth-dev/berth/fleet/shell/budget"
	"github.com/berth-dev/berth/fleet/shell/internal/fd"
	"github.com/berth-dev/berth/fleet/shell/vfs"
)

// maxFields bounds the bytes of one command's words after expansion.
const maxFields = 16 << 20

// entryCost is what an entry of a directory takes: its description, its name and its place in lists.
const entryCost = 512

// configure makes the expand package see this shell, and only this shell: variables, files
// and substitutions all come from here.
func (s *Shell) configure() {
	s.cfg = &expand.Config{
		Env:      environ{s},
		CmdSubst: s.substitute,
		ProcSubst: func(*syntax.ProcSubst) (string, error) {
			return "", errProcSubst
		},
		GlobStar: s.opts.globstar, DotGlob: s.opts.dotglob, NoCaseGlob: s.opts.nocaseglob,
		NullGlob: s.opts.nullglob, NoUnset: s.opts.nounset, ExtGlob: s.opts.extglob,
	}
	if !s.opts.noglob {
		s.cfg.ReadDir2 = func(dir string) ([]fs.DirEntry, error) {
			dir = path.Join("/", dir)
			if err := s.host.Spend(s.life, 1+len(dir)/64+s.fs.Entries(dir)/64); err != nil {
				return nil, err
			}
			// Every entry may become a match, with the directory before it.
			if err := s.hold(int64(s.fs.Entries(dir)) * int64(len(dir)+entryCost)); err != nil {
				return nil, err
			}
			return s.fs.ReadDir(dir)
		}
	}
}

// substitute runs a command substitution, writing its output to w.
func (s *Shell) substitute(w io.Writer, cs *syntax.CmdSubst) error {
	rule, ok := s.rules[cs]
	if !ok {
		rule = captureRule{left: maxValue}
	}
	out := &capture{w: w, left: rule.left, mem: s.mem}
	if rule.split {
		out.ifs = s.value("IFS")
	}
	defer func() {
		_ = out.close()
		s.held += out.held
	}()
	if file := catShortcut(cs.Stmts); file != nil {
		return s.substituteFile(out, file)
	}
	ctx, done := s.foreground()
	defer done()
	c := s.clone(ctx)
	c.replaceFD(1, fd.Output(out))
	out.over = func() { c.die(SIGKILL) }
	c.runSubshell(cs.Stmts)
	s.substStatus = c.status
	return out.close()
}

// catShortcut is the file of a $(<file), or nil.
func catShortcut(list []*syntax.Stmt) *syntax.Word {
	if len(list) != 1 || list[0].Cmd != nil || len(list[0].Redirs) != 1 || list[0].Negated || list[0].Background {
		return nil
	}
	if rd := list[0].Redirs[0]; rd.Op == syntax.RdrIn && rd.N == nil {
		return rd.Word
	}
	return nil
}

func (s *Shell) substituteFile(w io.Writer, file *syntax.Word) error {
	name, err := expand.Literal(s.cfg, file)
	if err != nil {
		return err
	}
	in, err := s.openFile(name, vfs.ReadOnly)
	if err != nil {
		s.errorf("%v", err)
		s.substStatus = 1
		return nil
	}
	defer in.Release()
	s.substStatus = 0
	_, err = io.Copy(w, in.Reader(s.life))
	return err
}

// captureRule says what a substitution may print, and whether it is split into fields.
type captureRule struct {
	left  int
	split bool
}

// capture takes the output of a substitution, at most left bytes of it. Once closed it
// swallows what is written: jobs started in a substitution may outlive it.
type capture struct {
	mu     sync.Mutex
	w      io.Writer
	left   int
	ifs    string // what it is split at; "": it is not
	mem    *budget.Scope
	held   int64  // of mem: the text twice, since it grows, and the fields it is split into
	over   func() // called when there is too much
	closed bool
}

func (c *capture) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return len(b), nil
	}
	cost := 3 * int64(len(b))
	for i := range len(c.ifs) {
		cost += fieldCost * int64(bytes.Count(b, []byte{c.ifs[i]}))
	}
	if c.mem.Take(cost) != nil {
		return 0, errMemory
	}
	c.held += cost
	if c.left -= len(b); c.left >= 0 {
		return c.w.Write(b)
	}
	if c.over != nil {
		c.over()
	}
	return 0, errMemory
}

// close ends the capture and says whether there was too much.
func (c *capture) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.left < 0 {
		return errMemory
	}
	return nil
}

// fields expands words to the arguments of a command.
func (s *Shell) fields(words []*syntax.Word) ([]string, bool) {
	var out []string
	size := 0
	done, err := s.affordable(words, true)
	defer done()
	if err != nil {
		return nil, s.expandFailed(err)
	}
	for field, err := range expand.FieldsSeq(s.cfg, words...) {
		if size += len(field) + 16; err == nil && size > maxFields {
			err = errMemory
		}
		if err == nil {
			err = s.hold(budget.Size(len(field)))
		}
		if err != nil {
			return nil, s.expandFailed(err)
		}
		out = append(out, field)
	}
	return out, true
}

// literal expands a word to one string.
func (s *Shell) literal(w *syntax.Word) (string, bool) { return s.expandWord(w, expand.Literal) }

// document expands the body of a here-document.
func (s *Shell) document(w *syntax.Word) (string, bool) { return s.expandWord(w, expand.Document) }

// pattern expands a word to a pattern, with what was quoted escaped.
func (s *Shell) pattern(w *syntax.Word) (string, bool) { return s.expandWord(w, expand.Pattern) }

func (s *Shell) expandWord(w *syntax.Word, f func(*expand.Config, *syntax.Word) (string, error)) (string, bool) {
	if w == nil {
		return "", true
	}
	done, err := s.affordable([]*syntax.Word{w}, false)
	defer done()
	if err != nil {
		return "", s.expandFailed(err)
	}
	text, err := f(s.cfg, w)
	if err == nil && len(text) > maxFields {
		err = errMemory
	}
	if err != nil {
		return "", s.expandFailed(err)
	}
	return text, true
}

func (s *Shell) arithm(x syntax.ArithmExpr) (int, bool) {
	n, err := expand.Arithm(s.cfg, x)
	if err != nil {
		return 0, s.expandFailed(err)
	}
	return n, true
}

// expandFailed reports a failed expansion. It ends a script where POSIX says so. It is
// always false, for callers to return.
func (s *Shell) expandFailed(err error) bool {
	if s.life.Err() != nil {
		s.stopped()
		return false
	}
	s.errorf("%v", err)
	s.status = 1
	var unset expand.UnsetParameterError
	if errors.As(err, &unset) || errors.Is(err, errMemory) {
		s.status = 2
		s.leave()
	}
	return false
}

// leave ends the script, or at a prompt the command line.
func (s *Shell) leave() {
	s.flow = flowExit
	if s.interactive {
		s.flow = flowAbort
	}
}

// openFile opens a path relative to the shell's directory, with the process's own
// descriptors in place of the devices that stand for them.
func (s *Shell) openFile(name string, flag vfs.Flag) (*fd.Stream, error) {
	f, err := s.fs.OpenFile(s.abs(name), flag, fs.FileMode(0o666&^s.umask))
	if err != nil {
		return nil, &openError{name, flag, err}
	}
	if n, ok := f.Descriptor(); ok {
		f.Close()
		if s.fds[n] == nil {
			return nil, &openError{name, flag, vfs.EBADF}
		}
		return s.fds[n].Keep(), nil
	}
	return fd.File(f), nil
}

type openError struct {
	name string
	flag vfs.Flag
	err  error
}

func (e *openError) Error() string {
	verb := "open"
	if e.flag&vfs.Create != 0 {
		verb = "create"
	}
	return "can't " + verb + " " + e.name + ": " + Reason(e.err)
}

// Reason is the errno text of a file error, without the operation and the path.
func Reason(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}

// abs makes a path absolute.
func (s *Shell) abs(name string) string {
	full := Abs(s.dir, name)
	s.work(16 * int64(min(len(full), 4096))) // what looking it up takes
	return full
}

// Abs makes name absolute, from dir. It keeps ".." and trailing slashes, which mean what the
// links before them say.
func Abs(dir, name string) string {
	if name == "" || name[0] == '/' {
		return name
	}
	return dir + "/" + name
}

// readLine reads up to and including delim, one byte at a time so that what follows is left
// for the next reader. The delimiter is not in the result.
func (s *Shell) readLine(ctx context.Context, delim byte, raw bool, most int) (string, error) {
	line := s.mem.Buffer()
	defer line.Reset()
	take := func(err error) (string, error) {
		if s.hold(int64(line.Len())) != nil {
			return "", errMemory
		}
		return string(line.Bytes()), err
	}
	var b [1]byte
	escaped := false
	for n := 0; line.Len() < most; n++ {
		if n%1024 == 1023 && s.host.Spend(ctx, 8) != nil {
			return take(context.Cause(ctx))
		}
		if _, err := s.fds[0].ReadContext(ctx, b[:]); err != nil {
			return take(err)
		}
		switch {
		case b[0] == delim && !escaped:
			return take(nil)
		case b[0] == '\n' && escaped:
			line.Truncate(line.Len() - 1)
			escaped = false
			continue
		}
		escaped = !raw && b[0] == '\\' && !escaped
		if b[0] != 0 && line.WriteByte(b[0]) != nil {
			return "", errMemory
		}
	}
	return take(nil)
}
