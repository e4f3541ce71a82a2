package kubelet

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/fleet/device"
	"github.com/berth-dev/berth/fleet/fault"
	"github.com/berth-dev/berth/fleet/gpu"
	"github.com/berth-dev/berth/fleet/shell"
)

// faults is what faults do to the machine now.
func (m *Machine) faults() *fault.Effects {
	if m.Faults == nil {
		return &fault.Effects{}
	}
	return m.Faults()
}

// Faulted tells of a change in what faults do to the node: programs on GPUs that fail now end, pods of the GPU stack crash or
// are started again, and the device plugin logs what it sees. now may be nil.
func (k *Kubelet) Faulted(node string, before, now *fault.Effects) {
	k.mu.Lock()
	h := k.hosts[node]
	k.mu.Unlock()
	m := k.machine(node)
	if h == nil || m == nil {
		return
	}
	if now == nil {
		now = &fault.Effects{}
	}
	k.nodeEvents(m, before, now)
	if now.DiskPressure && !before.DiskPressure && k.ctx != nil {
		k.workers.Go(func() { h.relieve(k.ctx) })
	}
	restart := mended(before, now)
	h.each(func(w *worker) {
		for _, p := range w.processes() {
			p.faulted(before, now, restart)
		}
		w.poke()
	})
}

// nodeEvents are those that a kubelet records on its node.
func (k *Kubelet) nodeEvents(m *Machine, before, now *fault.Effects) {
	node := m.Node()
	if node == nil {
		return
	}
	if now.KubeletRestarting && !now.KubeletSince.Equal(before.KubeletSince) {
		k.events.onNode(node, corev1.EventTypeNormal, "Starting", "Starting kubelet.")
	}
	if now.DiskPressure && !before.DiskPressure {
		k.events.onNode(node, corev1.EventTypeNormal, "NodeHasDiskPressure", "Node %s status is now: NodeHasDiskPressure", node.Name)
		k.events.onNode(node, corev1.EventTypeWarning, "EvictionThresholdMet", "Attempting to reclaim ephemeral-storage")
	}
	if !now.DiskPressure && before.DiskPressure {
		k.events.onNode(node, corev1.EventTypeNormal, "NodeHasNoDiskPressure", "Node %s status is now: NodeHasNoDiskPressure", node.Name)
	}
	if now.NotReady != "" && before.NotReady == "" {
		k.events.onNode(node, corev1.EventTypeNormal, "NodeNotReady", "Node %s status is now: NodeNotReady", node.Name)
	}
}

// mended says whether a GPU that the device plugin had marked is well again. The plugin takes no device back: whoever mends a
// GPU restarts it.
func mended(before, now *fault.Effects) bool {
	for i, t := range before.GPUs {
		if t.Xid != 0 && !gpu.ApplicationXid(t.Xid) && now.GPUs[i].Xid == 0 {
			return true
		}
	}
	return false
}

// processes are the pod's running ones.
func (w *worker) processes() []*process {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []*process
	for _, c := range w.containers {
		if c.running != nil {
			out = append(out, c.running)
		}
	}
	return out
}

// faulted ends the process if the change is its end.
func (p *process) faulted(before, now *fault.Effects, restart bool) {
	if p.role != "" {
		if _, crashes := now.Crashes[p.role]; crashes && before.Crashes[p.role] != now.Crashes[p.role] {
			p.breaks(now.Crashes[p.role].Log)
			return
		}
		if p.role == device.Plugin {
			p.marks(before, now)
			if restart {
				p.send(shell.Terminate)
			}
		}
		return
	}
	if why := p.cudaError(before, now); why != "" {
		p.breaks(why)
	}
}

// breaks ends the process with 1 after it has written why.
func (p *process) breaks(why string) {
	if p.broken.CompareAndSwap(nil, &why) {
		p.send(shell.Kill)
	}
}

