package workload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// Exit codes that are not the user's.
const (
	exitError   = 1   // an uncaught exception
	exitAborted = 134 // SIGABRT: how PyTorch's NCCL watchdog takes a process down
	exitKilled  = 137 // SIGKILL
)

// process is one running program.
type process struct {
	registry *Registry
	id       Identity
	spec     Spec
	out      io.Writer
	crew     *crew

	// met is closed when comm works. Registry.mu guards index (the rank) and comm before.
	met   chan struct{}
	index int
	comm  *communicator // nil in rendezvous
}

func (p *process) is(other *process) bool { return p == other }

func (p *process) print(format string, args ...any) { fmt.Fprintf(p.out, format+"\n", args...) }

// main is the program's life.
func (p *process) main(ctx context.Context) int {
	if p.spec.Requests > 0 && p.spec.slots() == 0 {
		p.print("ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.")
		return exitError
	}
	if code, ok := p.rendezvous(ctx); !ok {
		return code
	}
	return p.work(ctx)
}

// use is what its GPUs read; the caller holds Registry.mu.
func (p *process) use() (util int, mem int64) {
	if p.comm == nil || p.comm.began.IsZero() {
		return 0, 0
	}
	if p.comm.working(time.Now()) {
		util = p.spec.busy()
	}
	return util, p.spec.held() + p.leaked(p.comm.worked(time.Now()))
}

// leaked is by how much its GPU memory has grown, up to what it may hold.
func (p *process) leaked(worked time.Duration) int64 {
	grown := int64(float64(p.spec.GPULeak) * worked.Minutes())
	if room := p.spec.GPURoom - p.spec.held(); p.spec.GPURoom > 0 {
		grown = min(grown, max(0, room))
	}
	return grown
}

// load is what it asked of its GPUs so far; false: nothing yet. The caller holds Registry.mu.
func (p *process) load(now time.Time) (Load, bool) {
	if p.comm == nil || p.comm.began.IsZero() {
		return Load{}, false
	}
	l := Load{From: p.comm.began, GPUUtil: p.spec.busy()}
	switch {
	case p.comm.loss != nil:
		l.To = later(p.comm.loss.at, l.From)
	case p.comm.over(now):
		l.To = p.comm.began.Add(p.comm.clock.Wall(p.comm.length()))
	}
	return l, true
}

// rendezvous waits for the other ranks; ok means that comm is set and works. A program that
// works alone passes without a word.
func (p *process) rendezvous(ctx context.Context) (code int, ok bool) {
	if p.spec.World == 0 {
		return 0, true
	}
	var seen string // at the last look: ranks that time out together are gone for each other
	say := func(time.Duration) {
		seen = p.joined()
		p.print("NCCL INFO Bootstrap : waiting for ranks: %s", seen)
	}
	if !p.complete() {
		say(0)
	}
	switch p.wait(ctx, time.Now(), p.met, say) {
	case stopped:
		return p.stop(ctx, "while waiting for ranks"), false
	case expired:
		p.print("torch.distributed.DistStoreError: Timed out after %.0f seconds waiting for clients: %s", p.spec.Timeout.Seconds(), seen)
		return exitError, false
	}
	p.print("NCCL INFO rank %d nranks %d : Init COMPLETE", p.index, p.spec.World)
	return 0, true
}

// complete says whether the communicator is there already.
func (p *process) complete() bool {
	select {
	case <-p.met:
		return true
	default:
		return false
	}
}

func (p *process) joined() string {
	p.registry.mu.Lock()
	defer p.registry.mu.Unlock()
	return p.crew.joined()
}

// stall is what is left to do for a rank whose communicator broke: wait for a collective that
// cannot complete, until the watchdog has had enough.
func (p *process) stall(ctx context.Context) int {
	gone := p.comm.loss
	p.print("NCCL WARN rank %d (%s) is gone: step %d cannot complete, all ranks are stalled", gone.rank, gone.pod, gone.step+1)
	say := func(waited time.Duration) {
		p.print("NCCL INFO step %d : still waiting for rank %d after %v", gone.step+1, gone.rank, waited)
	}
	if p.wait(ctx, gone.at, nil, say) == stopped {
		return p.stop(ctx, fmt.Sprintf("while stalled in step %d", gone.step+1))
	}
	limit := p.spec.Timeout.Milliseconds()
	p.print("[Rank %d] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=%d, OpType=ALLREDUCE, Timeout(ms)=%d) ran for %d milliseconds before timing out.", p.index, gone.step+1, limit, limit)
	p.print("[Rank %d] rank %d never answered; taking the process down (SIGABRT)", p.index, gone.rank)
	return exitAborted
}

// stop ends the program by a signal. A killed program has no last words.
func (p *process) stop(ctx context.Context, when string) int {
	code := exitKilled
	if signal, ok := errors.AsType[interface {
		error
		ExitCode() int
	}](context.Cause(ctx)); ok {
		code = signal.ExitCode()
	}
	if code != exitKilled {
		p.print("stopped by signal %d %s", code-128, when)
	}
	return code
}
