package queue

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/internal/spelling"
	"github.com/berth-dev/berth/kube/dialect"
	"github.com/berth-dev/berth/kube/dialect/volcano"
)

// Two other schedulers keep the pods of a group close together, each by an object of its own: KAI by the levels of a Topology, Volcano by the
// tiers of HyperNodes (kai.scheduler/v1alpha1; topology.volcano.sh/v1alpha1).

const kaiTopologies = "Topology.kai.scheduler"

// KaiLevel is what the pod's group of KAI asks for and does not exist: the Topology that it names, or a level of that; nil for nothing. near is
// what may have been meant.
func KaiLevel(c *check.Case) (wrong *facts.Evidence, what, near string) {
	group, _, _ := ForeignGroup(c)
	if group == nil || group.GroupVersionKind().Group != "scheduling.run.ai" || !c.Sees("topologies.kai.scheduler", "") {
		return nil, "", ""
	}
	name := dialect.Text(group.Object, "spec", "topologyConstraint", "topology")
	if name == "" {
		return nil, "", ""
	}
	at := facts.RefTo(group).In()
	topology := c.ForeignNamed(kaiTopologies, "", name)
	if topology == nil {
		near, _ = spelling.Closest(name, c.ForeignNames(kaiTopologies, ""))
		return &facts.Evidence{Object: at, Field: "spec.topologyConstraint.topology", Value: name}, "topology " + name, near
	}
	var levels []string
	for _, l := range dialect.Items(topology.Object, "spec", "levels") {
		levels = append(levels, dialect.Text(l, "nodeLabel"), dialect.Text(l, "alias"))
	}
	levels = slices.DeleteFunc(levels, func(l string) bool { return l == "" })
	for _, field := range []string{"requiredTopologyLevel", "preferredTopologyLevel"} {
		level := dialect.Text(group.Object, "spec", "topologyConstraint", field)
		if level != "" && !slices.Contains(levels, level) {
			near, _ = spelling.Closest(level, levels)
			return &facts.Evidence{Object: at, Field: "spec.topologyConstraint." + field, Value: level}, fmt.Sprintf("level %s of topology %s", level, name), near
		}
	}
	return nil, "", ""
}

// KaiRename has the group ask for what exists. KAI's pod grouper writes the group from annotations of what owns the pods, where it has them: there it
// is changed.
func KaiRename(c *check.Case, wrong *facts.Evidence, near string) []edit.Edit {
	group, _, _ := ForeignGroup(c)
	path := "/" + strings.ReplaceAll(wrong.Field, ".", "/")
	e := edit.Edit{Side: edit.Workload, Cost: edit.CostWord, Text: fmt.Sprintf("ask for %s in place of %s", near, wrong.Value),
		Set: []facts.Object{edit.WithValues(group, map[string]any{path: near, "/status/schedulingConditions": nil, "/status/conditions": nil})}}
	for _, o := range c.Owners {
		for _, key := range []string{"kai.scheduler/topology", "kai.scheduler/topology-required-placement", "kai.scheduler/topology-preferred-placement"} {
			if o.GetAnnotations()[key] == wrong.Value {
				e.Command = edit.PatchLine(o, "merge", map[string]any{"metadata": map[string]any{"annotations": map[string]string{key: near}}})
				return []edit.Edit{e}
			}
		}
	}
	e.Command = edit.PatchLine(group, "json", []edit.Op{{Op: "replace", Path: path, Value: near}})
	return []edit.Edit{e}
}

// VolcanoTier is a group of Volcano's whose pods have to be in one HyperNode, and no HyperNode of a tier that is allowed has room for them.
type VolcanoTier struct {
	Group         *unstructured.Unstructured
	Allowed, Need int
	Room, Most    int // how many of the pods the largest of these has room for now, and when it is empty
	Wider         int // the lowest tier with one that has room for all of them when it is empty; 0: there is none
}

// VolcanoTierOf is nil where a HyperNode that is allowed has room for the pod's group, where the cluster as a whole has none, and where that is not
// known.
func VolcanoTierOf(c *check.Case) *VolcanoTier {
	group, need, members := ForeignGroup(c)
	if group == nil || group.GroupVersionKind().Group != "scheduling.volcano.sh" || len(members) < int(need) || !c.Sees("nodes", "") || len(c.Foreign[volcano.HyperNodes]) == 0 {
		return nil
	}
	at := dialect.Value(group.Object, "spec", "networkTopology")
	allowed, ok := number(at, "highestTierAllowed")
	if !ok || dialect.Text(at, "mode") == "soft" {
		return nil
	}
	t := &VolcanoTier{Group: group, Allowed: allowed, Need: int(need)}
	all := 0
	for _, n := range c.Nodes {
		all += roomNow(c, n)
	}
	nodes, ok := volcano.ReadHyperNodes(c.Foreign[volcano.HyperNodes])
	if !ok {
		return nil
	}
	for _, h := range nodes {
		now, empty := 0, 0
		for _, n := range c.Nodes {
			if podspec.Suits(c.Pod, n) && h.Has(n) {
				now, empty = now+roomNow(c, n), empty+podspec.HoldsEmpty(n, &c.Pod.Spec)
			}
		}
		switch {
		case h.Tier <= allowed:
			t.Room, t.Most = max(t.Room, now), max(t.Most, empty)
		case empty >= t.Need && (t.Wider == 0 || h.Tier < t.Wider):
			t.Wider = h.Tier
		}
	}
	if t.Room >= t.Need || t.Most >= t.Need && all < t.Need {
		return nil
	}
	return t
}

// roomNow is how many of the pod's like the node has room for.
func roomNow(c *check.Case, n *corev1.Node) int {
	if !podspec.Suits(c.Pod, n) {
		return 0
	}
	return int(holdsPods(c.Facts, n, &c.Pod.Spec))
}

func number(at any, path ...string) (n int, ok bool) {
	_, err := fmt.Sscan(fmt.Sprint(dialect.Value(at, path...)), &n)
	return n, err == nil
}
