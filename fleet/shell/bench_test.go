package shell

import (
	"testing"
	"time"
)

// BenchmarkNewFS is the cost of a container that does nothing yet; 10,000 may exist. Floor:
// 4 KiB each.
func BenchmarkNewFS(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		NewFS()
	}
}

// BenchmarkRunSleep is the cost of a container whose command is sleep 0, from nothing.
func BenchmarkRunSleep(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if status := Run(b.Context(), &Process{Args: []string{"sleep", "0"}, Container: newContainer()}); status != 0 {
			b.Fatal(status)
		}
	}
}

// BenchmarkRunEcho is the cost of a one-line script, as of an exec probe.
func BenchmarkRunEcho(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if status := Run(b.Context(), &Process{Args: []string{"sh", "-c", "echo hello"}, Container: newContainer()}); status != 0 {
			b.Fatal(status)
		}
	}
}

// BenchmarkStep is the cost of a turn of a loop, which the throttle's figures rest on.
func BenchmarkStep(b *testing.B) {
	c := newContainer()
	for b.Loop() {
		c.state.throttle = throttle{}
		if all := c.state.budgets.all; all != nil {
			all.turns.paid = time.Time{}
		}
		if status := Run(b.Context(), &Process{Args: []string{"sh", "-c", "i=0; while [ $i -lt 1000 ]; do i=$((i+1)); done"}, Container: c}); status != 0 {
			b.Fatal(status)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/3000, "ns/step")
}

// TestNewFSIsCheap holds the floor of BenchmarkNewFS.
func TestNewFSIsCheap(t *testing.T) {
	NewFS() // makes the shared image
	r := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			NewFS()
		}
	})
	if r.AllocedBytesPerOp() > 4096 {
		t.Errorf("NewFS takes %d bytes, want at most 4096", r.AllocedBytesPerOp())
	}
}
