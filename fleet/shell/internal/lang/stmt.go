package lang

import (
	"errors"

	"mvdan.cc/sh/v3/syntax"

	"github.com/berth-dev/berth/fleet/shell/internal/fd"
)

// source parses and runs src in this shell.
func (s *Shell) source(src string) {
	if len(src) > MaxScript {
		s.fail("%v", errScriptSize)
		s.leave()
		return
	}
	s.work(4 * int64(len(src)))
	ran := false
	defer func() {
		if !ran {
			s.status = 0
		}
	}()
	for st, err := range statements(src, s.mem) {
		ran = true
		if s.life.Err() != nil {
			s.stopped()
			return
		}
		if err != nil {
			s.errorf("syntax error: %v", err)
			s.status = 2
			s.leave()
			return
		}
		s.stmt(st)
		if s.flow != flowNone {
			return
		}
	}
}

// eval runs src as the eval command and traps do. An empty source succeeds.
func (s *Shell) eval(src string) { s.source(src) }

// proceed is asked before every statement: may the shell go on? It handles signals, ends
// with the shell's life, and pays for the step.
func (s *Shell) proceed() bool {
	s.handleSignals()
	if s.flow != flowNone || s.opts.noexec {
		return false
	}
	if s.life.Err() != nil || s.host.Spend(s.life, 1) != nil {
		return s.stopped()
	}
	return true
}

// stopped sets the state of a shell whose life has ended; always false.
func (s *Shell) stopped() bool {
	s.flow, s.status = flowExit, Killed(s.life)
	return false
}

func (s *Shell) stmts(list []*syntax.Stmt) {
	for _, st := range list {
		s.stmt(st)
		if s.flow != flowNone {
			return
		}
	}
}

func (s *Shell) stmt(st *syntax.Stmt) {
	if !s.proceed() {
		return
	}
	if s.depth >= MaxNesting {
		s.fail("maximum nesting level exceeded (%d)", MaxNesting)
		s.leave()
		return
	}
	mark := s.held
	if s.depth++; s.depth > freeDepth && s.hold(levelCost) != nil {
		s.stopped()
	}
	defer func() {
		s.depth--
		s.drop(mark)
	}()
	if s.flow != flowNone {
		return
	}
	if st.Background || st.Disown {
		s.background(st)
		return
	}
	s.redirected(st)
	s.handleSignals()
}

// redirected runs a statement with its redirections in place.
func (s *Shell) redirected(st *syntax.Stmt) {
	saved := s.fds
	ok := true
	for _, rd := range st.Redirs {
		if ok = s.redirect(rd, &saved); !ok {
			s.status = 1
			break
		}
	}
	if ok {
		if st.Cmd != nil {
			s.command(st.Cmd)
		} else {
			s.status = 0
		}
	}
	s.restore(&saved)
	s.checkStatus(st)
}

// restore undoes redirections, unless exec made them stay.
func (s *Shell) restore(saved *[10]*fd.Stream) {
	keep := s.keepFDs
	s.keepFDs = false
	for i := range s.fds {
		switch {
		case s.fds[i] == saved[i]:
		case keep:
			saved[i].Release()
		default:
			s.fds[i].Release()
			s.fds[i] = saved[i]
		}
	}
}

// checkStatus applies negation, the ERR trap and errexit.
func (s *Shell) checkStatus(st *syntax.Stmt) {
	if st.Negated {
		if s.flow == flowNone {
			s.status = oneIf(s.status == 0)
		}
		return
	}
	if b, ok := st.Cmd.(*syntax.BinaryCmd); ok && (b.Op == syntax.AndStmt || b.Op == syntax.OrStmt) {
		return
	}
	if s.status == 0 || s.noErr > 0 || s.flow != flowNone {
		return
	}
	if s.failed != "" {
		s.runTrap(s.failed)
	}
	if s.opts.errexit && s.flow == flowNone {
		s.flow = flowExit
	}
}

func oneIf(b bool) int {
	if b {
		return 1
	}
	return 0
}

// tested runs statements whose failure is part of the plan.
func (s *Shell) tested(list []*syntax.Stmt) bool {
	s.noErr++
	s.stmts(list)
	s.noErr--
	return s.status == 0 && s.flow == flowNone
}

// command runs a command of any kind.
func (s *Shell) command(cmd syntax.Command) {
	switch cmd := cmd.(type) {
	case *syntax.CallExpr:
		s.simple(cmd)
	case *syntax.Block:
		s.stmts(cmd.Stmts)
	case *syntax.Subshell:
		s.subshell(cmd.Stmts)
	case *syntax.BinaryCmd:
		s.binary(cmd)
	case *syntax.IfClause:
		s.ifClause(cmd)
	case *syntax.WhileClause:
		s.whileClause(cmd)
	case *syntax.ForClause:
		s.forClause(cmd)
	case *syntax.CaseClause:
		s.caseClause(cmd)
	case *syntax.FuncDecl:
		s.define(cmd)
	case *syntax.ArithmCmd:
		n, ok := s.arithm(cmd.X)
		s.status = oneIf(!ok || n == 0)
	case *syntax.LetClause:
		s.let(cmd)
	case *syntax.TestClause:
		s.testClause(cmd)
	case *syntax.DeclClause:
		s.declClause(cmd)
	case *syntax.TimeClause:
		s.timeClause(cmd)
	default:
		s.fail("%T is not supported", cmd)
	}
}

func (s *Shell) define(cmd *syntax.FuncDecl) {
	if cmd.Name == nil {
		s.fail("functions need a name")
		return
	}
	s.forgetFunction(cmd.Name.Value)
	cost := nodeCost(cmd.Body)
	if s.mem.Take(cost) != nil {
		s.stopped()
		return
	}
	s.funcsHeld += cost
	s.funcs[cmd.Name.Value] = cmd.Body
	s.status = 0
}

func (s *Shell) forgetFunction(name string) {
	body := s.funcs[name]
	if body == nil {
		return
	}
	cost := nodeCost(body)
	s.mem.Give(cost)
	s.funcsHeld -= cost
	delete(s.funcs, name)
}

func (s *Shell) let(cmd *syntax.LetClause) {
	for _, x := range cmd.Exprs {
		n, ok := s.arithm(x)
		if s.status = oneIf(!ok || n == 0); !ok {
			return
		}
	}
}

func (s *Shell) binary(cmd *syntax.BinaryCmd) {
	if cmd.Op == syntax.Pipe || cmd.Op == syntax.PipeAll {
		s.pipeline(cmd)
		return
	}
	ok := s.tested([]*syntax.Stmt{cmd.X})
	if s.flow == flowNone && ok == (cmd.Op == syntax.AndStmt) {
		s.stmt(cmd.Y)
	}
}

// maxPiece is how much is written at once.
const maxPiece = 16 << 10

// write prints text to a descriptor. A reader that has gone ends the shell, as SIGPIPE does.
func (s *Shell) write(n int, text string) bool {
	if text == "" {
		return true
	}
	var err error
	for len(text) > 0 && err == nil { // in pieces: the copy is not counted
		piece := text[:min(len(text), maxPiece)]
		text = text[len(piece):]
		_ = s.host.Spend(s.life, len(piece)>>12)
		_, err = s.fds[n].WriteContext(s.life, []byte(piece))
	}
	switch {
	case err == nil:
		return true
	case errors.Is(err, fd.ErrBroken):
		s.flow, s.status = flowExit, 128+int(SIGPIPE)
	case s.life.Err() != nil:
		s.stopped()
	default:
		s.status = 1
		if n != 2 {
			s.errorf("write error: %s", Reason(err))
		}
	}
	return false
}
