// Package lang is a POSIX shell language interpreter with the common parts of bash, for
// simulated containers: statements, expansions, redirections, pipelines, jobs, traps and the
// commands that must be built into a shell.
//
// Syntax and word expansion come from mvdan.cc/sh; its interpreter is not used, because that
// one is made to run host programs (see the safety section of docs/shell.md). This package
// imports nothing that reaches the host: files are a vfs.FS, commands that are not built in
// are run by a Host. Package shell is that host and the only caller.
package lang

import (
	"context"
	"fmt"
	"time"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	"github.com/berth-dev/berth/fleet/clock"
	"github.com/berth-dev/berth/fleet/shell/budget"
	"github.com/berth-dev/berth/fleet/shell/internal/fd"
	"github.com/berth-dev/berth/fleet/shell/vfs"
)

// MaxNesting bounds how deep statements run inside statements: functions, subshells,
// substitutions, eval and shells started by shells count together.
const MaxNesting = 4000

// Host is the machine a shell runs on.
type Host interface {
	// Exec runs a command that is neither a function nor built in, and returns its status.
	Exec(ctx context.Context, c *Command) int
	// Find says where searchPath (as in $PATH) has the command called name.
	Find(dir, searchPath, name string) (string, bool)
	// Spend accounts for n steps of work and waits while there is no allowance for them.
	Spend(ctx context.Context, n int) error
	// Memory is what the shell and all that it starts hold together.
	Memory() *budget.Scope
	// Start enters a process with its arguments; signal is called when it is sent one. It
	// fails where there are too many. end takes the process out again.
	Start(args []string, signal func(Signal)) (pid int, end func(), err error)
	// Send sends a signal to a process; it fails if there is no such process.
	Send(pid int, sig Signal) error
	// Context lives as long as the host; Go runs a goroutine that the host waits for.
	Context() context.Context
	Go(func())
}

// Command is a command for the host to run. The streams stay the caller's.
type Command struct {
	Args                  []string
	Env                   []string
	Dir                   string
	Stdin, Stdout, Stderr *fd.Stream
	// PID is set where the command takes the place of a process that exists.
	PID int
	// Depth is how deep in other statements it runs.
	Depth int
}

// Options make a shell.
type Options struct {
	Host  Host
	FS    *vfs.FS
	Clock clock.Clock
	// Name is $0, PID $$ and Params $1 and so on.
	Name   string
	PID    int
	Params []string
	Env    []string
	Dir    string
	// Stdin, Stdout and Stderr stay the caller's.
	Stdin, Stdout, Stderr *fd.Stream
	Interactive           bool
	Depth                 int
}

// Shell is one shell process. It is used by one goroutine; only Signal may be called from
// others.
type Shell struct {
	// life ends when the shell is killed. It is a field because the whole evaluation,
	// callbacks of the expand package included, runs in it.
	life context.Context
	die  context.CancelCauseFunc

	host        Host
	fs          *vfs.FS
	clock       clock.Clock
	name        string
	pid         int
	interactive bool
	started     time.Time

	mem        *budget.Scope // what this shell holds; its streams count in the host's, they may outlive it
	held       int64         // of mem, for the statement that runs
	paramsHeld int64         // of mem
	funcsHeld  int64         // of mem
	rules      map[*syntax.CmdSubst]captureRule

	vars   vars
	funcs  map[string]*syntax.Stmt
	params []string
	dir    string
	dirs   []string // pushd's stack, the current directory not included
	umask  int
	opts   options
	fds    [10]*fd.Stream
	sig    *signals
	exit   string // EXIT trap
	failed string // ERR trap
	jobs   []*job
	lastBG int
	random uint64
	optPos int // getopts: position within a cluster of flags

	cfg         *expand.Config
	status      int
	substStatus int
	flow        flow
	flowN       int // loops left to break out of or continue
	loops       int
	funcDepth   int
	sourceDepth int
	depth       int
	noErr       int // >0: failures are being tested, errexit does not apply
	inTrap      bool
	keepFDs     bool // exec without a command: its redirections stay
	replaces    bool // the next command takes the place of this process
}

