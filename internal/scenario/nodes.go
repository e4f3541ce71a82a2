package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine"
)

// machine is a node and how its devices were described, so that they can be made again when their number
// changes.
type machine struct {
	engine.Node
	models  []models
	clique  string   // one that all devices are in, with those of other nodes
	cliques int      // how many equal cliques of its own; 0: none
	numa    int      // how many equal NUMA nodes; 0: one
	ids     []string // of the devices; nil: NODE/gpu-N
	memory  int      // MiB of each GPU
	parts   int      // how many pods may have a part of each GPU; 0: given whole only
	stale   bool     // the devices must be made again
}

// models is how many devices are of a model; count 0 means all.
type models struct {
	model string
	count int
}

// describes says whether devices are known, and not their number alone.
func (m *machine) describes() bool {
	return len(m.models) > 0 || m.clique != "" || m.cliques > 0 || m.numa > 0 || m.ids != nil || m.memory > 0
}

func newMachine(name string) machine {
	return machine{Node: engine.Node{Name: name, Allocatable: engine.Resources{
		{Resource: engine.CPU, Value: 128_000}, {Resource: engine.Memory, Value: 1 << 40}, {Resource: engine.Pods, Value: 110},
	}}}
}

// nodes reads "nodes n[00-15] gpus=8 ...": new nodes, or edits of those that exist.
func (s *Story) nodes(names string, words []string) (func(*world) error, error) {
	list, err := expand(names)
	if err != nil {
		return nil, err
	}
	edits, err := s.nodeSetters().parse(words)
	if err != nil {
		return nil, err
	}
	return func(w *world) error {
		for i, n := range list {
			m, ok := w.nodes[n.text]
			if !ok {
				m = newMachine(n.text)
			}
			w.editNode(m, edits, moment{w.now, i, len(list)})
		}
		return nil
	}, nil
}

func (w *world) editNode(m machine, edits []func(*machine, moment), at moment) {
	w.nodes[m.Name] = w.edited(m, edits, at)
	w.touch(engine.KindNode, m.Name)
}

// edited is m after the edits.
func (w *world) edited(m machine, edits []func(*machine, moment), at moment) machine {
	gpu, _ := resourceName("gpus", w.config)
	before := m.Allocatable.Get(gpu)
	m.Labels = maps.Clone(m.Labels)
	for _, set := range edits {
		set(&m, at)
	}
	if now := m.Allocatable.Get(gpu); m.describes() && (m.stale || now != before) {
		m.Devices = m.devices(now)
	}
	m.stale = false
	return m
}

// twin reads "twin n0 gpus=4": another node of the same name and version, which is somebody's mistake.
func (s *Story) twin(name string, words []string) (func(*world) error, error) {
	edits, err := s.nodeSetters().parse(words)
	if err != nil {
		return nil, err
	}
	return func(w *world) error {
		m, ok := w.nodes[name]
		if !ok || m.Version == 0 {
			return fmt.Errorf("%s: expected a node of an earlier step", name)
		}
		m = w.edited(m, edits, moment{w.now, 0, 1})
		w.twins = append(w.twins, engine.Change{Node: &m.Node})
		return nil
	}, nil
}

func (s *Story) nodeSetters() setters[machine] {
	return setters[machine]{
		flags: map[string]func(*machine, moment){
			"cordoned": func(m *machine, _ moment) { m.Cordoned = true },
		},
		values: map[string]reader[machine]{
			"pool":    word(func(m *machine, v string) { m.Pool = v }),
			"label":   parsed(pair, func(m *machine, kv [2]string) { m.label(kv[0], kv[1]) }),
			"taint":   listed(taint, func(m *machine) *[]engine.Taint { return &m.Taints }),
			"packing": word(func(m *machine, v string) { m.Packing = engine.Packing(v) }),
			"pods": number(func(m *machine, n int) {
				m.Allocatable = withAmount(m.Allocatable, engine.Amount{Resource: engine.Pods, Value: int64(n)})
			}),
			"model":   parsed(parseModels, func(m *machine, v []models) { m.models, m.stale = v, true }),
			"clique":  word(func(m *machine, v string) { m.clique, m.stale = v, true }),
			"cliques": number(func(m *machine, n int) { m.cliques, m.stale = n, true }),
			"numa":    number(func(m *machine, n int) { m.numa, m.stale = n, true }),
			"offer":   offer,
			"by-claims": parsed(texts, func(m *machine, v []string) {
				m.ByClaims = slices.Clone(v)
				slices.Sort(m.ByClaims)
			}),
			"card":  card,
			"slice": s.slice,
			"of":    word(func(m *machine, v string) { m.Model = v }),
			"cards": cards,
			"ids":   parsed(texts, func(m *machine, v []string) { m.ids, m.stale = v, true }),
		},
		other: s.nodeOther,
	}
}

// nodeOther takes amounts, and levels by their name: "rack=r1" is the label of the level rack.
func (s *Story) nodeOther(key, value string) (func(*machine, moment), error) {
	for _, l := range s.Config.Levels {
		if l.Name == key {
			return func(m *machine, _ moment) { m.label(l.Label, value) }, nil
		}
	}
	return resources(&s.Config, func(m *machine) *engine.Resources { return &m.Allocatable })(key, value)
}

// label sets a label, or takes it away when the value is empty.
func (m *machine) label(key, value string) {
	if value == "" {
		delete(m.Labels, key)
		return
	}
	if m.Labels == nil {
		m.Labels = map[string]string{}
	}
	m.Labels[key] = value
}

func pair(text string) ([2]string, error) {
	k, v, ok := strings.Cut(text, "=")
	if !ok || k == "" {
		return [2]string{}, fmt.Errorf("expected KEY=VALUE")
	}
	return [2]string{k, v}, nil
}

// cordon reads "cordon n01" and "uncordon n01".
func cordon(args []string, on bool) (func(*world) error, error) {
	if len(args) != 1 {
		return nil, fmt.Errorf("expected the names of nodes")
	}
	return eachNode(args[0], func(m *machine) error { m.Cordoned = on; return nil })
}

// eachNode edits nodes that exist.
func eachNode(names string, set func(*machine) error) (func(*world) error, error) {
	list, err := expand(names)
	if err != nil {
		return nil, err
	}
	return func(w *world) error {
		for _, n := range list {
			m, ok := w.nodes[n.text]
			if !ok {
				return fmt.Errorf("%s: expected a node that exists", n.text)
			}
			if err := set(&m); err != nil {
				return err
			}
			w.nodes[n.text] = m
			w.touch(engine.KindNode, n.text)
		}
		return nil
	}, nil
}
