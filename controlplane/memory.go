package controlplane

import (
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Most of the API server's garbage is short-lived, and at the runtime's default of 100 % much
// of its CPU under load goes to collecting it. So memory is traded for CPU: little
// while the cluster is small, so that an idle one stays small, and more once it is not.
const (
	smallPercent = 200
	largePercent = 300
	largeHeap    = 256 << 20 // live bytes from which a cluster is large

	// memoryShare is the part of the machine's memory up to which that trade holds; beyond
	// it the collector works harder again.
	memoryShare = 4
	// leastMemory is what a busy control plane needs in any case.
	leastMemory = 2 << 30

	tuneEvery = time.Second
)

// tuneMemory sets the collector's goals for the whole process, for as long as it lives.
func tuneMemory() {
	debug.SetMemoryLimit(max(leastMemory, machineMemory()/memoryShare))
	debug.SetGCPercent(smallPercent)
	go func() {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		percent := smallPercent
		for range time.Tick(tuneEvery) {
			metrics.Read(live)
			if next := gcPercent(live[0].Value.Uint64()); next != percent {
				percent = next
				debug.SetGCPercent(percent)
			}
		}
	}()
}

func gcPercent(live uint64) int {
	if live < largeHeap {
		return smallPercent
	}
	return largePercent
}
