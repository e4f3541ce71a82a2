package cluster

import (
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine/internal/quantity"

	"github.com/berth-dev/berth/engine/internal/api"
)

// topology sorts nodes into buckets. All nodes of a bucket are in the same domains of every level, so what
// is true of a domain is a sum over buckets. A bucket holds at most bucketSize nodes: what changes on a node
// costs at most a look at its bucket.
type topology struct {
	Levels  []level
	Domains []*Domain
	Buckets []*Bucket // by key, then by the name of their first node; none is empty
	Made    int32     // buckets made so far
	order   []int32   // the buckets' ids, in order
	// sharePaths says that some buckets have the same path: they are parts of a large one, or set apart by
	// levels that gangs named.
	SharePaths bool
	orderedAt  uint64 // shape of order and sharePaths
	Shape      uint64 // goes up when a node moves, comes or goes
}

const bucketSize = 256

// level is a level of the topology: one of Config.Levels, or any other node label that a gang named.
type level struct {
	name, label string
	Nested      bool // within the levels before it
	byPath      map[string]*Domain
	byName      []*Domain // those with nodes, sorted
	sortedAt    uint64    // Topology.Shape of byName
}

// Domain is one topology domain.
type Domain struct {
	ID      int32
	Level   int
	Name    string
	Buckets []*Bucket // in the order of topology.buckets
	nodes   int
	Only    []*Domain // itself: the scope of the domain alone
}

// Sorted returns the domains of the level that have nodes, by name.
func (t *topology) Sorted(level int) []*Domain {
	l := &t.Levels[level]
	if l.sortedAt != t.Shape || l.byName == nil {
		l.byName, l.sortedAt = l.byName[:0], t.Shape
		for _, d := range l.byPath {
			if d.nodes > 0 {
				l.byName = append(l.byName, d)
			}
		}
		slices.SortFunc(l.byName, func(a, b *Domain) int {
			if c := strings.Compare(a.Name, b.Name); c != 0 {
				return c
			}
			return strings.Compare(a.Buckets[0].key, b.Buckets[0].key)
		})
	}
	return l.byName
}

// Bucket is up to bucketSize nodes that are in the same domains.
type Bucket struct {
	ID      int32
	key     string
	Path    string    // the part of key that Config.Levels make: with the node's name, the last tie-break
	Domains []*Domain // by level; nil: in none
	Nodes   []*Node   // by name
	Epoch   uint64    // goes up when nodes move in or out; 0: taken down
	Touched uint64    // number of the state that its nodes' room is in
	Numbers []uint64  // likewise of each node, by slot; of one Epoch
	vacancy vacancy
}

func (t *topology) init(levels []api.Level) {
	for _, l := range levels {
		t.Levels = append(t.Levels, level{name: l.Name, label: l.Label, Nested: true, byPath: make(map[string]*Domain)})
	}
}

// anyLevel and nodeLevel stand for a level by number where Config has none.
const (
	AnyLevel  = -1 // the whole cluster
	NodeLevel = -2 // single nodes
)

// nowhere is the label of the level that stands for all that no node has: one for all names that gangs make up.
const nowhere = "\x00nowhere"

// hostname is the node label that names single nodes, as Kubernetes sets it.
const hostname = "kubernetes.io/hostname"

// Level returns the number of a level by its name or label, making one for a label not seen before. Labels that no node
// has are one level, which no node is in.
func (m *Model) Level(name string) int {
	switch name {
	case "":
		return AnyLevel
	case api.NodeLevel, hostname:
		return NodeLevel
	}
	t := &m.Topology
	for i, l := range t.Levels {
		if l.name == name || l.label == name {
			return i
		}
	}
	if m.Presence.Labels[name] == 0 && name != nowhere {
		return m.Level(nowhere)
	}
	t.Levels = append(t.Levels, level{name: name, label: name, byPath: make(map[string]*Domain)})
	m.regroupAll()
	return len(t.Levels) - 1
}

// Unmet is the level's name where no node has its label, else "": levels of no node differ in nothing else.
func (m *Model) Unmet(name string) string {
	if l := m.Level(name); l >= 0 && m.Topology.Levels[l].label == nowhere {
		return name
	}
	return ""
}

// levelsOf lists the levels that the gang names, "" among them.
func levelsOf(g *api.Gang) []string {
	var out []string
	add := func(l api.Layout) { out = append(out, l.Required, l.Preferred, l.SegmentLevel, l.Spread) }
	add(g.Layout)
	for i := range g.Groups {
		add(g.Groups[i].Layout)
	}
	return out
}

// meetLevels makes the levels that the gang names, so that no level comes while a plan is being made.
func (m *Model) meetLevels(g *api.Gang) {
	for _, name := range levelsOf(g) {
		m.Level(name)
	}
}

// LevelName is the inverse of level.
func (t *topology) LevelName(l int) string {
	switch l {
	case AnyLevel:
		return ""
	case NodeLevel:
		return api.NodeLevel
	}
	return t.Levels[l].name
}

