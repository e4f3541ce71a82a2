package workload

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// signal is a cause as fleet/shell's are: an error with an exit code.
type signal int

func (s signal) Error() string { return fmt.Sprintf("signal %d", int(s)) }
func (s signal) ExitCode() int { return 128 + int(s) }

const (
	sigterm signal = 15
	sigkill signal = 9
)

// log collects what a program prints, each line behind the simulated second it came at.
type log struct {
	mu    sync.Mutex
	speed float64
	start time.Time
	lines []string
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := time.Since(l.start).Seconds() * l.speed
	l.lines = append(l.lines, fmt.Sprintf("%.0fs %s", at, strings.TrimSuffix(string(p), "\n")))
	return len(p), nil
}

func (l *log) text() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}

// drop removes the lines that contain text.
func (l *log) drop(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = slices.DeleteFunc(l.lines, func(line string) bool { return strings.Contains(line, text) })
}

// program is one that runs in a bubble.
type program struct {
	log    *log
	cancel context.CancelCauseFunc
	exit   chan int
}

func start(r *Registry, id Identity, spec Spec) *program {
	ctx, cancel := context.WithCancelCause(context.Background())
	speed := r.clock.Speed
	if speed == 0 {
		speed = 1
	}
	p := &program{log: &log{start: time.Now(), speed: speed}, cancel: cancel, exit: make(chan int, 1)}
	go func() { p.exit <- r.Run(ctx, id, spec, p.log) }()
	synctest.Wait()
	return p
}

// rank names the program of a rank of job "train".
func rank(i int) Identity {
	return Identity{Group: "Job/team/train/1", Index: i, Pod: fmt.Sprintf("team/train-%d", i)}
}

func startAll(r *Registry, spec Spec, ranks ...int) []*program {
	var all []*program
	for _, i := range ranks {
		all = append(all, start(r, rank(i), spec))
	}
	return all
}

// wantLog compares a program's whole log.
func wantLog(t *testing.T, p *program, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, p.log.text()); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

// wantExits waits for programs to end, each with the code.
func wantExits(t *testing.T, code int, programs ...*program) {
	t.Helper()
	for i, p := range programs {
		if got := <-p.exit; got != code {
			t.Errorf("program %d exits %d, want %d; its log:\n%s", i, got, code, strings.Join(p.log.text(), "\n"))
		}
	}
}

// wantRunning fails for programs that have ended.
func wantRunning(t *testing.T, programs ...*program) {
	t.Helper()
	synctest.Wait()
	for i, p := range programs {
		if len(p.exit) > 0 {
			t.Errorf("program %d has ended with %d; its log:\n%s", i, <-p.exit, strings.Join(p.log.text(), "\n"))
		}
	}
}

// wantUse checks what the GPUs of pods read.
func wantUse(t *testing.T, r *Registry, util int, mem int64, pods ...string) {
	t.Helper()
	synctest.Wait()
	for _, pod := range pods {
		if gotUtil, gotMem := r.Use(pod); gotUtil != util || gotMem != mem {
			t.Errorf("%s uses %d%% and %d bytes, want %d%% and %d", pod, gotUtil, gotMem, util, mem)
		}
	}
}

// wantForgotten checks that nothing is kept of programs that are gone.
func wantForgotten(t *testing.T, r *Registry) {
	t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.crews) > 0 || len(r.pods) > 0 {
		t.Errorf("the registry still holds %d groups and %d pods", len(r.crews), len(r.pods))
	}
}

// count is how many lines of a log contain text.
func (p *program) count(text string) int {
	n := 0
	for _, line := range p.log.text() {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}
