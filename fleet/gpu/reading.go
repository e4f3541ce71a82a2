package gpu

import "time"

// Reading is what a device shows at one moment: the one source of nvidia-smi and of the DCGM exporter.
type Reading struct {
	Device
	UtilPercent    int // SM busy
	MemUtilPercent int
	MemUsedMiB     int
	PowerWatts     int
	TempC          int
	Processes      []Process

	Activity          float64 // UtilPercent as a ratio, before it was rounded
	LinkActivity      float64 // share of the NVLinks' bandwidth in use
	EnergyMillijoules uint64  // since the machine started
	NVLinkBytes       uint64  // sent and received since then

	PowerViolation, ThermalViolation time.Duration // for how long the clock was held down since then, by reason

	MIGEnabled bool   // the GPU is in MIG mode
	Parts      []Part // its instances, as far as they are visible

	Trouble Trouble // what is wrong with it
}

// Part is what a GPU instance shows at one moment.
type Part struct {
	Instance
	UsedMiB  int
	Activity float64 // share of the instance that is busy
}

// Process is one compute process on a device.
type Process struct {
	PID     int
	Name    string
	UsedMiB int
	MIG     *Instance // the instance it runs on; nil: the whole GPU
	Pod     string    // namespace/name of the pod it runs in
}

// Busy says whether a program keeps the GPU out of its idle state.
func (r *Reading) Busy() bool { return r.UtilPercent > 0 || len(r.Processes) > 0 }

// State is the performance state, P0 to P12.
func (r *Reading) State() string {
	if r.Busy() || r.Model.IdleState == "" {
		return "P0"
	}
	return r.Model.IdleState
}

// cappedFrom is the share of its power limit from which on a board lowers its clock, and cappedClock what is left of the
// clock at the limit.
const (
	cappedFrom  = 0.94
	cappedClock = 0.88
)

// slowedPercent is what hardware leaves of the clock of a GPU that is too hot, or whose power supply is: a third or less.
const slowedPercent = 30

// hotC is the temperature from which on hardware slows a GPU down.
const hotC = 90

// PowerCapped says whether the board lowers its clock to stay within its power limit.
func (r *Reading) PowerCapped() bool {
	return r.Busy() && float64(r.PowerWatts) > cappedFrom*float64(r.Model.PowerWatts)
}

// SMClockMHz is the SM clock. Boost keeps a working GPU at its highest clock while power allows it.
func (r *Reading) SMClockMHz() int {
	switch {
	case r.Trouble.Slowed() && r.Busy():
		return r.Model.SMClockMHz * slowedPercent / 100 / 15 * 15
	case r.PowerCapped():
		over := (float64(r.PowerWatts)/float64(r.Model.PowerWatts) - cappedFrom) / (1 - cappedFrom)
		clock := float64(r.Model.SMClockMHz) * (1 - (1-cappedClock)*min(over, 1))
		return int(clock) / 15 * 15 // boards move in steps of 15 MHz
	case r.Busy():
		return r.Model.SMClockMHz
	case r.Model.Family == "hopper":
		return 345
	case r.Model.Family == "blackwell":
		return 120
	case r.Model.Family == "volta":
		return 135
	case r.Model.Family == "turing":
		return 300
	}
	return 210
}

// MemClockMHz is the clock of the memory.
func (r *Reading) MemClockMHz() int {
	if r.State() == "P8" {
		return 405
	}
	return r.Model.MemClockMHz
}

// MemTempC is the temperature of the memory; false: the board does not tell. Boards with HBM do, which are those that idle
// in P0.
func (r *Reading) MemTempC() (int, bool) { return r.TempC + 1, r.Model.IdleState == "P0" }

// ReservedMiB is what the driver keeps for itself, rounded up: the share seen on an H200.
func (r *Reading) ReservedMiB() int { return r.MemoryMiB*428/100000 + 1 }

// FreeMiB is what programs could have.
func (r *Reading) FreeMiB() int { return max(0, r.MemoryMiB-r.MemUsedMiB-r.ReservedMiB()+1) }

// Remaps says whether the board can remap memory rows: Ampere and later, with ECC.
func (m Model) Remaps() bool { return !m.Consumer && m.Family != "volta" && m.Family != "turing" }

// Linked says whether the GPU's NVLinks are up.
func (d Device) Linked() bool { return d.NVLink >= 0 && d.Model.NVLinks > 0 }

// PCIeGeneration is that of the board's bus.
func (m Model) PCIeGeneration() int {
	switch m.Family {
	case "volta", "turing":
		return 3
	case "ampere", "ada-lovelace":
		return 4
	}
	return 5
}

// Pipes is what the profiling counters of DCGM tell of a GPU or an instance: ratios from 0 to 1, and bytes a second.
type Pipes struct {
	Graphics, SM, Occupancy, Tensor, DRAM, FP64, FP32, FP16 float64
	PCIeSent, PCIeReceived                                  float64
}

// Pipes of a GPU that is busy to the given ratio with what most GPUs do, mixed-precision training: the SMs are nearly always
// busy, with a third of the warps that they could hold; half of the cycles go through the tensor cores; a batch now and
// then comes over the bus.
func (m Model) Pipes(activity float64) Pipes {
	bus := 1e9 * float64(int(1)<<m.PCIeGeneration()) * 2 // 16 lanes: 16 GB/s in generation 3, twice that in each later one
	return Pipes{
		Graphics: activity, SM: 0.94 * activity, Occupancy: 0.35 * activity, Tensor: 0.52 * activity, DRAM: 0.5 * activity,
		FP32: 0.07 * activity, FP16: 0.03 * activity,
		PCIeSent: 0.012 * bus * activity, PCIeReceived: 0.03 * bus * activity,
	}
}
