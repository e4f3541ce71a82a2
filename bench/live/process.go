package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// readyLine is what a part prints when it can be used.
const readyLine = "ready"

// process is a part, or the binary that ships, in a process of its own.
type process struct {
	cmd     *exec.Cmd
	log     *os.File
	started time.Time
	done    chan struct{} // closed when it has ended
	err     error         // how, once done
}

// launch starts a program with its output in a file of that name in dir.
func launch(ctx context.Context, dir, name, program string, args, env []string) (*process, error) {
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.CommandContext(ctx, program, args...), log: log, done: make(chan struct{})}
	p.cmd.Stderr, p.cmd.Stdout = log, log
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = stopIn
	p.started = time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", name, err), log.Close())
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// stopIn is how long a process may take to end by itself.
const stopIn = 30 * time.Second

// stop ends the process in order.
func (p *process) stop() error { return p.end(syscall.SIGTERM) }

// kill ends it at once.
func (p *process) kill() error { return p.end(syscall.SIGKILL) }

func (p *process) end(s syscall.Signal) error {
	defer p.log.Close()
	select {
	case <-p.done:
		return p.failed()
	default:
	}
	_ = p.cmd.Process.Signal(s) // it may be gone already
	select {
	case <-p.done:
	case <-time.After(stopIn):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
	return nil
}

// failed is the error of a process that ended by itself, with the end of its log.
func (p *process) failed() error {
	tail := ""
	if b, err := os.ReadFile(p.log.Name()); err == nil {
		tail = string(b[max(0, len(b)-2000):])
	}
	return fmt.Errorf("%s ended by itself (%v):\n%s", filepath.Base(p.cmd.Path), p.err, tail)
}

// awaitReady returns when the process has printed readyLine to its log.
func (p *process) awaitReady(ctx context.Context) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-p.done:
			return p.failed()
		case <-tick.C:
		}
		if said(p.log.Name(), readyLine) {
			return nil
		}
	}
}

func said(path, line string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	for s := bufio.NewScanner(io.LimitReader(f, 1<<20)); s.Scan(); {
		if s.Text() == line {
			return true
		}
	}
	return false
}
