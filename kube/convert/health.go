package convert

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
)

// withoutBroken keeps new work from GPUs that are listed as broken and that the node advertises all the same (ADR 147). HAMi's plugin gives
// the GPU that the scheduler names: there the broken ones are left out. Elsewhere the kubelet chooses among all that are advertised,
// and may hand out the broken one to whoever comes next: such a node gives no GPU to new work, and work without GPUs still runs there. Its
// devices stay listed, so that whoever holds them is charged as before.
func withoutBroken(n *corev1.Node, out *engine.Node, gpu string) {
	if v1alpha1.UnhealthyGPUs(n) == nil {
		return
	}
	if by := out.Labels[KeySharing]; by != "" && by != sharedByAgent {
		out.Devices = slices.Clone(out.Devices)
		for i, d := range out.Devices {
			if !d.Unhealthy && listed(v1alpha1.UnhealthyGPUs(n), strings.TrimPrefix(d.ID, n.Name+"/")) {
				out.Devices[i].Unhealthy = true
				out.Allocatable = lowered(out.Allocatable, func(a engine.Amount) int64 {
					if a.Resource == gpu {
						return max(0, a.Value-1)
					}
					return a.Value
				})
			}
		}
		return
	}
	if len(v1alpha1.OfferedUnhealthy(n)) == 0 {
		return
	}
	out.Devices = slices.Clone(out.Devices)
	for i := range out.Devices {
		out.Devices[i].Unhealthy = true
	}
	out.Allocatable = lowered(out.Allocatable, func(a engine.Amount) int64 {
		if strings.HasPrefix(a.Resource, vendorNVIDIA) {
			return 0
		}
		return a.Value
	})
}

// vendorNVIDIA begins the names of resources that NVIDIA's device plugin advertises.
const vendorNVIDIA = "nvidia.com/"

func lowered(have engine.Resources, to func(engine.Amount) int64) engine.Resources {
	have = slices.Clone(have)
	for i := range have {
		have[i].Value = to(have[i])
	}
	return have
}

func listed(all []v1alpha1.UnhealthyGPU, uuid string) bool {
	return slices.ContainsFunc(all, func(g v1alpha1.UnhealthyGPU) bool { return g.UUID == uuid })
}

// brokenTaint is on devices of resource claims that the node lists as broken, in our own view of the slices alone.
var brokenTaint = resourcev1.DeviceTaint{Key: v1alpha1.KeyUnhealthyGPUs, Effect: resourcev1.DeviceTaintEffectNoSchedule}

// WithoutBroken is the slice of the node with a taint on the GPUs, and on the parts of GPUs, that the node lists as broken; the slice
// itself where it lists none of them.
func WithoutBroken(s *resourcev1.ResourceSlice, n *corev1.Node) *resourcev1.ResourceSlice {
	if n == nil {
		return s
	}
	broken := v1alpha1.UnhealthyGPUs(n)
	if broken == nil {
		return s
	}
	out := s
	for i := range s.Spec.Devices {
		if !isOf(&s.Spec.Devices[i], broken) {
			continue
		}
		if out == s {
			out = s.DeepCopy()
		}
		out.Spec.Devices[i].Taints = append(out.Spec.Devices[i].Taints, brokenTaint)
	}
	return out
}

// isOf says whether the device is one of the GPUs, or a part of one: NVIDIA's driver names both by attributes of its own domain.
func isOf(d *resourcev1.Device, gpus []v1alpha1.UnhealthyGPU) bool {
	for _, name := range []resourcev1.QualifiedName{v1alpha1.AttributeUUID, "parentUUID"} {
		if a, ok := d.Attributes[name]; ok && a.StringValue != nil && listed(gpus, *a.StringValue) {
			return true
		}
	}
	return false
}
