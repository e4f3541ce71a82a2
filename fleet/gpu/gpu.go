// Package gpu holds what the fleet knows about GPUs as plain values: the models NVIDIA
// sells, the devices in one simulated machine, and what a device reads at a moment.
//
// It talks to nobody. fleet/device decides who holds a device, fleet/smi prints it,
// fleet/workload loads it.
package gpu

// Device is one GPU in one machine. Values are fixed for the life of the machine.
type Device struct {
	Index     int    // as nvidia-smi on the host numbers it
	UUID      string // GPU-xxxxxxxx-..., the id the device plugin gives the kubelet
	BusID     string // 00000000:0A:00.0
	Serial    string
	Model     Model
	MemoryMiB int // framebuffer, which may differ from the model's
	NUMA      int // NUMA node the device hangs on
	NVLink    int // devices with the same number >= 0 on a machine share full NVLink; -1: none
}

// Driver is the software a machine's GPUs run under.
type Driver struct {
	Version string // "580.95.05"; empty: no driver is loaded
	CUDA    string // the newest CUDA the driver supports, "13.0"
}

// Reading is what a device shows at one moment.
type Reading struct {
	Device
	UtilPercent    int // SM busy
	MemUtilPercent int
	MemUsedMiB     int
	PowerWatts     int
	TempC          int
	Processes      []Process
}

// Process is one compute process on a device.
type Process struct {
	PID     int
	Name    string
	UsedMiB int
}
