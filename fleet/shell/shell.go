// Package shell runs the commands of simulated containers in this process: a POSIX shell
// over a virtual file system and a virtual network, with the usual small commands built in.
//
// No host process, host file, host socket or host setting is ever reached: a container sees
// its FS, its Net, its Hostname and what its caller gives it, and nothing else. What containers
// hold and compute is bounded by a Budget. It is not a virtual machine: only built-in commands,
// Programs and shell scripts run. The simulated kubelet calls it for container commands, exec and probes.
package shell

import (
	"context"
	"io"

	"github.com/berth-dev/berth/fleet/clock"
	"github.com/berth-dev/berth/fleet/shell/internal/lang"
	"github.com/berth-dev/berth/fleet/shell/vfs"
)

// FS is a container's root file system; Volume is a tree that several containers can mount.
type (
	FS     = vfs.FS
	Volume = vfs.Volume
	// Content is a file given to Volume.Replace.
	Content = vfs.Content
)

// NewVolume makes an empty volume that holds at most limitBytes; 0 means no limit.
func NewVolume(limitBytes int64) *Volume { return vfs.NewVolume(limitBytes) }

// Signal ends a process, as the cause of an ended context or sent by kill.
type Signal = lang.Signal

// The causes that callers end a context with. Any other cause counts as Kill.
const (
	Terminate = lang.SIGTERM
	Interrupt = lang.SIGINT
	Kill      = lang.SIGKILL
)

// Program is a command provided by the caller. It must return soon after ctx ends; its
// status is then replaced by that of the signal. Its streams are those of p, already bound
// to ctx.
type Program func(ctx context.Context, p *Process) int

// Container is what the processes of one container share. Fill in the exported fields
// before the first Run and use it by pointer; it is safe for concurrent use after that.
type Container struct {
	Hostname string
	// Hosts and Resolver are /etc/hosts and /etc/resolv.conf; "" is what a container has that knows nobody.
	Hosts, Resolver string
	// IP is the pod's address, which curl and the like reach the pod's own Net by; may be
	// empty.
	IP  string
	FS  *FS
	Net *Net
	// Machine is what nproc, free, uname and /proc tell of.
	Machine Machine
	// Clock is the time that sleep, timeout and the like wait in.
	Clock clock.Clock
	// Programs are extra commands by base name. They hide built-in commands.
	Programs map[string]Program
	// Budget is what the container shares with others; nil: a whole one of its own.
	Budget *Budget
	// Memory is what its commands may hold, in bytes; 0, or more than ContainerMemory, means that.
	Memory int64
	// Init is process 1 where it is not a Run of this package, as with a simulated workload.
	// Nil: the first Run is process 1.
	Init *Init

	state state
}

// Init describes a process 1 that something else runs.
type Init struct {
	Args []string
	// Signal is called when a process of the container sends process 1 a signal. Nil: nothing
	// happens.
	Signal func(Signal)
}

// Process is a command to run in a container.
type Process struct {
	// Args is the command and its arguments; no shell is involved unless Args[0] is one.
	Args []string
	// Env is name=value; nothing is added to it but PATH and HOME where they are missing.
	Env []string
	// Dir is the working directory; empty means /.
	Dir string
	// Stdin is read only if the command reads it; nil means empty. A Read that is under way
	// when the process ends is left behind: close Stdin after Run.
	Stdin io.Reader
	// Stdout and Stderr are written as output is made, one call at a time, also where they
	// are the same writer. They are not written after Run has returned. Nil discards.
	Stdout, Stderr io.Writer
	Container      *Container
	// Started is called once the process has its place in the container's process table: what
	// is run after that is not process 1. Nil: nobody wants to know.
	Started func()
	// OutOfMemory is called before Run returns if the process was killed because it held too
	// much memory. Nil: nobody wants to know.
	OutOfMemory func()
	// TTY says that a terminal in raw mode is at the other end of Stdin and Stdout: typed
	// characters are echoed and edited, newlines become carriage return and newline, ctrl-C
	// interrupts. Stderr is then not used.
	TTY bool
}

// Run runs a command to its end and returns its exit status: 127 if there is no such
// command, 126 if it cannot be run, 128+n if signal n ended it.
//
// When ctx ends with cause Terminate (or Interrupt), process 1's trap for that signal runs,
// if it is a shell that has one: the command in the foreground is stopped, the trap runs,
// and unless it exits the script goes on after it. Without a trap the status is 143 (130).
// With any other cause the process is killed: 137. So is one that holds more memory than the
// container's Budget has, with a word about it on Stderr. Commands in the background are killed
// when the process ends; Run waits for them.
//
// A trap that runs can only be ended by Kill, which a context that has already ended cannot
// carry: make the context with WithSignals, or the trap gets 30 seconds.
func Run(ctx context.Context, p *Process) int {
	s := newSession(ctx, p.Container)
	status := s.main(ctx, p)
	s.end()
	s.mourn(p)
	return status
}

// Known says whether Run could find a command: a built-in one, a Program, or an executable
// file in the container.
func (c *Container) Known(argv0 string) bool {
	_, status := resolver{c, builtin()}.resolve("/", defaultPath, argv0)
	return status == 0
}

// Forbidden says whether there is something at the command's name that may not be run.
func (c *Container) Forbidden(argv0 string) bool {
	_, status := resolver{c, builtin()}.resolve("/", defaultPath, argv0)
	return status == 126
}

type killKey struct{}

// WithSignals makes a context for Run and a function that sends the process signals:
// Terminate first and, if it has not ended in time, Kill. Like a cancel function, send must
// be called with Kill in the end to free what ctx holds; ending parent kills too.
func WithSignals(parent context.Context) (ctx context.Context, send func(Signal)) {
	killed, kill := context.WithCancelCause(parent)
	ctx, end := context.WithCancelCause(context.WithValue(killed, killKey{}, killed))
	return ctx, func(sig Signal) {
		if sig == Kill {
			kill(sig)
		}
		end(sig)
	}
}
