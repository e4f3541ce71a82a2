package kai

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/dialect"
)

// groupSpec has the fields of a PodGroup that are understood.
type groupSpec struct {
	MinMember          int32      `json:"minMember"`
	MinSubGroup        int32      `json:"minSubGroup"`
	Queue              string     `json:"queue"`
	PriorityClassName  string     `json:"priorityClassName"`
	Preemptibility     string     `json:"preemptibility"`
	PreemptionDelay    string     `json:"preemptionDelay"`
	TopologyConstraint topology   `json:"topologyConstraint"`
	SubGroups          []subGroup `json:"subGroups"`
}

type topology struct {
	Topology  string `json:"topology"`
	Required  string `json:"requiredTopologyLevel"`
	Preferred string `json:"preferredTopologyLevel"`
}

type subGroup struct {
	Name               string    `json:"name"`
	MinMember          int32     `json:"minMember"`
	MinSubGroup        int32     `json:"minSubGroup"`
	Parent             *string   `json:"parent"`
	TopologyConstraint *topology `json:"topologyConstraint"`
}

// maxSubgroups bounds the subgroups that are kept of one PodGroup.
const maxSubgroups = 256

func readGroup(o *unstructured.Unstructured) dialect.Object {
	spec := &groupSpec{}
	out := dialect.Object{Unread: dialect.Take(dialect.Value(o.Object, "spec"), "spec", spec), Value: spec}
	switch {
	case len(spec.SubGroups) > maxSubgroups:
		out.Problem = fmt.Sprintf("spec.subGroups: more than %d, the limit", maxSubgroups)
		spec.SubGroups = nil
	case spec.MinMember < 0 || spec.MinSubGroup < 0:
		out.Problem = "spec.minMember and spec.minSubGroup: want numbers above 0"
	case spec.MinMember > 0 && spec.MinSubGroup > 0:
		out.Problem = "spec.minMember and spec.minSubGroup: want one of them"
	}
	return out
}

// path is the subgroup's in the tree, serve/decode, with those above it, the topmost first; false: a parent is missing, or there is a circle.
func (g *groupSpec) path(name string) (path []*subGroup, ok bool) {
	for steps := 0; name != ""; steps++ {
		s := g.subgroup(name)
		if s == nil || steps > len(g.SubGroups) {
			return nil, false
		}
		path = append([]*subGroup{s}, path...)
		name = ""
		if s.Parent != nil {
			name = *s.Parent
		}
	}
	return path, len(path) > 0
}

func (g *groupSpec) subgroup(name string) *subGroup {
	for i := range g.SubGroups {
		if g.SubGroups[i].Name == name {
			return &g.SubGroups[i]
		}
	}
	return nil
}

// children counts the subgroups directly below the one of the name, "" for the group itself.
func (g *groupSpec) children(name string) (n int) {
	for i := range g.SubGroups {
		parent := ""
		if p := g.SubGroups[i].Parent; p != nil {
			parent = *p
		}
		if parent == name {
			n++
		}
	}
	return n
}

// least is how many of the subgroups below the name must start, all where nobody says.
func (g *groupSpec) least(name string, asked int32) int {
	if n := g.children(name); asked == 0 || int(asked) > n {
		return n
	}
	return int(asked)
}

