package facts

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// index finds objects by what others know of them.
type index struct {
	pods     map[string]*corev1.Pod // by namespace/name
	nodes    map[string]*corev1.Node
	onNode   map[string][]*corev1.Pod      // those that hold something there, by node
	children map[types.UID][]Object        // by controller
	events   map[types.UID][]*corev1.Event // newest first, by the object they are about
	byName   map[string][]*corev1.Event    // the same, by kind/namespace/name, for events that outlive their object
	objects  map[types.UID]Object
	stray    map[types.UID]bool   // whose controller does not count: see strays
	derived  map[reflect.Type]any // see Derive
}

// Derive returns what compute makes of the facts. It is computed when it is first asked for, and kept by its type:
// facts never change, and edited facts are other facts, so nothing can make it stale.
func Derive[T any](f *Facts, compute func(*Facts) T) T {
	x, t := f.indexed(), reflect.TypeFor[T]()
	if known, ok := x.derived[t]; ok {
		return known.(T)
	}
	made := compute(f)
	x.derived[t] = made
	return made
}

func (f *Facts) indexed() *index {
	f.once.Do(func() { f.index = makeIndex(&f.Objects) })
	return f.index
}

func makeIndex(o *Objects) *index {
	x := &index{
		pods: make(map[string]*corev1.Pod, len(o.Pods)), nodes: make(map[string]*corev1.Node, len(o.Nodes)), onNode: make(map[string][]*corev1.Pod),
		children: make(map[types.UID][]Object), events: make(map[types.UID][]*corev1.Event), byName: make(map[string][]*corev1.Event), objects: make(map[types.UID]Object),
		derived: make(map[reflect.Type]any),
	}
	for _, n := range o.Nodes {
		x.nodes[n.Name] = n
	}
	for _, p := range o.Pods {
		x.pods[p.Namespace+"/"+p.Name] = p
		if p.Spec.NodeName != "" && !Ended(p) {
			x.onNode[p.Spec.NodeName] = append(x.onNode[p.Spec.NodeName], p)
		}
	}
	for _, k := range o.Kinds() {
		if k.Kind == "Event" {
			continue
		}
		for _, object := range k.List(o) {
			x.objects[object.GetUID()] = object
		}
	}
	x.stray = x.strays(o)
	for _, k := range o.Kinds() {
		if k.Kind == "Event" {
			continue
		}
		for _, object := range k.List(o) {
			if by := x.controllerOf(object); by != "" {
				x.children[by] = append(x.children[by], object)
			}
		}
	}
	for _, e := range o.Events {
		about := &e.InvolvedObject
		x.events[about.UID] = append(x.events[about.UID], e)
		name := about.Kind + "/" + about.Namespace + "/" + about.Name
		x.byName[name] = append(x.byName[name], e)
	}
	//archtest:any-order each list is sorted by itself
	for _, list := range x.events {
		NewestFirst(list)
	}
	//archtest:any-order each list is sorted by itself
	for _, list := range x.byName {
		NewestFirst(list)
	}
	return x
}

// after is the index once the changes are made. It costs what changed, and copies of the maps in which it did.
func (x *index) after(changes []Change) *index {
	y := &index{pods: x.pods, nodes: x.nodes, onNode: x.onNode, children: maps.Clone(x.children), events: x.events, byName: x.byName, objects: maps.Clone(x.objects), stray: x.stray, derived: make(map[reflect.Type]any)}
	if slices.ContainsFunc(changes, func(c Change) bool { return c.about("Pod") }) {
		y.pods, y.onNode = maps.Clone(x.pods), maps.Clone(x.onNode)
	}
	if slices.ContainsFunc(changes, func(c Change) bool { return c.about("Node") }) {
		y.nodes = maps.Clone(x.nodes)
	}
	for _, c := range changes {
		y.change(c)
	}
	return y
}

// about says whether the change is of the kind, of Kubernetes' own.
func (c Change) about(kind string) bool {
	o := c.Now
	if o == nil {
		o = c.Was
	}
	k := KindOfObject(o)
	return k != nil && !k.Foreign && k.Kind == kind
}

func (x *index) change(c Change) {
	if c.Was != nil {
		delete(x.objects, c.Was.GetUID())
	}
	if c.Now != nil {
		x.objects[c.Now.GetUID()] = c.Now
	}
	exchange(x.children, x.controllerOf(c.Was), x.controllerOf(c.Now), c.Was, c.Now)
	switch {
	case c.about("Pod"):
		was, _ := c.Was.(*corev1.Pod)
		now, _ := c.Now.(*corev1.Pod)
		if was != nil {
			delete(x.pods, was.Namespace+"/"+was.Name)
		}
		if now != nil {
			x.pods[now.Namespace+"/"+now.Name] = now
		}
		exchange(x.onNode, nodeHeldBy(was), nodeHeldBy(now), was, now)
	case c.about("Node"):
		if c.Was != nil {
			delete(x.nodes, c.Was.GetName())
		}
		if now, ok := c.Now.(*corev1.Node); ok {
			x.nodes[now.Name] = now
		}
	}
}

// controllerOf is the controller that made the object; "" for none.
func (x *index) controllerOf(o Object) types.UID {
	if o == nil || x.stray[o.GetUID()] {
		return ""
	}
	if c := metav1.GetControllerOfNoCopy(o); c != nil {
		return c.UID
	}
	return ""
}

// mostOwners is how many owners one above the other are followed. The longest that controllers make are six: those of Dynamo's graphs over
// those of Grove's.
const mostOwners = 16

