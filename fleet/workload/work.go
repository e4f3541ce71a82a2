package workload

import (
	"context"
	"fmt"
	"time"
)

// agenda is when a program next has something to do, in work since its communicator began.
type agenda struct {
	end, fail, hang, full, save, report time.Duration
}

// next is the earliest entry.
func (a agenda) next() time.Duration { return min(a.end, a.fail, a.hang, a.full, a.save, a.report) }

// agenda is the plan at the start of work.
func (p *process) agenda() agenda {
	a := agenda{end: p.comm.length(), fail: forever, hang: forever, full: p.full(), save: forever, report: p.pace(0)}
	if p.spec.HangAfter > 0 {
		a.hang = p.spec.HangAfter
	}
	if p.spec.FailAfter > 0 {
		a.fail = p.spec.FailAfter
	}
	if p.comm.every > 0 {
		a.save = p.comm.every
	}
	return a
}

// work runs the steps. What falls on the same moment happens in the order end, checkpoint,
// failure, memory, hang, progress line: a step that is done counts.
func (p *process) work(ctx context.Context) int {
	p.announce()
	a := p.agenda()
	for {
		at := a.next()
		switch p.sleep(ctx, p.comm.began, at, p.comm.lost) {
		case stopped:
			return p.stop(ctx, "after "+p.done(p.comm.worked(time.Now())))
		case happened:
			return p.stall(ctx)
		}
		switch at {
		case a.end:
			return p.finish()
		case a.save:
			p.save(at)
			a.save += p.comm.every
		case a.fail:
			p.print("RuntimeError: simulated failure after %s (%sfail-after: %v), exit code %d", p.done(at), Prefix, p.spec.FailAfter, p.spec.ExitCode)
			return p.spec.ExitCode
		case a.full:
			return p.burst(at)
		case a.hang:
			return p.hang(ctx)
		case a.report:
			p.print("%s", p.report(at))
			a.report += p.pace(at)
		}
	}
}

// announce says where the work starts and how much there is.
func (p *process) announce() {
	c := p.comm
	if c.unreadable != nil {
		p.print("checkpoint cannot be used, starting from step 0: %v", c.unreadable)
	}
	if c.base > 0 {
		p.print("resuming from step %d", c.base)
	}
	if p.spec.Requests > 0 {
		p.print("serving up to %d requests at a time, %v each", p.spec.slots(), p.spec.RequestTime)
		if c.warmup > 0 {
			p.print("warming up: the first answer comes after %v", c.warmup)
		}
		return
	}
	length, saves := "until stopped", "no checkpoints"
	if c.total > 0 {
		length = fmt.Sprintf("to step %d", c.total)
	}
	if c.every > 0 {
		saves = fmt.Sprintf("checkpoint every %v", c.every)
	}
	p.print("running %s, %v per step, %s", length, c.step, saves)
	if c.warmup > 0 {
		p.print("warming up: the first step begins after %v", c.warmup)
	}
}

// report is the line that it logs now and then.
func (p *process) report(worked time.Duration) string {
	if p.spec.Requests > 0 {
		return p.spec.serving(worked).line(p.spec.Tokens)
	}
	return p.done(worked) + p.figures(worked)
}

// done is the progress after some work, such as "step 30/600 (5.0%)", or "25 answers".
func (p *process) done(worked time.Duration) string {
	if p.spec.Requests > 0 {
		return fmt.Sprintf("%d answers", p.spec.serving(worked).Answered)
	}
	step, total := p.comm.stepAt(worked), p.comm.total
	if total == 0 {
		return fmt.Sprintf("step %d", step)
	}
	return fmt.Sprintf("step %d/%d (%.1f%%)", step, total, 100*float64(step)/float64(total))
}

// save makes a checkpoint. One that fails costs nothing but the safety: the work goes on.
func (p *process) save(worked time.Duration) {
	step := p.comm.stepAt(worked)
	if err := p.comm.save(p.registry.store, step); err != nil {
		p.print("checkpoint at step %d not saved: %v", step, err)
		return
	}
	p.print("checkpoint saved at step %d", step)
}

func (p *process) finish() int {
	if err := p.comm.finish(p.registry.store); err != nil {
		p.print("last checkpoint not removed: %v", err)
	}
	p.print("finished at step %d", p.comm.total)
	return 0
}
