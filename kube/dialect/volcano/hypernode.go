package volcano

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/dialect"
)

// HyperNodes are domains of the network, in tiers: the lower, the nearer. Fields are those of volcano.sh/apis v1.14.0,
// pkg/apis/topology/v1alpha1/hypernode_types.go.
const HyperNodes = "HyperNode.topology.volcano.sh"

const (
	// tierKey is before the number of a tier, as terms name it.
	tierKey = "volcano.sh/tier-"
	// maxMembers bounds the members that are kept of one HyperNode, and maxTiers how far HyperNodes are in each other.
	maxMembers = 4096
	maxTiers   = 16
	hard       = "hard"
	soft       = "soft"
)

type hyperNodeSpec struct {
	Tier     int           `json:"tier"`
	TierName string        `json:"tierName"`
	Members  []memberOfOne `json:"members"`
}

type memberOfOne struct {
	Type     string `json:"type"` // Node or HyperNode
	Selector struct {
		Exact *struct {
			Name string `json:"name"`
		} `json:"exactMatch"`
		Regex *struct {
			Pattern string `json:"pattern"`
		} `json:"regexMatch"`
		Label *metav1.LabelSelector `json:"labelMatch"`
	} `json:"selector"`
}

// hyperNode is what is kept of a HyperNode.
type hyperNode struct {
	tier     int
	tierName string
	members  []selector
}

// selector selects nodes, or other HyperNodes, by name or, nodes alone, by labels.
type selector struct {
	nodes   bool
	name    string
	pattern *regexp.Regexp
	labels  labels.Selector
}

func (s *selector) selects(name string, has map[string]string) bool {
	switch {
	case s.labels != nil:
		return s.nodes && s.labels.Matches(labels.Set(has))
	case s.pattern != nil:
		return s.pattern.MatchString(name)
	}
	return s.name != "" && s.name == name
}

func readHyperNode(o *unstructured.Unstructured) dialect.Object {
	var spec hyperNodeSpec
	out := dialect.Object{Unread: dialect.Take(dialect.Value(o.Object, "spec"), "spec", &spec)}
	h := &hyperNode{tier: spec.Tier, tierName: spec.TierName}
	if len(spec.Members) > maxMembers {
		out.Problem = fmt.Sprintf("spec.members: more than %d, the limit", maxMembers)
		return out
	}
	for i, m := range spec.Members {
		s, err := m.read()
		if err != nil {
			out.Problem = fmt.Sprintf("spec.members[%d]: %s", i, err)
			return out
		}
		h.members = append(h.members, s)
	}
	out.Value = h
	return out
}

func (m *memberOfOne) read() (s selector, err error) {
	switch m.Type {
	case "Node", "":
		s.nodes = true
	case "HyperNode":
	default:
		return s, fmt.Errorf("type %q is neither Node nor HyperNode", m.Type)
	}
	switch at := &m.Selector; {
	case at.Exact != nil:
		s.name = at.Exact.Name
	case at.Regex != nil:
		s.pattern, err = regexp.Compile(at.Regex.Pattern)
	case at.Label != nil && s.nodes:
		s.labels, err = metav1.LabelSelectorAsSelector(at.Label)
	default:
		err = fmt.Errorf("selects nothing")
	}
	return s, err
}

// Topologies are the tiers of HyperNodes, the highest first.
func (volcano) Topologies(w dialect.World) [][]dialect.Tier {
	all := w.Objects(HyperNodes, "")
	var tiers []int
	for _, o := range all {
		if h, ok := o.Value.(*hyperNode); ok && !slices.Contains(tiers, h.tier) {
			tiers = append(tiers, h.tier)
		}
	}
	if len(tiers) == 0 {
		return nil
	}
	slices.Sort(tiers)
	slices.Reverse(tiers)
	var out []dialect.Tier
	for _, tier := range tiers {
		out = append(out, dialect.Tier{Key: tierKey + strconv.Itoa(tier), Of: func(n *corev1.Node) string {
			for _, o := range all {
				if h, ok := o.Value.(*hyperNode); ok && h.tier == tier && h.has(n, all, 0) {
					return o.Name
				}
			}
			return ""
		}})
	}
	return [][]dialect.Tier{out}
}

// has says whether the node is in the HyperNode, or in one that is.
func (h *hyperNode) has(n *corev1.Node, all []*dialect.Object, depth int) bool {
	for i := range h.members {
		m := &h.members[i]
		if m.nodes {
			if m.selects(n.Name, n.Labels) {
				return true
			}
			continue
		}
		for _, o := range all {
			if below, ok := o.Value.(*hyperNode); ok && below.tier < h.tier && depth < maxTiers && m.selects(o.Name, nil) && below.has(n, all, depth+1) {
				return true
			}
		}
	}
	return false
}

