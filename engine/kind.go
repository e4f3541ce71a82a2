package engine

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// nodeKind is a class of nodes: everything about a node that no pod can change and that decides whether a
// pod fits. Nodes of one kind answer alike to every selector, affinity and toleration.
type nodeKind struct {
	profile *profile
	id      int
	// labels are those among the keys that pods ask about; a value that is the node's own name is
	// replaced by ownName, because it sets every node apart.
	labels   map[string]string
	owns     []int // places in State.asked of labels with the value ownName
	taints   []api.Taint
	cordoned bool
	alloc    api.Resources
	size     quantity.Vector // alloc by dimension
	scale    []float64       // 1023 over size
	models   []string        // sorted, each once
	values   []labelValue    // of labels, in the order of State.asked
	layout   string          // of the devices: models, NVLink cliques and NUMA nodes
	uniform  bool            // its devices are all of one model
}

// labelValue is a kind's value of a label.
type labelValue struct {
	text string
	has  bool
	own  bool // it is the node's own name
}

const ownName = "\x00own"

// setKind finds the node's kind. old is the spec that its present kind was made of; nil: none.
func (s *State) setKind(n *node, old *api.Node) {
	if n.kind != nil && old != nil && s.alike(old, n.spec) {
		return
	}
	n.kind = s.internKind(n)
	s.pulses[n.index].kind, s.pulses[n.index].born = int32(n.kind.id), s.log.moment+1
}

// alike says whether two specs make the same kind, without making it.
func (s *State) alike(a, b *api.Node) bool {
	if a.Cordoned != b.Cordoned || !slices.Equal(a.Taints, b.Taints) || !slices.Equal(a.Allocatable, b.Allocatable) || !slices.Equal(a.Devices, b.Devices) {
		return false
	}
	for _, key := range s.asked {
		va, ina := a.Labels[key]
		vb, inb := b.Labels[key]
		if va != vb || ina != inb {
			return false
		}
	}
	return true
}

func (s *State) internKind(n *node) *nodeKind {
	k := s.makeKind(n)
	key := k.key(s.asked)
	if known := s.kinds[key]; known != nil {
		return known
	}
	k.id = len(s.kinds)
	for _, a := range k.alloc {
		k.size.Add(s.dims.ID(a.Resource), a.Value)
	}
	k.scale = make([]float64, len(k.size))
	for dim, size := range k.size {
		if size > 0 {
			k.scale[dim] = 1023 / float64(size)
		}
	}
	s.kinds[key] = k
	s.describe(k)
	return k
}

// makeKind makes the node's kind, short of what only one that is kept needs.
func (s *State) makeKind(n *node) *nodeKind {
	spec := n.spec
	k := &nodeKind{cordoned: spec.Cordoned, alloc: spec.Allocatable.Sorted(), models: modelsOf(spec.Devices), layout: deviceLayout(spec.Devices)}
	k.uniform = !slices.ContainsFunc(spec.Devices, func(d api.Device) bool { return d.Model != spec.Devices[0].Model })
	k.taints = slices.Clone(spec.Taints)
	slices.SortFunc(k.taints, func(x, y api.Taint) int { return strings.Compare(x.String(), y.String()) })
	k.labels, k.values = make(map[string]string), make([]labelValue, len(s.asked))
	for i, key := range s.asked {
		if v, ok := spec.Labels[key]; ok {
			k.values[i] = labelValue{text: v, has: true, own: v == n.name}
			if v == n.name {
				v, k.owns = ownName, append(k.owns, i)
			}
			k.labels[key] = v
		}
	}
	return k
}

// describe writes down what of the kind a certificate tells beside its labels. Kinds of one profile tell the same.
func (s *State) describe(k *nodeKind) {
	var taints []string
	for _, t := range k.taints {
		taints = append(taints, t.String())
	}
	told := fmt.Sprintf("%q %v %v %q", taints, k.cordoned, k.alloc, k.layout)
	same := s.profiles[told]
	if same == nil {
		same = &profile{id: int32(len(s.profiles)), told: told}
		s.profiles[told] = same
	}
	k.profile = same
}

// profile is what kinds have in common that differ in labels alone.
type profile struct {
	id   int32
	told string
}

// key is equal for kinds that are one. asked are the keys that labels may have, sorted.
func (k *nodeKind) key(asked []string) string {
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

// deviceLayout describes devices up to the names of their cliques.
func deviceLayout(devices []api.Device) string {
	var b strings.Builder
	var cliques []string
	for _, d := range devices {
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
		b.WriteByte(';')
	}
	return b.String()
}

func modelsOf(devices []api.Device) []string {
	var out []string
	for _, d := range devices {
		if d.Model != "" && !slices.Contains(out, d.Model) {
			out = append(out, d.Model)
		}
	}
	slices.Sort(out)
	return out
}

// ask makes node kinds differ by the values of the label keys, if they do not yet. Those that no node has wait until one
// has: see meetLabels.
func (s *State) ask(keys []string) {
	news := false
	for _, key := range keys {
		if s.presence.labels[key] == 0 {
			continue
		}
		if at, found := slices.BinarySearch(s.asked, key); !found {
			s.asked = slices.Insert(s.asked, at, key)
			news = true
		}
	}
	if !news {
		return
	}
	s.kinds = make(map[string]*nodeKind, len(s.kinds))
	s.profiles = make(map[string]*profile)
	s.kindsMade++
	s.classes.forgetMasks()
	// Nodes that were of one kind and have the same values of the keys are of one kind again.
	type split struct {
		was    *nodeKind
		values string
	}
	made := make(map[split]*nodeKind)
	var values []byte
	for _, sh := range s.topology.shelves {
		for _, n := range sh.nodes {
			values = values[:0]
			for _, key := range keys {
				if v, ok := n.spec.Labels[key]; ok {
					if v == n.name {
						v = ownName
					}
					values = append(append(values, '='), v...)
				}
				values = append(values, 0)
			}
			k, ok := made[split{n.kind, string(values)}]
			if !ok {
				k = s.internKind(n)
				made[split{n.kind, string(values)}] = k
			}
			n.kind = k
			s.pulses[n.index].kind = int32(k.id)
		}
	}
}
