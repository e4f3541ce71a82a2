package inventory

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/convert"
)

// Selects evaluates an expression about a device of a driver.
type Selects = func(expression, driver string, d *resourcev1.Device) (bool, error)

// Derives evaluates an expression that makes an attribute of a device.
type Derives = func(expression, driver string, d *resourcev1.Device) (*resourcev1.DeviceAttribute, error)

// Inventory is the devices of a cluster, and what is asked about them.
type Inventory struct {
	selects Selects // nil: selections are not decided
	derives Derives // nil: devices have no derived attributes
	gpu     string  // the resource under which whole GPUs count

	slices  map[string]*resourcev1.ResourceSlice            // by name
	pools   map[string]map[string]*resourcev1.ResourceSlice // by driver and pool, then by name
	nodes   map[string]string                               // by driver and pool: the node that it is of, or Everywhere
	local   map[string]map[string]bool                      // by that: its pools
	taints  map[string]*resourcev1.DeviceTaintRule          // by name
	broken  map[string]*corev1.Node                         // nodes that list GPUs as broken, by name
	offered map[string]convert.Offered                      // by node; as read of the slices
	far     convert.Offered                                 // the devices of pools that are Everywhere
	reaches []reach                                         // by device of far: which nodes reach it

	asked
	met     map[string]meeting // by selection; since the devices last changed
	changes Changes
}

// Changes is what changed since it was last taken.
type Changes struct {
	// Read are nodes whose devices were read again: what claims and pods have of them may be something else.
	Read map[string]bool
	// Moved are pools, by driver and pool, that are of another node than before.
	Moved map[string]bool
	// Far says that there are other devices that several nodes reach.
	Far bool
	// Forgotten says that what claims ask about was forgotten in part, or means other devices: all who ask are to be read again.
	Forgotten bool
	// Grown says that more is asked about: every node with devices is to say what it offers again.
	Grown bool
}

// New returns the inventory of a cluster without devices. gpu is the resource under which whole GPUs count.
func New(selects Selects, derives Derives, gpu string) *Inventory {
	return &Inventory{
		selects: selects, derives: derives, gpu: gpu,
		slices: make(map[string]*resourcev1.ResourceSlice), pools: make(map[string]map[string]*resourcev1.ResourceSlice),
		nodes: make(map[string]string), local: make(map[string]map[string]bool), taints: make(map[string]*resourcev1.DeviceTaintRule),
		broken: make(map[string]*corev1.Node), offered: make(map[string]convert.Offered),
		asked: newAsked(), met: make(map[string]meeting), changes: newChanges(),
	}
}

func newChanges() Changes { return Changes{Read: make(map[string]bool), Moved: make(map[string]bool)} }

// Decides says whether selections of devices are evaluated; where they are not, what claims ask for is not decided.
func (v *Inventory) Decides() bool { return v.selects != nil }

// Take returns what changed since it was last asked, and forgets it.
func (v *Inventory) Take() Changes {
	out := v.changes
	v.changes = newChanges()
	return out
}

// Everywhere stands for a node where pools are meant whose devices are not all of one node.
const Everywhere = "*"

// NodeOf is the node that a device is of, or Everywhere; "" where that is not known.
func (v *Inventory) NodeOf(id string) string { return v.nodes[PoolOf(id)] }

// PoolOf is the driver and pool of a device; "" where the ID has none.
func PoolOf(id string) string { return id[:max(0, strings.LastIndexByte(id, '/'))] }

// Device is the one with the ID, nil for none.
func (v *Inventory) Device(id string) *convert.OfferedDevice {
	offered := v.OfferedAt(v.NodeOf(id)).Devices
	if i := slices.IndexFunc(offered, func(o convert.OfferedDevice) bool { return o.ID == id }); i >= 0 {
		return &offered[i]
	}
	return nil
}

// OfferedAt is what the pools of a node, or of Everywhere, offer.
func (v *Inventory) OfferedAt(node string) convert.Offered {
	if node == Everywhere {
		return v.far
	}
	return v.offered[node]
}

// Nodes are the nodes with devices of their own, in no order.
func (v *Inventory) Nodes() []string { return slices.Collect(maps.Keys(v.offered)) }

// SetSlice takes in devices that a driver offers.
func (v *Inventory) SetSlice(s *resourcev1.ResourceSlice) {
	was := v.drop(s.Name)
	v.slices[s.Name] = s
	pool := poolOf(s)
	if v.pools[pool] == nil {
		v.pools[pool] = make(map[string]*resourcev1.ResourceSlice)
	}
	v.pools[pool][s.Name] = s
	if v.poolMoved(pool); was != "" && was != pool {
		v.poolMoved(was)
	}
}

// RemoveSlice takes the devices of a slice away.
func (v *Inventory) RemoveSlice(name string) {
	if was := v.drop(name); was != "" {
		v.poolMoved(was)
	}
}

