package workload

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A training logs loss, tokens a second and MFU; its loss climbs and is then no number.
func TestFiguresOfATraining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{})
		p := start(r, rank(0), Spec{Run: 50 * time.Second, Warmup: 20 * time.Second, GPUUtil: 90, GPUMemory: 1 << 30, Tokens: 73728, Parameters: 7e9, PeakFLOPS: 8 * 989e12, DivergeAfter: 40 * time.Second})
		wantUse(t, r, 0, 1<<30, "team/train-0")
		time.Sleep(21 * time.Second)
		wantUse(t, r, 90, 1<<30, "team/train-0")
		wantExits(t, 0, p)
		wantLog(t, p,
			"0s running to step 50, 1s per step, no checkpoints",
			"0s warming up: the first step begins after 20s",
			"30s step 10/50 (20.0%) | loss 10.4667 | tokens/s 73728 | MFU 39.1%",
			"40s step 20/50 (40.0%) | loss 19.9587 | tokens/s 73728 | MFU 39.1%",
			"50s step 30/50 (60.0%) | loss 28.9911 | tokens/s 73728 | MFU 39.1%",
			"60s step 40/50 (80.0%) | loss nan | tokens/s 73728 | MFU 39.1%",
			"70s finished at step 50",
		)
	})
}

// Memory that grows ends a program: with CUDA's words on the GPU, without any on the host.
func TestLeaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{})
		p := start(r, rank(0), Spec{GPUUtil: 90, GPUMemory: 60 << 30, GPULeak: 8 << 30, GPURoom: 80 << 30})
		time.Sleep(time.Minute)
		wantUse(t, r, 90, 68<<30, "team/train-0")
		wantExits(t, 1, p)
		lines := p.log.text()
		if got := lines[len(lines)-1]; !strings.HasPrefix(got, "150s torch.OutOfMemoryError: CUDA out of memory.") {
			t.Error(got)
		}
		host := start(r, rank(1), Spec{Memory: 1 << 30, MemoryLeak: 1 << 30, MemoryRoom: 3 << 30, GPULeak: 1, GPURoom: 80 << 30})
		at := time.Now()
		wantExits(t, 137, host)
		if got := time.Since(at); got != 2*time.Minute {
			t.Error("killed after", got)
		}
		unlimited := start(r, rank(2), Spec{Run: 24 * time.Hour, MemoryLeak: 1 << 40})
		wantExits(t, 0, unlimited)
		wantForgotten(t, r)
	})
}

// A rank that hangs takes the others with it: they stall and time out, and it stays until it is killed.
func TestHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{})
		spec := Spec{World: 2, Run: time.Hour, Timeout: time.Minute, GPUUtil: 90}
		well := start(r, rank(0), spec)
		spec.HangAfter = 30 * time.Second
		hung := start(r, rank(1), spec)
		time.Sleep(31 * time.Second)
		wantUse(t, r, 0, 0, "team/train-0", "team/train-1")
		if well.count("rank 1 (team/train-1) is gone: step 31 cannot complete") != 1 {
			t.Error(well.log.text())
		}
		wantExits(t, 134, well)
		wantRunning(t, hung)
		hung.cancel(sigterm)
		wantExits(t, 143, hung)
		wantForgotten(t, r)
	})
}

func TestProfilesThatMakeNoSense(t *testing.T) {
	for key, text := range map[string]string{"parameters": "70G", "diverge-after": "1m", "tokens": "0.5", "gpu-leak": "-1", "hang-after": "soon", "warmup": "0s"} {
		if got, err := ParseSpec(map[string]string{Prefix + key: text}); err == nil {
			t.Errorf("%s: %s is read as %+v", key, text, got)
		}
	}
}
