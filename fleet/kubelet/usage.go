package kubelet

import (
	"cmp"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berth-dev/berth/fleet/usage"
	"github.com/berth-dev/berth/fleet/workload"
)

// What containers use that nobody told: a process that waits, and a program that works.
const (
	idleCores   = 0.002
	idleMemory  = 24 << 20
	workMemory  = 512 << 20
	feedCores   = 4.0     // that keep one GPU fed
	feedMemory  = 6 << 30 // of one GPU's data loaders
	systemCores = 0.004   // share of the machine for the system and the kubelet
	systemBytes = 0.012
)

// effort is the processor time of a container's programs that are over.
type effort struct {
	mu     sync.Mutex
	ending time.Duration // of one that is about to leave, which the registry still tells of
	over   time.Duration
	shown  float64 // the highest figure that was told: a counter never falls
}

// UsageNodes implements usage.Source.
func (k *Kubelet) UsageNodes() []string {
	k.mu.Lock()
	var names []string
	for name := range k.hosts {
		names = append(names, name)
	}
	k.mu.Unlock()
	slices.Sort(names)
	return names
}

// NodeUsage implements usage.Source.
func (k *Kubelet) NodeUsage(name string) (usage.Node, bool) {
	k.mu.Lock()
	h := k.hosts[name]
	k.mu.Unlock()
	if h == nil {
		return usage.Node{}, false
	}
	m := h.powered()
	if m == nil {
		return usage.Node{}, false
	}
	node := m.Node()
	if node == nil {
		return usage.Node{}, false
	}
	now := time.Now()
	out := usage.Node{Name: name, Labels: node.Labels}
	h.each(func(w *worker) {
		if p, ok := w.usage(now); ok {
			out.Pods = append(out.Pods, p)
		}
	})
	slices.SortFunc(out.Pods, func(a, b usage.Pod) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	cpus := float64(m.cpus())
	out.Cores = systemCores * cpus * (1 + 0.2*ripple(name, now))
	out.CPUSeconds = systemCores * cpus * k.clock.Simulated(now.Sub(h.since)).Seconds()
	out.Memory = int64(systemBytes*float64(node.Status.Capacity.Memory().Value())) + idleMemory
	for i := range out.Pods {
		sum := out.Pods[i].Sum()
		out.Cores += sum.Cores
		out.CPUSeconds += sum.CPUSeconds
		out.Memory += sum.Memory
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cpuShown = max(h.cpuShown, out.CPUSeconds+h.cpuLeft)
	out.CPUSeconds = h.cpuShown
	return out, true
}

// leave keeps the processor time of a container that is over for its machine.
func (p *process) leave() {
	seconds := p.usage(time.Now()).CPUSeconds
	h := p.c.w.host
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cpuLeft += seconds
}

// usage is what the containers of the pod that run use; false: none runs.
func (w *worker) usage(now time.Time) (usage.Pod, bool) {
	w.mu.Lock()
	pod := w.pod
	var running []*process
	for _, c := range w.containers {
		if c.running != nil {
			running = append(running, c.running)
		}
	}
	w.mu.Unlock()
	out := usage.Pod{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID), Labels: pod.Labels}
	for _, p := range running {
		out.Containers = append(out.Containers, p.usage(now))
	}
	return out, len(running) > 0
}

func (p *process) usage(now time.Time) usage.Container {
	k, pod := p.c.w.k, p.c.w.current()
	var loads []workload.Load
	if p.steered() {
		loads = k.workloads.Loads(pod.Namespace + "/" + pod.Name)
	}
	working, worked := spent(loads, now)
	rate := p.workCores()
	c := usage.Container{
		Name: p.spec.Name, Image: p.image.String(), Started: p.startedAt.Time,
		MemoryLimit: p.spec.Resources.Limits.Memory().Value(), CPULimit: p.spec.Resources.Limits.Cpu().AsApproximateFloat64(),
	}
	wave := ripple(string(pod.UID)+p.spec.Name, now)
	c.Cores, c.Memory = idleCores*(1+0.3*wave), idleMemory
	if working {
		c.Cores = rate * (1 + 0.04*wave)
		c.Memory = p.workMemory()
	}
	if c.CPULimit > 0 {
		c.Cores = min(c.Cores, c.CPULimit)
	}
	p.effort.mu.Lock()
	defer p.effort.mu.Unlock()
	seconds := k.clock.Simulated(worked + p.effort.over).Seconds()
	p.effort.shown = max(p.effort.shown, idleCores*k.clock.Simulated(now.Sub(c.Started)).Seconds()+rate*seconds)
	c.CPUSeconds = p.effort.shown
	return c
}

// spent says whether a program works now, and how long they all did.
func spent(loads []workload.Load, now time.Time) (working bool, worked time.Duration) {
	for _, l := range loads {
		end := now
		if l.To.IsZero() {
			working = true
		} else {
			end = l.To
		}
		worked += max(0, end.Sub(l.From))
	}
	return working, worked
}

// workCores is what its program takes of processors while it works: most of what the container asks for, or enough to keep its
// GPUs fed, and no more than its limit.
func (p *process) workCores() float64 {
	cores := 0.85 * p.spec.Resources.Requests.Cpu().AsApproximateFloat64()
	if cores == 0 {
		cores = max(0.5, feedCores*float64(len(p.gpus)))
	}
	if limit := p.spec.Resources.Limits.Cpu().AsApproximateFloat64(); limit > 0 {
		cores = min(cores, limit)
	}
	return cores
}

// workMemory is what sim.berth.dev/memory says, or most of what the container asks for.
func (p *process) workMemory() int64 {
	if told := p.memory.Load(); told > 0 {
		return told
	}
	bytes := p.spec.Resources.Requests.Memory().Value() / 10 * 7
	if bytes == 0 {
		bytes = max(workMemory, int64(len(p.gpus))*feedMemory)
	}
	if limit := p.spec.Resources.Limits.Memory().Value(); limit > 0 {
		bytes = min(bytes, limit/10*9)
	}
	return max(bytes, idleMemory)
}

// ripple is from -1 to 1, follows from the name and the second, and stands for all that makes figures of use uneven.
func ripple(name string, now time.Time) float64 {
	h := fnv.New32a()
	h.Write([]byte(name))
	x := (h.Sum32() ^ uint32(now.Unix())*2654435761) * 2246822519
	return float64(x>>8)/(1<<23) - 1
}

// noteEffort remembers how long the programs of the worker's containers worked, of which one is about to be forgotten.
func (w *worker) noteEffort(loads []workload.Load) {
	_, worked := spent(loads, time.Now())
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.containers {
		if c.running != nil && c.kind == mainContainer {
			c.running.effort.mu.Lock()
			c.running.effort.ending = worked
			c.running.effort.mu.Unlock()
		}
	}
}

// programOver adds the work of a program that has left.
func (p *process) programOver() {
	p.effort.mu.Lock()
	defer p.effort.mu.Unlock()
	p.effort.over += p.effort.ending
	p.effort.ending = 0
}

var _ usage.Source = (*Kubelet)(nil)
