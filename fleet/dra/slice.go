package dra

import (
	"fmt"
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

// SliceName is the name of the one slice of a node. NVIDIA's driver lets the API server add a random
// end to it.
func SliceName(node string) string { return node + "-" + Driver }

// Slice offers every GPU of the machine. It is the node's only slice, in the first generation of its
// pool, and owned by the node, with which it goes.
func (m Machine) Slice(owner metav1.OwnerReference) *resourcev1.ResourceSlice {
	s := &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: SliceName(m.Node), OwnerReferences: []metav1.OwnerReference{owner}},
		Spec: resourcev1.ResourceSliceSpec{
			Driver:   Driver,
			NodeName: &m.Node,
			Pool:     resourcev1.ResourcePool{Name: m.Node, Generation: 1, ResourceSliceCount: 1},
		},
	}
	for _, d := range m.GPUs {
		s.Spec.Devices = append(s.Spec.Devices, m.device(d))
	}
	return s
}

// Next is the slice to write over have so that it says what want says, and whether there is anything
// to write. Whoever looked at an older generation of the pool sees that it is out of date.
func Next(have, want *resourcev1.ResourceSlice) (next *resourcev1.ResourceSlice, changed bool) {
	next = have.DeepCopy()
	next.OwnerReferences = want.OwnerReferences
	next.Spec = *want.Spec.DeepCopy()
	next.Spec.Pool.Generation = have.Spec.Pool.Generation
	if !equality.Semantic.DeepEqual(have.Spec, next.Spec) {
		next.Spec.Pool.Generation++
		return next, true
	}
	return next, !equality.Semantic.DeepEqual(have.OwnerReferences, next.OwnerReferences)
}

// device is a whole GPU. What is not known of a model is left out.
func (m Machine) device(d gpu.Device) resourcev1.Device {
	bus := busID(d)
	a := attributes{
		"type":                            text("gpu"),
		"uuid":                            text(d.UUID),
		"productName":                     text(d.Model.Product),
		"brand":                           text(brand(d.Model)),
		"index":                           number(d.Index),
		"minor":                           number(d.Index),
		"pcieBusID":                       text(bus),
		"resource.kubernetes.io/pciBusID": text(bus),
		"resource.kubernetes.io/pcieRoot": text(pcieRoot(bus)),
	}
	if d.Model.Family != "" {
		a["architecture"] = text(d.Model.Architecture())
	}
	addVersion(a, "cudaComputeCapability", d.Model.Compute)
	addVersion(a, "driverVersion", m.Driver.Version)
	addVersion(a, "cudaDriverVersion", m.Driver.CUDA)
	memory := resource.NewQuantity(int64(d.MemoryMiB)<<20, resource.BinarySI)
	return resourcev1.Device{Name: Name(d), Attributes: a, Capacity: capacities{"memory": {Value: *memory}}}
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
