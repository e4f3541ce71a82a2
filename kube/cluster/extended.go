package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/convert"
)

// extended is which resources that pods request are had from device classes, by a claim that is made for the pod when it starts.
// Where a node offers such a resource by itself, as a device plugin has it, it is counted like any other. Where claims are not
// decided and no node does, no new node helps: the pod waits as one with resource claims, and not as unschedulable, upon which an
// autoscaler would buy nodes.
type extended struct {
	classes map[string]string             // resources by device class
	backed  map[string]int                // how many classes a resource is had from
	offered map[string]int                // of those, on how many nodes it is offered without
	users   map[string]map[string]*member // pods of ours without a node, by resource with a domain, then by key
	of      map[string][]string           // resources that a pod is in users under
	changed map[string]bool               // resources whose pods are to be given again
}

func newExtended() *extended {
	return &extended{
		classes: make(map[string]string), backed: make(map[string]int), offered: make(map[string]int),
		users: make(map[string]map[string]*member), of: make(map[string][]string), changed: make(map[string]bool),
	}
}

// join notes which resources the pod waits for.
func (e *extended) join(m *member) {
	e.leave(m)
	if !m.ours || !m.waiting() {
		return
	}
	for _, a := range m.takes {
		if strings.Contains(a.Resource, "/") {
			insert(e.users, a.Resource, m.key, m)
			e.of[m.key] = append(e.of[m.key], a.Resource)
		}
	}
}

func (e *extended) leave(m *member) {
	for _, resource := range e.of[m.key] {
		cut(e.users, resource, m.key)
	}
	delete(e.of, m.key)
}

// byClaims says whether the resource can be had by claims alone.
func (e *extended) byClaims(resource string) bool {
	return strings.HasPrefix(resource, resourcev1.ResourceDeviceClassPrefix) || e.backed[resource] > 0 && e.offered[resource] == 0
}

// mark has a pod that waits for such a resource wait as one with claims, where these are not decided.
func (e *extended) mark(m *member, v *engine.Pod, decided bool) {
	if !m.waiting() || decided || slices.Contains(v.Features, why.Claims) {
		return
	}
	if slices.ContainsFunc(m.takes, func(a engine.Amount) bool { return a.Value > 0 && e.byClaims(a.Resource) }) {
		v.Features = append(slices.Clip(v.Features), why.Claims)
	}
}

// classOf is the class that has the resource: of several the youngest, then the first by name; nil for none.
func (e *extended) classOf(classes map[string]*resourcev1.DeviceClass, resource string) *resourcev1.DeviceClass {
	if name, ok := strings.CutPrefix(resource, resourcev1.ResourceDeviceClassPrefix); ok {
		return classes[name]
	}
	if e.backed[resource] == 0 {
		return nil
	}
	var out *resourcev1.DeviceClass
	//archtest:any-order the youngest, then the first by name, is looked for
	for name, has := range e.classes {
		if c := classes[name]; has == resource && c != nil {
			if out == nil || out.CreationTimestamp.Before(&c.CreationTimestamp) || out.CreationTimestamp.Equal(&c.CreationTimestamp) && c.Name < out.Name {
				out = c
			}
		}
	}
	return out
}

func (f *Feed) classOf(resource string) *resourcev1.DeviceClass {
	return f.extended.classOf(f.devices.classes, resource)
}

// extendedClaim is what stands for the extended resources of a pod of ours that waits; nil: nothing does.
func (f *Feed) extendedClaim(m *member) *resourcev1.ResourceClaim {
	if !m.ours || !m.waiting() || len(f.extended.of[m.key]) == 0 {
		return nil
	}
	claim, _ := convert.ExtendedClaim(m.pod, f.classOf)
	return claim
}

// classless says which resources of a pod of ours that waits name device classes that there are not.
func (f *Feed) classless(m *member) (missing []string) {
	if !m.ours || !m.waiting() {
		return nil
	}
	for _, resource := range f.extended.of[m.key] {
		if name, ok := strings.CutPrefix(resource, resourcev1.ResourceDeviceClassPrefix); ok && f.devices.classes[name] == nil {
			missing = append(missing, fmt.Sprintf("device class %s, which resource %s names, does not exist", name, resource))
			f.devices.pods[m.key] = true // it is looked at before the next plan too: a process that does not lead yet reports nothing
		}
	}
	return missing
}

