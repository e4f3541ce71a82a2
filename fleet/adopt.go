package fleet

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/fleet/gpu"
)

// How other simulators mark the nodes that they play. Their users make such nodes by hand.
const (
	// kwokAnnotation with the value "fake" is a node that KWOK keeps alive.
	kwokAnnotation = "kwok.x-k8s.io/node"
	// fakeGPULabel names the pool of the fake GPU operator whose GPUs a node is to have.
	fakeGPULabel = "run.ai/simulated-gpu-node-pool"
)

// Labels in which the GPUs of a node are described, as GPU Feature Discovery does.
const (
	productLabel = "nvidia.com/gpu.product"
	countLabel   = "nvidia.com/gpu.count"
	memoryLabel  = "nvidia.com/gpu.memory" // MiB
)

// What the fake GPU operator's pool has of its own accord, where a node's labels do not say.
const (
	fakeProduct   = "Tesla-K80"
	fakeCount     = 2
	fakeMemoryMiB = 11441
)

// mark is what of a node decides whether, and with what, it is adopted.
type mark struct {
	fake bool
	gpus bool
}

func markOf(node *corev1.Node) mark {
	if node == nil || node.Annotations[kwokAnnotation] != "fake" {
		return mark{}
	}
	_, gpus := node.Labels[fakeGPULabel]
	return mark{fake: true, gpus: gpus}
}

// adopted lists nodes that were made by hand for another simulator, and that no pool asks for, in order of name. What a
// machine is made of is decided when its node is first seen: what it advertises later says nothing about that.
func adopted(nodes []*corev1.Node, pools []want, known func(name string) (want, bool)) (out []want) {
	taken := make(map[string]bool, len(pools))
	for _, w := range pools {
		taken[w.name()] = true
	}
	for _, n := range nodes {
		_, pooled := lastApplied(n)
		if m := markOf(n); !m.fake || taken[n.Name] || pooled {
			continue
		}
		next := adopt(n)
		if was, ok := known(n.Name); ok && was.pool.UID == n.UID && len(was.pool.Spec.GPUs) >= len(next.pool.Spec.GPUs) {
			next = was
		}
		out = append(out, next)
	}
	slices.SortFunc(out, func(a, b want) int { return cmp.Compare(a.name(), b.name()) })
	return out[:min(len(out), max(0, maxNodes-len(pools)))]
}

// adopt is the pool of one that a node made by hand stands for: its machine has the capacity that its author wrote, and
// GPUs where a pool of the fake GPU operator is to give it some.
func adopt(node *corev1.Node) want {
	pool := &v1alpha1.Pool{}
	pool.Name, pool.UID = node.Name, node.UID
	s := &pool.Spec
	s.NodeNames = []string{node.Name}
	written := maps.Clone(node.Status.Allocatable)
	if written == nil {
		written = corev1.ResourceList{}
	}
	maps.Copy(written, node.Status.Capacity)
	s.CPU, s.Memory = amountIn(written, corev1.ResourceCPU), amountIn(written, corev1.ResourceMemory)
	s.EphemeralStorage = amountIn(written, corev1.ResourceEphemeralStorage)
	if pods := amountIn(written, corev1.ResourcePods); pods != nil {
		n := int32(min(max(pods.Value(), 0), 10000))
		s.Pods = &n
	}
	if markOf(node).gpus {
		s.GPUs = []v1alpha1.GPU{fakeGPUs(node.Labels)}
	}
	return want{pool: withDefaults(pool), byHand: true}
}

func amountIn(list corev1.ResourceList, name corev1.ResourceName) *resource.Quantity {
	q, ok := list[name]
	if !ok || q.Sign() <= 0 {
		return nil
	}
	return &q
}

// fakeGPUs reads the labels of a node in a pool of the fake GPU operator.
func fakeGPUs(labels map[string]string) v1alpha1.GPU {
	g := v1alpha1.GPU{Model: cmp.Or(labels[productLabel], fakeProduct), Count: fakeCount}
	if n, err := strconv.Atoi(labels[countLabel]); err == nil && n >= 1 && n <= 64 {
		g.Count = int32(n)
	}
	mib, err := strconv.ParseInt(labels[memoryLabel], 10, 32)
	if _, known := gpu.Lookup(g.Model); err != nil || mib < 128 {
		if known {
			return g
		}
		mib = fakeMemoryMiB
	}
	g.Memory = resource.NewQuantity(mib<<20, resource.BinarySI)
	return g
}

// alsoOffered is the capacity with what the author of a node wrote as allocatable alone.
func alsoOffered(have, offered corev1.ResourceList) corev1.ResourceList {
	out := maps.Clone(have)
	if out == nil {
		out = corev1.ResourceList{}
	}
	for name, amount := range offered {
		if _, has := out[name]; !has {
			out[name] = amount
		}
	}
	return out
}

// keepOffered lets what the author of a node wrote stand: KWOK keeps nothing back for a system that is not there.
func keepOffered(out, offered corev1.ResourceList) {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourcePods} {
		if amount, written := offered[name]; written {
			out[name] = amount
		}
	}
}

// settleIn is the node with what a kubelet and the GPU Operator give it and its author left out; false: it has all.
func settleIn(node *corev1.Node, w want, s slot) (*corev1.Node, bool) {
	out, changed := node.DeepCopy(), false
	if out.Spec.PodCIDR == "" {
		out.Spec.PodCIDR, out.Spec.PodCIDRs, changed = s.podNetwork(), []string{s.podNetwork()}, true
	}
	labels := map[string]string{
		corev1.LabelHostname: node.Name, corev1.LabelArchStable: architecture, corev1.LabelOSStable: system,
	}
	maps.Copy(labels, operatorLabels(&w.pool.Spec))
	out.Labels = cloneLabels(out.Labels)
	for key, value := range labels {
		if _, has := out.Labels[key]; !has {
			out.Labels[key], changed = value, true
		}
	}
	return out, changed
}
