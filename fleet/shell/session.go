package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/berth-dev/berth/fleet/shell/budget"
	"github.com/berth-dev/berth/fleet/shell/internal/fd"
	"github.com/berth-dev/berth/fleet/shell/internal/lang"
)

// trapGrace is how long traps may run where nobody can send Kill.
const trapGrace = 30 * time.Second

// session is one Run: the process it was asked for and all that it starts. It is the host
// of the shells among them.
type session struct {
	container *Container
	commands  map[string]command
	ctx       context.Context // ends when everything in the session is to end
	cancel    context.CancelCauseFunc
	running   sync.WaitGroup
	account   *budget.Account // what all of it holds
	memory    *budget.Scope   // of account: what no single command or shell holds
}

func newSession(ctx context.Context, c *Container) *session {
	c.state.start.Do(func() {
		c.FS.Generate(c.generate)
		c.open()
	})
	s := &session{container: c, commands: builtin()}
	s.ctx, s.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	s.account = c.state.budgets.memory.Open(func() { s.cancel(outOfMemory{}) })
	s.memory = s.account.Scope()
	return s
}

func (s *session) resolver() resolver { return resolver{s.container, s.commands} }

// end stops what is left and waits for it.
func (s *session) end() {
	s.cancel(Kill)
	s.running.Wait()
	s.account.Close()
}

// mourn says that the session was killed for its memory, if it was.
func (s *session) mourn(p *Process) {
	if !isOutOfMemory(context.Cause(s.ctx)) {
		return
	}
	if p.OutOfMemory != nil {
		p.OutOfMemory()
	}
	_, own := s.container.state.budgets.memory.Used()
	_, all := s.container.state.budgets.all.memory.Used()
	p.complain("killed: out of memory (this container may hold %d MiB, all containers together %d MiB)", own>>20, all>>20)
}

// complain says why the process could not go on. Nothing of it writes any more, or yet.
func (p *Process) complain(format string, args ...any) {
	to, end := p.Stderr, "\n"
	if p.TTY {
		to, end = p.Stdout, "\r\n"
	}
	if to != nil {
		fmt.Fprintf(to, "%s: %s%s", baseName(append(p.Args, "sh")[0]), fmt.Sprintf(format, args...), end)
	}
}

// main runs the session's process and passes on to it what ends ctx.
func (s *session) main(ctx context.Context, p *Process) int {
	cmd := &lang.Command{Args: p.Args, Env: withDefaults(p.Env), Dir: p.Dir}
	if cmd.Dir == "" {
		cmd.Dir = "/"
	}
	proc, err := s.container.state.enter(s.container, p.Args, func(sig Signal) { s.cancel(sig) })
	if err != nil {
		p.complain("can't fork: %v", err)
		return 126
	}
	defer s.container.state.leave(proc)
	if p.Started != nil {
		p.Started()
	}
	cmd.PID = proc.pid
	closeStreams := s.connect(cmd, p, proc)
	defer closeStreams()
	defer s.listen(ctx, proc)()
	status := s.Exec(s.ctx, cmd)
	if s.ctx.Err() != nil {
		return lang.Killed(s.ctx)
	}
	return status
}

// connect gives the command the caller's streams.
func (s *session) connect(cmd *lang.Command, p *Process, proc *process) (closeAll func()) {
	if p.TTY {
		return s.connectTerminal(cmd, p, proc)
	}
	cmd.Stdin = fd.Input(p.Stdin, s.memory)
	cmd.Stdout, cmd.Stderr = fd.Outputs(p.Stdout, p.Stderr)
	return func() {
		cmd.Stdin.Release()
		cmd.Stdout.Release()
		cmd.Stderr.Release()
	}
}

