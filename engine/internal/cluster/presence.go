package cluster

import (
	"slices"

	"github.com/berth-dev/berth/engine/internal/api"
)

// presence is which label keys and GPU models nodes have, with the number of nodes that have each. What no node has needs no
// place in any table: a label key that pods ask about, a level that a gang names and a model in a list are names that any
// user makes up, as many as it likes, and each in a table would cost something on every node.
type presence struct {
	Labels map[string]int
	Models map[string]int
	// Discouraging is how many nodes have a taint that makes them less welcome.
	Discouraging int
	cards        map[int64]int     // GPUs that give parts, by their memory
	largest      int64             // the most of it, 0 where none gives any
	offering     int               // nodes that offer devices for claims
	sliced       map[api.Slice]int // nodes that have such slices; of Config.GPU, whole ones too
	kinds        []Slice           // the same, by resource; nil where all GPUs are whole
	fresh        []string          // label keys that the first node has got, and that nobody has looked for yet
	Unasked      []string          // the same, for node kinds
}

// count adds, or with by = -1 takes away, what the node has.
func (c *presence) count(n *api.Node, by int) {
	if n == nil {
		return
	}
	if c.Labels == nil {
		c.Labels, c.Models = make(map[string]int), make(map[string]int)
	}
	//archtest:any-order a count for each key; what is fresh is sorted before it is used
	for key := range n.Labels {
		if c.Labels[key] += by; c.Labels[key] == 0 {
			delete(c.Labels, key)
		} else if by > 0 && c.Labels[key] == 1 {
			c.fresh = append(c.fresh, key)
		}
	}
	if slices.ContainsFunc(n.Taints, func(t api.Taint) bool { return t.Effect == api.PreferNoSchedule }) {
		c.Discouraging += by
	}
	if len(n.Offers) > 0 {
		c.offering += by
	}
	c.countCards(n.Devices, by)
	for _, model := range ModelsOf(n) {
		if c.Models[model] += by; c.Models[model] == 0 {
			delete(c.Models, model)
		}
	}
}

// countCards counts the devices that give parts.
func (c *presence) countCards(devices []api.Device, by int) {
	for i := range devices {
		d := &devices[i]
		if d.Parts == 0 {
			continue
		}
		if c.cards == nil {
			c.cards = make(map[int64]int)
		}
		if c.cards[d.Memory] += by; c.cards[d.Memory] == 0 {
			delete(c.cards, d.Memory)
		}
	}
}

// meetCards notes how large the largest card is. What pods that wait for parts will count at least follows from it.
func (m *Model) meetCards() {
	var most int64
	for memory := range m.Presence.cards { //archtest:any-order the most of all
		most = max(most, memory)
	}
	if most != m.Presence.largest {
		m.Presence.largest = most
		//mutate: index-largest-card
		m.Tree.Stale = true
	}
}

// GivesParts says whether some node gives parts of GPUs, or devices for claims: what is free of them is no count of the node.
func (m *Model) GivesParts() bool { return m.Presence.largest > 0 || m.Presence.offering > 0 }

// meetLabels looks for the label keys that nodes have got: gangs that name one as a level have that level.
func (m *Model) meetLabels() {
	fresh := m.Presence.fresh
	if len(fresh) == 0 {
		return
	}
	m.Presence.fresh = nil
	slices.Sort(fresh)
	m.Presence.Unasked = append(m.Presence.Unasked, fresh...)
	for _, key := range SortedKeys(m.Gangs) { // levels are numbered as they are met
		if g := m.Gangs[key]; g.Spec != nil && !m.IsRejected(api.KindGang, g.Key) && slices.ContainsFunc(levelsOf(g.Spec), func(name string) bool { _, ok := slices.BinarySearch(fresh, name); return ok }) {
			m.meetLevels(g.Spec)
			m.markStale(g)
		}
	}
}

// ModelsOf lists the GPU models that the node has, sorted, each once.
func ModelsOf(n *api.Node) []string {
	//mutate: index-model-of-counts
	if len(n.Devices) == 0 && n.Model != "" {
		return []string{n.Model}
	}
	var out []string
	for _, d := range n.Devices {
		if d.Model != "" && !slices.Contains(out, d.Model) {
			out = append(out, d.Model)
		}
	}
	slices.Sort(out)
	return out
}
