package cluster

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/cluster/internal/inventory"
	"github.com/berth-dev/berth/kube/convert"
)

// DeviceWant is the claims of one pod of a start, which are to get their devices, or to be reserved for it.
type DeviceWant struct {
	Pod, Node string
	UID       string   // the pod's
	Group     string   // the UID of its PodGroup; "": none
	Claims    []string // keys
	Shared    []string // keys of claims that get their devices with another pod of the start, and are to be reserved for this one too
	Devices   []string // that those of Claims without have to get, by DeviceID
	Attaching []string // keys of claims that are reserved for it already, and whose devices are still to be attached

	Extended *resourcev1.ResourceClaim                 // to be made for it; nil: none
	Mappings []corev1.ContainerExtendedResourceRequest // which container has which request of it
	Unmap    bool                                      // the pod names such a claim, and is to have none
}

// wantDevices notes which claims of a member are to be seen to before it is bound.
func (f *Feed) wantDevices(r *Reservation, at engine.Placement) {
	m := f.members.pods[at.Pod]
	if m == nil || !f.devices.Decides() {
		return
	}
	claims, _ := convert.ResourceClaims(m.pod)
	w := DeviceWant{Pod: at.Pod, UID: at.UID, Group: f.groupUID(m), Node: at.Node, Devices: at.Devices}
	if n := f.nodes.given[at.Node]; n != nil && len(n.ByClaims) > 0 {
		w.Extended, w.Mappings = convert.ExtendedClaim(m.pod, func(resource string) *resourcev1.DeviceClass {
			if !slices.Contains(n.ByClaims, resource) {
				return nil // the node has it by count
			}
			return f.classOf(resource)
		})
	}
	w.Unmap = w.Extended == nil && m.pod.Status.ExtendedResourceClaimStatus != nil
	for _, named := range claims {
		c := f.devices.claims[named.Key]
		if c == nil { // it went since the plan: whoever makes the allocation finds that out, and the pod is not bound without
			w.Claims = append(w.Claims, named.Key)
			continue
		}
		if resourceclaim.IsReservedForPod(m.pod, c, true) {
			if convert.Attached(c) != nil {
				w.Attaching = append(w.Attaching, named.Key)
			}
			continue
		}
		if first, _ := f.devices.firstOf(m, named.Key); first != m && c.Status.Allocation == nil {
			w.Shared = append(w.Shared, named.Key)
		} else {
			w.Claims = append(w.Claims, named.Key)
		}
	}
	if len(w.Claims)+len(w.Shared)+len(w.Attaching) > 0 || w.Extended != nil || w.Unmap {
		r.Devices = append(r.Devices, w)
	}
}

// Stranded are the claims of pods of ours that wait, and have waited for so long with devices that no other uses: a start of
// them was given up, or the process that began it is gone. They are to be given back, so that the next plan is free to choose; those that are not
// are told again after as long. next is when to ask again; zero: when something changes.
func (f *Feed) Stranded(patience time.Duration) (out []DeviceWant, next time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d, now := f.devices, f.timers.now()
	for _, key := range sortedNames(d.loose) {
		since := d.loose[key]
		if since.IsZero() {
			since = now
			d.loose[key] = now
		}
		if due := since.Add(patience); now.Before(due) {
			if next.IsZero() || due.Before(next) {
				next = due
			}
			continue
		}
		if f.attaching(d.claims[key]) {
			d.loose[key] = now // it is waited for, by the next plan of the pod
			continue
		}
		d.loose[key] = now
		if again := now.Add(patience); next.IsZero() || again.Before(next) {
			next = again
		}
		users := d.idleUsers(key)
		if slices.ContainsFunc(users, func(m *member) bool { return f.preparing[m.key] != nil }) {
			continue
		}
		for _, m := range users {
			out = append(out, DeviceWant{Pod: m.key, UID: string(m.pod.UID), Group: f.groupUID(m), Claims: []string{key}})
		}
	}
	return out, next
}

// idleUsers are the pods that the claim, which has devices, is reserved for, where all of them are ours and wait; nil: there are others, or
// none. Where it is reserved for a PodGroup of which no member has a node, it is the first of those that wait.
func (d *devices) idleUsers(key string) []*member {
	c := d.claims[key]
	if c == nil || c.Status.Allocation == nil || len(c.Status.ReservedFor) == 0 {
		return nil
	}
	grouped := slices.ContainsFunc(c.Status.ReservedFor, ofGroup)
	waiting := make(map[types.UID]*member, len(d.users[key]))
	var first *member // of the group's
	//archtest:any-order each has its own UID, and the first by key is looked for
	for _, m := range d.users[key] {
		ours := grouped && reservedForGroup(m, c)
		switch {
		case m.bound() || !m.pays():
			if ours {
				return nil
			}
		case m.waiting():
			waiting[m.pod.UID] = m
			if ours && (first == nil || m.key < first.key) {
				first = m
			}
		}
	}
	var out []*member
	for _, r := range c.Status.ReservedFor {
		m := waiting[r.UID]
		if m == nil && ofGroup(r) {
			m = first
		}
		if m == nil {
			return nil
		}
		out = append(out, m)
	}
	return out
}

// ofGroup says whether the claim is reserved for something else than a pod.
func ofGroup(r resourcev1.ResourceClaimConsumerReference) bool { return r.Resource != "pods" }

