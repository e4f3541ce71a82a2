package kubelet

import (
	"fmt"

	"github.com/berth-dev/berth/fleet/device"
	"github.com/berth-dev/berth/fleet/gpu"
)

// gpuMemory is who has how much of the memory of a machine's GPUs, in bytes: by GPU or MIG device, then by process. A device
// that several containers share has one memory for all: whoever asks for more than is left fails, whatever its own share
// would be, unless MPS limits each to its part. The host's lock guards it.
type gpuMemory map[string]map[*process]int64

// shortage is an allocation that failed.
type shortage struct {
	index             int // of the device, as the process numbers them
	want, total, free int64
}

// String is PyTorch's message, which people search for.
func (s *shortage) String() string {
	return fmt.Sprintf("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate %s. GPU %d has a total capacity of %s of which %s is free.",
		gib(s.want), s.index, gib(s.total), gib(s.free))
}

func gib(n int64) string { return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30)) }

// allocateMemory takes so much on each of the process's devices, on all or on none.
func (h *host) allocateMemory(p *process, bytes int64, s device.Sharing) *shortage {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.memory == nil {
		h.memory = gpuMemory{}
	}
	for i, name := range distinct(p.gpus) {
		d := p.gpus[indexOf(p.gpus, name)]
		total := memoryOf(d)
		free := total
		for _, n := range h.memory[name] {
			free -= n
		}
		if n := replicasOf(d, s); s.Strategy == device.MPS && n > 1 {
			total /= int64(n)
			free = min(free, total)
		}
		if l := p.limits[name]; l.memory > 0 {
			total = min(total, l.memory)
			free = min(free, total-h.memory[name][p])
		}
		if bytes > free {
			return &shortage{i, bytes, total, max(free, 0)}
		}
	}
	for _, name := range distinct(p.gpus) {
		if h.memory[name] == nil {
			h.memory[name] = map[*process]int64{}
		}
		h.memory[name][p] += bytes
	}
	return nil
}

// freeMemory gives back all that the process has.
func (h *host) freeMemory(p *process) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, users := range h.memory {
		if delete(users, p); len(users) == 0 {
			delete(h.memory, name)
		}
	}
}

// memoryOf is the device's memory in bytes.
func memoryOf(d gpu.Device) int64 {
	if d.MIG != nil {
		return int64(d.MIG.Profile.MemoryMiB) << 20
	}
	return int64(d.MemoryMiB) << 20
}

// replicasOf is how often the device is offered.
func replicasOf(d gpu.Device, s device.Sharing) int {
	if d.Replica == 0 {
		return 1
	}
	most := 1
	for name, n := range s.Replicas {
		if (d.MIG != nil) == (name != device.Resource) {
			most = max(most, n)
		}
	}
	return most
}

// distinct names the GPUs and MIG devices among devices, each once, in order.
func distinct(devices []gpu.Device) []string {
	var names []string
	for i, d := range devices {
		if indexOf(devices, d.Visible()) == i {
			names = append(names, d.Visible())
		}
	}
	return names
}

func indexOf(devices []gpu.Device, name string) int {
	for i, d := range devices {
		if d.Visible() == name {
			return i
		}
	}
	return -1
}