// keys are those of a pod in the group, or in its subgroup of the name. problem is why there are none.
func (g *groupSpec) keys(gang, named string, levels levels) (keys map[string]string, problem string) {
	keys = map[string]string{v1alpha1.KeyGang: gang}
	put := func(key, value string) {
		if value != "" {
			keys[key] = value
		}
	}
	put(v1alpha1.KeyTopologyRequired, levels.of(g.TopologyConstraint.Topology, g.TopologyConstraint.Required))
	if len(g.SubGroups) == 0 {
		if named != "" {
			return nil, fmt.Sprintf("PodGroup %s has no subgroup %s", gang, named)
		}
		put(v1alpha1.KeyTopologyPreferred, levels.of(g.TopologyConstraint.Topology, g.TopologyConstraint.Preferred))
		keys[v1alpha1.KeyMin] = strconv.Itoa(max(1, int(g.MinMember)))
		return keys, ""
	}
	if named == "" {
		return nil, fmt.Sprintf("PodGroup %s has subgroups, and the pod has no label %s", gang, SubgroupLabel)
	}
	path, ok := g.path(named)
	if !ok {
		return nil, fmt.Sprintf("PodGroup %s has no subgroup %s, or none above it that it names", gang, named)
	}
	leaf := path[len(path)-1]
	if g.children(leaf.Name) > 0 {
		return nil, fmt.Sprintf("subgroup %s of PodGroup %s has subgroups: pods are in those without", named, gang)
	}
	maps.Copy(keys, g.below(path, levels))
	keys[v1alpha1.KeyMin] = strconv.Itoa(max(1, int(leaf.MinMember)))
	return keys, ""
}

// below are the keys that place a pod in the subgroup at the end of the path.
func (g *groupSpec) below(path []*subGroup, levels levels) map[string]string {
	var name string
	least, within := []string{strconv.Itoa(g.least("", g.MinSubGroup))}, []string{}
	keys := make(map[string]string)
	for i, s := range path {
		name = strings.TrimPrefix(name+"/"+s.Name, "/")
		leaf := i == len(path)-1
		if !leaf {
			least = append(least, name+"="+strconv.Itoa(g.least(s.Name, s.MinSubGroup)))
		}
		if t := s.TopologyConstraint; t != nil {
			required := levels.of(t.Topology, t.Required)
			switch {
			case required != "" && leaf:
				within = append(within, required)
			case required != "":
				within = append(within, name+"="+required)
			}
			if p := levels.of(t.Topology, t.Preferred); p != "" && leaf {
				keys[v1alpha1.KeyTopologyPreferred] = p
			}
		}
	}
	keys[v1alpha1.KeySubgroup], keys[v1alpha1.KeyMinSubgroups] = name, strings.Join(least, ",")
	if len(within) > 0 {
		keys[v1alpha1.KeySubgroupTopology] = strings.Join(within, ",")
	}
	return keys
}

// topologySpec has the fields of a Topology that are understood.
type topologySpec struct {
	Levels []struct {
		NodeLabel string `json:"nodeLabel"`
		Alias     string `json:"alias"`
	} `json:"levels"`
}

func readTopology(o *unstructured.Unstructured) dialect.Object {
	spec := &topologySpec{}
	out := dialect.Object{Unread: dialect.Take(dialect.Value(o.Object, "spec"), "spec", spec), Value: spec}
	if len(spec.Levels) == 0 || len(spec.Levels) > 16 {
		out.Problem = fmt.Sprintf("spec.levels has %d: want 1 to 16", len(spec.Levels))
		spec.Levels = nil
	}
	return out
}

// Topologies are those of Topology objects: node labels, the widest first.
func (kai) Topologies(w dialect.World) (out [][]dialect.Tier) {
	for _, o := range w.Objects(Topologies, "") {
		spec, ok := o.Value.(*topologySpec)
		if !ok {
			continue
		}
		var list []dialect.Tier
		for _, l := range spec.Levels {
			list = append(list, dialect.ByLabel(l.NodeLabel))
		}
		out = append(out, list)
	}
	return out
}

// levels finds node labels by the names that a Topology has for them.
type levels struct{ world dialect.World }

// of is the node label key of a level, which is one already unless the Topology has it as an alias.
func (l levels) of(topology, level string) string {
	if level == "" || topology == "" {
		return level
	}
	o := l.world.Object(Topologies, "", topology)
	if o == nil {
		return level
	}
	if spec, ok := o.Value.(*topologySpec); ok {
		for _, at := range spec.Levels {
			if at.Alias == level {
				return at.NodeLabel
			}
		}
	}
	return level
}
