package index

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// Kinds. Whether a pod's selector, affinity and tolerations let it on a node depends on nothing that pods can change. So it is
// judged once for all nodes that cannot be told apart by that, which are of one kind: a cluster of 10,000 nodes mostly has some
// dozens of kinds.
//
// Nodes are of one kind if they have the same taints, cordon, allocatable and layout of devices, and the same values of the labels
// that some class in use asks about (Index.asked). Other labels do not count. Clouds put an ID of its own on each node, which would
// make each a kind by itself, and nobody ever asks about it. For the same reason a label whose value is the name of its node, as
// kubernetes.io/hostname mostly is, has one value for all (ownName); what asks about it is judged node by node (personal).
//
// For example, all 1,000 nodes of a pool have the label zone=a or zone=b, and are of one kind until the first class selects by zone.
// From then on they are of two.
//
// What is kept by kind is exact and not a guess: two nodes of one kind differ in nothing that a selector, an affinity or a toleration can
// ask about, by the definition of alike and key. These two have to say the same, since setKind passes over the text of key where alike finds
// nothing that differs. CheckNodes makes each node's kind again, and finds where they do not.
//
// A kind never changes. A node whose spec changes gets another one (setKind), and when a label is asked about for the first time all
// kinds are made anew and kindsMade goes up, by which everything that was derived from the old ones is known to be out of date.
// asked only grows, so that this happens at most once for each label that nodes have.

// NodeKind is a class of nodes: everything about a node that no pod can change and that decides whether a
// pod fits. Nodes of one kind answer alike to every selector, affinity and toleration.
type NodeKind struct {
	profile *profile
	id      int
	alone   group // of the kind alone
	// labels are those among the keys that pods ask about; a value that is the node's own name is
	// replaced by ownName, because it sets every node apart.
	labels map[string]string
	owns   []int // places in Index.asked of labels with the value ownName
	taints []api.Taint
	// taintTexts are the taints as certificates tell them, which share them.
	taintTexts []string
	cordoned   bool
	alloc      api.Resources
	size       quantity.Vector // alloc by dimension
	scale      []float64       // 1023 over size
	Models     []string        // sorted, each once
	values     []labelValue    // of labels, in the order of Index.asked
	layout     string          // of the devices: models, NVLink cliques and NUMA nodes
	pricedBy   *prices         // what model is of
	model      int             // its number in the mix
}

// labelValue is a kind's value of a label.
type labelValue struct {
	text string
	has  bool
	own  bool // it is the node's own name
}

const ownName = "\x00own"

// kindOf is the kind of one node, and what it was made of.
type kindOf struct {
	born uint64 // Room.Moment when it became of its kind
	id   int32  // of the kind
	kind *NodeKind
	node *cluster.Node
	spec *api.Node
	made uint64 // Index.kindsMade when the kind was found: it is none of today's kinds if that has changed
}

// Kind returns the node's kind.
func (x *Index) Kind(n *cluster.Node) *NodeKind { return x.kindsOf[n.Index].kind }

// Refresh finds the kinds of nodes whose specs changed, and lets classes that ask about labels which nodes have got
// tell nodes apart by them. It must come before any class is used: the kinds of nodes that the model has been told of since are those of
// their old specs. The list of such nodes is emptied, so that it costs as much as changed, and nothing where nothing did.
func (x *Index) Refresh() {
	if more := x.m.Room.Nodes - len(x.kindsOf); more > 0 {
		x.kindsOf = append(x.kindsOf, make([]kindOf, more)...)
	}
	for _, n := range x.m.Respecced {
		if n.Spec != nil {
			x.setKind(n)
			//archtest:any-order each label is by itself
			for _, v := range x.keys {
				v.set(n)
			}
		}
	}
	x.m.Respecced = x.m.Respecced[:0]
	x.askFresh()
}

// setKind finds the node's kind, unless it is the one that it has. Most changes of a node, such as of a label that nobody
// asks about, do not change its kind, and a comparison of two specs costs far less than the text that a kind is found by. By born and
// respecs classes know which of their counts were made while the node was of another kind.
func (x *Index) setKind(n *cluster.Node) {
	k := &x.kindsOf[n.Index]
	same := k.node == n && k.spec != nil && k.made == x.kindsMade && x.alike(k.spec, n.Spec)
	k.node, k.spec, k.made = n, n.Spec, x.kindsMade
	if same {
		return
	}
	k.kind = x.internKind(n)
	k.id, k.born = int32(k.kind.id), x.m.Room.Moment
	x.respecs++
}

// askFresh makes node kinds differ by the label keys that nodes have got, as far as classes ask about them. While no node has a label, all
// answer alike to what asks about it, and the key is left out of asked: shapes that select by a label which is mistyped, or which
// comes with a pool that is yet to be made, cost no kinds.
func (x *Index) askFresh() {
	fresh := x.m.Presence.Unasked
	if len(fresh) == 0 {
		return
	}
	x.m.Presence.Unasked = nil
	var asked []string
	for _, key := range fresh {
		//archtest:any-order it asks whether there is one
		for _, c := range x.classes.byKey {
			if _, ok := slices.BinarySearch(c.Shape.Keys, key); ok {
				asked = append(asked, key)
				break
			}
		}
	}
	x.ask(asked)
}

