package inventory

import (
	"slices"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
)

// Held is what the claim has: devices by their ID, and shares as the engine writes them.
func (v *Inventory) Held(c *resourcev1.ResourceClaim) (out []string) {
	for _, r := range convert.Held(c) {
		id := convert.DeviceID(r.Driver, r.Pool, r.Device)
		if dev := v.Device(id); dev != nil {
			id = dev.Share(r)
		}
		out = append(out, id)
	}
	return out
}

// TakesOfNode says whether a device that the claim has takes of its node besides.
func (v *Inventory) TakesOfNode(c *resourcev1.ResourceClaim) bool {
	return slices.ContainsFunc(c.Status.Allocation.Devices.Results, func(r resourcev1.DeviceRequestAllocationResult) bool {
		dev := v.Device(convert.DeviceID(r.Driver, r.Pool, r.Device))
		return dev != nil && dev.TakesOfNode()
	})
}

// GPUsHeld counts the whole GPUs that the claim has, and, in thousandths, what its parts of GPUs are of one.
func (v *Inventory) GPUsHeld(c *resourcev1.ResourceClaim) (whole, parts int64) {
	for _, r := range convert.Held(c) {
		id := convert.DeviceID(r.Driver, r.Pool, r.Device)
		switch dev := v.Device(id); {
		case dev == nil:
		case r.ShareID != nil:
			share, _ := engine.ParseShare(dev.Share(r))
			parts += dev.PartOfGPU(share.Draws)
		case v.NodeOf(id) != Everywhere && dev.WholeGPU():
			whole++
		default:
			parts += dev.OfGPU()
		}
	}
	return whole, parts
}

// GPUsAsked counts the GPUs of requests that only whole GPUs match; and, in thousandths, what others come to at least. Of several options it
// is the one that is least, of those that any device matches: more would keep the pod off nodes where that can be had.
func (v *Inventory) GPUsAsked(a *convert.Asked) (whole, parts int64) {
	met := make(map[string]meeting)
	for _, s := range a.Selections {
		met[s.Name] = v.meets(&s)
	}
	for _, r := range a.Claims.Requests {
		least, gpus := int64(-1), int64(-1)
		for _, o := range r.Options {
			is := met[o.Selection]
			if !is.some {
				continue
			}
			of, wholes := is.least*int64(o.Count), int64(0)
			if o.Admin {
				of = 0
			}
			if !is.parts && !o.Admin {
				wholes = int64(o.Count)
			}
			if least < 0 || of < least {
				least = of
			}
			if gpus < 0 || wholes < gpus {
				gpus = wholes
			}
		}
		if whole += max(0, gpus); gpus == 0 {
			parts += max(0, least)
		}
	}
	return whole, parts
}