// learnResources has nodes say how many devices they have of the resources that the claim stands for. GPUs they count anyway.
func (f *Feed) learnResources(claim *resourcev1.ResourceClaim) {
	if claim == nil {
		return
	}
	for _, r := range claim.Spec.Devices.Requests {
		class := f.devices.classes[r.Exactly.DeviceClassName]
		for _, resource := range []string{ptr.Deref(class.Spec.ExtendedResourceName, ""), resourcev1.ResourceDeviceClassPrefix + class.Name} {
			f.devices.LearnResource(resource, convert.ClassSelection(class))
		}
	}
}

// standsFor enters the claim at the pod for whose extended resources it stands, or takes it out there.
func (f *Feed) standsFor(key string, c *resourcev1.ResourceClaim, does bool) {
	owner, ok := convert.ExtendedFor(c)
	if !ok {
		return
	}
	m := f.members.pods[c.Namespace+"/"+owner.Name]
	if m != nil && m.pod.UID != owner.UID {
		m = nil
	}
	switch {
	case does:
		if f.devices.extra[owner.UID] = key; m != nil {
			insert(f.devices.users, key, m.key, m)
		}
	case f.devices.extra[owner.UID] == key:
		if delete(f.devices.extra, owner.UID); m != nil {
			cut(f.devices.users, key, m.key)
			f.devices.pods[m.key] = true
		}
	}
}

// ExtendedClaimOf is the claim that stands for the extended resources of the pod, as last seen; nil for none.
func (f *Feed) ExtendedClaimOf(uid string) *resourcev1.ResourceClaim {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.devices.claims[f.devices.extra[types.UID(uid)]]
}

// setDeviceClass takes in a device class.
func (f *Feed) setDeviceClass(c *resourcev1.DeviceClass) {
	name := ""
	if c.Spec.ExtendedResourceName != nil {
		name = *c.Spec.ExtendedResourceName
	}
	f.devices.classes[c.Name] = c
	f.devices.classMoved()
	f.backs(c.Name, name)
	f.resourcesMoved(c)
	f.out.wake()
}

// removeDeviceClass takes a device class away.
func (f *Feed) removeDeviceClass(c *resourcev1.DeviceClass) {
	delete(f.devices.classes, c.Name)
	f.devices.classMoved()
	f.backs(c.Name, "")
	f.resourcesMoved(c)
	f.out.wake()
}

// resourcesMoved has the pods looked at that wait for resources of the class.
func (f *Feed) resourcesMoved(c *resourcev1.DeviceClass) {
	for _, resource := range []string{ptr.Deref(c.Spec.ExtendedResourceName, ""), resourcev1.ResourceDeviceClassPrefix + c.Name} {
		//archtest:any-order it fills a set
		for key := range f.extended.users[resource] {
			f.devices.pods[key] = true
		}
	}
}

// backs says that the class has the resource, "" for none.
func (f *Feed) backs(class, resource string) {
	e := f.extended
	was := e.classes[class]
	if was == resource {
		return
	}
	if delete(e.classes, class); was != "" {
		if e.backed[was]--; e.backed[was] == 0 {
			delete(e.backed, was)
			delete(e.offered, was)
		}
		e.changed[was] = true
	}
	if resource != "" {
		e.classes[class] = resource
		if e.backed[resource]++; e.backed[resource] == 1 {
			for _, n := range f.nodes.given { //archtest:any-order a sum
				if n.Allocatable.Get(resource) > 0 {
					e.offered[resource]++
				}
			}
		}
		e.changed[resource] = true
	}
	f.out.wake()
}

// nodeChanged counts where resources are offered; either node may be nil.
func (e *extended) nodeChanged(was, is *engine.Node) {
	has := func(n *engine.Node, resource string) int {
		if n != nil && n.Allocatable.Get(resource) > 0 {
			return 1
		}
		return 0
	}
	//archtest:any-order each resource by itself
	for resource := range e.backed {
		before := e.offered[resource]
		e.offered[resource] += has(is, resource) - has(was, resource)
		if (before == 0) != (e.offered[resource] == 0) {
			e.changed[resource] = true
		}
	}
}

// giveExtended gives the pods again that wait for resources which are had otherwise now.
func (f *Feed) giveExtended() {
	again := make(map[string]*member)
	//archtest:any-order it fills a set
	for resource := range f.extended.changed {
		maps.Copy(again, f.extended.users[resource])
	}
	clear(f.extended.changed)
	maps.DeleteFunc(again, func(_ string, m *member) bool { return !m.given })
	f.giveAgain(slices.Collect(maps.Values(again)))
}
