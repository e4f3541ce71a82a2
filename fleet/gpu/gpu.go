// Package gpu holds what the fleet knows about GPUs as plain values: the models NVIDIA
// sells, the devices in one simulated machine, and what a device reads at a moment.
//
// It talks to nobody. fleet/device decides who holds a device, fleet/workload loads it, and
// fleet/smi and fleet/dcgm show what a [Meter] makes of that.
package gpu

import "fmt"

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

	// MIG is the part of the GPU that the device is; nil: it is the whole GPU. MemoryMiB and all else stay the GPU's.
	MIG *Instance
	// Replica tells the holders of a GPU that is offered several times apart, from 1; 0: it is offered once.
	Replica int
}

// Visible is the device as NVIDIA_VISIBLE_DEVICES names it: a GPU's UUID or that of a MIG device.
func (d Device) Visible() string {
	if d.MIG != nil {
		return d.InstanceUUID(*d.MIG)
	}
	return d.UUID
}

// ID is the device as the device plugin tells the kubelet of it. Each replica of a shared one has its own.
func (d Device) ID() string {
	if d.Replica > 0 {
		return fmt.Sprintf("%s::%d", d.Visible(), d.Replica-1)
	}
	return d.Visible()
}

// Partition is what MIG has made of a GPU.
type Partition struct {
	Enabled   bool       // MIG mode is on: the GPU as a whole cannot be used
	Instances []Instance // in order of Start
}

// Driver is the software a machine's GPUs run under.
type Driver struct {
	Version string // "580.95.05"; empty: no driver is loaded
	CUDA    string // the newest CUDA the driver supports, "13.0"
}
