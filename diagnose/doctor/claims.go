package doctor

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
)

// claimed are the GPUs that drivers offer in ResourceSlices, by driver and node. They are counted under the name of their driver,
// as if it were a resource of the node: what claims have allocated is held.
type claimed map[string]map[string]*nodeDevices

// nodeDevices are the GPUs of one driver on one node. A GPU and its partitions draw on the same counters, and are one: it is
// given away when any of them is.
type nodeDevices struct {
	product string
	usable  map[string]bool // GPUs, by their counters or else their name; false: tainted, so that no further pod gets it
	held    map[string]bool // of these
}

// deviceKey finds a device where an allocation names it.
type deviceKey struct{ driver, pool, device string }

func claimedGPUs(f *facts.Facts) claimed {
	out := make(claimed)
	newest := make(map[deviceKey]int64) // generation of a pool: slices of older ones are about to go
	for _, s := range f.ResourceSlices {
		k := deviceKey{driver: s.Spec.Driver, pool: s.Spec.Pool.Name}
		newest[k] = max(newest[k], s.Spec.Pool.Generation)
	}
	type place struct {
		node *nodeDevices
		gpu  string
	}
	devices := make(map[deviceKey]place)
	for _, s := range f.ResourceSlices {
		if s.Spec.NodeName == nil || s.Spec.Pool.Generation < newest[deviceKey{driver: s.Spec.Driver, pool: s.Spec.Pool.Name}] {
			continue
		}
		for i := range s.Spec.Devices {
			d := &s.Spec.Devices[i]
			if !isGPUDevice(s.Spec.Driver, d) {
				continue
			}
			if out[s.Spec.Driver] == nil {
				out[s.Spec.Driver] = make(map[string]*nodeDevices)
			}
			n := out[s.Spec.Driver][*s.Spec.NodeName]
			if n == nil {
				n = &nodeDevices{usable: make(map[string]bool), held: make(map[string]bool)}
				out[s.Spec.Driver][*s.Spec.NodeName] = n
			}
			gpu := s.Spec.Pool.Name + "/" + d.Name
			if len(d.ConsumesCounters) > 0 {
				gpu = s.Spec.Pool.Name + "/" + d.ConsumesCounters[0].CounterSet
			}
			n.usable[gpu] = n.usable[gpu] || !shutDevice(d)
			n.product = cmp.Or(n.product, attribute(d, "productName"))
			devices[deviceKey{s.Spec.Driver, s.Spec.Pool.Name, d.Name}] = place{n, gpu}
		}
	}
	for _, claim := range f.ResourceClaims {
		if claim.Status.Allocation == nil {
			continue
		}
		for _, r := range claim.Status.Allocation.Devices.Results {
			if at, ok := devices[deviceKey{r.Driver, r.Pool, r.Device}]; ok && !(r.AdminAccess != nil && *r.AdminAccess) {
				at.node.held[at.gpu] = true
			}
		}
	}
	return out
}

// isGPUDevice says whether the device is a GPU or a part of one: by its type, or by what its driver is called.
func isGPUDevice(driver string, d *resourcev1.Device) bool {
	switch strings.ToLower(attribute(d, "type")) {
	case "gpu", "mig", "vfio", "hami-gpu":
		return true
	case "":
		return slices.Contains(strings.FieldsFunc(driver, func(r rune) bool { return r == '.' || r == '-' }), "gpu")
	}
	return false
}

func attribute(d *resourcev1.Device, name string) string {
	for _, key := range slices.Sorted(maps.Keys(d.Attributes)) {
		if s := string(key); (s == name || strings.HasSuffix(s, "/"+name)) && d.Attributes[key].StringValue != nil {
			return *d.Attributes[key].StringValue
		}
	}
	return ""
}

// shutDevice says whether no further pod gets the device.
func shutDevice(d *resourcev1.Device) bool {
	return slices.ContainsFunc(d.Taints, func(t resourcev1.DeviceTaint) bool { return t.Effect != resourcev1.DeviceTaintEffectNone })
}

// drivers are those that offer GPUs, sorted.
func (c claimed) drivers() []string { return slices.Sorted(maps.Keys(c)) }

// node is the node as one that has the driver's GPUs as a resource, with a pod that holds what claims have; nil: it has none.
func (c claimed) node(n *corev1.Node, driver string) (*gpuNode, *corev1.Pod) {
	d := c[driver][n.Name]
	if d == nil {
		return nil, nil
	}
	usable := 0
	//archtest:any-order they are counted
	for gpu, ok := range d.usable {
		if ok || d.held[gpu] {
			usable++
		}
	}
	shown, name := *n, corev1.ResourceName(driver) // what is below is made anew
	shown.Labels = withProduct(n.Labels, d.product)
	shown.Status.Capacity = with(n.Status.Capacity, name, len(d.usable))
	shown.Status.Allocatable = with(n.Status.Allocatable, name, usable)
	g := &gpuNode{Node: &shown, vendors: []*vendor{nvidia}, held: map[string]int64{driver: int64(len(d.held))}} // the label is NVIDIA's, also on GPUs of other vendors
	if len(d.held) == 0 {
		return g, nil
	}
	asks := with(nil, name, len(d.held))
	return g, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "claims", Name: n.Name, UID: types.UID("claims-" + n.Name)},
		Spec:       corev1.PodSpec{NodeName: n.Name, Containers: []corev1.Container{{Name: "claims", Resources: corev1.ResourceRequirements{Requests: asks, Limits: asks}}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

func with(list corev1.ResourceList, name corev1.ResourceName, n int) corev1.ResourceList {
	out := list.DeepCopy()
	if out == nil {
		out = corev1.ResourceList{}
	}
	out[name] = *resource.NewQuantity(int64(n), resource.DecimalSI)
	return out
}

// withProduct has the node say its model as the labels do, which the engine reads.
func withProduct(labels map[string]string, product string) map[string]string {
	if product == "" || labels[gpustack.LabelProduct] != "" {
		return labels
	}
	out := map[string]string{gpustack.LabelProduct: strings.ReplaceAll(product, " ", "-")}
	//archtest:any-order each key is copied
	for k, v := range labels {
		out[k] = v
	}
	return out
}
