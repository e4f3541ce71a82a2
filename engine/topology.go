package engine

import (
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine/internal/api"
)

// topology sorts nodes into shelves. All nodes of a shelf are in the same domains of every level, so what
// is true of a domain is a sum over shelves. A shelf holds at most shelfSize nodes: what changes on a node
// costs at most a look at its shelf.
type topology struct {
	levels  []level
	domains []*domain
	shelves []*shelf // by key, then by the name of their first node; none is empty
	made    int32    // shelves made so far
	order   []int32  // the shelves' ids, in order
	// sharePaths says that some shelves have the same path: they are parts of a large one, or set apart by
	// levels that gangs named.
	sharePaths bool
	orderedAt  uint64 // shape of order and sharePaths
	shape      uint64 // goes up when a node moves, comes or goes
}

const shelfSize = 256

// level is a level of the topology: one of Config.Levels, or any other node label that a gang named.
type level struct {
	name, label string
	nested      bool // within the levels before it
	byPath      map[string]*domain
	byName      []*domain // those with nodes, sorted
	sortedAt    uint64    // topology.shape of byName
}

// domain is one topology domain.
type domain struct {
	id      int32
	level   int
	name    string
	shelves []*shelf // in the order of topology.shelves
	nodes   int
	only    []*domain // itself: the scope of the domain alone
}

// sorted returns the domains of the level that have nodes, by name.
func (t *topology) sorted(level int) []*domain {
	l := &t.levels[level]
	if l.sortedAt != t.shape || l.byName == nil {
		l.byName, l.sortedAt = l.byName[:0], t.shape
		for _, d := range l.byPath {
			if d.nodes > 0 {
				l.byName = append(l.byName, d)
			}
		}
		slices.SortFunc(l.byName, func(a, b *domain) int {
			if c := strings.Compare(a.name, b.name); c != 0 {
				return c
			}
			return strings.Compare(a.shelves[0].key, b.shelves[0].key)
		})
	}
	return l.byName
}

// shelf is up to shelfSize nodes that are in the same domains.
type shelf struct {
	id      int32
	key     string
	path    string    // the part of key that Config.Levels make: with the node's name, the last tie-break
	domains []*domain // by level; nil: in none
	nodes   []*node   // by name
	epoch   uint64    // goes up when nodes move in or out; 0: taken down
	touched uint64    // touchLog.moment when the room of one of its nodes last changed
	vacancy vacancy
}

func (t *topology) init(levels []api.Level) {
	for _, l := range levels {
		t.levels = append(t.levels, level{name: l.Name, label: l.Label, nested: true, byPath: make(map[string]*domain)})
	}
}

// anyLevel and nodeLevel stand for a level by number where Config has none.
const (
	anyLevel  = -1 // the whole cluster
	nodeLevel = -2 // single nodes
)

// nowhere is the label of the level that stands for all that no node has: one for all names that gangs make up.
const nowhere = "\x00nowhere"

// hostname is the node label that names single nodes, as Kubernetes sets it.
const hostname = "kubernetes.io/hostname"

// level returns the number of a level by its name or label, making one for a label not seen before. Labels that no node
// has are one level, which no node is in.
func (s *State) level(name string) int {
	switch name {
	case "":
		return anyLevel
	case api.NodeLevel, hostname:
		return nodeLevel
	}
	t := &s.topology
	for i, l := range t.levels {
		if l.name == name || l.label == name {
			return i
		}
	}
	if s.presence.labels[name] == 0 && name != nowhere {
		return s.level(nowhere)
	}
	t.levels = append(t.levels, level{name: name, label: name, byPath: make(map[string]*domain)})
	s.reshelve()
	return len(t.levels) - 1
}

