// Package kubelet runs the pods of every simulated node in one process: it admits them on
// devices, plays their lives, writes their status, and answers for their logs and commands.
//
// It is the kubelet's pod side only. Nodes, leases and node status belong to package fleet;
// which devices a node has and advertises belongs to fleet/device; what a container's program
// does belongs to fleet/shell and fleet/workload. Nothing here ever starts a process or opens a
// file of the host. Package fleet constructs one Kubelet and serves it through fleet/stream.
package kubelet

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-dev/berth/fleet/clock"
	"github.com/berth-dev/berth/fleet/device"
	"github.com/berth-dev/berth/fleet/fault"
	"github.com/berth-dev/berth/fleet/shell"
	"github.com/berth-dev/berth/fleet/shell/budget"
	"github.com/berth-dev/berth/fleet/workload"
)

// Machine is one simulated node as its pods see it. Fields are fixed after the Machine was
// first handed out; the functions may be called at any time, from any goroutine, and must be quick.
type Machine struct {
	Name string // the node's name
	IP   string // the node's internal address, the pods' status.hostIP

	Devices     *device.Manager
	Allocatable func() corev1.ResourceList // what the node advertises now
	Node        func() *corev1.Node        // the node object as last seen; nil before it is registered
	Down        func() bool                // no power or no kubelet: its pods stand still and write nothing

	// Faults is what faults do to the node now, never nil. Nil: there are none.
	Faults func() *fault.Effects

	// PullTime is how long the first pull of an image takes here, in simulated time.
	PullTime time.Duration
	// StartTime is how long a GPU-stack container of the given role needs from its start until it
	// is ready (a driver compiles and loads), in simulated time. Nil: no time.
	StartTime func(role device.Role) time.Duration
}

// cpus is the number of logical CPUs that the node has; 0: it does not say.
func (m *Machine) cpus() int {
	node := m.Node()
	if node == nil {
		return 0
	}
	return int(node.Status.Capacity.Cpu().Value())
}

// Options configure a Kubelet. Client, Machine and Workloads are required.
type Options struct {
	Client kubernetes.Interface
	// Machine gives the machine of a node name; nil: the node is not one of ours (yet).
	Machine func(node string) *Machine
	// Workloads runs the simulated programs.
	Workloads *workload.Registry
	Clock     clock.Clock
	Log       *slog.Logger // nil: silent
	// StackChanged is called when a GPU-stack pod of the node came, went or changed its readiness. It must neither wait nor
	// ask the Kubelet anything. Nil: nobody wants to know.
	StackChanged func(node string)
	// ImagesChanged is called when an image was pulled to the node. What holds of StackChanged holds of it.
	ImagesChanged func(node string)
	// Domains are the compute domains. Nil: there are none, and no machine is in an NVLink domain.
	Domains Domains
}

// Kubelet runs pods. Make one with New and start it with Run; it implements stream.Backend.
type Kubelet struct {
	client        kubernetes.Interface
	machine       func(node string) *Machine
	workloads     *workload.Registry
	clock         clock.Clock
	log           *slog.Logger
	stackChanged  func(node string)
	imagesChanged func(node string)
	domains       Domains

	sources *sources
	names   *names
	network network
	budget  *shell.Budget // of all containers
	logs    *budget.Store // of all containers
	events  *recorder
	writes  chan struct{}   // one token per status write in flight
	pages   chan struct{}   // one token per page of metrics that somebody reads
	ctx     context.Context // Run's; set before any worker starts
	workers sync.WaitGroup

	mu     sync.Mutex
	pods   map[types.UID]*worker            // every pod that this process has lived, until it is deleted
	byName map[types.NamespacedName]*worker // the newest of each name
	hosts  map[string]*host
}

// New makes a Kubelet that does nothing until Run.
func New(o Options) *Kubelet {
	k := &Kubelet{
		client: o.Client, machine: o.Machine, workloads: o.Workloads, clock: o.Clock, log: o.Log, stackChanged: o.StackChanged, imagesChanged: o.ImagesChanged, domains: o.Domains,
		budget: shell.NewBudget(),
		logs:   budget.NewStore(allLogs, freeLog),
		events: newRecorder(),
		writes: make(chan struct{}, writesInFlight),
		pages:  make(chan struct{}, allPages),
		pods:   make(map[types.UID]*worker),
		byName: make(map[types.NamespacedName]*worker),
		hosts:  make(map[string]*host),
	}
	if k.workloads != nil {
		k.workloads.Ending(k.settle)
	}
	k.sources, k.names = newSources(o.Client, k.budget), newNames(o.Client)
	if k.log == nil {
		k.log = slog.New(slog.DiscardHandler)
	}
	return k
}

// Run watches pods and plays their lives until ctx ends, then waits for the workers to stop.
// Containers die with it, as on a reboot; it writes nothing on the way out.
func (k *Kubelet) Run(ctx context.Context) error {
	k.ctx = ctx
	stopEvents := k.events.start(k.client.CoreV1())
	k.workers.Go(func() { <-ctx.Done(); stopEvents() })
	k.watch(ctx)
	k.workers.Wait()
	return nil
}

// StackPods lists the GPU-stack pods that live on the node, sorted by name.
func (k *Kubelet) StackPods(node string) []device.StackPod {
	k.mu.Lock()
	h := k.hosts[node]
	k.mu.Unlock()
	if h == nil {
		return nil
	}
	var all []device.StackPod
	h.each(func(w *worker) {
		if s, ok := w.stackPod(); ok {
			all = append(all, s)
		}
	})
	slices.SortFunc(all, func(a, b device.StackPod) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// NodeChanged says that the machine appeared, was registered, went down or came back: its pods are
// looked at again. It must be called for each of these; nothing here polls.
func (k *Kubelet) NodeChanged(node string) {
	k.mu.Lock()
	h := k.hosts[node]
	k.mu.Unlock()
	if h == nil {
		return
	}
	up := h.powered() != nil
	h.each(func(w *worker) {
		if !up {
			w.hurry()
		}
		w.poke()
	})
}