// regroupAll sorts all nodes anew, after a level came.
func (m *Model) regroupAll() {
	for _, sh := range m.Topology.Buckets {
		sh.Epoch = 0
		for _, n := range sh.Nodes {
			n.Bucket = nil
		}
	}
	for i := range m.Topology.Levels {
		m.Topology.Levels[i].byPath = make(map[string]*Domain)
	}
	m.Topology.Buckets = nil
	m.Topology.Shape++
	for _, n := range m.SortedNodes() {
		if n.Spec != nil {
			m.Topology.add(n)
		}
	}
}

func (m *Model) SortedNodes() []*Node {
	all := make([]*Node, 0, len(m.Nodes))
	for _, n := range m.Nodes {
		all = append(all, n)
	}
	slices.SortFunc(all, compareNodes)
	return all
}

// regroup moves the node to the bucket where its new spec belongs; nil: to none.
func (m *Model) regroup(n *Node, old, got *api.Node) {
	t := &m.Topology
	if old != nil && got != nil && n.Bucket != nil && t.sameDomains(old.Labels, got.Labels) {
		return
	}
	if n.Bucket != nil {
		t.take(n)
	}
	if got != nil {
		t.add(n)
		return
	}
	//mutate: index-room-of-lost-node
	m.touched(n) // its pods are in no domain any more
}

func (t *topology) sameDomains(a, b map[string]string) bool {
	for i := range t.Levels {
		va, ina := a[t.Levels[i].label]
		vb, inb := b[t.Levels[i].label]
		if va != vb || ina != inb {
			return false
		}
	}
	return true
}

// add puts the node on the bucket where it belongs, splitting a full one.
func (t *topology) add(n *Node) {
	key := t.key(n.Spec.Labels)
	i := t.find(key, n.Name)
	if i < 0 {
		i = t.newBucket(key, n)
	}
	sh := t.Buckets[i]
	at, _ := slices.BinarySearchFunc(sh.Nodes, n, compareNodes)
	sh.Nodes = slices.Insert(sh.Nodes, at, n)
	for _, d := range sh.Domains {
		if d != nil {
			d.nodes++
		}
	}
	t.settle(sh)
	if len(sh.Nodes) > bucketSize {
		t.split(i)
	}
}

// settle tells the bucket's nodes where they are.
func (t *topology) settle(sh *Bucket) {
	for i, n := range sh.Nodes {
		n.Bucket, n.Slot = sh, i
	}
	sh.Numbers = slices.Grow(sh.Numbers[:0], len(sh.Nodes))[:len(sh.Nodes)]
	clear(sh.Numbers)
	t.Shape++
	sh.Epoch = t.Shape
}

// key is the label values of all levels; a missing label differs from an empty one.
func (t *topology) key(labels map[string]string) string {
	var b strings.Builder
	for i := range t.Levels {
		if v, ok := labels[t.Levels[i].label]; ok {
			b.WriteByte('=')
			b.WriteString(v)
		}
		b.WriteByte(0)
	}
	return b.String()
}

// IDs returns the buckets' ids in order.
func (t *topology) IDs() []int32 {
	if t.orderedAt != t.Shape {
		t.orderedAt, t.order, t.SharePaths = t.Shape, t.order[:0], false
		for i, sh := range t.Buckets {
			t.order = append(t.order, sh.ID)
			//mutate: index-order-of-buckets
			t.SharePaths = t.SharePaths || i > 0 && sh.Path == t.Buckets[i-1].Path
		}
	}
	return t.order
}

// path cuts the key after the nested levels: the others come and go with the gangs that name them.
func (t *topology) path(key string) string {
	at := 0
	for _, l := range t.Levels {
		if !l.Nested {
			break
		}
		at += strings.IndexByte(key[at:], 0) + 1
	}
	return key[:at]
}

// ComparePlaces orders nodes by where they are and then by name: the order in which ranks are dealt.
func ComparePlaces(a, b *Node) int {
	if a.Bucket != nil && b.Bucket != nil {
		if c := strings.Compare(a.Bucket.Path, b.Bucket.Path); c != 0 {
			return c
		}
	}
	return compareNodes(a, b)
}

// find returns the bucket with the key whose range of names the name is in, -1 if there is none.
func (t *topology) find(key, name string) int {
	i, _ := slices.BinarySearchFunc(t.Buckets, key, func(sh *Bucket, key string) int {
		if c := strings.Compare(sh.key, key); c != 0 {
			return c
		}
		if sh.Nodes[0].Name <= name {
			return -1
		}
		return 1
	})
	if i > 0 && t.Buckets[i-1].key == key {
		return i - 1
	}
	if i < len(t.Buckets) && t.Buckets[i].key == key {
		return i
	}
	return -1
}

