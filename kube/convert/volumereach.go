package convert

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/berth-dev/berth/engine"
)

// rule says whether a volume can be reached from a node.
type rule func(*corev1.Node) bool

// allowed is never nil, for that would allow all.
func allowed(nodes []*corev1.Node, rules []rule) []string {
	names := []string{}
	for _, n := range nodes {
		if !slices.ContainsFunc(rules, func(ok rule) bool { return !ok(n) }) {
			names = append(names, n.Name)
		}
	}
	slices.Sort(names)
	return names
}

// Reaches says whether the volume can be used on the node.
func Reaches(pv *corev1.PersistentVolume, n *corev1.Node) bool {
	return !slices.ContainsFunc(reach(pv), func(ok rule) bool { return !ok(n) })
}

func reach(pv *corev1.PersistentVolume) []rule { return append(byAffinity(pv), byZone(pv)...) }

// byAffinity is upstream's volume.CheckNodeAffinity with the terms parsed once. It sees labels alone.
func byAffinity(pv *corev1.PersistentVolume) []rule {
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return nil
	}
	selector := nodeaffinity.NewLazyErrorNodeSelector(pv.Spec.NodeAffinity.Required)
	return []rule{func(n *corev1.Node) bool {
		ok, err := selector.Match(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: n.Labels}})
		return ok && err == nil
	}}
}

// zoneLabels are the labels on volumes from before they had affinity, each with the label of today. Their
// values are sets.
var zoneLabels = [...]struct{ old, today string }{
	{corev1.LabelFailureDomainBetaZone, corev1.LabelTopologyZone},
	{corev1.LabelFailureDomainBetaRegion, corev1.LabelTopologyRegion},
	{corev1.LabelTopologyZone, corev1.LabelTopologyZone},
	{corev1.LabelTopologyRegion, corev1.LabelTopologyRegion},
}

// byZone is upstream's VolumeZone: a node that is in any zone or region must be in the volume's.
func byZone(pv *corev1.PersistentVolume) []rule {
	var out []rule
	for _, l := range zoneLabels {
		zones := strings.Split(pv.Labels[l.old], "__")
		if slices.Contains(zones, "") { // no label, or a malformed one, which upstream passes over
			continue
		}
		out = append(out, func(n *corev1.Node) bool {
			at, ok := n.Labels[l.old]
			if !ok {
				at, ok = n.Labels[l.today]
			}
			return ok && slices.Contains(zones, at) || !zoned(n)
		})
	}
	return out
}

func zoned(n *corev1.Node) bool {
	for _, l := range zoneLabels {
		if _, ok := n.Labels[l.old]; ok {
			return true
		}
	}
	return false
}

// Near sorts volumes under the names of the nodes that their affinity lets reach them. Volumes of one node each
// are found by that node's label, so that thousands of local disks on thousands of nodes cost no more than they
// are.
func Near(volumes []*corev1.PersistentVolume, nodes []*corev1.Node) map[string][]*corev1.PersistentVolume {
	out := make(map[string][]*corev1.PersistentVolume)
	labelled := make(map[string]map[string][]*corev1.Node) // nodes by label and its value
	for _, pv := range volumes {
		rules, among := byAffinity(pv), nodes
		if key, values, ok := oneLabel(pv); ok {
			if labelled[key] == nil {
				labelled[key] = byLabel(key, nodes)
			}
			rules, among = nil, nil
			for _, value := range values {
				among = append(among, labelled[key][value]...)
			}
		}
		for _, n := range among {
			if !slices.ContainsFunc(rules, func(ok rule) bool { return !ok(n) }) {
				out[n.Name] = append(out[n.Name], pv)
			}
		}
	}
	return out
}

// oneLabel returns the label and its distinct values if the volume asks no more of a node than to have one.
func oneLabel(pv *corev1.PersistentVolume) (key string, values []string, ok bool) {
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return "", nil, false
	}
	terms := pv.Spec.NodeAffinity.Required.NodeSelectorTerms
	if len(terms) != 1 || len(terms[0].MatchExpressions) != 1 || len(terms[0].MatchFields) > 0 || terms[0].MatchExpressions[0].Operator != corev1.NodeSelectorOpIn {
		return "", nil, false
	}
	r := terms[0].MatchExpressions[0]
	if (engine.Requirement{Key: r.Key, Op: engine.In, Values: r.Values}).Check() != nil {
		return "", nil, false // upstream takes no part of it
	}
	values = slices.Clone(r.Values)
	slices.Sort(values)
	return r.Key, slices.Compact(values), true
}

func byLabel(key string, nodes []*corev1.Node) map[string][]*corev1.Node {
	out := make(map[string][]*corev1.Node)
	for _, n := range nodes {
		if value, ok := n.Labels[key]; ok {
			out[value] = append(out[value], n)
		}
	}
	return out
}