// marks is what the device plugin logs of errors that it has not seen before.
func (p *process) marks(before, now *fault.Effects) {
	out := p.log.writer(stdout)
	for i, d := range p.m.Devices.Devices() {
		xid := now.GPUs[i].Xid
		if xid == 0 || xid == before.GPUs[i].Xid {
			continue
		}
		if gpu.ApplicationXid(xid) {
			klogf(out, "health.go:150", "Skipping event {Device:%s EventType:8 EventData:%d}", d.UUID, xid)
			continue
		}
		klogf(out, "health.go:169", "XidCriticalError: Xid=%d on Device=%s; marking device as unhealthy.", xid, d.UUID)
		klogf(out, "server.go:278", "'%s' device marked unhealthy: %s", device.Resource, d.UUID)
	}
}

// klogf writes a line as programs of Kubernetes do.
func klogf(out interface{ Write([]byte) (int, error) }, place, format string, args ...any) {
	fmt.Fprintf(out, "I%s       1 %s] %s\n", time.Now().UTC().Format("0102 15:04:05.000000"), place, fmt.Sprintf(format, args...))
}

// cudaError is how a program on GPUs that just failed ends; "": they have not.
func (p *process) cudaError(before, now *fault.Effects) string {
	if len(p.gpus) == 0 || p.isShell() {
		return ""
	}
	for i, d := range p.m.Devices.Devices() {
		t := now.GPUs[i]
		if t.Xid == 0 || t.Xid == before.GPUs[i].Xid {
			continue
		}
		for _, own := range p.gpus {
			if own.UUID == d.UUID {
				return cudaErrorOf(t)
			}
		}
	}
	return ""
}

// cudaErrorOf is what CUDA tells a program about its GPU.
func cudaErrorOf(t gpu.Trouble) string {
	why := "unspecified launch failure"
	switch t.Xid {
	case 13, 31:
		why = "an illegal memory access was encountered"
	case 48, 63, 64, 94, 95:
		why = "uncorrectable ECC error encountered"
	case 74:
		why = "uncorrectable NVLink error detected during the execution"
	}
	return "RuntimeError: CUDA error: " + why + "\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect."
}

// unusable is why no CUDA program can start on the process's GPUs; "": one can.
func (p *process) unusable() string {
	if len(p.gpus) == 0 {
		return ""
	}
	if p.m.faults().FabricDown && p.m.Devices.Joined() {
		return "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() that might have already set an error? Error 802: system not yet initialized"
	}
	if t, _ := p.m.Devices.Troubled(p.gpus); t.Dead {
		return cudaErrorOf(t)
	}
	return ""
}

// dmesg prints the kernel's log, which the pods of the GPU stack may read: they are privileged.
func (p *process) dmesg(_ context.Context, sp *shell.Process) int {
	var out strings.Builder
	for _, line := range p.m.faults().Kernel {
		fmt.Fprintf(&out, "[%s] %s\n", line.At.UTC().Format(time.ANSIC), line.Text)
	}
	fmt.Fprint(sp.Stdout, out.String())
	return 0
}

// faultRejection is why the kubelet refuses a pod that would fit: GPUs and cores on different NUMA nodes, or a full disk, which
// only pods that tolerate it may add to.
func faultRejection(e *fault.Effects, pod *corev1.Pod) *rejection {
	if e.NUMARefusal && wantsGPUs(pod) {
		return &rejection{"TopologyAffinityError", "Resources cannot be allocated with Topology locality"}
	}
	if e.DiskPressure && !tolerates(pod, corev1.TaintNodeDiskPressure) {
		return &rejection{evictedReason, "The node had condition: [DiskPressure]. "}
	}
	return nil
}

func tolerates(pod *corev1.Pod, key string) bool {
	for i := range pod.Spec.Tolerations {
		if t := &pod.Spec.Tolerations[i]; t.Key == key || t.Key == "" && t.Operator == corev1.TolerationOpExists {
			return true
		}
	}
	return false
}