// alike says whether two specs make the same kind, without making it. It may say no of two that do, where lists have another order, which
// costs the text of the kind; it must not say yes of two that do not. The cheapest comparisons come first. A label with the node's name as
// its value is compared as it is: both specs are of one node.
func (x *Index) alike(a, b *api.Node) bool {
	if a.Cordoned != b.Cordoned || !slices.Equal(a.Taints, b.Taints) || !slices.Equal(a.Allocatable, b.Allocatable) || !a.SameDevices(b) || !a.EqualOffers(b) {
		return false
	}
	for _, key := range x.asked {
		va, ina := a.Labels[key]
		vb, inb := b.Labels[key]
		if va != vb || ina != inb {
			return false
		}
	}
	return true
}

// internKind returns the one kind of all nodes that are as this one. Its number is that of its arrival: it is an index into lists by
// kind, and decides nothing. Since all that is derived of a kind compares pointers or numbers, and never texts, there is one for each key.
//
// scale is made here so that usedShare, in the innermost loop, multiplies and does not divide.
func (x *Index) internKind(n *cluster.Node) *NodeKind {
	k := x.makeKind(n)
	key := k.key(x.asked)
	if known := x.kinds[key]; known != nil {
		return known
	}
	k.id = len(x.kinds)
	for _, a := range k.alloc {
		k.size.Add(x.m.Dims.ID(a.Resource), a.Value)
	}
	k.scale = make([]float64, len(k.size))
	for dim, size := range k.size {
		if size > 0 {
			k.scale[dim] = 1023 / float64(size)
		}
	}
	x.kinds[key] = k
	x.describe(k)
	return k
}

// makeKind makes the node's kind, short of what only one that is kept needs.
func (s *Index) makeKind(n *cluster.Node) *NodeKind {
	spec := n.Spec
	k := &NodeKind{cordoned: spec.Cordoned, alloc: spec.Allocatable.Sorted(), Models: cluster.ModelsOf(spec), layout: deviceLayout(spec) + offerLayout(spec)}
	k.taints = slices.Clone(spec.Taints)
	slices.SortFunc(k.taints, func(x, y api.Taint) int { return strings.Compare(x.String(), y.String()) })
	k.labels, k.values = make(map[string]string), make([]labelValue, len(s.asked))
	for i, key := range s.asked {
		if v, ok := spec.Labels[key]; ok {
			k.values[i] = labelValue{text: v, has: true, own: v == n.Name}
			if v == n.Name {
				v, k.owns = ownName, append(k.owns, i)
			}
			k.labels[key] = v
		}
	}
	return k
}

// describe writes down what of the kind a certificate tells beside its labels. Kinds of one profile tell the same. Profiles are told apart by
// the text, quoted so that no taint can end one part and begin another, and there are as many as pools look different, labels aside.
func (x *Index) describe(k *NodeKind) {
	for _, t := range k.taints {
		k.taintTexts = append(k.taintTexts, t.String())
	}
	told := fmt.Sprintf("%q %v %v %q", k.taintTexts, k.cordoned, k.alloc, k.layout)
	same := x.profiles[told]
	if same == nil {
		same = &profile{id: int32(len(x.profiles)), told: told}
		x.profiles[told] = same
	}
	k.profile = same
	k.alone = newGroup(k.id, nil, told)
}

// profile is what kinds have in common that differ in labels alone.
type profile struct {
	id   int32
	told string
}

// key is equal for kinds that are one, and for no others. A byte that no name or value of Kubernetes contains marks what comes next, so that two
// lists that differ only in where one part ends have different keys: label a=bc is 1 a 2 bc, label ab=c is 1 ab 2 c. All parts are
// sorted before (makeKind), since objects list the same things in any order. asked are the keys that labels may have, sorted.
func (k *NodeKind) key(asked []string) string {
	var b strings.Builder
	write := func(mark byte, text string) {
		b.WriteByte(mark)
		b.WriteString(text)
	}
	for _, key := range asked {
		if v, ok := k.labels[key]; ok {
			write(1, key)
			write(2, v)
		}
	}
	for _, t := range k.taints {
		write(3, t.String())
	}
	for _, a := range k.alloc {
		write(4, a.Resource)
		write(2, strconv.FormatInt(a.Value, 10))
	}
	write(5, k.layout)
	if k.cordoned {
		write(6, "")
	}
	return b.String()
}

