package join

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/capacity"
	"github.com/berth-dev/berth/diagnose/doctor"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/kube/dialect"
	"github.com/berth-dev/berth/kube/dialect/karpenter"
)

// Kinds of facts that are read here.
const (
	reservationKind = "Reservation.berth.dev"
	machineKind     = "Machine.berth.dev"
	claimKind       = "NodeClaim.karpenter.sh"
	nodePoolKind    = "NodePool.karpenter.sh"
)

// registration is how long a machine may take to become a node, as Karpenter gives it.
const registration = 15 * time.Minute

// mostMachines bounds the machines that pools may claim to have, and slots that reservations may: beyond it nothing is counted that no node shows.
const mostMachines = 200_000

// world is what was read, with what follows from several objects.
type world struct {
	facts        *facts.Facts
	stack        *gpustack.Stack
	pools        map[string]*v1alpha1.Pool
	selecting    []*v1alpha1.Pool             // those of nodes that others make, by name
	asked        map[string]*v1alpha1.Machine // what was asked of a provider, by name, which is also the node's
	nodePools    []*karpenter.Pool
	machines     []*machine // by name
	reservations []reservation
	devices      map[string][]doctor.Device
	uses         map[string][]doctor.Use // by node
	measured     bool
	claimed      map[string][]string // pods by pool/device
}

// machine is one that somebody pays for: it is a node, or should become one.
type machine struct {
	name     string // its provider's id, else its node's or claim's name
	node     *corev1.Node
	claim    *unstructured.Unstructured
	asked    *v1alpha1.Machine // that Berth launched; nil: nobody did, or another
	pool     string
	berth    *v1alpha1.Pool // nil: not of Berth's
	zone     string
	kind     string                // instance type; "": not known
	capacity v1alpha1.CapacityType // "": nobody tells
	reserved string                // the reservation's id or name, as its labels or its Machine say; "": they do not
	gpus     int
	since    time.Time // launched
	paidBy   *reservation
}

func newWorld(in Input) *world {
	f := in.Facts
	w := &world{facts: f, stack: gpustack.Of(f), pools: make(map[string]*v1alpha1.Pool), asked: make(map[string]*v1alpha1.Machine), devices: doctor.Devices(f), uses: make(map[string][]doctor.Use), measured: in.Uses != nil}
	for _, u := range in.Uses {
		w.uses[u.Node] = append(w.uses[u.Node], u)
	}
	for _, u := range f.Foreign[gpustack.BerthPools] {
		p := &v1alpha1.Pool{}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, p) == nil {
			v1alpha1.Default(p)
			w.pools[p.Name] = p
		}
	}
	for _, name := range sortedNames(w.pools) {
		if w.pools[name].Spec.Selects != nil {
			w.selecting = append(w.selecting, w.pools[name])
		}
	}
	for _, u := range f.Foreign[machineKind] {
		m := &v1alpha1.Machine{}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, m) == nil {
			w.asked[m.Name] = m
		}
	}
	w.nodePools = karpenter.ReadPools(f.Foreign[nodePoolKind], f.Foreign[claimKind], f.Nodes, func(kind, name string) *unstructured.Unstructured {
		return f.ForeignNamed(kind, "", name)
	})
	w.claimed = w.claimedBy()
	w.findMachines()
	w.readReservations()
	w.assign()
	return w
}

