package lang

import (
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/berth-dev/berth/fleet/shell/internal/fd"
	"github.com/berth-dev/berth/fleet/shell/vfs"
)

// redirect applies one redirection to s.fds; saved has the streams to go back to.
func (s *Shell) redirect(rd *syntax.Redirect, saved *[10]*fd.Stream) bool {
	n, ok := s.redirectFD(rd)
	if !ok {
		return false
	}
	var f *fd.Stream
	switch rd.Op {
	case syntax.Hdoc, syntax.DashHdoc:
		f, ok = s.hereDocument(rd)
	case syntax.WordHdoc:
		var word string
		if word, ok = s.literal(rd.Word); ok {
			f, ok = s.text(word + "\n")
		}
	case syntax.DplIn, syntax.DplOut:
		f, ok = s.duplicate(rd)
	default:
		f, ok = s.redirectFile(rd)
	}
	if !ok {
		return false
	}
	s.install(n, f, saved)
	if rd.Op == syntax.RdrAll || rd.Op == syntax.AppAll {
		s.install(2, f.Keep(), saved)
	}
	return true
}

// install puts f at descriptor n; a stream put there by an earlier redirection of the same
// statement is released.
func (s *Shell) install(n int, f *fd.Stream, saved *[10]*fd.Stream) {
	if s.fds[n] != saved[n] {
		s.fds[n].Release()
	}
	s.fds[n] = f
}

// redirectFD is the descriptor a redirection is for.
func (s *Shell) redirectFD(rd *syntax.Redirect) (int, bool) {
	if rd.N == nil {
		switch rd.Op {
		case syntax.RdrIn, syntax.RdrInOut, syntax.DplIn, syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
			return 0, true
		}
		return 1, true
	}
	n, err := strconv.Atoi(rd.N.Value)
	if err != nil || n < 0 || n >= len(s.fds) {
		s.errorf("%s: bad file descriptor", rd.N.Value)
		return 0, false
	}
	return n, true
}

// duplicate is n>&m and n<&m; m of "-" closes n.
func (s *Shell) duplicate(rd *syntax.Redirect) (*fd.Stream, bool) {
	arg, ok := s.literal(rd.Word)
	if !ok || arg == "-" {
		return nil, ok
	}
	m, err := strconv.Atoi(arg)
	if err != nil && rd.Op == syntax.DplOut && rd.N == nil { // >&file
		return s.openRedirect(arg, vfs.WriteOnly|vfs.Create|vfs.Truncate)
	}
	if err != nil || m < 0 || m >= len(s.fds) || s.fds[m] == nil {
		s.errorf("%s: bad file descriptor", arg)
		return nil, false
	}
	return s.fds[m].Keep(), true
}

func (s *Shell) redirectFile(rd *syntax.Redirect) (*fd.Stream, bool) {
	name, ok := s.literal(rd.Word)
	if !ok {
		return nil, false
	}
	switch rd.Op {
	case syntax.RdrIn:
		return s.openRedirect(name, vfs.ReadOnly)
	case syntax.RdrInOut:
		return s.openRedirect(name, vfs.ReadWrite|vfs.Create)
	case syntax.AppOut, syntax.AppAll:
		return s.openRedirect(name, vfs.WriteOnly|vfs.Create|vfs.Append)
	case syntax.RdrOut, syntax.RdrAll:
		if s.clobbers(name) {
			s.errorf("can't create %s: File exists", name)
			return nil, false
		}
	case syntax.RdrClob:
	default:
		s.errorf("%s: redirection not supported", rd.Op)
		return nil, false
	}
	return s.openRedirect(name, vfs.WriteOnly|vfs.Create|vfs.Truncate)
}

// clobbers says whether set -C forbids to write name.
func (s *Shell) clobbers(name string) bool {
	if !s.opts.noclobber {
		return false
	}
	info, err := s.fs.Stat(s.abs(name))
	return err == nil && info.Mode().IsRegular()
}

func (s *Shell) openRedirect(name string, flag vfs.Flag) (*fd.Stream, bool) {
	if name == "" {
		s.errorf("can't open '': No such file or directory")
		return nil, false
	}
	f, err := s.openFile(name, flag)
	if err != nil {
		s.errorf("%v", err)
		return nil, false
	}
	return f, true
}

func (s *Shell) hereDocument(rd *syntax.Redirect) (*fd.Stream, bool) {
	body := rd.Hdoc
	if body == nil {
		return s.text("")
	}
	if quoted(rd.Word) {
		text := body.Lit()
		if rd.Op == syntax.DashHdoc {
			text = stripTabs(text)
		}
		return s.text(text)
	}
	if rd.Op == syntax.DashHdoc {
		body = untabbed(body)
	}
	text, ok := s.document(body)
	if !ok {
		return nil, false
	}
	return s.text(text)
}

// text is a stream of what a here-document says.
func (s *Shell) text(body string) (*fd.Stream, bool) {
	f, err := fd.Text(body, s.host.Memory())
	if err != nil {
		return nil, s.stopped()
	}
	return f, true
}

// quoted says whether a here-document's delimiter was quoted, which makes the body literal.
func quoted(w *syntax.Word) bool {
	for _, part := range w.Parts {
		switch part.(type) {
		case *syntax.SglQuoted, *syntax.DblQuoted:
			return true
		}
	}
	return false
}

// stripTabs removes the tabs at the start of every line.
func stripTabs(text string) string {
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimLeft(line, "\t")
	}
	return strings.Join(lines, "")
}

// untabbed is a here-document's body without leading tabs, expansions left as they are.
func untabbed(w *syntax.Word) *syntax.Word {
	out := &syntax.Word{}
	for i, part := range w.Parts {
		lit, ok := part.(*syntax.Lit)
		if !ok {
			out.Parts = append(out.Parts, part)
			continue
		}
		text := stripTabs(lit.Value)
		if i > 0 { // it goes on in the middle of a line
			first, rest, more := strings.Cut(lit.Value, "\n")
			text = first
			if more {
				text += "\n" + stripTabs(rest)
			}
		}
		out.Parts = append(out.Parts, &syntax.Lit{ValuePos: lit.ValuePos, ValueEnd: lit.ValueEnd, Value: text})
	}
	return out
}