// strays are the objects whose controller does not count. Anybody who may write an object may write its owner references, and the API
// server takes circles, owners of other namespaces, and chains of any length; walks over owners rely on a forest that is not deep. In a
// circle nobody made anybody, nobody is made from another namespace (the garbage collector deletes such an object), and a chain is cut
// below every sixteenth owner. It costs a step for each object.
func (x *index) strays(o *Objects) map[types.UID]bool {
	const walking = -1
	out, depth := make(map[types.UID]bool), make(map[types.UID]int) // depth counts the owners above that count
	for _, k := range o.Kinds() {
		if k.Kind == "Event" {
			continue
		}
		for _, object := range k.List(o) {
			if uid := object.GetUID(); uid != "" && x.objects[uid] != object { // of a bundle in which a UID is written twice
				out[uid], depth[uid] = true, 0
			}
			var way []types.UID // from the object up to the last that is not settled
			above := -1         // the depth of the one above the way; -1: there is none
			for at := object; at != nil && at.GetUID() != ""; {
				uid := at.GetUID()
				if d, known := depth[uid]; known && d != walking {
					above = d
					break
				} else if known {
					circle := slices.Index(way, uid)
					for _, in := range way[circle:] {
						out[in], depth[in] = true, 0
					}
					way, above = way[:circle], 0
					break
				}
				way, depth[uid] = append(way, uid), walking
				c := metav1.GetControllerOfNoCopy(at)
				if c == nil || c.UID == "" {
					break
				}
				up := x.objects[c.UID]
				if up != nil && up.GetNamespace() != "" && up.GetNamespace() != at.GetNamespace() {
					out[uid], up = true, nil
				}
				at = up
			}
			for _, uid := range slices.Backward(way) {
				if above++; above >= mostOwners {
					out[uid], above = true, 0
				}
				depth[uid] = above
			}
		}
	}
	return out
}

// nodeHeldBy is the node on which the pod holds something.
func nodeHeldBy(p *corev1.Pod) string {
	if p == nil || Ended(p) {
		return ""
	}
	return p.Spec.NodeName
}

// exchange puts now, under its key, where was is under its own. Lists are copied; a key of "" is none.
func exchange[K ~string, V comparable](m map[K][]V, from, to K, was, now V) {
	if from != "" && from == to {
		list := slices.Clone(m[from])
		if i := slices.Index(list, was); i >= 0 {
			list[i] = now
			m[from] = list
			return
		}
	}
	if from != "" {
		m[from] = slices.DeleteFunc(slices.Clone(m[from]), func(v V) bool { return v == was })
		if len(m[from]) == 0 {
			delete(m, from)
		}
	}
	if to != "" {
		m[to] = append(slices.Clone(m[to]), now)
	}
}

// NewestFirst sorts events by when they last happened, ties by name.
func NewestFirst(list []*corev1.Event) {
	slices.SortFunc(list, func(a, b *corev1.Event) int {
		return cmp.Or(EventTime(b).Compare(EventTime(a)), strings.Compare(a.Name, b.Name))
	})
}

// EventTime is when the event last happened.
func EventTime(e *corev1.Event) time.Time {
	t := e.LastTimestamp.Time
	if e.Series != nil && e.Series.LastObservedTime.After(t) {
		t = e.Series.LastObservedTime.Time
	}
	if e.EventTime.After(t) {
		t = e.EventTime.Time
	}
	if t.IsZero() {
		return e.CreationTimestamp.Time
	}
	return t
}

// Ended says whether the pod has ended and holds nothing any more.
func Ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// PodNamed returns the pod, nil if there is none or it was not seen. The same holds for NodeNamed and Controller.
func (f *Facts) PodNamed(namespace, name string) *corev1.Pod {
	return f.indexed().pods[namespace+"/"+name]
}

// NodeNamed returns the node, nil if there is none or it was not seen.
func (f *Facts) NodeNamed(name string) *corev1.Node { return f.indexed().nodes[name] }

// PodsOn returns the pods that hold something of the node.
func (f *Facts) PodsOn(node string) []*corev1.Pod { return f.indexed().onNode[node] }

// ObjectOf returns the object of the UID; nil where there is none.
func (f *Facts) ObjectOf(uid types.UID) Object { return f.indexed().objects[uid] }

// Controller returns the object that made this one.
func (f *Facts) Controller(o Object) Object {
	x := f.indexed()
	if by := x.controllerOf(o); by != "" {
		return x.objects[by]
	}
	return nil
}

// Children returns what the object controls.
func (f *Facts) Children(o Object) []Object {
	if o.GetUID() == "" {
		return nil
	}
	return f.indexed().children[o.GetUID()]
}

// EventsOf returns the events about the object with one of the reasons, or all; the newest first. An object that was
// edited has none.
func (f *Facts) EventsOf(o Object, reasons ...string) []*corev1.Event {
	if f.WasEdited(o) {
		return nil
	}
	return withReason(f.indexed().events[o.GetUID()], reasons)
}

// EventsNamed is EventsOf for an object that may be gone.
func (f *Facts) EventsNamed(kind, namespace, name string, reasons ...string) []*corev1.Event {
	return withReason(f.indexed().byName[kind+"/"+namespace+"/"+name], reasons)
}

func withReason(all []*corev1.Event, reasons []string) []*corev1.Event {
	if len(reasons) == 0 {
		return all
	}
	var out []*corev1.Event
	for _, e := range all {
		if slices.Contains(reasons, e.Reason) {
			out = append(out, e)
		}
	}
	return out
}

// Emitter is the component that wrote the event: "kubelet", "default-scheduler", "karpenter", "cluster-autoscaler".
func Emitter(e *corev1.Event) string {
	if e.ReportingController != "" {
		return e.ReportingController
	}
	return e.Source.Component
}

// SameType reports whether two objects are of one Go type.
func SameType(a, b any) bool { return reflect.TypeOf(a) == reflect.TypeOf(b) }