// newBucket makes a bucket for the key, with the domains that the node is in, and returns its index. The
// bucket is for the node, which the caller puts on it.
func (t *topology) newBucket(key string, n *Node) int {
	sh := &Bucket{ID: t.Made, key: key, Path: t.path(key), Domains: t.domainsOf(n.Spec.Labels)}
	t.Made++
	i, _ := slices.BinarySearchFunc(t.Buckets, key, func(sh *Bucket, key string) int { return strings.Compare(sh.key, key) })
	t.Buckets = slices.Insert(t.Buckets, i, sh)
	for _, d := range sh.Domains {
		if d != nil {
			d.insert(sh, nil)
		}
	}
	return i
}

// insert enters the bucket in the domain's list, behind the given one, or by its key.
func (d *Domain) insert(sh, behind *Bucket) {
	i := slices.Index(d.Buckets, behind) + 1
	if behind == nil {
		i, _ = slices.BinarySearchFunc(d.Buckets, sh.key, func(o *Bucket, key string) int { return strings.Compare(o.key, key) })
	}
	d.Buckets = slices.Insert(d.Buckets, i, sh)
}

// domainsOf returns the domains, by level, of a node with the labels.
func (t *topology) domainsOf(labels map[string]string) []*Domain {
	out := make([]*Domain, len(t.Levels))
	var path []string // the values of the nested levels so far
	at := ""          // the same as a key: a missing label is not an empty one
	for i := range t.Levels {
		l := &t.Levels[i]
		v, ok := labels[l.label]
		name, key := v, v
		if l.Nested {
			path = append(path, v)
			//mutate: topology-empty-label -> at + "\x00" + v
			at = nestedKey(at, v, ok)
			name, key = strings.Join(path, "/"), at
		}
		if !ok {
			continue
		}
		d := l.byPath[key]
		if d == nil {
			d = &Domain{ID: int32(len(t.Domains)), Level: i, Name: name}
			d.Only = []*Domain{d}
			t.Domains = append(t.Domains, d)
			l.byPath[key] = d
		}
		out[i] = d
	}
	return out
}

// nestedKey is the key of a domain of a nested level, of which above is the key of the domain that it lies in. A level whose
// label the node lacks is in the key too: rack r1 without a zone is another than rack r1 of the zone with the empty name.
func nestedKey(above, value string, has bool) string {
	if !has {
		return above + "\x00"
	}
	return above + "\x00=" + value
}

// split halves the i-th bucket.
func (t *topology) split(i int) {
	sh := t.Buckets[i]
	half := len(sh.Nodes) / 2
	rest := &Bucket{ID: t.Made, key: sh.key, Path: sh.Path, Domains: sh.Domains, Nodes: slices.Clone(sh.Nodes[half:])}
	t.Made++
	sh.Nodes = slices.Clone(sh.Nodes[:half])
	t.Buckets = slices.Insert(t.Buckets, i+1, rest)
	for _, d := range sh.Domains {
		if d != nil {
			d.insert(rest, sh)
		}
	}
	t.settle(sh)
	t.settle(rest)
}

// take removes the node from its bucket, and the bucket when it was the last on it.
func (t *topology) take(n *Node) {
	sh := n.Bucket
	n.Bucket = nil
	sh.Nodes = slices.Delete(sh.Nodes, n.Slot, n.Slot+1)
	for _, d := range sh.Domains {
		if d != nil {
			//mutate: index-domain-nodes
			d.nodes--
		}
	}
	t.settle(sh)
	if len(sh.Nodes) > 0 {
		return
	}
	sh.Epoch = 0
	same := func(o *Bucket) bool { return o == sh }
	t.Buckets = slices.DeleteFunc(t.Buckets, same)
	for _, d := range sh.Domains {
		if d != nil {
			d.Buckets = slices.DeleteFunc(d.Buckets, same)
		}
	}
}

// vacancy is how many GPUs of the nodes of a bucket no pod has, as of when it was last looked at.
type vacancy struct {
	epoch, touched uint64
	gpus           int64
}

// UntakenGPUs is how many GPUs, which the resource counts, no pod has on the nodes of the bucket: what is free there and what
// is held. Where more is given away on a node than there is, as after the loss of some, it is none.
func (sh *Bucket) UntakenGPUs(gpu string) int64 {
	v := &sh.vacancy
	if v.epoch != sh.Epoch || v.touched != sh.Touched {
		*v = vacancy{epoch: sh.Epoch, touched: sh.Touched}
		for _, n := range sh.Nodes {
			free := n.Free.At(quantity.DimGPU)
			for _, h := range n.Held {
				free += h.Requests.Get(gpu)
			}
			v.gpus += max(0, free)
		}
	}
	return v.gpus
}

// Populated says whether some node is in a domain of the level.
func (t *topology) Populated(level int) bool {
	for _, d := range t.Levels[level].byPath {
		if d.nodes > 0 {
			return true
		}
	}
	return false
}
