package diagnose

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/facts"
)

// BarKind says what kind of rule keeps a pod from nodes.
type BarKind string

const (
	ByAntiAffinity BarKind = "anti-affinity"      // the pod's own rule
	ByOthersRule   BarKind = "others-rule"        // anti-affinity of pods that have a node
	ByPodAffinity  BarKind = "pod-affinity"       // all terms together: a pod has to match all of them
	BySpread       BarKind = "topology-spread"    // too many of its kind there already
	BySpreadLabel  BarKind = "spread-label"       // the node is in no domain of the constraint
	ByAttachLimit  BarKind = "attach-limit"       // the node takes no more volumes of a driver
	ByCSIDriver    BarKind = "csi-driver-missing" // the node does not have a driver that one of its volumes needs
	ByDevices      BarKind = "devices"            // claims of devices cannot be met there
)

// Bar is a rule that keeps the pod from nodes and that the engine does not know: about other pods, attached volumes
// or claims of devices.
type Bar struct {
	Kind  BarKind
	Term  int               // which of the pod's terms, constraints or claims; of ByOthersRule: of the terms of Pods
	Nodes map[string]string // why, by node
	Pods  []*corev1.Pod     // that it is about: those to keep away from, those with the rule, or those to be near
}

// bars are the rules that keep the pod from nodes. A pod without such rules costs a look at every other pod's
// affinity; one with them a look at every pod's labels, for each rule.
func bars(f *facts.Facts, p *corev1.Pod) []Bar {
	all := slices.Concat(antiAffinityBars(f, p), othersRuleBars(f, p), podAffinityBars(f, p), spreadBars(f, p), attachBars(f, p), deviceBars(f, p))
	return slices.DeleteFunc(all, func(b Bar) bool { return len(b.Nodes) == 0 })
}

// barred says which nodes the bars keep the pod from, and why: by node.
func barred(bars []Bar) map[string][]string {
	out := make(map[string][]string)
	for _, b := range bars {
		for node, reason := range b.Nodes {
			out[node] = append(out[node], reason)
		}
	}
	return out
}

// bar returns the first bar of the kind.
func (f *Fit) bar(kind BarKind) *Bar {
	for i := range f.Bars {
		if f.Bars[i].Kind == kind {
			return &f.Bars[i]
		}
	}
	return nil
}

// held are the nodes that the bar keeps the pod from and that would hold it when empty: those that matter to it.
func (f *Fit) held(b *Bar) []string {
	var out []string
	for i := range f.Nodes {
		if n := &f.Nodes[i]; b.Nodes[n.Name] != "" && n.Empty > 0 && len(n.Removed) == 0 {
			out = append(out, n.Name)
		}
	}
	return out
}

// podNames are the pods' names, sorted, with their namespaces where that is not the given one.
func podNames(pods []*corev1.Pod, namespace string) []string {
	seen := make(map[string]bool)
	for _, p := range pods {
		if p.Namespace == namespace {
			seen[p.Name] = true
		} else {
			seen[p.Namespace+"/"+p.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// onlySaid goes by the scheduler's words alone, where nodes and the pods on them may not be seen: a finding for the
// first of the reasons, each with what it means, that was given for any node.
func (c *Case) onlySaid(reasons ...[2]string) []Finding {
	if c.State != facts.Pending || c.Sees("nodes", "") && c.Sees("pods", "") {
		return nil
	}
	said, ok := c.Said()
	if !ok {
		return nil
	}
	for _, r := range reasons {
		if n := said.Count(r[0]); n > 0 || strings.Contains(said.Whole, r[0]) {
			return []Finding{{Fit: true, Message: r[1], Evidence: []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: "status.conditions[PodScheduled].message", Value: said.Text}}}}
		}
	}
	return nil
}
