package kubelet

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/fleet/gpu"
	"github.com/berth-dev/berth/fleet/shell"
	"github.com/berth-dev/berth/fleet/smi"
)

// exitLost is nvidia-smi's code for a GPU that has fallen off the bus.
const exitLost = 15

// nvidiaSMI shows the container's GPUs, or the whole machine's to the GPU stack.
func (p *process) nvidiaSMI(ctx context.Context, sp *shell.Process) int {
	for _, r := range p.readings() {
		if r.Trouble.Lost && p.m.Devices.DriverReady() {
			fmt.Fprintf(sp.Stdout, "Unable to determine the device handle for GPU%s: GPU is lost.  Reboot the system to recover this GPU\n", strings.TrimPrefix(r.BusID, "0000"))
			return exitLost
		}
	}
	host := smi.Host{
		GPUs: p.readings(), Driver: p.m.Devices.Driver(), Now: time.Now(), All: p.role != "",
		NUMACPUs: p.m.cpus() / 2, // as the GPUs are split
		Sleep:    func(d time.Duration) error { return p.c.w.k.clock.Sleep(ctx, d) },
		Read:     func() ([]gpu.Reading, time.Time) { return p.readings(), time.Now() },
	}
	if p.role != "" {
		host.Cut = p.cut
	}
	return smi.Main(sp.Args[1:], host, sp.Stdout, sp.Stderr)
}

// cut changes what MIG makes of one GPU of the machine, and has its node looked at.
func (p *process) cut(uuid string, next gpu.Partition) error {
	err := p.m.Devices.Cut(uuid, next)
	if err == nil && p.c.w.k.stackChanged != nil {
		p.c.w.k.stackChanged(p.m.Name)
	}
	return err
}

// readings are what the GPUs that p can see show now: to a container those of which it has anything, and of them no more
// than it has; to the GPU stack all of the machine.
func (p *process) readings() []gpu.Reading {
	w := p.c.w
	all := w.k.read(w.host, p.m)
	if p.role != "" {
		return all
	}
	pod := w.current()
	return p.limits.shown(visibleTo(all, p.gpus, pod.Namespace+"/"+pod.Name))
}

// holding is a running container that has devices.
type holding struct {
	name    string // namespace/name of the pod
	argv    []string
	devices []gpu.Device
	limits  limits
}

// holdings lists the containers on the machine that have devices, in order of name.
func (h *host) holdings() []holding {
	var out []holding
	h.each(func(w *worker) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, c := range w.containers {
			if c.running != nil && len(c.running.gpus) > 0 {
				out = append(out, holding{name: w.pod.Namespace + "/" + w.pod.Name, argv: c.running.argv, devices: c.running.gpus, limits: c.running.limits})
			}
		}
	})
	slices.SortFunc(out, func(a, b holding) int { return strings.Compare(a.name, b.name) })
	return out
}
