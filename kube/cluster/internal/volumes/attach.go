package volumes

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/berth-dev/berth/kube/convert"
)

// attachments is what CSI drivers say of nodes: how many volumes can be attached, and how much room there is for new ones.
//
// A limit is a resource of the node. A pod that waits takes one of it for each of its claims. On a node a claim is counted
// once, for the first by key of the pods that use it there. A pod whose claim is on a node already is asked for one all the
// same while it waits: where the node is at its limit it is refused, though nothing would be attached. VolumeAttachments
// without a pod are not counted.
type attachments struct {
	drivers    map[string]*storagev1.CSIDriver
	capacities map[string]map[string]*storagev1.CSIStorageCapacity // by class, then by key
	installed  map[string]map[string]bool                          // drivers by node
	limits     map[string]map[string]int64                         // by node and driver
	limited    map[string]int                                      // nodes on which a driver has a limit
	recount    map[string]bool                                     // pods on nodes whose volumes are to be counted again
}

// unlimited is how many volumes a node takes whose driver sets no limit, where others have one: more than pods can have.
const unlimited = 1 << 20

func newAttachments() *attachments {
	return &attachments{
		drivers: make(map[string]*storagev1.CSIDriver), capacities: make(map[string]map[string]*storagev1.CSIStorageCapacity), installed: make(map[string]map[string]bool),
		limits: make(map[string]map[string]int64), limited: make(map[string]int), recount: make(map[string]bool),
	}
}

// Which are the nodes on which another number of volumes can be attached than before (OnNode).
type Which int

const (
	None Which = iota
	One        // the node that was told of
	Every
)

// SetCSINode takes in what drivers are on a node, nil where that is not known any more.
func (s *Volumes) SetCSINode(node string, n *storagev1.CSINode) Which {
	var installed map[string]bool
	var limits map[string]int64
	if n != nil {
		installed, limits = make(map[string]bool), convert.AttachLimits(n)
		for _, d := range n.Spec.Drivers {
			installed[d.Name] = true
		}
	}
	a := s.attached
	was, before := a.limits[node], slices.Sorted(maps.Keys(a.limited))
	if !maps.Equal(a.installed[node], installed) {
		s.all = true
		s.wake()
	}
	a.installed[node], a.limits[node] = installed, limits
	if installed == nil {
		delete(a.installed, node)
		delete(a.limits, node)
	}
	//archtest:any-order sums
	for d := range was {
		if a.limited[d]--; a.limited[d] == 0 {
			delete(a.limited, d)
		}
	}
	//archtest:any-order sums
	for d := range limits {
		a.limited[d]++
	}
	switch {
	case !slices.Equal(before, slices.Sorted(maps.Keys(a.limited))):
		s.limitEverywhere()
		return Every
	case !maps.Equal(was, limits):
		return One
	}
	return None
}

// limitEverywhere has all pods with claims looked at, for another driver has a limit now, or none.
func (s *Volumes) limitEverywhere() {
	s.all = true
	//archtest:any-order it fills a set
	for _, pods := range s.holders {
		for key := range pods {
			s.attached.recount[key] = true
		}
	}
	s.wake()
}

// OnNode are the limits of a node, by resource.
func (s *Volumes) OnNode(name string) map[string]int64 {
	a := s.attached
	out := make(map[string]int64)
	//archtest:any-order it fills a map
	for d := range a.limited {
		limit, ok := a.limits[name][d]
		if !ok {
			limit = unlimited
		}
		out[convert.Attachable(d)] = limit
	}
	return out
}

// Takes is what the pod's volumes take of the limits of its node, or would take of those of any, by resource; nil: nothing is limited.
func (s *Volumes) Takes(pod string, p *corev1.Pod) map[string]int64 {
	a := s.attached
	if len(a.limited) == 0 || len(p.Spec.Volumes) == 0 {
		return nil
	}
	takes, stored := make(map[string]int64), s.lookup()
	claims := slices.Compact(slices.Sorted(slices.Values(ClaimsOf(p))))
	for _, key := range claims {
		c := s.claims[key]
		if c == nil || p.Spec.NodeName != "" && !s.counts(pod, p, key) {
			continue
		}
		if d := stored.DriverOf(c); a.limited[d] > 0 {
			takes[convert.Attachable(d)]++
		}
	}
	return takes
}

// counts says whether the claim is counted for this pod of those that use it on the node.
func (s *Volumes) counts(pod string, p *corev1.Pod, claim string) bool {
	for key, o := range s.holders[claim] {
		if o.Spec.NodeName == p.Spec.NodeName && key < pod {
			return false
		}
	}
	return true
}

// countAgain has the pods counted again that use the claim on nodes.
func (s *Volumes) countAgain(claim string) {
	if len(s.attached.limited) > 0 {
		s.holdAgain(claim)
	}
}

// holdAgain has the pods given again that use the claim on nodes.
func (s *Volumes) holdAgain(claim string) {
	//archtest:any-order it fills a set
	for key := range s.holders[claim] {
		s.attached.recount[key] = true
	}
}

// SetCSIDriver takes in what a driver says of itself, nil where it is gone.
func (s *Volumes) SetCSIDriver(name string, d *storagev1.CSIDriver) {
	if s.attached.drivers[name] = d; d == nil {
		delete(s.attached.drivers, name)
	}
	s.all = true
	s.wake()
}

// SetCapacity takes in how much room a driver has.
func (s *Volumes) SetCapacity(c *storagev1.CSIStorageCapacity) {
	insert(s.attached.capacities, c.StorageClassName, c.Namespace+"/"+c.Name, c)
	s.stale[c.StorageClassName] = true
	s.wake()
}

// RemoveCapacity takes it away.
func (s *Volumes) RemoveCapacity(c *storagev1.CSIStorageCapacity) {
	cut(s.attached.capacities, c.StorageClassName, c.Namespace+"/"+c.Name)
	s.stale[c.StorageClassName] = true
	s.wake()
}
