package cluster

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/berth-dev/berth/engine"
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

// SetCSINode takes in what drivers are on a node.
func (f *Feed) SetCSINode(n *storagev1.CSINode) {
	installed := make(map[string]bool)
	for _, d := range n.Spec.Drivers {
		installed[d.Name] = true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.attachable(n.Name, installed, convert.AttachLimits(n))
}

// RemoveCSINode takes that away.
func (f *Feed) RemoveCSINode(n *storagev1.CSINode) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.attachable(n.Name, nil, nil)
}

func (f *Feed) attachable(node string, installed map[string]bool, limits map[string]int64) {
	a := f.storage.attached
	was, before := a.limits[node], slices.Sorted(maps.Keys(a.limited))
	if !maps.Equal(a.installed[node], installed) {
		f.storage.all = true
		f.out.wake()
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
	if !slices.Equal(before, slices.Sorted(maps.Keys(a.limited))) {
		f.limitEverywhere()
	} else if !maps.Equal(was, limits) {
		f.giveNode(node)
	}
}

// limitEverywhere gives all nodes, and the pods that have claims, for another driver has a limit now, or none.
func (f *Feed) limitEverywhere() {
	for _, name := range sortedNames(f.nodes.objects) {
		f.giveNode(name)
	}
	f.storage.all = true
	//archtest:any-order it fills a set
	for _, pods := range f.storage.holders {
		for key := range pods {
			f.storage.attached.recount[key] = true
		}
	}
	f.out.wake()
}

// giveNode gives a node again, as of now.
func (f *Feed) giveNode(name string) {
	if n := f.nodes.objects[name]; n != nil {
		v := convert.Node(f.tiers.Located(n), f.opts)
		v.Version = f.nodes.given[name].Version + 1 // what comes from the API is VersionBits above
		f.putNode(v)
	}
}

// onNode are the limits of a node, by resource.
func (a *attachments) onNode(name string) map[string]int64 {
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

// attach adds what the pod's volumes take of the limits of its node.
func (f *Feed) attach(m *member, v *engine.Pod) {
	a := f.storage.attached
	if len(a.limited) == 0 || len(m.pod.Spec.Volumes) == 0 {
		return
	}
	takes, stored := make(map[string]int64), f.storage.lookup()
	claims := slices.Compact(slices.Sorted(slices.Values(claimsOf(m.pod))))
	for _, key := range claims {
		c := f.storage.claims[key]
		if c == nil || m.bound() && !f.storage.counts(m, key) {
			continue
		}
		if d := stored.DriverOf(c); a.limited[d] > 0 {
			takes[convert.Attachable(d)]++
		}
	}
	v.Spec.Requests = convert.With(v.Spec.Requests, takes)
}

// counts says whether the claim is counted for this pod of those that use it on the node.
func (s *storage) counts(m *member, claim string) bool {
	for key, o := range s.holders[claim] {
		if o.pod.Spec.NodeName == m.pod.Spec.NodeName && key < m.key {
			return false
		}
	}
	return true
}

// countAgain has the pods counted again that use the claim on nodes.
func (s *storage) countAgain(claim string) {
	if len(s.attached.limited) > 0 {
		s.holdAgain(claim)
	}
}

// holdAgain has the pods given again that use the claim on nodes.
func (s *storage) holdAgain(claim string) {
	//archtest:any-order it fills a set
	for key := range s.holders[claim] {
		s.attached.recount[key] = true
	}
}

// recountVolumes gives the pods again whose volumes are counted otherwise now.
func (f *Feed) recountVolumes() {
	a := f.storage.attached
	var again []*member
	//archtest:any-order giveAgain sorts them
	for key := range a.recount {
		if m := f.members.pods[key]; m != nil && m.given && m.bound() {
			again = append(again, m)
		}
	}
	clear(a.recount)
	f.giveAgain(again)
}

// SetCSIDriver takes in what a driver says of itself.
func (f *Feed) SetCSIDriver(d *storagev1.CSIDriver) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.storage.attached.drivers[d.Name] = d
	f.storage.all = true
	f.out.wake()
}

// RemoveCSIDriver takes it away.
func (f *Feed) RemoveCSIDriver(d *storagev1.CSIDriver) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.storage.attached.drivers, d.Name)
	f.storage.all = true
	f.out.wake()
}

// SetCapacity takes in how much room a driver has.
func (f *Feed) SetCapacity(c *storagev1.CSIStorageCapacity) {
	f.mu.Lock()
	defer f.mu.Unlock()
	insert(f.storage.attached.capacities, c.StorageClassName, keyOf(c), c)
	f.storage.stale[c.StorageClassName] = true
	f.out.wake()
}

// RemoveCapacity takes it away.
func (f *Feed) RemoveCapacity(c *storagev1.CSIStorageCapacity) {
	f.mu.Lock()
	defer f.mu.Unlock()
	cut(f.storage.attached.capacities, c.StorageClassName, keyOf(c))
	f.storage.stale[c.StorageClassName] = true
	f.out.wake()
}

// lookup finds what claims depend on, without free volumes and nodes.
func (s *storage) lookup() convert.Storage {
	a := s.attached
	return convert.Storage{
		Claim:   func(namespace, name string) *corev1.PersistentVolumeClaim { return s.claims[namespace+"/"+name] },
		Volume:  func(name string) *corev1.PersistentVolume { return s.volumes[name] },
		Class:   func(name string) *storagev1.StorageClass { return s.classes[name] },
		HasNode: func(name string) bool { return s.nodes.objects[name] != nil },
		Driver:  func(name string) *storagev1.CSIDriver { return a.drivers[name] },
		Capacities: func(class string) []*storagev1.CSIStorageCapacity {
			return slices.Collect(maps.Values(a.capacities[class]))
		},
		Installed: func(driver, node string) bool { return a.installed[node][driver] },
	}
}