// HyperNode is one as others may ask about it.
type HyperNode struct {
	Name string
	Tier int
	// Has says whether the node is in it, or in one that is in it.
	Has func(*corev1.Node) bool
}

// ReadHyperNodes reads all HyperNodes of a cluster; ok is false where one of them cannot be read, so that it is not known which nodes it has.
func ReadHyperNodes(objects []*unstructured.Unstructured) (out []HyperNode, ok bool) {
	all := make([]*dialect.Object, 0, len(objects))
	for _, o := range objects {
		read := readHyperNode(o)
		read.Name = o.GetName()
		all = append(all, &read)
	}
	for _, o := range all {
		h, is := o.Value.(*hyperNode)
		if !is {
			return nil, false
		}
		out = append(out, HyperNode{o.Name, h.tier, func(n *corev1.Node) bool { return h.has(n, all, 0) }})
	}
	return out, true
}

// networkTopology says how near pods are to be.
type networkTopology struct {
	Mode               string `json:"mode"`
	HighestTierAllowed *int   `json:"highestTierAllowed"`
	HighestTierName    string `json:"highestTierName"`
}

// subGroupPolicy divides the pods of a group.
type subGroupPolicy struct {
	Name            string                `json:"name"`
	NetworkTopology *networkTopology      `json:"networkTopology"`
	SubGroupSize    *int32                `json:"subGroupSize"`
	MinSubGroups    *int32                `json:"minSubGroups"`
	LabelSelector   *metav1.LabelSelector `json:"labelSelector"`
	MatchLabelKeys  []string              `json:"matchLabelKeys"`
}

// unread is what of the policy has no effect: it becomes segments of the gang, by rank, or of the task that it selects. least is how many of
// these pods start together.
func (p *subGroupPolicy) unread(least int) (out []string) {
	size := p.size()
	if p.NetworkTopology == nil || p.NetworkTopology.Mode == soft || size < 1 {
		out = append(out, "spec.subGroupPolicy (without a size and a hard networkTopology)")
	}
	if p.MinSubGroups != nil && *p.MinSubGroups > 0 && int(*p.MinSubGroups)*size != least {
		out = append(out, "spec.subGroupPolicy.minSubGroups (spec.minMember counts)")
	}
	return out
}

// size is how many pods a part has, 0 for none that is said.
func (p *subGroupPolicy) size() int {
	if p.SubGroupSize == nil {
		return 0
	}
	return int(*p.SubGroupSize)
}

// selects says whether the pod is among those that the policy divides.
func (p *subGroupPolicy) selects(pod *corev1.Pod, task string) bool {
	if p.LabelSelector == nil {
		return true
	}
	s, err := metav1.LabelSelectorAsSelector(p.LabelSelector)
	keys := maps.Clone(pod.Labels)
	if task != "" {
		if keys == nil {
			keys = make(map[string]string)
		}
		keys[taskKey] = task
	}
	return err == nil && s.Matches(labels.Set(keys))
}

// near is how near the pods of the group are to be: terms name the tier.
func (g *grouping) near(spec *groupSpec, out *dialect.Terms) {
	if t := spec.NetworkTopology; t != nil {
		key, allowed := v1alpha1.KeyTopologyRequired, t
		if t.Mode == soft { // as near as can be
			key, allowed = v1alpha1.KeyTopologyPreferred, nil
		}
		if tier := g.tier(allowed, out); tier != "" {
			out.Keys[key] = tier
		}
	}
	for _, p := range spec.SubGroupPolicy {
		if p.size() > 0 && p.NetworkTopology != nil && p.NetworkTopology.Mode != soft && p.selects(g.Pod.Pod, g.Either(taskKey)) {
			if tier := g.tier(p.NetworkTopology, out); tier != "" {
				out.Keys[v1alpha1.KeySegment] = strconv.Itoa(int(*p.SubGroupSize)) + "@" + tier
			}
		}
	}
}

// tier is the widest that is allowed, nil for the narrowest that there is. Where there is none, the pod waits for it, unless it only
// prefers one.
func (g *grouping) tier(allowed *networkTopology, out *dialect.Terms) string {
	best, found := 0, false
	for _, o := range g.world.Objects(HyperNodes, "") {
		h, ok := o.Value.(*hyperNode)
		switch {
		case !ok:
		case allowed == nil:
			if !found || h.tier < best {
				best, found = h.tier, true
			}
		case allowed.HighestTierName != "" && h.tierName != allowed.HighestTierName:
		case allowed.HighestTierAllowed != nil && h.tier > *allowed.HighestTierAllowed:
		case !found || h.tier > best:
			best, found = h.tier, true
		}
	}
	switch {
	case found:
		return tierKey + strconv.Itoa(best)
	case allowed != nil && out.Awaits == "":
		out.Awaits = "no HyperNode is of a tier that spec.networkTopology of the PodGroup allows"
	}
	return ""
}
