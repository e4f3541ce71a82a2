package cluster

import (
	"fmt"
	"slices"
	"time"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-dev/berth/kube/convert"
)

// AttachFor is how long devices may take to be attached, from when they were allocated: as in upstream's scheduler
// (DynamicResourcesBindingTimeoutDefault).
const AttachFor = 10 * time.Minute

// attaching says whether devices of the claim are being attached, and still have time for it.
func (f *Feed) attaching(c *resourcev1.ResourceClaim) bool {
	if c == nil || c.Status.Allocation == nil {
		return false
	}
	is := convert.Attached(c)
	return is.Pending != "" && !f.late(c)
}

// late says whether the claim's devices should have been attached by now.
func (f *Feed) late(c *resourcev1.ResourceClaim) bool {
	at := c.Status.Allocation.AllocationTimestamp
	return at != nil && f.timers.now().After(at.Add(AttachFor))
}

// Attaching says which device the start waits for, "" where all are attached; or why it cannot be bound.
func (f *Feed) Attaching(r *Reservation) (pending string, failed *Failure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range r.Devices {
		blamed := []Want{{Pod: w.Pod, Node: w.Node}}
		if m := f.members.pods[w.Pod]; m == nil || string(m.pod.UID) != w.UID {
			return "", &Failure{Reason: fmt.Sprintf("pod %s is gone", w.Pod)}
		}
		for _, key := range slices.Concat(w.Claims, w.Shared, w.Attaching) {
			c := f.devices.claims[key]
			if c == nil || c.Status.Allocation == nil {
				return "", &Failure{Reason: fmt.Sprintf("resource claim %s has lost its devices", key)}
			}
			is := convert.Attached(c)
			switch {
			case is.Failed != "":
				return "", &Failure{Reason: fmt.Sprintf("resource claim %s: %s", key, is.Failed), Blamed: blamed}
			case is.Pending != "" && f.late(c):
				return "", &Failure{Reason: fmt.Sprintf("resource claim %s: %s is not there after %s", key, is.Pending, AttachFor), Blamed: blamed}
			case is.Pending != "" && pending == "":
				pending = fmt.Sprintf("resource claim %s: %s", key, is.Pending)
			}
		}
	}
	return pending, nil
}
