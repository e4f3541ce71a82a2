package controlplane

import "runtime/debug"

const (
	// gcPercent trades memory for CPU: most of the API server's garbage is short-lived, and
	// at the runtime's default of 100 a third of its CPU under load goes to collecting it.
	gcPercent = 200
	// memoryShare is the part of the machine's memory up to which that trade holds; beyond
	// it the collector works harder again.
	memoryShare = 4
	// leastMemory is what a busy control plane needs in any case.
	leastMemory = 2 << 30
)

// tuneMemory sets the collector's goals for the whole process.
func tuneMemory() {
	debug.SetGCPercent(gcPercent)
	debug.SetMemoryLimit(max(leastMemory, machineMemory()/memoryShare))
}
