package cluster

import (
	"maps"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
)

// extended is which resources that pods request are had from device classes, by claims that the stock scheduler makes for the
// pod. Where a node offers such a resource by itself, as a device plugin has it, it is counted like any other. Where none does,
// no new node helps: the pod waits as one with resource claims, and not as unschedulable, upon which an autoscaler would buy
// nodes.
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

// mark has a pod that waits for such a resource wait as one with claims.
func (e *extended) mark(m *member, v *engine.Pod) {
	if !m.waiting() || slices.Contains(v.Features, why.Claims) {
		return
	}
	if slices.ContainsFunc(m.takes, func(a engine.Amount) bool { return a.Value > 0 && e.byClaims(a.Resource) }) {
		v.Features = append(slices.Clip(v.Features), why.Claims)
	}
}

// SetDeviceClass takes in a device class.
func (f *Feed) SetDeviceClass(c *resourcev1.DeviceClass) {
	name := ""
	if c.Spec.ExtendedResourceName != nil {
		name = *c.Spec.ExtendedResourceName
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.devices.classes[c.Name] = c
	f.devices.classMoved()
	f.backs(c.Name, name)
	f.out.wake()
}

// RemoveDeviceClass takes a device class away.
func (f *Feed) RemoveDeviceClass(c *resourcev1.DeviceClass) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.devices.classes, c.Name)
	f.devices.classMoved()
	f.backs(c.Name, "")
	f.out.wake()
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
