package cluster

import (
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
)

// nodes are the nodes as last seen, and as last given to the engine: heartbeats change the object and not the value.
type nodes struct {
	objects map[string]*corev1.Node
	given   map[string]*engine.Node
}

func newNodes() *nodes {
	return &nodes{objects: make(map[string]*corev1.Node), given: make(map[string]*engine.Node)}
}

// All returns the nodes in no order, and Node the one of the name, nil for none.
func (n *nodes) All() []*corev1.Node { return slices.Collect(maps.Values(n.objects)) }

func (n *nodes) Node(name string) *corev1.Node { return n.objects[name] }

// setNode takes in a node.
func (f *Feed) setNode(n *corev1.Node) {
	old := f.nodes.objects[n.Name]
	if old == nil || !maps.Equal(old.Labels, n.Labels) {
		f.volumes.AllAgain()
		f.bookings.again()
		f.surveyLater()
	}
	if old == nil || old.Annotations[v1alpha1.KeyGPUTopology] != n.Annotations[v1alpha1.KeyGPUTopology] {
		f.tellTopology(n)
	}
	f.bookings.saw(n)
	f.nodes.objects[n.Name] = n
	f.devices.SetNode(n.Name, n)
	v := convert.Node(f.tiers.Located(n), f.opts)
	v.Version <<= VersionBits
	if f.putNode(v) && f.whatIf == nil {
		f.arrivals.saw(n)
	}
}

// tellTopology says what of the node's annotation cannot be read.
func (f *Feed) tellTopology(n *corev1.Node) {
	if problem := convert.TopologyProblem(n); problem != "" {
		f.listen.NotHonoured(n, []string{problem})
	}
}

// putNode gives the engine a node, with what other objects say of it, and says that it did: not where the engine has it so.
func (f *Feed) putNode(v engine.Node) bool {
	if f.whatIf != nil {
		v.Quarantine = "" // some of its work is of schedulers that leave it there
	}
	v.Allocatable = convert.With(v.Allocatable, f.volumes.OnNode(v.Name))
	f.devices.onNode(&v, f.nodes.objects[v.Name])
	if old := f.nodes.given[v.Name]; old != nil {
		c := *old
		if c.Version = v.Version; reflect.DeepEqual(&c, &v) {
			return false // a heartbeat
		}
	}
	f.extended.nodeChanged(f.nodes.given[v.Name], &v)
	others := f.models.changed(f.nodes.given[v.Name], &v)
	f.nodes.given[v.Name] = &v
	f.out.put(engine.Change{Node: &v})
	if others {
		f.nameModels()
	}
	return true
}

// removeNode takes a node away. Where the watch was cut when it went, n is the node as it was last seen, which the engine may have been given
// again since, for what other objects say of it: the engine passes over a removal that is older than what it knows.
func (f *Feed) removeNode(n *corev1.Node) {
	version := resourceVersion(n) << VersionBits
	if given := f.nodes.given[n.Name]; given != nil {
		version = max(version, given.Version)
	}
	delete(f.nodes.objects, n.Name)
	f.devices.SetNode(n.Name, nil)
	f.surveyLater()
	f.listen.Forget(n.UID)
	f.extended.nodeChanged(f.nodes.given[n.Name], nil)
	if f.models.changed(f.nodes.given[n.Name], nil) {
		defer f.nameModels()
	}
	delete(f.nodes.given, n.Name)
	f.volumes.AllAgain()
	//archtest:any-order each has a signal of its own
	for _, r := range f.preparing { // it may have been theirs
		r.Poke()
	}
	f.arrivals.left(n.Name)
	f.bookings.left(n.Name)
	f.bookings.again()
	f.out.drop(engine.KindNode, n.Name, version)
}
