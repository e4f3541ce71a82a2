package workload

import (
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"time"
)

// What trainings do besides steps: log figures, outgrow their memory, hang. All follows from the step, so that two lives of the
// same program log the same.

// full is the work after which its memory does not suffice any more; forever: it does, or nobody knows how much there is.
func (p *process) full() time.Duration {
	return min(until(p.spec.GPULeak, p.spec.GPURoom-p.spec.held(), p.spec.GPURoom), until(p.spec.MemoryLeak, p.spec.MemoryRoom-p.spec.Memory, p.spec.MemoryRoom))
}

// until is when something that grows by so many bytes a minute has filled what is left.
func until(leak, left, room int64) time.Duration {
	if leak <= 0 || room <= 0 {
		return forever
	}
	minutes := float64(max(left, 0)) / float64(leak)
	if minutes > maxDuration.Minutes() {
		return forever
	}
	return max(time.Duration(minutes*float64(time.Minute)), 1)
}

// burst is the end of a program that has outgrown its memory: CUDA's error, or the kernel's kill, which leaves no last words.
func (p *process) burst(at time.Duration) int {
	if at != until(p.spec.GPULeak, p.spec.GPURoom-p.spec.held(), p.spec.GPURoom) {
		return exitKilled
	}
	p.print("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 MiB. GPU 0 has a total capacity of %.2f GiB of which 0 bytes is free. (%s)",
		float64(p.spec.GPURoom)/(1<<30), p.done(at))
	return exitError
}

// hang is a rank that is there and answers nobody: the others stall and time out, and it stays until somebody stops it.
func (p *process) hang(ctx context.Context) int {
	p.registry.mu.Lock()
	p.comm.lose(p, time.Now())
	p.registry.mu.Unlock()
	<-ctx.Done()
	return p.stop(ctx, "while hanging")
}

// figures are what trainings log beside their steps; "" where nothing is said of them.
func (p *process) figures(worked time.Duration) string {
	data := ""
	if p.spec.DataWait > 0 {
		data = fmt.Sprintf(" | data %.2fs of %.2fs", p.comm.step.Seconds()*float64(p.spec.DataWait)/100, p.comm.step.Seconds())
	}
	if p.spec.Tokens == 0 {
		return data
	}
	step := p.comm.stepAt(worked)
	speed := float64(p.spec.Tokens) / p.comm.step.Seconds()
	text := fmt.Sprintf(" | loss %s | tokens/s %.0f", p.lossAt(step, worked), speed)
	if world := float64(max(1, p.spec.World)); p.spec.Parameters > 0 && p.spec.PeakFLOPS > 0 {
		// Six operations for each parameter and token: two forwards, four backwards.
		text += fmt.Sprintf(" | MFU %.1f%%", 100*6*float64(p.spec.Parameters)*speed/(p.spec.PeakFLOPS*world))
	}
	return text + data
}

// lossAt falls from about 11, the entropy of a vocabulary of 50,000, towards 2 as a power of the step, with noise.
func (p *process) lossAt(step int64, worked time.Duration) string {
	if p.spec.DivergeAfter > 0 && worked >= p.spec.DivergeAfter {
		return "nan"
	}
	h := fnv.New64a()
	fmt.Fprint(h, p.id.Group, step)
	noise := float64(h.Sum64()%2000)/1000 - 1
	loss := 2 + 9*math.Pow(1+float64(step)/50, -0.35) + 0.03*noise
	if before := p.spec.DivergeAfter - worked; p.spec.DivergeAfter > 0 && before < 30*time.Second {
		loss *= 1 + 3*(1-before.Seconds()/30) // it climbs first
	}
	return fmt.Sprintf("%.4f", loss)
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
