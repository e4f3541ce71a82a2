package dra

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/fleet/gpu"
)

// attributes and capacities as the API names them.
type (
	attributes = map[resourcev1.QualifiedName]resourcev1.DeviceAttribute
	capacities = map[resourcev1.QualifiedName]resourcev1.DeviceCapacity
)

// Slices offer every device of the machine. They are the node's only ones, in the first generation of its pool, and owned
// by the node, with which they go; NVIDIA's driver lets the API server add random ends to their names. Where claims cut GPUs, a slice has the devices of one GPU, and others have the counters:
// no slice may have both.
func (m Machine) Slices(owner metav1.OwnerReference) []*resourcev1.ResourceSlice {
	specs, ends := m.specs()
	for i := range specs {
		specs[i].Driver, specs[i].NodeName = m.DriverName(), &m.Node
		specs[i].Pool = resourcev1.ResourcePool{Name: m.Node, Generation: 1, ResourceSliceCount: int64(len(specs))}
	}
	out := make([]*resourcev1.ResourceSlice, len(specs))
	for i, spec := range specs {
		name := m.Node + "-" + m.DriverName() + ends[i]
		out[i] = &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{owner}}, Spec: spec}
	}
	return out
}

// specs are what the slices say, and how their names end.
func (m Machine) specs() (specs []resourcev1.ResourceSliceSpec, ends []string) {
	if !slices.ContainsFunc(m.GPUs, m.cuttable) {
		var one resourcev1.ResourceSliceSpec
		for _, d := range m.GPUs {
			one.Devices = append(one.Devices, m.device(d))
		}
		return []resourcev1.ResourceSliceSpec{one}, []string{""}
	}
	var sets []resourcev1.CounterSet
	for _, d := range m.GPUs {
		if m.cuttable(d) {
			sets = append(sets, shared(d))
		}
	}
	for chunk := range slices.Chunk(sets, resourcev1.ResourceSliceMaxCounterSets) {
		ends = append(ends, fmt.Sprintf("-counters-%d", len(specs)))
		specs = append(specs, resourcev1.ResourceSliceSpec{SharedCounters: chunk})
	}
	for _, d := range m.GPUs {
		var one resourcev1.ResourceSliceSpec
		for _, part := range m.offered(d) {
			one.Devices = append(one.Devices, m.device(part))
		}
		ends, specs = append(ends, fmt.Sprintf("-%02d", d.Index)), append(specs, one)
	}
	return specs, ends
}

// Next is the slices to write so that those of the node, of which have are there, say what want says: in the order of want,
// nil where nothing is to be written, and without a resource version where one is to be made. A pool that says something
// else is a new generation of it, in all its slices: whoever looked at an older one sees that it is out of date. Since when taints are there is
// taken over into want.
func Next(have map[string]*resourcev1.ResourceSlice, want []*resourcev1.ResourceSlice) []*resourcev1.ResourceSlice {
	generation, other := int64(1), false
	for _, w := range want {
		if h := have[w.Name]; h != nil {
			keepTimes(h, w)
			generation = max(generation, h.Spec.Pool.Generation)
			other = other || !says(h, w)
		}
	}
	if other {
		generation++
	}
	out := make([]*resourcev1.ResourceSlice, len(want))
	for i, w := range want {
		next, h := w.DeepCopy(), have[w.Name]
		if h != nil {
			next.ObjectMeta = *h.ObjectMeta.DeepCopy()
			next.OwnerReferences = w.OwnerReferences
		}
		if next.Spec.Pool.Generation = generation; h == nil || !equality.Semantic.DeepEqual(h.Spec, next.Spec) || !equality.Semantic.DeepEqual(h.OwnerReferences, next.OwnerReferences) {
			out[i] = next
		}
	}
	return out
}

// says is whether the slice says what it should, in whatever generation.
func says(have, want *resourcev1.ResourceSlice) bool {
	spec := *have.Spec.DeepCopy()
	spec.Pool.Generation = want.Spec.Pool.Generation
	return equality.Semantic.DeepEqual(spec, want.Spec)
}

// device is a GPU or a part of one, with its taints.
func (m Machine) device(d gpu.Device) resourcev1.Device {
	out := m.described(d)
	out.Taints = m.taints(d)
	return out
}

