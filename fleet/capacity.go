package fleet

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/fleet/device"
)

// evictionMemory is kept from pods by the kubelet's default hard eviction threshold; of the disk
// it is a tenth.
const evictionMemory = 100 << 20

// plugin is what the kubelet's device manager says about one resource.
type plugin struct {
	name                  corev1.ResourceName
	forget                bool // for the last time: the plugin has been gone too long
	capacity, allocatable int64
}

// pluginState combines the device manager's answer with the node's checkpoint of it, in order of name. A resource
// whose plugin is connected, or went away a short while ago, is followed. One that is only remembered
// leaves zeros behind, once: after that it belongs to nobody, and what a user writes
// into the capacity counts again. others are those of the pool's other device plugins, which are always there.
func pluginState(node *corev1.Node, others map[string]int32, adv device.Advertisement) []plugin {
	var out []plugin
	for _, name := range slices.Sorted(maps.Keys(others)) {
		out = append(out, plugin{name: corev1.ResourceName(name), capacity: int64(others[name]), allocatable: int64(others[name])})
	}
	for _, o := range adv.Resources {
		out = append(out, plugin{name: corev1.ResourceName(o.Name), capacity: o.Capacity, allocatable: o.Allocatable})
	}
	for name := range strings.SplitSeq(node.Annotations[pluginAnnotation], ",") {
		known := func(p plugin) bool { return string(p.name) == name }
		if name != "" && !slices.ContainsFunc(out, known) {
			out = append(out, plugin{name: corev1.ResourceName(name), forget: true})
		}
	}
	return out
}

// rememberPlugin keeps the checkpoint.
func rememberPlugin(node *corev1.Node, plugins []plugin) {
	var names []string
	for _, p := range plugins {
		if !p.forget {
			names = append(names, string(p.name))
		}
	}
	keepAnnotation(node, pluginAnnotation, strings.Join(names, ","))
}

// keepAnnotation sets an annotation of the node, or removes it where there is nothing to say.
func keepAnnotation(node *corev1.Node, key, value string) {
	if node.Annotations[key] == value {
		return
	}
	node.Annotations = cloneLabels(node.Annotations)
	node.Annotations[key] = value
	if value == "" {
		delete(node.Annotations, key)
	}
}

// capacity is the machine's own resources over what the status has: a resource that somebody
// else put there stays, as with a kubelet. It writes to have unless that is nil.
func capacity(have corev1.ResourceList, pool *v1alpha1.Pool, plugins []plugin) corev1.ResourceList {
	if have == nil {
		have = corev1.ResourceList{}
	}
	s := &pool.Spec
	have[corev1.ResourceCPU] = s.CPU.DeepCopy()
	have[corev1.ResourceMemory] = s.Memory.DeepCopy()
	have[corev1.ResourceEphemeralStorage] = s.EphemeralStorage.DeepCopy()
	have[corev1.ResourcePods] = *resource.NewQuantity(int64(*s.Pods), resource.DecimalSI)
	have["hugepages-1Gi"] = *resource.NewQuantity(0, resource.DecimalSI)
	have["hugepages-2Mi"] = *resource.NewQuantity(0, resource.DecimalSI)
	for _, p := range plugins {
		have[p.name] = *resource.NewQuantity(p.capacity, resource.DecimalSI)
	}
	return have
}

// allocatable follows the capacity by the kubelet's rules: less what is reserved, an extended
// resource that left the capacity leaves here too, and for plugin resources the device manager
// has the last word. It writes to have unless that is nil.
func allocatable(have, total corev1.ResourceList, plugins []plugin) corev1.ResourceList {
	if have == nil {
		have = corev1.ResourceList{}
	}
	for name := range have {
		if _, there := total[name]; !there && extended(name) {
			delete(have, name)
		}
	}
	for name, amount := range total {
		have[name] = lessReserved(name, amount)
	}
	for _, p := range plugins {
		have[p.name] = *resource.NewQuantity(p.allocatable, resource.DecimalSI)
	}
	return have
}

// lessReserved takes off what a kubelet with default settings keeps from pods.
func lessReserved(name corev1.ResourceName, amount resource.Quantity) resource.Quantity {
	switch name {
	case corev1.ResourceMemory:
		return *resource.NewQuantity(max(0, amount.Value()-evictionMemory), amount.Format)
	case corev1.ResourceEphemeralStorage:
		return *resource.NewQuantity(amount.Value()-amount.Value()/10, amount.Format)
	}
	return amount.DeepCopy()
}

// extended is Kubernetes' rule: a qualified name outside its own domain.
func extended(name corev1.ResourceName) bool {
	domain, _, qualified := strings.Cut(string(name), "/")
	own := domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io")
	return qualified && !own && !strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix)
}
