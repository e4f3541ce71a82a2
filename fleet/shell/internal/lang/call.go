package lang

import (
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// simple runs assignments and a command with its arguments.
func (s *Shell) simple(cmd *syntax.CallExpr) {
	s.substStatus = 0
	args, ok := s.fields(cmd.Args)
	if !ok {
		return
	}
	if len(args) == 0 {
		s.status = 0
		for _, as := range cmd.Assigns {
			if !s.assign(as, attributes{}) {
				return
			}
		}
		s.status = s.substStatus
		return
	}
	undo, ok := s.temporary(cmd.Assigns)
	if ok {
		s.trace(args)
		s.call(args)
	}
	undo()
}

// temporary sets the variables written before a command for as long as it runs.
func (s *Shell) temporary(assigns []*syntax.Assign) (undo func(), ok bool) {
	type old struct {
		name  string
		vr    expand.Variable
		scope int
	}
	var before []old
	undo = func() {
		for _, o := range before {
			_ = s.vars.store(o.scope, o.name, o.vr)
		}
	}
	for _, as := range assigns {
		name := as.Name.Value
		vr, scope := s.vars.find(name)
		before = append(before, old{name, vr, scope})
		if !s.assign(as, attributes{export: true}) {
			return undo, false
		}
	}
	return undo, true
}

// trace prints a command where set -x is on.
func (s *Shell) trace(args []string) {
	if !s.opts.xtrace {
		return
	}
	if !s.holdAll(args, 8) {
		return
	}
	quoted := make([]string, len(args))
	for i, a := range args {
		q, err := syntax.Quote(a, syntax.LangBash)
		if err != nil {
			q = a
		}
		quoted[i] = q
	}
	s.write(2, s.value("PS4")+strings.Join(quoted, " ")+"\n")
}

// call runs a function, a built-in or another command.
func (s *Shell) call(args []string) {
	if body := s.funcs[args[0]]; body != nil {
		s.function(body, args[1:])
		return
	}
	if s.builtin(args) {
		return
	}
	s.external(args)
}

func (s *Shell) function(body *syntax.Stmt, args []string) {
	loops, undo := s.loops, s.setParams(args)
	s.loops = 0
	s.vars.push()
	s.funcDepth++
	s.stmt(body)
	s.funcDepth--
	s.vars.pop()
	s.loops = loops
	undo()
	if s.flow == flowReturn {
		s.flow = flowNone
	}
}

// external has the host run a command.
func (s *Shell) external(args []string) {
	ctx, done := s.foreground()
	defer done()
	if s.hold(s.vars.size) != nil { // at most: what is exported is copied
		s.stopped()
		return
	}
	s.work(s.vars.size / 4)
	c := &Command{
		Args: args, Env: s.vars.exported(), Dir: s.dir,
		Stdin: s.fds[0], Stdout: s.fds[1], Stderr: s.fds[2], Depth: s.depth,
	}
	if s.replaces {
		c.PID = s.pid
	}
	s.status = s.host.Exec(ctx, c)
	if s.life.Err() != nil {
		s.stopped()
	}
}
