package cluster

import (
	"fmt"
	"slices"
	"time"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-dev/berth/kube/convert"
)

// AttachFor is how long devices may take to be attached, from when they were allocated, where nothing else is said: as in upstream's
// scheduler (DynamicResourcesBindingTimeoutDefault).
const AttachFor = 10 * time.Minute

// Attaching is a device that a start waits for.
type Attaching struct {
	Pod, Node string // whose it is
	Claim     string // its key
	convert.Attachment
	Since time.Time // when it was allocated; zero: not known
	Until time.Time // when it is given up; zero: never
}

// attaching says whether devices of the claim are being attached, and still have time for it.
func (f *Feed) attaching(c *resourcev1.ResourceClaim) bool {
	if c == nil || c.Status.Allocation == nil {
		return false
	}
	is := convert.Attached(c)
	return is != nil && !is.Failed && !f.late(c)
}

// late says whether the claim's devices should have been attached by now.
func (f *Feed) late(c *resourcev1.ResourceClaim) bool {
	at := c.Status.Allocation.AllocationTimestamp
	return at != nil && f.timers.now().After(at.Add(f.attachFor))
}

// Attaching says which device the start waits for, nil where all are attached; or why it cannot be bound.
func (f *Feed) Attaching(r *Reservation) (waits *Attaching, failed *Failure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range r.Devices {
		blamed := []Want{{Pod: w.Pod, Node: w.Node}}
		if m := f.members.pods[w.Pod]; m == nil || string(m.pod.UID) != w.UID {
			return nil, &Failure{Reason: fmt.Sprintf("pod %s is gone", w.Pod)}
		}
		for _, key := range slices.Concat(w.Claims, w.Shared, w.Attaching) {
			c := f.devices.claims[key]
			if c == nil || c.Status.Allocation == nil {
				return nil, &Failure{Reason: fmt.Sprintf("resource claim %s has lost its devices", key)}
			}
			is := convert.Attached(c)
			if is == nil {
				continue
			}
			found := &Attaching{Pod: w.Pod, Node: w.Node, Claim: key, Attachment: *is}
			if at := c.Status.Allocation.AllocationTimestamp; at != nil {
				found.Since, found.Until = at.Time, at.Add(f.attachFor)
			}
			switch {
			case is.Failed:
				return nil, &Failure{Reason: fmt.Sprintf("resource claim %s: device %s has condition %s%s", key, is.Device, is.Condition, convert.DriverSays(is.Says)), Blamed: blamed, Device: found}
			case f.late(c):
				return nil, &Failure{Reason: fmt.Sprintf("resource claim %s: device binding timeout: device %s lacks condition %s after %s%s",
					key, is.Device, is.Condition, f.attachFor, convert.DriverSays(is.Says)), Blamed: blamed, Device: found}
			case waits == nil:
				waits = found
			}
		}
	}
	return waits, nil
}