// findMachines finds every machine with GPUs once: nodes, NodeClaims without one, Machines without one, and machines of pools without one.
func (w *world) findMachines() {
	byID, claims := make(map[string]bool), make(map[string]*unstructured.Unstructured)
	for _, c := range w.facts.Foreign[claimKind] {
		if id := dialect.Text(c.Object, "status", "providerID"); id != "" {
			claims[id] = c
		}
	}
	named := make(map[string]bool)
	for _, n := range slices.SortedFunc(slices.Values(w.facts.Nodes), likelier) {
		id := n.Spec.ProviderID
		if named[n.Name] || id != "" && byID[id] {
			named[n.Name] = true
			continue // a second Node object of one machine pays nothing
		}
		named[n.Name], byID[id] = true, id != ""
		if w.stack.Nodes[n.Name] != nil || len(w.devices[n.Name]) > 0 {
			w.machines = append(w.machines, w.ofNode(n, claims[n.Spec.ProviderID]))
		}
	}
	for _, c := range w.facts.Foreign[claimKind] {
		id := dialect.Text(c.Object, "status", "providerID")
		if id != "" && byID[id] || named[dialect.Text(c.Object, "status", "nodeName")] {
			continue
		}
		if m := w.ofClaim(c, id); m.gpus > 0 && id != "" {
			byID[id] = true
			w.machines = append(w.machines, m)
		}
	}
	w.ofAsked(named)
	w.ofPools(named)
	slices.SortStableFunc(w.machines, func(a, b *machine) int { return strings.Compare(a.name, b.name) })
}

