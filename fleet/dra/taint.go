package dra

import (
	"strconv"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-dev/berth/fleet/gpu"
)

// taints are those of a GPU, which its parts have too, as the driver's health checks put them (NVIDIA/k8s-dra-driver-gpu 22407113,
// cmd/gpu-kubelet-plugin/device_health.go): an Xid that is a program's fault keeps nobody away.
func (m Machine) taints(d gpu.Device) (out []resourcev1.DeviceTaint) {
	t := m.Trouble[d.Index]
	if t.Lost {
		out = append(out, resourcev1.DeviceTaint{Key: Driver + "/gpu-lost", Effect: resourcev1.DeviceTaintEffectNoSchedule})
	}
	if t.Xid != 0 {
		effect := resourcev1.DeviceTaintEffectNoSchedule
		if gpu.ApplicationXid(t.Xid) {
			effect = resourcev1.DeviceTaintEffectNone
		}
		out = append(out, resourcev1.DeviceTaint{Key: Driver + "/xid", Value: strconv.Itoa(t.Xid), Effect: effect})
	}
	return out
}

// keepTimes takes over since when taints are there, which the API server enters where nobody says it.
func keepTimes(have, want *resourcev1.ResourceSlice) {
	type taint struct{ device, key, value, effect string }
	of := func(device string, t *resourcev1.DeviceTaint) taint {
		return taint{device, t.Key, t.Value, string(t.Effect)}
	}
	since := make(map[taint]*resourcev1.DeviceTaint)
	for i := range have.Spec.Devices {
		d := &have.Spec.Devices[i]
		for k := range d.Taints {
			since[of(d.Name, &d.Taints[k])] = &d.Taints[k]
		}
	}
	for i := range want.Spec.Devices {
		d := &want.Spec.Devices[i]
		for k := range d.Taints {
			if was := since[of(d.Name, &d.Taints[k])]; was != nil {
				d.Taints[k].TimeAdded = was.TimeAdded.DeepCopy()
			}
		}
	}
}