// DeviceScene is what an allocation is made of.
type DeviceScene struct {
	Node    *corev1.Node
	Pod     *corev1.Pod
	Claims  []*resourcev1.ResourceClaim                             // of the want, in its order
	Shared  []*resourcev1.ResourceClaim                             // likewise
	Users   map[types.UID]resourcev1.ResourceClaimConsumerReference // by claim: what it is reserved for, the pod or its group
	Classes []*resourcev1.DeviceClass
	Slices  []*resourcev1.ResourceSlice // of the node, with no devices but those that are to be had
	Held    []*resourcev1.ResourceClaim // that have what is not to be had of these
}

// Scene returns what the devices of the want are allocated of; nil where something of it is gone.
func (f *Feed) Scene(w DeviceWant) *DeviceScene {
	f.mu.Lock()
	defer f.mu.Unlock()
	m, n := f.members.pods[w.Pod], f.nodes.objects[w.Node]
	if m == nil || n == nil || string(m.pod.UID) != w.UID {
		return nil
	}
	out := &DeviceScene{Node: n, Pod: m.pod, Classes: slices.Collect(maps.Values(f.devices.classes))}
	out.Users = f.consumers(m)
	for _, key := range slices.Concat(w.Claims, w.Shared) {
		c := f.devices.claims[key]
		if c == nil || c.DeletionTimestamp != nil {
			return nil
		}
		if len(out.Claims) < len(w.Claims) {
			out.Claims = append(out.Claims, c)
		} else {
			out.Shared = append(out.Shared, c)
		}
	}
	looksOn := admins(out.Claims)
	for _, s := range slices.Concat(f.devices.Slices(w.Node), f.devices.Slices(inventory.Everywhere)) {
		s = s.DeepCopy()
		s.Spec.Devices = slices.DeleteFunc(s.Spec.Devices, func(d resourcev1.Device) bool {
			return !looksOn && !planned(w.Devices, convert.DeviceID(s.Spec.Driver, s.Spec.Pool.Name, d.Name))
		})
		if !looksOn {
			inPlanOrder(s, w.Devices)
		}
		out.Slices = append(out.Slices, s)
	}
	out.Held = f.devices.beside(w, looksOn)
	return out
}

// inPlanOrder puts the devices of the slice into the order of the plan, which is that of the requests. Upstream tries them in turn, and does not go on
// where those that it tried first keep a request of all devices from being met.
func inPlanOrder(s *resourcev1.ResourceSlice, devices []string) {
	at := func(d resourcev1.Device) int {
		id := convert.DeviceID(s.Spec.Driver, s.Spec.Pool.Name, d.Name)
		if i := slices.IndexFunc(devices, func(text string) bool { return engine.DeviceOf(text) == id }); i >= 0 {
			return i
		}
		return len(devices)
	}
	slices.SortStableFunc(s.Spec.Devices, func(a, b resourcev1.Device) int { return cmp.Compare(at(a), at(b)) })
}

// planned says whether the device, or a share of it, is among those of a plan.
func planned(devices []string, id string) bool {
	return slices.ContainsFunc(devices, func(text string) bool { return engine.DeviceOf(text) == id })
}

// beside are claims that have all that the plan does not give: of shared devices the rest of their capacity. A claim that looks on sees all
// devices, and wants capacity of them that the plan does not name: beside it is what others have, and whole devices that they may be given.
func (d *devices) beside(w DeviceWant, looksOn bool) (out []*resourcev1.ResourceClaim) {
	rest := &resourcev1.ResourceClaim{Status: resourcev1.ResourceClaimStatus{Allocation: &resourcev1.AllocationResult{}}}
	add := func(dev *convert.OfferedDevice) *resourcev1.DeviceRequestAllocationResult {
		_, pool, _ := strings.Cut(dev.Pool, "/")
		list := &rest.Status.Allocation.Devices.Results
		*list = append(*list, resourcev1.DeviceRequestAllocationResult{Driver: dev.Driver, Pool: pool, Device: dev.Name})
		return &(*list)[len(*list)-1]
	}
	var draws []engine.Draw
	for i, text := range w.Devices {
		share, is := engine.ParseShare(text)
		dev := d.Device(share.Device)
		if looksOn || !is || dev == nil || planned(w.Devices[:i], share.Device) {
			continue
		}
		draws = draws[:0]
		for _, other := range w.Devices[i:] {
			if more, is := engine.ParseShare(other); is && more.Device == share.Device {
				draws = append(draws, more.Draws...)
			}
		}
		r := add(dev)
		r.ShareID, r.ConsumedCapacity = new(types.UID("others")), dev.Beside(draws)
	}
	if looksOn {
		for _, at := range []string{w.Node, inventory.Everywhere} {
			for _, key := range sortedNames(d.holding[at]) {
				out = append(out, d.claims[key])
			}
		}
		for _, offered := range []convert.Offered{d.OfferedAt(w.Node), d.OfferedAt(inventory.Everywhere)} {
			for i := range offered.Devices {
				if dev := &offered.Devices[i]; !planned(w.Devices, dev.ID) && !dev.Draws() && !dev.Shared() {
					add(dev)
				}
			}
		}
	}
	return append(out, rest)
}

// admins says whether a claim looks on, and so has devices that the plan does not name.
func admins(claims []*resourcev1.ResourceClaim) bool {
	return slices.ContainsFunc(claims, func(c *resourcev1.ResourceClaim) bool {
		return slices.ContainsFunc(c.Spec.Devices.Requests, func(r resourcev1.DeviceRequest) bool {
			return r.Exactly != nil && r.Exactly.AdminAccess != nil && *r.Exactly.AdminAccess
		})
	})
}