// likelier orders Node objects such that of those of one machine the first is the one that its kubelet keeps: one that is Ready, else the last
// that was made.
func likelier(a, b *corev1.Node) int {
	unready := func(n *corev1.Node) int {
		if facts.NodeReady(n) {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(unready(a), unready(b)), b.CreationTimestamp.Compare(a.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
}

func (w *world) ofNode(n *corev1.Node, claim *unstructured.Unstructured) *machine {
	m := &machine{
		name: cmp.Or(n.Spec.ProviderID, n.Name), node: n, claim: claim, zone: n.Labels[corev1.LabelTopologyZone], kind: n.Labels[corev1.LabelInstanceTypeStable],
		capacity: v1alpha1.CapacityTypeOf(n.Labels), reserved: v1alpha1.ReservedAs(n.Labels), since: n.CreationTimestamp.Time,
	}
	for _, key := range gpustack.PoolLabels {
		if m.pool == "" {
			m.pool = n.Labels[key]
		}
	}
	if m.berth = w.poolOf(n.Labels); m.berth != nil {
		m.pool = m.berth.Name
	}
	m.launchedAs(w.asked[n.Name])
	m.gpus = w.gpusOf(n)
	return m
}

// poolOf is the Pool of a node or NodeClaim with the labels: the one that they name, else the first that selects it; nil: none.
func (w *world) poolOf(labels map[string]string) *v1alpha1.Pool {
	if p := w.pools[labels[v1alpha1.LabelPool]]; p != nil {
		return p
	}
	for _, p := range w.selecting {
		if p.Spec.Selects.Matches(labels) {
			return p
		}
	}
	return nil
}

// launchedAs has the machine be what Berth asked for: that says how it is paid for.
func (m *machine) launchedAs(asked *v1alpha1.Machine) {
	if asked == nil || m.berth == nil || asked.Spec.Pool != m.berth.Name {
		return
	}
	m.asked, m.capacity, m.reserved = asked, asked.Spec.CapacityType, asked.Spec.Reservation
	if at := asked.Status.LaunchedAt; at != nil {
		m.since = at.Time
	}
}

// ofAsked adds the Machines that are no node yet. What its provider refused nobody has, and what it has not answered is paid for only by
// a reservation.
func (w *world) ofAsked(named map[string]bool) {
	for _, name := range sortedNames(w.asked) {
		a := w.asked[name]
		p := w.pools[a.Spec.Pool]
		if named[name] || p == nil || a.Status.Phase == v1alpha1.MachineFailed || len(w.machines) >= mostMachines {
			continue
		}
		if a.Status.Phase == "" && a.Spec.CapacityType != v1alpha1.CapacityReserved {
			continue
		}
		named[name] = true
		m := &machine{
			name: "berth://" + name, pool: p.Name, berth: p, zone: cmp.Or(a.Spec.Zone, p.Spec.Topology.Zone), kind: p.Spec.Labels[corev1.LabelInstanceTypeStable],
			gpus: min(p.GPUsPerNode(), mostGPUs), since: a.CreationTimestamp.Time,
		}
		m.launchedAs(a)
		w.machines = append(w.machines, m)
	}
}

// gpusOf is how many GPUs the machine of the node has, as whole ones: by its pool or type, its labels, its slices, its MIG instances, its capacity.
func (w *world) gpusOf(n *corev1.Node) int {
	units, _ := gpustack.Installed(w.facts, n)
	if units == 0 {
		units = number(n.Labels["nvidia.com/gpu.count"])
	}
	if units == 0 {
		units = int64(len(w.devices[n.Name]))
	}
	if units == 0 {
		units = gpustack.DividedGPUs(n)
	}
	if g := w.stack.Nodes[n.Name]; units == 0 && g != nil && g.Says != "" {
		units = g.Units
	}
	return int(min(max(units, 0), mostGPUs))
}

// mostGPUs bounds those of one machine: what a node says of itself may be anything.
const mostGPUs = 1024

func number(s string) (n int64) {
	for _, c := range []byte(s) {
		if c < '0' || c > '9' || n > mostGPUs {
			return 0
		}
		n = n*10 + int64(c-'0')
	}
	return n
}

func (w *world) ofClaim(c *unstructured.Unstructured, id string) *machine {
	labels := c.GetLabels()
	m := &machine{
		name: cmp.Or(id, c.GetName()), claim: c, pool: labels[karpenter.PoolLabel], zone: labels[corev1.LabelTopologyZone], kind: labels[corev1.LabelInstanceTypeStable],
		capacity: v1alpha1.CapacityTypeOf(labels), reserved: v1alpha1.ReservedAs(labels), since: c.GetCreationTimestamp().Time,
	}
	if m.berth = w.poolOf(labels); m.berth != nil {
		m.pool = m.berth.Name
	}
	if l := dialect.ConditionOf(c, "Launched"); l != nil && !l.At.IsZero() {
		m.since = l.At
	}
	q := karpenter.ResourceList(c.Object, "status", "capacity")[gpustack.WholeGPU]
	m.gpus = int(min(max(q.Value(), 0), mostGPUs))
	return m
}

// ofPools adds the machines of Berth's fleet that are no node yet.
func (w *world) ofPools(named map[string]bool) {
	for _, name := range sortedNames(w.pools) {
		p := w.pools[name]
		if p.Spec.Nodes == nil || p.GPUsPerNode() == 0 || p.DeletionTimestamp != nil {
			continue
		}
		count := int(*p.Spec.Nodes)
		if len(p.Spec.NodeNames) > 0 {
			count = min(count, len(p.Spec.NodeNames))
		}
		for i := range min(count, mostMachines-len(w.machines)) {
			node := p.NodeName(i)
			if named[node] {
				continue
			}
			named[node] = true
			w.machines = append(w.machines, &machine{
				name: "berth://" + node, pool: p.Name, berth: p, zone: p.Spec.Topology.Zone, kind: p.Spec.Labels[corev1.LabelInstanceTypeStable], gpus: min(p.GPUsPerNode(), mostGPUs), since: p.CreationTimestamp.Time,
			})
		}
	}
}

// priceOf is the price of an instance; not known where it is missing or is no price.
func priceOf(p *v1alpha1.Price) (capacity.Micro, string, bool) {
	if p == nil {
		return 0, "", false
	}
	m, err := capacity.ParsePrice(p.PerInstanceHour)
	return m, cmp.Or(p.Currency, v1alpha1.DefaultCurrency), err == nil
}

// gpus are n GPUs of a unit, all in the same place.
func gpus(name string, n int, a capacity.Account, since time.Time, p *v1alpha1.Price) []capacity.GPU {
	micro, currency, known := priceOf(p)
	out := make([]capacity.GPU, n)
	for i := range out {
		out[i] = capacity.GPU{ID: capacity.ID{Unit: name, Index: i}, Account: a, Since: since}
		if known {
			out[i].Price = capacity.Price{Known: true, Micro: micro.Share(i, n), Currency: currency}
		}
	}
	return out
}