// described is a GPU or a part of one. What is not known of a model is left out.
func (m Machine) described(d gpu.Device) resourcev1.Device {
	if d.MIG != nil {
		return m.part(d)
	}
	a := m.attributes(d)
	a["type"], a["uuid"], a["index"], a["minor"] = text("gpu"), text(d.UUID), number(d.Index), number(d.Index)
	a["pcieBusID"] = text(busID(d))
	if m.cuttable(d) {
		c := largest(d.Model)
		return resourcev1.Device{Name: Name(d), Attributes: a, Capacity: c, ConsumesCounters: draws(d, c, 0, d.Model.Slots())}
	}
	memory := resource.NewQuantity(int64(d.MemoryMiB)<<20, resource.BinarySI)
	if m.Shares {
		return m.sharedDevice(d, a, memory)
	}
	return resourcev1.Device{Name: Name(d), Attributes: a, Capacity: capacities{"memory": {Value: *memory}}}
}

// sharedDevice is a GPU as HAMi's driver offers it: several claims may have it, and each says how much of its memory and its compute.
// Without saying so a claim has all.
func (m Machine) sharedDevice(d gpu.Device, a attributes, memory *resource.Quantity) resourcev1.Device {
	delete(a, "index")
	delete(a, "resource.kubernetes.io/pciBusID")
	a["type"] = text("hami-gpu")
	upTo := func(all, least, step *resource.Quantity) resourcev1.DeviceCapacity {
		return resourcev1.DeviceCapacity{Value: *all, RequestPolicy: &resourcev1.CapacityRequestPolicy{
			Default: all, ValidRange: &resourcev1.CapacityRequestPolicyRange{Min: least, Max: all, Step: step},
		}}
	}
	percent := func(n int64) *resource.Quantity { return resource.NewQuantity(n, resource.DecimalSI) }
	mib := resource.NewQuantity(1<<20, resource.BinarySI)
	return resourcev1.Device{Name: m.Name(d), Attributes: a, AllowMultipleAllocations: new(true), Capacity: capacities{
		"memory": upTo(memory, mib, mib), "cores": upTo(percent(100), percent(0), percent(1)),
	}}
}

// attributes are those that a GPU and its parts have in common.
func (m Machine) attributes(d gpu.Device) attributes {
	bus := busID(d)
	a := attributes{
		"productName":                     text(d.Model.Product),
		"brand":                           text(brand(d.Model)),
		"resource.kubernetes.io/pciBusID": text(bus),
		"resource.kubernetes.io/pcieRoot": text(pcieRoot(bus)),
	}
	if d.Model.Family != "" {
		a["architecture"] = text(d.Model.Architecture())
	}
	addVersion(a, "cudaComputeCapability", d.Model.Compute)
	addVersion(a, "driverVersion", m.Driver.Version)
	addVersion(a, "cudaDriverVersion", m.Driver.CUDA)
	return a
}

func text(s string) resourcev1.DeviceAttribute { return resourcev1.DeviceAttribute{StringValue: &s} }

func number(n int) resourcev1.DeviceAttribute {
	return resourcev1.DeviceAttribute{IntValue: new(int64(n))}
}

// addVersion adds a version in the only form that the API takes, three numbers without leading zeros:
// 580.95.05 is 580.95.5, CUDA 13.0 is 13.0.0. What has no such form is left out.
func addVersion(a attributes, name resourcev1.QualifiedName, version string) {
	parts := strings.Split(version, ".")
	if version == "" || len(parts) > 3 {
		return
	}
	var n [3]uint64
	for i, part := range parts {
		var err error
		if n[i], err = strconv.ParseUint(part, 10, 32); err != nil {
			return
		}
	}
	a[name] = resourcev1.DeviceAttribute{VersionValue: new(fmt.Sprintf("%d.%d.%d", n[0], n[1], n[2]))}
}

// brand is NVML's, as current drivers report it.
func brand(m gpu.Model) string {
	if m.Consumer {
		return "GeForce"
	}
	return "Nvidia"
}

// busID is the address as Linux writes it, "0000:0a:00.0"; nvidia-smi's domain has eight digits.
func busID(d gpu.Device) string {
	return strings.ToLower(strings.TrimPrefix(d.BusID, "0000"))
}

// pcieRoot is the root complex above an address. Every GPU of a simulated machine has a host bridge
// of its own, on the first of its eight buses, as `nvidia-smi topo` shows it.
func pcieRoot(bus string) string {
	domain, rest, _ := strings.Cut(bus, ":")
	number, _, _ := strings.Cut(rest, ":")
	n, err := strconv.ParseUint(number, 16, 8)
	if err != nil {
		return "pci" + domain + ":00"
	}
	return fmt.Sprintf("pci%s:%02x", domain, n&^7)
}
