package lang

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
)

// Signal is a POSIX signal. As the cause of an ended context it says how a process was killed.
type Signal int

// The signals that mean something here.
const (
	SIGHUP  Signal = 1
	SIGINT  Signal = 2
	SIGQUIT Signal = 3
	SIGKILL Signal = 9
	SIGUSR1 Signal = 10
	SIGUSR2 Signal = 12
	SIGPIPE Signal = 13
	SIGALRM Signal = 14
	SIGTERM Signal = 15
	SIGCHLD Signal = 17
	SIGCONT Signal = 18
	SIGSTOP Signal = 19
)

// signalNames is in the order of the numbers.
var signalNames = []struct {
	sig  Signal
	name string
}{
	{SIGHUP, "HUP"}, {SIGINT, "INT"}, {SIGQUIT, "QUIT"}, {SIGKILL, "KILL"}, {SIGUSR1, "USR1"}, {SIGUSR2, "USR2"},
	{SIGPIPE, "PIPE"}, {SIGALRM, "ALRM"}, {SIGTERM, "TERM"}, {SIGCHLD, "CHLD"}, {SIGCONT, "CONT"}, {SIGSTOP, "STOP"},
}

func (s Signal) String() string {
	for _, n := range signalNames {
		if n.sig == s {
			return n.name
		}
	}
	return strconv.Itoa(int(s))
}

func (s Signal) Error() string { return "signal " + s.String() }

// ParseSignal understands TERM, SIGTERM and 15.
func ParseSignal(name string) (Signal, bool) {
	if n, err := strconv.Atoi(name); err == nil {
		return Signal(n), n >= 0 && n <= 64
	}
	name = strings.TrimPrefix(strings.ToUpper(name), "SIG")
	for _, n := range signalNames {
		if n.name == name {
			return n.sig, true
		}
	}
	return 0, false
}

// harmless signals do nothing to a process that has no trap for them.
func (s Signal) harmless() bool { return s == 0 || s == SIGCHLD || s == SIGCONT || s == SIGSTOP }

// Killed is the exit status of what ended because ctx did: 128 and the signal that is its
// cause, or 137 for any other cause.
func Killed(ctx context.Context) int {
	var sig Signal
	if errors.As(context.Cause(ctx), &sig) {
		return 128 + int(sig)
	}
	return 128 + int(SIGKILL)
}

// signals is a shell's side of signals: which it traps, which have come and wait to be
// handled between two commands, and how to stop what runs in the foreground.
type signals struct {
	mu      sync.Mutex
	traps   map[Signal]string // "" ignores the signal
	pending []Signal
	stop    context.CancelCauseFunc // ends the foreground command; nil: there is none
}

// trap sets the action for sig; remove takes it away.
func (s *signals) trap(sig Signal, action string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.traps == nil {
		s.traps = map[Signal]string{}
	}
	s.traps[sig] = action
}

func (s *signals) remove(sig Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.traps, sig)
}

func (s *signals) action(sig Signal) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	action, ok := s.traps[sig]
	return action, ok
}

// raise notes sig for later and interrupts the foreground command.
func (s *signals) raise(sig Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = append(s.pending, sig)
	if s.stop != nil {
		s.stop(sig)
	}
}

func (s *signals) take() []Signal {
	s.mu.Lock()
	defer s.mu.Unlock()
	got := s.pending
	s.pending = nil
	return got
}

// foreground registers how to stop a command; if a signal is already waiting it is stopped
// at once.
func (s *signals) foreground(stop context.CancelCauseFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop = stop
	if stop != nil && len(s.pending) > 0 {
		stop(s.pending[0])
	}
}

// Signal is what the shell does when it is sent sig: run its trap between commands, after
// stopping the one in the foreground, or die. Safe to call from anywhere.
func (s *Shell) Signal(sig Signal) {
	action, trapped := s.sig.action(sig)
	switch {
	case sig == SIGKILL:
		s.die(sig)
	case trapped && action != "", s.interactive && sig == SIGINT:
		s.sig.raise(sig)
	case trapped || sig.harmless():
	default:
		s.die(sig)
	}
}

// handleSignals runs the traps of signals that have come.
func (s *Shell) handleSignals() {
	for _, sig := range s.sig.take() {
		action, trapped := s.sig.action(sig)
		switch {
		case trapped && action != "":
			s.runTrap(action)
		case !trapped && sig == SIGINT && s.interactive:
			s.flow, s.status = flowAbort, 128+int(sig)
		}
	}
}

// runTrap runs a trap's action; unless it exits, the shell goes on where it was.
func (s *Shell) runTrap(action string) {
	if s.inTrap {
		return
	}
	s.inTrap = true
	flow, n, status := s.flow, s.flowN, s.status
	s.flow = flowNone
	s.eval(action)
	s.inTrap = false
	if s.flow == flowExit || s.flow == flowAbort {
		return
	}
	s.flow, s.flowN, s.status = flow, n, status
}

// inherit is what a subshell gets: traps are reset, ignored signals stay ignored.
func (s *signals) inherit() *signals {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &signals{}
	for sig, action := range s.traps {
		if action == "" {
			c.trap(sig, "")
		}
	}
	return c
}
