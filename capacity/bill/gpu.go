package bill

import (
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

// heldBy is what a pod holds, or asks for, of the GPUs of a node, in thousandths. n is nil where it has none yet.
func heldBy(p *engine.Pod, n *engine.Node, resource string) int64 {
	labels := map[string]string(nil)
	if n != nil {
		labels = n.Labels
	}
	switch {
	case p.Part != nil:
		memory := int64(0)
		if n != nil && len(n.Devices) > 0 {
			memory = n.Devices[0].Memory
		}
		return int64(p.Part.Cards) * p.Part.Charge(memory, "")
	case p.Claims != nil && !p.Claims.GPUsByCount && (n == nil && !p.Claims.Counted || n != nil && slices.Contains(n.ByClaims, resource)):
		return claimed(p)
	}
	out := int64(0)
	for _, a := range p.Requests {
		each := int64(0)
		switch profile, mig := strings.CutPrefix(a.Resource, migResource); {
		case mig:
			each = sliced(profile)
		case a.Resource == resource || a.Resource == resource+".shared":
			each = whole / max(1, number(labels[labelReplicas]))
			if _, profile, ok := strings.Cut(labels[labelProduct], "-MIG-"); ok {
				each = sliced(profile)
			}
		}
		if n != nil { // as queues count it; logs before snapshot 16 do not say
			for i := range n.Slices {
				if s := &n.Slices[i]; s.Resource == a.Resource {
					each = s.Charge("")
				}
			}
		}
		out += each * min(max(a.Value, 0), mostOf*whole)
	}
	return out
}

// claimed is what a pod holds through resource claims: by the names of the devices where they are known.
func claimed(p *engine.Pod) int64 {
	out := int64(0)
	if len(p.Devices) > 0 {
		for _, id := range p.Devices {
			each := int64(whole)
			if _, profile, mig := strings.Cut(lastPart(id), "-mig-"); mig {
				each = sliced(profile)
			}
			out += each
		}
		return out
	}
	for _, r := range p.Claims.Requests {
		if len(r.Options) > 0 && !r.Options[0].Admin {
			out += whole * int64(max(r.Options[0].Count, 0))
		}
	}
	return out
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

func lastPart(id string) string { return id[strings.LastIndexByte(id, '/')+1:] }

// number reads what a label says; 0 where it is no number, or too large to be one of GPUs.
func number(s string) int64 {
	n, err := strconv.ParseUint(s, 10, 20)
	if err != nil || n > mostOf {
		return 0
	}
	return int64(n)
}
