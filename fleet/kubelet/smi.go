package kubelet

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/fleet/gpu"
	"github.com/berth-dev/berth/fleet/shell"
	"github.com/berth-dev/berth/fleet/smi"
)

// nvidiaSMI shows the container's GPUs, or the whole machine's to the GPU stack.
func (p *process) nvidiaSMI(ctx context.Context, sp *shell.Process) int {
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
	parts := p.m.Devices.Partitions()
	holdings := p.c.w.host.holdings()
	pod := p.c.w.current()
	me := pod.Namespace + "/" + pod.Name
	var all []gpu.Reading
	for i, d := range p.m.Devices.Devices() {
		r := idle(d, parts[i])
		if p.role == "" && !r.restrict(p.gpus) {
			continue
		}
		for _, h := range holdings {
			h.hidden = p.role == "" && h.name != me
			r.load(h, p.c.w.k.use(h.name))
		}
		all = append(all, r.Reading)
	}
	return all
}

// reading is a GPU as it is shown, in the making.
type reading struct {
	gpu.Reading
	whole bool // all of the GPU is visible, and not only some of its instances
}

// idle is the GPU with nobody on it.
func idle(d gpu.Device, p gpu.Partition) reading {
	r := reading{Reading: gpu.Reading{Device: d, PowerWatts: d.Model.IdleWatts, TempC: 32, MIGEnabled: p.Enabled}, whole: true}
	for _, in := range p.Instances {
		r.Parts = append(r.Parts, gpu.Part{Instance: in})
	}
	return r
}

// restrict leaves what a container sees that has these devices; false: nothing of this GPU.
func (r *reading) restrict(has []gpu.Device) bool {
	seen := false
	r.whole = false
	mine := func(in gpu.Instance) bool {
		return slices.ContainsFunc(has, func(d gpu.Device) bool { return d.UUID == r.UUID && d.MIG != nil && d.MIG.Start == in.Start })
	}
	for _, d := range has {
		seen = seen || d.UUID == r.UUID
		r.whole = r.whole || d.UUID == r.UUID && d.MIG == nil
	}
	r.Parts = slices.DeleteFunc(r.Parts, func(p gpu.Part) bool { return !r.whole && !mine(p.Instance) })
	return seen
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

// load adds what a holder of the GPU, or of a part of it that is visible, does to it. Power and temperature follow the
// load between idle and full.
func (r *reading) load(h holding, l load) {
	seen := map[int]bool{}
	for _, d := range h.devices {
		if d.UUID != r.UUID {
			continue
		}
		at, limit := -1, r.MemoryMiB
		if d.MIG != nil {
			at = slices.IndexFunc(r.Parts, func(p gpu.Part) bool { return p.Start == d.MIG.Start })
			limit = d.MIG.Profile.MemoryMiB
		}
		if seen[at] || d.MIG != nil && at < 0 {
			continue // one more share of the same, or an instance that is not visible
		}
		seen[at] = true
		r.add(h, l, at, limit)
	}
}

func (r *reading) add(h holding, l load, at, limit int) {
	used := min(int(l.bytes>>20), limit)
	if used == 0 && l.util > 0 {
		used = contextMiB
	}
	r.MemUsedMiB = min(r.MemUsedMiB+used, r.MemoryMiB)
	r.UtilPercent = min(r.UtilPercent+l.util, 100)
	r.MemUtilPercent = r.UtilPercent / 2
	r.PowerWatts = r.Model.IdleWatts + (r.Model.PowerWatts-r.Model.IdleWatts)*r.UtilPercent/100
	r.TempC = 32 + 38*r.UtilPercent/100
	var on *gpu.Instance
	if at >= 0 {
		r.Parts[at].UsedMiB = min(r.Parts[at].UsedMiB+used, limit)
		on = &r.Parts[at].Instance
	}
	if (l.util > 0 || used > 0) && len(h.argv) > 0 && !h.hidden {
		r.Processes = append(r.Processes, gpu.Process{PID: len(r.Processes) + 1, Name: h.argv[0], UsedMiB: used, MIG: on})
	}
}

// holding is a running container that has devices.
type holding struct {
	name    string // namespace/name of the pod
	argv    []string
	devices []gpu.Device
	hidden  bool // its processes are in another container, which whoever looks cannot see
}

// holdings lists the containers on the machine that have devices, in order of name.
func (h *host) holdings() []holding {
	var out []holding
	h.each(func(w *worker) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, c := range w.containers {
			if c.running != nil && len(c.running.gpus) > 0 {
				out = append(out, holding{name: w.pod.Namespace + "/" + w.pod.Name, argv: c.running.argv, devices: c.running.gpus})
			}
		}
	})
	slices.SortFunc(out, func(a, b holding) int { return strings.Compare(a.name, b.name) })
	return out
}