// deviceLayout describes devices up to the names of their cliques, because what is asked of cliques is that GPUs share one, and never
// which. The cliques are numbered as they are met. For example, two nodes with GPUs in the cliques (x, x, y, y) and (p, p, q, q) are
// both 0, 0, 1, 1. One with (x, y, x, y) is 0, 1, 0, 1 and so of another kind, although it answers alike: that costs a kind, and is never
// wrong. A device without a clique is -1, as it shares one with no other.
func deviceLayout(n *api.Node) string {
	if len(n.Devices) == 0 {
		return n.Model
	}
	var b strings.Builder
	var cliques []string
	for _, d := range n.Devices {
		i := slices.Index(cliques, d.Clique)
		if i < 0 {
			i = len(cliques)
			cliques = append(cliques, d.Clique)
		}
		if d.Clique == "" {
			i = -1
		}
		b.WriteString(d.Model)
		b.WriteByte(',')
		b.WriteString(strconv.Itoa(i))
		b.WriteByte(',')
		b.WriteString(strconv.Itoa(d.NUMA))
		if d.Parts > 0 {
			fmt.Fprintf(&b, ",%d,%d", d.Memory, d.Parts)
		}
		b.WriteByte(';')
	}
	return b.String()
}

// offerLayout describes the devices that claims are met with, up to their names and the names of what they have in common: claims ask
// that two devices have the same value of an attribute, or draw on what is left of a counter. Values are numbered as they are met;
// a, g and c keep an attribute's value apart from a counter of the same name. Marks keep the parts of a device apart, as in key.
func offerLayout(n *api.Node) string {
	if len(n.Offers)+len(n.ByClaims) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%q", n.ByClaims)
	number := make(map[string]int) // of an attribute's value, a counter or a list of selections, in the order in which they are met
	name := func(parts ...string) {
		key := strings.Join(parts, "\x00")
		if _, ok := number[key]; !ok {
			number[key] = len(number)
		}
		b.WriteString(strconv.Itoa(number[key]))
		b.WriteByte(',')
	}
	for i := range n.Offers {
		o := &n.Offers[i]
		b.WriteString(strings.Join(o.Selections, ","))
		for _, key := range slices.Sorted(maps.Keys(o.Attributes)) {
			b.WriteByte('=')
			b.WriteString(key)
			for v := range strings.SplitSeq(o.Attributes[key], api.Several) {
				name("a", key, v)
			}
		}
		if o.Reach != "" {
			b.WriteByte('@')
		}
		if len(o.Fails)+len(o.Blocks) > 0 {
			fmt.Fprintf(&b, "!%q%q", o.Fails, o.Blocks)
		}
		if o.Shared {
			fmt.Fprintf(&b, "%%%v%v", o.Capacity, o.Uses)
		}
		for _, g := range o.Groups {
			b.WriteByte('~')
			name("g", g.Set)
			fmt.Fprintf(&b, "%q", g.Groups)
		}
		for _, d := range o.Draws {
			b.WriteByte('-')
			name("c", d.Counter)
			b.WriteString(strconv.FormatInt(d.Amount, 10))
		}
		b.WriteByte(';')
	}
	for _, c := range n.Counters {
		b.WriteByte('+')
		name("c", c.Name)
		b.WriteString(strconv.FormatInt(c.Amount, 10))
	}
	return b.String()
}

// ask makes node kinds differ by the values of the label keys, if they do not yet. Those that no node has wait until one
// has (askFresh).
//
// It costs a look at every node. The text by which a kind is found is dear, and is made once for each kind and not for each node: of
// nodes that were of one kind only the labels that are new can differ, so those with the same values of these are of one kind again.
func (x *Index) ask(keys []string) {
	news := false
	for _, key := range keys {
		if x.m.Presence.Labels[key] == 0 {
			continue
		}
		if at, found := slices.BinarySearch(x.asked, key); !found {
			x.asked = slices.Insert(x.asked, at, key)
			news = true
		}
	}
	if !news {
		return
	}
	x.kinds = make(map[string]*NodeKind, len(x.kinds))
	x.profiles = make(map[string]*profile)
	x.kindsMade++
	x.respecs++
	x.classes.forgetMasks()
	// The values of all keys go into the text, also of those that were asked about before: their values are equal on all nodes
	// of one kind, so that they split nothing. An entry ends with a 0 byte, and begins with = where the node has the label, by which an
	// empty value and none are told apart.
	type split struct {
		was    *NodeKind
		values string
	}
	made := make(map[split]*NodeKind)
	var values []byte
	for _, sh := range x.m.Topology.Buckets {
		for _, n := range sh.Nodes {
			values = values[:0]
			for _, key := range keys {
				if v, ok := n.Spec.Labels[key]; ok {
					if v == n.Name {
						v = ownName
					}
					values = append(append(values, '='), v...)
				}
				values = append(values, 0)
			}
			of := &x.kindsOf[n.Index]
			k, ok := made[split{of.kind, string(values)}]
			if !ok {
				k = x.internKind(n)
				made[split{of.kind, string(values)}] = k
			}
			of.kind, of.id, of.made = k, int32(k.id), x.kindsMade
		}
	}
}
