package tiers

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/dialect"
)

// Tiers are the tiers that objects describe, and the levels that stand for them.
type Tiers struct {
	levels []engine.Level               // of the scheduler, widest first
	stale  bool                         // nodes or objects have changed
	level  map[string]string            // the label of the level, by the tier's key; "": none fits
	labels map[string]map[string]string // that nodes are given with, by node
}

// New returns the tiers of a cluster without any, for a scheduler of these levels, widest first.
func New(levels []engine.Level) *Tiers { return &Tiers{levels: levels} }

// Label is the node label of the level of the name, or the name where there is no such level.
func (t *Tiers) Label(level string) string {
	i := slices.IndexFunc(t.levels, func(l engine.Level) bool { return l.Name == level })
	if i < 0 {
		return level
	}
	return t.levels[i].Label
}

// Again has the levels found anew by the next Survey: nodes or objects have changed.
func (t *Tiers) Again() { t.stale = true }

// Stale says whether Survey has something to do.
func (t *Tiers) Stale() bool { return t.stale }

// Survey finds the levels of the tiers, widest first in each topology, for the nodes that there are. It returns the nodes, by name, that have
// other labels now (Located), and whether terms are read otherwise (InLevels). It costs levels times tiers times nodes.
func (t *Tiers) Survey(topologies [][]dialect.Tier, nodes map[string]*corev1.Node) (relabelled []string, moved bool) {
	t.stale = false
	if len(topologies) == 0 && len(t.level) == 0 {
		return nil, false
	}
	var sorted []*corev1.Node
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		sorted = append(sorted, nodes[name])
	}
	was, had := t.level, t.labels
	t.level, t.labels = chart(t.levels, topologies, sorted)
	for _, n := range sorted {
		if !maps.Equal(had[n.Name], t.labels[n.Name]) {
			relabelled = append(relabelled, n.Name)
		}
	}
	return relabelled, !maps.Equal(was, t.level)
}

// hostname is the narrowest level of all, and the engine's own.
const hostname = corev1.LabelHostname

// chart finds the levels of the tiers, for the nodes in order.
func chart(levels []engine.Level, topologies [][]dialect.Tier, nodes []*corev1.Node) (level map[string]string, labels map[string]map[string]string) {
	level, labels = make(map[string]string), make(map[string]map[string]string)
	taken := make([]bool, len(levels))
	for i, l := range levels { // one that nodes have a label of stands for nothing else
		taken[i] = slices.ContainsFunc(nodes, func(n *corev1.Node) bool { return n.Labels[l.Label] != "" })
	}
	for _, list := range topologies {
		below := len(levels) // the level of the next narrower tier
		for i, tier := range slices.Backward(list) {
			if known := slices.IndexFunc(levels, func(l engine.Level) bool { return l.Label == tier.Key || l.Label == level[tier.Key] }); known >= 0 {
				below = min(below, known)
				continue
			}
			if _, done := level[tier.Key]; done || tier.Key == hostname {
				continue
			}
			above := -1 // the level of the next wider tier that is one already
			for _, wider := range list[:i] {
				above = max(above, slices.IndexFunc(levels, func(l engine.Level) bool { return l.Label == wider.Key }))
			}
			at := standIn(levels, taken, above+1, below, tier, nodes)
			if at < 0 {
				level[tier.Key] = ""
				continue
			}
			below, level[tier.Key] = at, levels[at].Label
			if taken[at] { // it divides nodes as the tier does
				continue
			}
			taken[at] = true
			for _, n := range nodes {
				if domain := tier.Of(n); domain != "" {
					if labels[n.Name] == nil {
						labels[n.Name] = make(map[string]string)
					}
					labels[n.Name][levels[at].Label] = domain
				}
			}
		}
	}
	return level, labels
}

// standIn is the narrowest level, from first to before last, that divides the nodes as the tier does, else the narrowest that is free;
// -1: none.
func standIn(levels []engine.Level, taken []bool, first, last int, tier dialect.Tier, nodes []*corev1.Node) int {
	for i := last - 1; i >= first; i-- {
		if taken[i] && alike(tier, levels[i].Label, nodes) {
			return i
		}
	}
	for i := last - 1; i >= first; i-- {
		if !taken[i] && nests(levels, i, tier, nodes) {
			return i
		}
	}
	return -1
}

// nests says whether the tier can stand at the place among levels: domains of wider levels are not divided by it otherwise than in whole
// domains, and it does not divide those of narrower ones. Domains of the engine are within each other.
func nests(levels []engine.Level, at int, tier dialect.Tier, nodes []*corev1.Node) bool {
	for j, l := range levels {
		within := make(map[string]string) // the wider domain, by the narrower
		for _, n := range nodes {
			narrow, wide := n.Labels[l.Label], tier.Of(n)
			if j < at {
				narrow, wide = wide, narrow
			}
			if narrow == "" || wide == "" {
				continue
			}
			if is, ok := within[narrow]; ok && is != wide {
				return false
			}
			within[narrow] = wide
		}
	}
	return true
}

// alike says whether the tier divides the nodes as the label does.
func alike(tier dialect.Tier, label string, nodes []*corev1.Node) bool {
	there, back := make(map[string]string), make(map[string]string)
	for _, n := range nodes {
		a, b := tier.Of(n), n.Labels[label]
		if (a == "") != (b == "") {
			return false
		}
		if is, ok := there[a]; ok && is != b {
			return false
		}
		if is, ok := back[b]; ok && is != a {
			return false
		}
		there[a], back[b] = b, a
	}
	return len(there) > 1
}

// Located is the node with the labels of levels that stand for tiers.
func (t *Tiers) Located(n *corev1.Node) *corev1.Node {
	more := t.labels[n.Name]
	if len(more) == 0 {
		return n
	}
	out := *n
	out.Labels = maps.Clone(n.Labels)
	if out.Labels == nil {
		out.Labels = make(map[string]string)
	}
	maps.Copy(out.Labels, more)
	return &out
}

// Any says whether there are tiers that levels stand for, or that none is left for.
func (t *Tiers) Any() bool { return len(t.level) > 0 }

// InLevels are the terms with levels in the place of tiers. They await one where a tier is required that no level stands for.
func (t *Tiers) InLevels(terms *dialect.Terms) *dialect.Terms {
	out := *terms
	out.Keys = maps.Clone(terms.Keys)
	for _, key := range []string{v1alpha1.KeyTopologyRequired, v1alpha1.KeyTopologyPreferred, v1alpha1.KeySegment, v1alpha1.KeySubgroupTopology} {
		value, tier := t.translate(out.Keys[key])
		switch {
		case tier == "":
			if value != "" {
				out.Keys[key] = value
			}
		case key == v1alpha1.KeyTopologyPreferred:
			delete(out.Keys, key)
			out.Unread = append(slices.Clone(out.Unread), "the preferred topology "+tier+" (no level of the scheduler divides nodes so, and none is free)")
		case out.Awaits == "":
			out.Awaits = "no level of the scheduler's topology divides nodes as " + tier + " does, and none is free to stand for it"
		}
	}
	return &out
}

// translate is a value with levels in the place of tiers: a tier, 4@tier, or a list of a=tier. lost is a tier without a level, "" for
// none.
func (t *Tiers) translate(value string) (out, lost string) {
	words := strings.Split(value, ",")
	for i, word := range words {
		at := strings.LastIndexAny(word, "@=") + 1
		level, known := t.level[word[at:]]
		if known && level == "" {
			return "", word[at:]
		}
		if known {
			words[i] = word[:at] + level
		}
	}
	return strings.Join(words, ","), ""
}
