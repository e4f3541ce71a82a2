package kubelet

import (
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/fleet/gpu"
)

// host is one node name and what its pods share: the books of admission, the images pulled, the
// workers of its pods. It outlives the Machine, which may appear later or be replaced.
type host struct {
	name  string
	find  func(node string) *Machine
	since time.Time // when its GPUs were switched on, as far as their meters know

	mu       sync.Mutex
	machine  *Machine // the one the books are for; nil: none seen yet
	admitted map[types.UID]*demand
	total    tally
	images   map[string]*pull // by image name as pods spell it
	leases   addresses
	memory   gpuMemory
	workers  map[types.UID]*worker
	meters   map[string]*gpu.Meter // by GPU and MIG device, those that somebody asked for
	cpuLeft  float64               // core-seconds of containers that are over
	cpuShown float64               // core-seconds of the machine, the most that was told
}

func newHost(name string, find func(string) *Machine) *host {
	return &host{
		name:     name,
		find:     find,
		since:    time.Now(),
		admitted: make(map[types.UID]*demand),
		images:   make(map[string]*pull),
		workers:  make(map[types.UID]*worker),
	}
}

// powered gives the machine if it can run pods now: it exists, is registered and is up. A machine
// seen for the first time first gets back what its pods already hold, before anyone is admitted.
func (h *host) powered() *Machine {
	m := h.find(h.name)
	if m == nil || m.Node() == nil || (m.Down != nil && m.Down()) {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.machine != m {
		h.machine = m
		m.Devices.Recall(m.Node().Annotations[v1alpha1.KeyMIG])
		h.restore()
	}
	return m
}

// restore books every pod that was admitted in an earlier life of this process.
func (h *host) restore() {
	for _, w := range h.workers {
		if pod := w.current(); wasAdmitted(pod) && !terminal(pod) {
			h.readmit(w, pod)
		}
	}
}

// readmit books the pod and returns its devices to it, as the kubelet does from its checkpoint. A
// device that cannot be given back (the machine changed) is simply not held.
func (h *host) readmit(w *worker, pod *corev1.Pod) {
	h.book(w.uid, demandOf(pod))
	for container, ids := range recordedGPUs(pod) {
		for resource, some := range byResource(specOf(pod, container), ids) {
			if err := h.machine.Devices.Restore(w.uid, container, resource, some); err != nil {
				w.k.log.Warn("restore devices", "pod", pod.Name, "container", container, "err", err)
			}
		}
	}
}

// admit decides as the kubelet does whether the pod may run on m, and if so books what it takes.
// Devices come first, then resources, then the rules of placement. A pod that is already in the
// books, or was admitted in an earlier life, passes.
func (h *host) admit(m *Machine, w *worker) error {
	pod := w.current()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.admitted[pod.UID] != nil {
		return nil
	}
	if wasAdmitted(pod) {
		if !terminal(pod) {
			h.readmit(w, pod)
		}
		return nil
	}
	if err := h.check(m, pod); err != nil {
		m.Devices.Release(pod.UID)
		return err
	}
	h.book(pod.UID, demandOf(pod))
	return nil
}

func (h *host) check(m *Machine, pod *corev1.Pod) error {
	node := m.Node()
	if node == nil {
		return errors.New("the node is not registered")
	}
	given, rejected := allocateGPUs(m, pod)
	if rejected == nil {
		rejected = faultRejection(m.faults(), pod)
	}
	if rejected == nil {
		rejected = wrongSystem(pod)
	}
	if rejected == nil {
		d, allocatable := demandOf(pod), m.Allocatable()
		for name, any := range given {
			if any {
				allocatable = raiseGPUs(allocatable, name, h.total.extended[name]+d.extended[name])
			}
		}
		rejected = h.total.fits(&d, allocatable)
	}
	if rejected == nil {
		rejected = welcomes(pod, node, h.portTaken)
	}
	if rejected != nil {
		return rejected
	}
	return nil
}

// book and release are called with h.mu held.
func (h *host) book(uid types.UID, d demand) {
	if h.admitted[uid] == nil {
		h.admitted[uid] = &d
		h.total.add(&d, 1)
	}
}

// release gives back all that the pod held. It may be called more than once.
func (h *host) release(uid types.UID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d := h.admitted[uid]; d != nil {
		delete(h.admitted, uid)
		h.total.add(d, -1)
	}
	if h.machine != nil {
		h.machine.Devices.Release(uid)
	}
	h.leases.free(uid)
}

func (h *host) portTaken(p hostPort) bool {
	for _, d := range h.admitted {
		for _, q := range d.ports {
			if p.conflicts(q) {
				return true
			}
		}
	}
	return false
}

// attach adds the worker to the host's pods, detach takes it off.
func (h *host) attach(w *worker) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.workers[w.uid] = w
}

func (h *host) detach(w *worker) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.workers, w.uid)
}

// each calls f for every worker, outside the lock.
func (h *host) each(f func(*worker)) {
	h.mu.Lock()
	all := make([]*worker, 0, len(h.workers))
	for _, w := range h.workers {
		all = append(all, w)
	}
	h.mu.Unlock()
	for _, w := range all {
		f(w)
	}
}

// wasAdmitted says whether some kubelet (this one, before a restart) took the pod in: only then
// does it have a start time. Rejected pods have one too but are terminal.
func wasAdmitted(pod *corev1.Pod) bool { return pod.Status.StartTime != nil }

func terminal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