// flow says why statements are being skipped.
type flow uint8

const (
	flowNone flow = iota
	flowBreak
	flowContinue
	flowReturn
	flowAbort // back to the prompt
	flowExit
)

// New makes a shell whose life ends with ctx.
func New(ctx context.Context, o Options) *Shell {
	s := &Shell{
		host: o.Host, fs: o.FS, clock: o.Clock, name: o.Name, pid: o.PID, params: o.Params,
		dir: o.Dir, interactive: o.Interactive, depth: o.Depth, started: time.Now(),
		umask: 0o022, funcs: map[string]*syntax.Stmt{}, sig: &signals{},
	}
	s.life, s.die = context.WithCancelCause(ctx)
	s.fds[0], s.fds[1], s.fds[2] = o.Stdin.Keep(), o.Stdout.Keep(), o.Stderr.Keep()
	s.mem = o.Host.Memory().Sub()
	_ = s.mem.Take(shellCost) // a refusal ends its life
	s.vars = newVars(o.Env, s.mem)
	s.defaultVars()
	s.configure()
	return s
}

// Close ends the shell: its EXIT trap runs, its streams are released. It returns the status.
func (s *Shell) Close() int {
	if s.life.Err() != nil {
		s.status = Killed(s.life)
	} else if s.exit != "" {
		action := s.exit
		s.exit, s.flow = "", flowNone
		status := s.status
		s.eval(action)
		if s.flow != flowExit {
			s.status = status
		}
	}
	for i := range s.fds {
		s.fds[i].Release()
		s.fds[i] = nil
	}
	s.die(nil)
	s.mem.Close()
	return s.status & 0xff
}

// Run runs a script and returns the status of its last command.
func (s *Shell) Run(src string) int {
	defer s.rescue()
	s.source(src)
	return s.status
}

// Builtin runs one built-in command by name.
func (s *Shell) Builtin(args []string) int {
	defer s.rescue()
	s.builtin(args)
	return s.status
}

// rescue keeps a mistake in this package or the libraries below it from ending more than
// the script that met it.
func (s *Shell) rescue() {
	if r := recover(); r != nil {
		s.errorf("internal error: %v", r) // no stack: it would tell a container about the host
		s.status, s.flow = 2, flowExit
	}
}

// clone makes the shell of a subshell, whose life is ctx: all state is copied, traps are
// reset, jobs are not its own.
func (s *Shell) clone(ctx context.Context) *Shell {
	c := *s
	c.life, c.die = context.WithCancelCause(ctx)
	c.mem, c.held, c.rules = s.host.Memory().Sub(), 0, nil
	s.work((s.vars.size + s.funcsHeld) / 8)
	if c.mem.Take(shellCost+s.vars.size+s.paramsHeld+s.funcsHeld) == nil {
		c.vars, c.funcs = s.vars.clone(c.mem), cloneMap(s.funcs)
	} else {
		c.vars, c.funcs = newVars(nil, nil), map[string]*syntax.Stmt{} // its life is over
	}
	c.dirs = append([]string(nil), s.dirs...)
	for i, f := range s.fds {
		if f != nil {
			c.fds[i] = f.Keep()
		}
	}
	c.sig, c.exit, c.jobs = s.sig.inherit(), "", nil
	c.interactive, c.keepFDs, c.inTrap, c.flow = false, false, false, flowNone
	c.configure()
	return &c
}

// errorf prints a message as the shell's own.
func (s *Shell) errorf(format string, args ...any) {
	s.write(2, fmt.Sprintf("%s: %s\n", s.name, fmt.Sprintf(format, args...)))
}

// fail prints a message and sets the status to 1.
func (s *Shell) fail(format string, args ...any) {
	s.errorf(format, args...)
	s.status = 1
}
