package bill

import (
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/engine"
)

// whole is one GPU in the units that are counted, and slices how many compute slices MIG divides it into.
const (
	whole  = 1000
	slots  = 7
	mostOf = 1024 // GPUs of one machine: what a node says of itself may be anything
)

const (
	labelCount    = "nvidia.com/gpu.count"
	labelReplicas = "nvidia.com/gpu.replicas"
	labelProduct  = "nvidia.com/gpu.product"
	migResource   = "nvidia.com/mig-"
)

// gpusOf is how many GPUs the machine has: as its pool says, its type, its labels, its devices, or what it offers.
func gpusOf(n *engine.Node, pool *Pool, resource string) int64 {
	count := int64(0)
	if pool != nil {
		count = int64(pool.GPUs)
	}
	if count == 0 {
		count, _ = gpustack.InstanceGPUs(n.Labels[corev1.LabelInstanceTypeStable])
	}
	if count == 0 {
		count = labelled(n, resource)
	}
	if count == 0 {
		count = int64(len(n.Devices))
	}
	if count == 0 {
		for _, o := range n.Offers {
			if _, rest, ok := strings.Cut(lastPart(o.ID), "gpu-"); ok && number(rest) >= 0 && strconv.FormatInt(number(rest), 10) == rest {
				count++
			}
		}
	}
	if count == 0 {
		count = n.Allocatable.Get(resource) / max(1, number(n.Labels[labelReplicas]))
	}
	return min(max(count, 0), mostOf)
}

// labelled is how many GPUs GPU Feature Discovery counts on the machine, 0 where it does not. Under MIG's strategy single it counts
// instances: there are as many GPUs as it takes to hold them all.
func labelled(n *engine.Node, resource string) int64 {
	count := number(n.Labels[labelCount])
	_, profile, single := strings.Cut(n.Labels[labelProduct], "-MIG-")
	if !single {
		return count
	}
	for i := range n.Slices {
		if s := &n.Slices[i]; s.Resource == resource {
			perGPU := max(1, whole/max(1, s.Charge("")*max(1, number(n.Labels[labelReplicas]))))
			if strings.HasSuffix(strings.TrimSuffix(profile, "-SHARED"), ".me") { // with media engines: one of a GPU
				perGPU = 1
			}
			return (count + perGPU - 1) / perGPU
		}
	}
	return count
}

// heldBy is what a pod holds, or asks for, of the GPUs of a node, in thousandths. n is nil where it has none yet. Whole GPUs that it has
// through resource claims are among its requests, and parts of some are what it has claimed: other devices of its claims are no GPUs.
func heldBy(p *engine.Pod, n *engine.Node, resource string) int64 {
	const most = mostOf * whole // no pod is on two machines, and what one asks for may be anything
	if p.Part != nil {
		memory := int64(0)
		if n != nil && len(n.Devices) > 0 {
			memory = n.Devices[0].Memory
		}
		return min(max(int64(p.Part.Cards), 0), mostOf) * min(p.Part.Charge(memory, ""), whole)
	}
	out := min(max(p.Claimed, 0), most)
	for _, a := range p.Requests {
		each := min(max(eachOf(a.Resource, n, resource), 0), whole)
		out = min(out+each*min(max(a.Value, 0), most), most)
	}
	return out
}

// eachOf is what one of a resource that pods request is of a GPU, in thousandths.
func eachOf(requested string, n *engine.Node, resource string) int64 {
	if n == nil {
		n = &engine.Node{}
	}
	if requested == resource && slices.Contains(n.ByClaims, resource) {
		return whole
	}
	for i := range n.Slices { // as queues count it; logs before snapshot 16 do not say
		if s := &n.Slices[i]; s.Resource == requested {
			return s.Charge("")
		}
	}
	if profile, mig := strings.CutPrefix(requested, migResource); mig {
		return sliced(profile)
	}
	if requested != resource && requested != resource+".shared" {
		return 0
	}
	if _, profile, ok := strings.Cut(n.Labels[labelProduct], "-MIG-"); ok {
		return sliced(profile)
	}
	return whole / max(1, number(n.Labels[labelReplicas]))
}

// mayHold says whether the pod could hold GPUs of some node: what a resource is of a GPU is the node's to say.
func mayHold(p *engine.Pod) bool {
	return p.Part != nil || p.Claimed > 0 || slices.ContainsFunc(p.Requests, func(a engine.Amount) bool {
		return a.Value > 0 && strings.Contains(a.Resource, "/")
	})
}

// sliced is the part of a GPU that a MIG profile such as 3g.40gb is, by its compute slices. One that cannot be read is a whole GPU.
func sliced(profile string) int64 {
	n, _, ok := strings.Cut(profile, "g")
	if i := strings.LastIndexByte(n, '.'); i >= 0 {
		n = n[i+1:] // 1c.3g.40gb: a compute instance
	}
	if of := number(n); ok && of > 0 && of <= slots {
		return whole * of / slots
	}
	return whole
}

// sameMachine says whether two Node objects, which have one name or one machine, are of one machine that may have been told of anew. It is
// another one where its provider's id or its type is another.
func sameMachine(a, b *engine.Node) bool {
	if a.Machine != "" && b.Machine != "" && a.Machine != b.Machine {
		return false
	}
	const kind = corev1.LabelInstanceTypeStable
	return a.Labels[kind] == b.Labels[kind]
}

// plus adds GPU-time that nothing bounds but what pods ask for.
func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func lastPart(id string) string { return id[strings.LastIndexByte(id, '/')+1:] }

// number reads what a label says; 0 where it is no number, or too large to be one of GPUs.
func number(s string) int64 {
	n, err := strconv.ParseUint(s, 10, 20)
	if err != nil || n > mostOf {
		return 0
	}
	return int64(n)
}