// drop takes a slice out of its pool, and returns which that was; "": there is no such slice.
func (v *Inventory) drop(name string) (pool string) {
	was := v.slices[name]
	if was == nil {
		return ""
	}
	pool = poolOf(was)
	delete(v.slices, name)
	if delete(v.pools[pool], name); len(v.pools[pool]) == 0 {
		delete(v.pools, pool)
	}
	return pool
}

func poolOf(s *resourcev1.ResourceSlice) string { return s.Spec.Driver + "/" + s.Spec.Pool.Name }

// SetTaintRule takes in a rule by which devices have a taint.
func (v *Inventory) SetTaintRule(r *resourcev1.DeviceTaintRule) {
	v.taints[r.Name] = r
	v.readAll()
}

// RemoveTaintRule takes it away.
func (v *Inventory) RemoveTaintRule(name string) {
	delete(v.taints, name)
	v.readAll()
}

// SetNode takes in which GPUs a node lists as broken; n is nil where the node is gone.
func (v *Inventory) SetNode(name string, n *corev1.Node) {
	was := v.broken[name]
	lists := n != nil && n.Annotations[v1alpha1.KeyUnhealthyGPUs] != ""
	if was == nil && !lists {
		return
	}
	if v.broken[name] = n; !lists {
		delete(v.broken, name)
	}
	same := was != nil && lists && was.Annotations[v1alpha1.KeyUnhealthyGPUs] == n.Annotations[v1alpha1.KeyUnhealthyGPUs] && was.Annotations[v1alpha1.KeyTrustedGPUs] == n.Annotations[v1alpha1.KeyTrustedGPUs]
	if !same && len(v.local[name]) > 0 {
		v.read(name)
	}
}

// homeOf is the node that all slices of the pool name, or Everywhere.
func (v *Inventory) homeOf(pool string) string {
	home := ""
	//archtest:any-order it asks whether all are the same
	for _, s := range v.pools[pool] {
		if s.Spec.NodeName == nil || *s.Spec.NodeName == "" || home != "" && home != *s.Spec.NodeName {
			return Everywhere
		}
		home = *s.Spec.NodeName
	}
	return home
}

// poolMoved reads the devices of the pool, and of those beside it. Of one that has no slices any more it is still known where it was: claims
// may have its devices.
func (v *Inventory) poolMoved(pool string) {
	was := v.nodes[pool]
	home := cmp.Or(v.homeOf(pool), was)
	if home != was {
		v.nodes[pool], v.changes.Moved[pool] = home, true
		v.leaves(was, pool)
	}
	if len(v.pools[pool]) == 0 {
		v.leaves(home, pool)
	} else {
		if v.local[home] == nil {
			v.local[home] = make(map[string]bool)
		}
		v.local[home][pool] = true
	}
	for _, at := range slices.Compact([]string{was, home}) {
		switch at {
		case "":
		case Everywhere:
			v.readFar()
		default:
			v.read(at)
		}
	}
}

// leaves takes a pool from a node.
func (v *Inventory) leaves(node, pool string) {
	if delete(v.local[node], pool); len(v.local[node]) == 0 {
		delete(v.local, node)
	}
}

// readAll reads all devices again: taint rules come and go with repairs of hardware, and so seldom.
func (v *Inventory) readAll() {
	for _, node := range sorted(v.local) {
		if node == Everywhere {
			v.readFar()
		} else {
			v.read(node)
		}
	}
}

// read reads the devices of a node.
func (v *Inventory) read(node string) {
	v.offered[node] = convert.ReadSlices(v.Slices(node))
	if len(v.local[node]) == 0 {
		delete(v.offered, node)
	}
	v.changes.Read[node] = true
	clear(v.met)
}

// readFar reads the devices that several nodes reach. Which pods wait for those depends on them, as on classes.
func (v *Inventory) readFar() {
	v.far = convert.ReadSlices(v.Slices(Everywhere))
	v.reaches = make([]reach, len(v.far.Devices))
	for i := range v.far.Devices {
		v.reaches[i] = newReach(v.far.Devices[i].Reach)
	}
	clear(v.met)
	v.changes.Far = true
	v.Forget()
}

// Slices are those of the node, or of Everywhere, with the taints that rules put on their devices, and one on those that the node lists as
// broken. They are shared: whoever changes one changes a copy.
func (v *Inventory) Slices(node string) []*resourcev1.ResourceSlice {
	var out []*resourcev1.ResourceSlice
	for _, pool := range sorted(v.local[node]) {
		for _, name := range sorted(v.pools[pool]) {
			out = append(out, convert.WithoutBroken(v.pools[pool][name], v.broken[node]))
		}
	}
	rules := make([]*resourcev1.DeviceTaintRule, 0, len(v.taints))
	for _, name := range sorted(v.taints) {
		rules = append(rules, v.taints[name])
	}
	for i := range out {
		out[i] = convert.Tainted(out[i], rules)
	}
	return out
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
