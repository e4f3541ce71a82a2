package controlplane

import (
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Most of the API server's garbage is short-lived, and at the runtime's default of 100 % much
// of its CPU under load goes to collecting it. So memory is traded for CPU: little
// while the cluster is small, so that an idle one stays small, and more once it is not.
// A cluster that has come to rest has nothing to gain by the trade, and gives the memory
// back: by itself the runtime would keep for minutes what a start took.
const (
	smallPercent = 200
	largePercent = 300
	restPercent  = 100       // of a large cluster at rest
	largeHeap    = 256 << 20 // live bytes from which a cluster is large

	// A cluster is at rest when for so long it has allocated so little that collecting at
	// restPercent would be seldom: less than a part of what is live in each second.
	restAfter = 15 // seconds
	restPart  = 10

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
		read := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}}
		t := tuner{percent: smallPercent}
		for range time.Tick(tuneEvery) {
			metrics.Read(read)
			old := t.percent
			release := t.second(read[0].Value.Uint64(), read[1].Value.Uint64())
			if t.percent != old {
				debug.SetGCPercent(t.percent)
			}
			if release {
				debug.FreeOSMemory()
			}
		}
	}()
}

// tuner follows a process from second to second.
type tuner struct {
	percent   int    // of the live heap that may be allocated before the next collection
	allocated uint64 // bytes, since the process started
	calm      int    // seconds in which little was allocated
}

// second takes what is live, and what has been allocated since the process started. It sets
// the percent and says whether memory is to be given back now.
func (t *tuner) second(live, allocated uint64) (release bool) {
	if (allocated-t.allocated)*restPart < live {
		t.calm++
	} else {
		t.calm = 0
	}
	t.allocated = allocated
	switch {
	case live < largeHeap:
		t.percent = smallPercent
	case t.calm >= restAfter:
		t.percent = restPercent
	default:
		t.percent = largePercent
	}
	return t.calm == restAfter
}
