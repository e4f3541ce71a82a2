package shell

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/berth-dev/berth/fleet/shell/internal/lang"
)

// maxProcesses is how many processes a container may have at once, as a cgroup limits it.
// It is what ends a fork bomb.
const maxProcesses = 512

//lint:ignore ST1005 users know it in these words
var errTooMany = errors.New("Resource temporarily unavailable")

//lint:ignore ST1005 users know it in these words
var errNoProcess = errors.New("No such process")

// state is what a container keeps between commands. The zero value is ready.
type state struct {
	start    sync.Once
	throttle throttle
	budgets  budgets

	mu    sync.Mutex
	last  int // pid given last
	procs map[int]*process
}

// process is an entry in the process table.
type process struct {
	pid     int
	started time.Time

	mu     sync.Mutex
	args   []string
	signal func(Signal)
}

// replaced is what a process was before another command took its place.
type replaced struct {
	args   []string
	signal func(Signal)
}

// replace gives the process other arguments and another receiver of signals.
func (p *process) replace(args []string, signal func(Signal)) replaced {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := replaced{p.args, p.signal}
	p.args, p.signal = args, signal
	return before
}

// send hands the process a signal.
func (p *process) send(sig Signal) {
	p.mu.Lock()
	signal := p.signal
	p.mu.Unlock()
	signal(sig)
}

// enter adds a process. Process 1 is the first, unless the container has an Init.
func (t *state) enter(c *Container, args []string, signal func(Signal)) (*process, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.procs) >= maxProcesses {
		return nil, errTooMany
	}
	if t.procs == nil {
		t.procs = map[int]*process{}
	}
	pid := 1
	if _, taken := t.procs[1]; taken || c.Init != nil || t.last > 0 {
		pid = max(t.last, 1) + 1
	}
	t.last = pid
	p := &process{pid: pid, started: time.Now(), args: args, signal: signal}
	t.procs[pid] = p
	return p, nil
}

func (t *state) leave(p *process) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.procs, p.pid)
	if len(t.procs) == 0 {
		t.last = 0
	}
}

// find returns the process with a pid; nil if there is none.
func (t *state) find(pid int) *process {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.procs[pid]
}

// send signals a process; 0 only asks whether it exists.
func (t *state) send(c *Container, pid int, sig Signal) error {
	if pid == 1 && c.Init != nil {
		if c.Init.Signal != nil && sig != 0 {
			c.Init.Signal(sig)
		}
		return nil
	}
	p := t.find(pid)
	if p == nil {
		return errNoProcess
	}
	if sig != 0 && sig != lang.SIGCHLD {
		p.send(sig)
	}
	return nil
}

// entry is a line of ps.
type entry struct {
	pid     int
	args    []string
	started time.Time // zero: not known
}

// list is a snapshot of the process table by pid.
func (t *state) list(c *Container) []entry {
	t.mu.Lock()
	procs := make([]*process, 0, len(t.procs))
	for _, p := range t.procs {
		procs = append(procs, p)
	}
	t.mu.Unlock()
	var list []entry
	if c.Init != nil {
		list = append(list, entry{pid: 1, args: c.Init.Args})
	}
	for _, p := range procs {
		p.mu.Lock()
		list = append(list, entry{p.pid, p.args, p.started})
		p.mu.Unlock()
	}
	slices.SortFunc(list, func(a, b entry) int { return a.pid - b.pid })
	return list
}