// unmet is the level's name where no node has its label, else "": levels of no node differ in nothing else.
func (s *State) unmet(name string) string {
	if l := s.level(name); l >= 0 && s.topology.levels[l].label == nowhere {
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
func (s *State) meetLevels(g *api.Gang) {
	for _, name := range levelsOf(g) {
		s.level(name)
	}
}

// levelName is the inverse of level.
func (t *topology) levelName(l int) string {
	switch l {
	case anyLevel:
		return ""
	case nodeLevel:
		return api.NodeLevel
	}
	return t.levels[l].name
}

// reshelve sorts all nodes anew, after a level came.
func (s *State) reshelve() {
	for _, sh := range s.topology.shelves {
		sh.epoch = 0
		for _, n := range sh.nodes {
			n.shelf = nil
		}
	}
	for i := range s.topology.levels {
		s.topology.levels[i].byPath = make(map[string]*domain)
	}
	s.topology.shelves = nil
	s.topology.shape++
	for _, n := range s.sortedNodes() {
		if n.spec != nil {
			s.topology.add(n)
		}
	}
}

func (s *State) sortedNodes() []*node {
	all := make([]*node, 0, len(s.nodes))
	for _, n := range s.nodes {
		all = append(all, n)
	}
	slices.SortFunc(all, compareNodes)
	return all
}

// shelve moves the node to the shelf where its new spec belongs; nil: to none.
func (s *State) shelve(n *node, old, got *api.Node) {
	t := &s.topology
	if old != nil && got != nil && n.shelf != nil && t.sameDomains(old.Labels, got.Labels) {
		return
	}
	if n.shelf != nil {
		t.take(n)
	}
	if got != nil {
		t.add(n)
	}
}

func (t *topology) sameDomains(a, b map[string]string) bool {
	for i := range t.levels {
		va, ina := a[t.levels[i].label]
		vb, inb := b[t.levels[i].label]
		if va != vb || ina != inb {
			return false
		}
	}
	return true
}

// add puts the node on the shelf where it belongs, splitting a full one.
func (t *topology) add(n *node) {
	key := t.key(n.spec.Labels)
	i := t.find(key, n.name)
	if i < 0 {
		i = t.newShelf(key, n)
	}
	sh := t.shelves[i]
	at, _ := slices.BinarySearchFunc(sh.nodes, n, compareNodes)
	sh.nodes = slices.Insert(sh.nodes, at, n)
	for _, d := range sh.domains {
		if d != nil {
			d.nodes++
		}
	}
	t.settle(sh)
	if len(sh.nodes) > shelfSize {
		t.split(i)
	}
}

// settle tells the shelf's nodes where they are.
func (t *topology) settle(sh *shelf) {
	for i, n := range sh.nodes {
		n.shelf, n.slot = sh, i
	}
	t.shape++
	sh.epoch = t.shape
}

// key is the label values of all levels; a missing label differs from an empty one.
func (t *topology) key(labels map[string]string) string {
	var b strings.Builder
	for i := range t.levels {
		if v, ok := labels[t.levels[i].label]; ok {
			b.WriteByte('=')
			b.WriteString(v)
		}
		b.WriteByte(0)
	}
	return b.String()
}

// ids returns the shelves' ids in order.
func (t *topology) ids() []int32 {
	if t.orderedAt != t.shape {
		t.orderedAt, t.order, t.sharePaths = t.shape, t.order[:0], false
		for i, sh := range t.shelves {
			t.order = append(t.order, sh.id)
			//mutate: index-order-of-shelves
			t.sharePaths = t.sharePaths || i > 0 && sh.path == t.shelves[i-1].path
		}
	}
	return t.order
}

// path cuts the key after the nested levels: the others come and go with the gangs that name them.
func (t *topology) path(key string) string {
	at := 0
	for _, l := range t.levels {
		if !l.nested {
			break
		}
		at += strings.IndexByte(key[at:], 0) + 1
	}
	return key[:at]
}

// compareSeats orders nodes by where they are and then by name: the order in which ranks are dealt.
func compareSeats(a, b *node) int {
	if a.shelf != nil && b.shelf != nil {
		if c := strings.Compare(a.shelf.path, b.shelf.path); c != 0 {
			return c
		}
	}
	return compareNodes(a, b)
}

// find returns the shelf with the key whose range of names the name is in, -1 if there is none.
func (t *topology) find(key, name string) int {
	i, _ := slices.BinarySearchFunc(t.shelves, key, func(sh *shelf, key string) int {
		if c := strings.Compare(sh.key, key); c != 0 {
			return c
		}
		if sh.nodes[0].name <= name {
			return -1
		}
		return 1
	})
	if i > 0 && t.shelves[i-1].key == key {
		return i - 1
	}
	if i < len(t.shelves) && t.shelves[i].key == key {
		return i
	}
	return -1
}

// newShelf makes a shelf for the key, with the domains that the node is in, and returns its index. The
// shelf is for the node, which the caller puts on it.
func (t *topology) newShelf(key string, n *node) int {
	sh := &shelf{id: t.made, key: key, path: t.path(key), domains: t.domainsOf(n.spec.Labels)}
	t.made++
	i, _ := slices.BinarySearchFunc(t.shelves, key, func(sh *shelf, key string) int { return strings.Compare(sh.key, key) })
	t.shelves = slices.Insert(t.shelves, i, sh)
	for _, d := range sh.domains {
		if d != nil {
			d.insert(sh, nil)
		}
	}
	return i
}

// insert enters the shelf in the domain's list, behind the given one, or by its key.
func (d *domain) insert(sh, behind *shelf) {
	i := slices.Index(d.shelves, behind) + 1
	if behind == nil {
		i, _ = slices.BinarySearchFunc(d.shelves, sh.key, func(o *shelf, key string) int { return strings.Compare(o.key, key) })
	}
	d.shelves = slices.Insert(d.shelves, i, sh)
}

// domainsOf returns the domains, by level, of a node with the labels.
func (t *topology) domainsOf(labels map[string]string) []*domain {
	out := make([]*domain, len(t.levels))
	var path []string
	for i := range t.levels {
		l := &t.levels[i]
		v, ok := labels[l.label]
		name := v
		if l.nested {
			path = append(path, v)
			name = strings.Join(path, "/")
		}
		if !ok {
			continue
		}
		key := name
		if l.nested {
			key = strings.Join(path, "\x00")
		}
		d := l.byPath[key]
		if d == nil {
			d = &domain{id: int32(len(t.domains)), level: i, name: name}
			d.only = []*domain{d}
			t.domains = append(t.domains, d)
			l.byPath[key] = d
		}
		out[i] = d
	}
	return out
}

// split halves the i-th shelf.
func (t *topology) split(i int) {
	sh := t.shelves[i]
	half := len(sh.nodes) / 2
	rest := &shelf{id: t.made, key: sh.key, path: sh.path, domains: sh.domains, nodes: slices.Clone(sh.nodes[half:])}
	t.made++
	sh.nodes = slices.Clone(sh.nodes[:half])
	t.shelves = slices.Insert(t.shelves, i+1, rest)
	for _, d := range sh.domains {
		if d != nil {
			d.insert(rest, sh)
		}
	}
	t.settle(sh)
	t.settle(rest)
}

// take removes the node from its shelf, and the shelf when it was the last on it.
func (t *topology) take(n *node) {
	sh := n.shelf
	n.shelf = nil
	sh.nodes = slices.Delete(sh.nodes, n.slot, n.slot+1)
	for _, d := range sh.domains {
		if d != nil {
			//mutate: index-domain-nodes
			d.nodes--
		}
	}
	t.settle(sh)
	if len(sh.nodes) > 0 {
		return
	}
	sh.epoch = 0
	same := func(o *shelf) bool { return o == sh }
	t.shelves = slices.DeleteFunc(t.shelves, same)
	for _, d := range sh.domains {
		if d != nil {
			d.shelves = slices.DeleteFunc(d.shelves, same)
		}
	}
}
