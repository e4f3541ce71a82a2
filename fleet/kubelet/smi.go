package kubelet

import (
	"context"
	"time"

	"github.com/berth-dev/berth/fleet/gpu"
	"github.com/berth-dev/berth/fleet/shell"
	"github.com/berth-dev/berth/fleet/smi"
)

// nvidiaSMI shows the container's GPUs, or the whole machine's to the GPU stack.
func (p *process) nvidiaSMI(ctx context.Context, sp *shell.Process) int {
	return smi.Main(sp.Args[1:], smi.Host{
		GPUs: p.readings(), Driver: p.m.Devices.Driver(), Now: time.Now(), All: p.role != "",
		NUMACPUs: p.m.cpus() / 2, // as the GPUs are split
		Sleep:    func(d time.Duration) error { return p.c.w.k.clock.Sleep(ctx, d) },
		Read:     func() ([]gpu.Reading, time.Time) { return p.readings(), time.Now() },
	}, sp.Stdout, sp.Stderr)
}

// readings are what the GPUs that p can see show now.
func (p *process) readings() []gpu.Reading {
	if p.role == "" {
		pod := p.c.w.current()
		return readingsOf(p.gpus, p.c.w.k.use(pod.Namespace+"/"+pod.Name), p.argv)
	}
	var all []gpu.Reading
	for _, d := range p.m.Devices.Devices() {
		one := []gpu.Device{d}
		if holder := p.c.w.host.holder(d.UUID); holder != nil {
			all = append(all, readingsOf(one, p.c.w.k.use(holder.name), holder.argv)...)
		} else {
			all = append(all, readingsOf(one, load{}, nil)...)
		}
	}
	return all
}

// load is what a pod's program does to each of its GPUs.
type load struct {
	util  int   // percent
	bytes int64 // held on the device
}

func (k *Kubelet) use(pod string) load {
	util, bytes := k.workloads.Use(pod)
	return load{util, bytes}
}

// contextMiB is what a CUDA context takes of a device before the program has allocated anything.
const contextMiB = 518

// readingsOf turns a load into readings: power and temperature follow the load between idle and full.
func readingsOf(devices []gpu.Device, l load, argv []string) []gpu.Reading {
	var all []gpu.Reading
	for _, d := range devices {
		used := min(int(l.bytes>>20), d.MemoryMiB)
		if used == 0 && l.util > 0 {
			used = contextMiB
		}
		r := gpu.Reading{
			Device: d, UtilPercent: l.util, MemUtilPercent: l.util / 2, MemUsedMiB: used,
			PowerWatts: d.Model.IdleWatts + (d.Model.PowerWatts-d.Model.IdleWatts)*l.util/100,
			TempC:      32 + 38*l.util/100,
		}
		if (l.util > 0 || used > 0) && len(argv) > 0 {
			r.Processes = []gpu.Process{{PID: 1, Name: argv[0], UsedMiB: used}}
		}
		all = append(all, r)
	}
	return all
}

// holding is who has a device.
type holding struct {
	name string // namespace/name of the pod
	argv []string
}

// holder finds who has a device of the machine; nil: nobody that runs.
func (h *host) holder(uuid string) *holding {
	var found *holding
	h.each(func(w *worker) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, c := range w.containers {
			if c.running == nil {
				continue
			}
			for _, d := range c.running.gpus {
				if d.UUID == uuid {
					found = &holding{w.pod.Namespace + "/" + w.pod.Name, c.running.argv}
				}
			}
		}
	})
	return found
}
