package place

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"
)

// had says whether the claims can all have devices on the node, as Kubernetes' allocator has it; known is false where it did not find out.
// That they want more devices than there are is counted first: the allocator would try all orders of them.
func (d *Devices) had(n *corev1.Node, wanted []*resourcev1.ResourceClaim) (ok, known bool) {
	if d.tooFew(d.reach(n), wanted) {
		return false, true
	}
	ok, err := d.allocates(n, wanted)
	return ok, err == nil
}

// tooFew proves that not every device that the claims want can be another one. Requests that take all devices, look on, or have alternatives
// prove nothing, and neither do those that devices suit which several claims can have.
func (d *Devices) tooFew(reach []*Device, wanted []*resourcev1.ResourceClaim) bool {
	if len(wanted) < 2 { // see shortage
		return false
	}
	suits := make(map[string][]int) // devices, by what is asked for; nil: there is no end of them
	var units [][]int
	for _, claim := range wanted {
		for _, any := range deviceAsks(&claim.Spec.Devices) {
			if len(any) != 1 || any[0].All || any[0].admin {
				continue
			}
			a := &any[0]
			key := a.key()
			list, known := suits[key]
			if !known {
				list = d.those(reach, a)
				suits[key] = list
			}
			if list == nil {
				continue
			}
			for range a.Count {
				units = append(units, list)
			}
		}
	}
	has := make(map[int]int) // which unit has the device
	for i := range units {
		if !give(units, has, i, make(map[int]bool)) {
			return true
		}
	}
	return false
}

// those are the devices, by their place in reach, that suit the request and are free; nil where several claims can have one of them.
func (d *Devices) those(reach []*Device, a *DeviceAsk) []int {
	out := []int{}
	for i, v := range reach {
		switch {
		case !d.Suits(v, a):
		case ptr.Deref(v.AllowMultipleAllocations, false):
			return nil
		case v.Holder == nil:
			out = append(out, i)
		}
	}
	return out
}

// give has the unit have a device, and those before it one each: along the way others are given another.
func give(units [][]int, has map[int]int, unit int, tried map[int]bool) bool {
	for _, v := range units[unit] {
		if tried[v] {
			continue
		}
		tried[v] = true
		if other, taken := has[v]; !taken || give(units, has, other, tried) {
			has[v] = unit
			return true
		}
	}
	return false
}

// key tells apart requests that other devices suit.
func (a *DeviceAsk) key() string {
	var b strings.Builder
	b.WriteString(a.Class)
	for _, s := range a.Selectors {
		b.WriteByte(0)
		if s.CEL != nil {
			b.WriteString(s.CEL.Expression)
		}
	}
	for _, t := range a.tolerations {
		b.WriteByte(1)
		b.WriteString(t.Key + "\x00" + string(t.Operator) + "\x00" + t.Value + "\x00" + string(t.Effect))
	}
	return b.String()
}