// listen turns the end of ctx into signals for proc.
func (s *session) listen(ctx context.Context, proc *process) (stop func()) {
	var stops []func() bool
	killed, canKill := ctx.Value(killKey{}).(context.Context)
	if canKill {
		stops = append(stops, context.AfterFunc(killed, func() { s.cancel(Kill) }))
	}
	stops = append(stops, context.AfterFunc(ctx, func() {
		var sig Signal
		if !errors.As(context.Cause(ctx), &sig) || sig == Kill {
			s.cancel(Kill)
			return
		}
		if !canKill {
			// The process has already ended when this fires too late: that does no harm.
			time.AfterFunc(trapGrace, func() { s.cancel(Kill) })
		}
		proc.send(sig)
	}))
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// The methods of lang.Host.

func (s *session) Context() context.Context { return s.ctx }

func (s *session) Go(f func()) { s.running.Go(f) }

func (s *session) Spend(ctx context.Context, n int) error {
	return s.container.state.throttle.spend(ctx, &s.container.state.budgets.all.turns, n)
}

func (s *session) Memory() *budget.Scope { return s.memory }

func (s *session) Start(args []string, signal func(Signal)) (pid int, end func(), err error) {
	proc, err := s.container.state.enter(s.container, args, signal)
	if err != nil {
		return 0, nil, err
	}
	return proc.pid, func() { s.container.state.leave(proc) }, nil
}

func (s *session) Send(pid int, sig Signal) error {
	return s.container.state.send(s.container, pid, sig)
}

func (s *session) Find(dir, searchPath, name string) (string, bool) {
	r, status := s.resolver().resolve(dir, searchPath, name)
	return r.path, status == 0
}

// Exec runs a command: a built-in one, a Program or a script.
func (s *session) Exec(ctx context.Context, cmd *lang.Command) int {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c := s.newCall(ctx, cancel, cmd)
	defer c.mem.Close()
	if c.mem.Take(processCost+argCost*int64(len(cmd.Args))) != nil {
		return lang.Killed(s.ctx)
	}
	if cmd.Depth > lang.MaxNesting {
		fmt.Fprintf(c.stderr, "%s: nesting too deep\n", c.name)
		return 126
	}
	if len(cmd.Args) == 0 {
		return 0
	}
	r, status := s.resolver().resolve(cmd.Dir, envValue(cmd.Env, "PATH"), cmd.Args[0])
	if status != 0 {
		fmt.Fprintf(c.stderr, "sh: %s: %s\n", cmd.Args[0], r.reason)
		return status
	}
	proc, leave, err := s.process(cmd, func(sig Signal) { cancel(sig) })
	if err != nil {
		fmt.Fprintf(c.stderr, "sh: can't fork: %v\n", err)
		return 254
	}
	defer leave()
	c.proc = proc
	status = s.run(ctx, c, r)
	if ctx.Err() != nil {
		return lang.Killed(ctx)
	}
	return status & 0xff
}

// process enters the command as a process of the container, or lets it take the place of
// the one it replaces.
func (s *session) process(cmd *lang.Command, signal func(Signal)) (*process, func(), error) {
	table := &s.container.state
	if proc := table.find(cmd.PID); proc != nil {
		before := proc.replace(cmd.Args, signal)
		return proc, func() { proc.replace(before.args, before.signal) }, nil
	}
	proc, err := table.enter(s.container, cmd.Args, signal)
	if err != nil {
		return nil, nil, err
	}
	return proc, func() { table.leave(proc) }, nil
}

// run calls what was resolved. A panic ends the command, not the program around it.
func (s *session) run(ctx context.Context, c *call, r resolved) (status int) {
	defer func() {
		if v := recover(); v != nil {
			// No stack: it would tell a container about the host.
			fmt.Fprintf(c.stderr, "%s: internal error: %v\n", c.name, v)
			status = 2
		}
	}()
	switch {
	case r.program != nil:
		return r.program(ctx, c.process())
	case r.script != "":
		name := c.cmd.Args[0]
		if !strings.Contains(name, "/") {
			name = r.path
		}
		return c.shell(ctx, shellArgs{name: name, file: r.script, params: c.args})
	case r.interpreter != nil:
		args := append(append([]string{}, r.interpreter...), append([]string{r.path}, c.args...)...)
		return c.exec(ctx, args)
	}
	return r.command.start(ctx, c)
}

// paid is a stream as a writer that accounts for what is written, and ends its process when
// nobody reads any more.
type paid struct {
	c      *call
	to     *fd.Stream
	cancel context.CancelCauseFunc
}

// maxPiece is how much is written at once: whoever is at the other end may copy it.
const maxPiece = 16 << 10

func (w paid) Write(b []byte) (int, error) {
	done := 0
	for first := true; first || done < len(b); first = false {
		piece := b[done:min(len(b), done+maxPiece)]
		if err := w.c.spend(1 + len(piece)>>12); err != nil {
			return done, err
		}
		n, err := w.to.WriteContext(w.c.ctx, piece)
		done += n
		if errors.Is(err, fd.ErrBroken) {
			w.cancel(lang.SIGPIPE)
		}
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

var _ io.Writer = paid{}
var _ lang.Host = (*session)(nil)
