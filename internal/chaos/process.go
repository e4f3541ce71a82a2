package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// process is a child that is meant to run for as long as we do: when it ends it is started again, as a
// Deployment would. Its output goes to one file, over all its lives.
type process struct {
	name   string
	args   []string
	env    []string
	output *os.File
	again  time.Duration                    // how long after its end it is started again
	died   func(name string, how *exitInfo) // told of every end that nobody here caused

	mu     sync.Mutex
	cmd    *exec.Cmd // nil: does not run
	killed bool      // by us
	wait   time.Duration
	lives  int
}

// exitInfo is how a process ended.
type exitInfo struct {
	code   int // -1: by a signal
	signal syscall.Signal
}

func (e *exitInfo) String() string {
	if e.code < 0 {
		return fmt.Sprintf("signal %v", e.signal)
	}
	return fmt.Sprintf("exit code %d", e.code)
}

// crashed says whether it was a panic or a signal, as opposed to a program that chose to end.
func (e *exitInfo) crashed() bool { return e.code < 0 || e.code == 2 }

func newProcess(dir, name string, died func(string, *exitInfo), args ...string) (*process, error) {
	f, err := os.OpenFile(filepath.Join(dir, name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	return &process{name: name, args: args, output: f, died: died, again: time.Second}, nil
}

// run keeps the process going until ctx ends, then ends it: politely first.
func (p *process) run(ctx context.Context) {
	defer p.output.Close()
	for ctx.Err() == nil {
		ended, err := p.start()
		if err != nil {
			fmt.Fprintf(p.output, "chaos: %v\n", err)
			p.died(p.name, &exitInfo{code: 127})
			return
		}
		select {
		case how := <-ended:
			p.over(how)
		case <-ctx.Done():
			p.end(ended)
			return
		}
		select {
		case <-time.After(p.pause()):
		case <-ctx.Done():
		}
	}
}

func (p *process) start() (ended <-chan *exitInfo, err error) {
	cmd := exec.Command(p.args[0], p.args[1:]...)
	cmd.Stdout, cmd.Stderr = p.output, p.output
	cmd.Env = append(os.Environ(), p.env...)
	// A group of its own: Ctrl-C is ours to hand on.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	p.cmd, p.killed, p.wait = cmd, false, p.again
	p.lives++
	done := make(chan *exitInfo, 1)
	go func() { done <- exitOf(cmd.Wait()) }()
	return done, nil
}

func exitOf(err error) *exitInfo {
	var e *exec.ExitError
	if !errors.As(err, &e) {
		return &exitInfo{}
	}
	status, ok := e.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		return &exitInfo{code: -1, signal: status.Signal()}
	}
	return &exitInfo{code: e.ExitCode()}
}

func (p *process) over(how *exitInfo) {
	p.mu.Lock()
	p.cmd = nil
	killed := p.killed
	p.mu.Unlock()
	if !killed {
		p.died(p.name, how)
	}
}

func (p *process) pause() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.wait
}

// kill ends the process at once; it is started again after the time.
func (p *process) kill(again time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return false
	}
	p.killed, p.wait = true, again
	return p.cmd.Process.Kill() == nil
}

func (p *process) signal(s syscall.Signal) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd != nil && p.cmd.Process.Signal(s) == nil
}

// pid is that of the life it is in; 0: it does not run.
func (p *process) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// politely is how long a process has to end when it is asked to.
const politely = 30 * time.Second

// end asks the process to end; one that has to be killed has died.
func (p *process) end(ended <-chan *exitInfo) {
	p.signal(syscall.SIGCONT)
	p.signal(syscall.SIGTERM)
	select {
	case <-ended:
	case <-time.After(politely):
		p.kill(0)
		p.died(p.name, <-ended)
	}
}
