package l3

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var affinityTargetMissingCheck = check.Check{
	Cause: "affinity-target-missing", Layer: check.L3, Owner: check.User, Stage: check.Place, Rank: 16,
	Title:   "It has to be near a pod that has no node",
	Meaning: "Required pod affinity ties the pod to others, by their labels. No pod with these labels has a node, so no node will do. Two pods may even wait for one another.",
	Remedy:  "Start what it has to be near, correct the labels in the affinity, or make it preferred.",
	Not:     "The cluster is full.",
	Find:    affinityTargetMissing,
}

func affinityTargetMissing(c *check.Case) []check.Finding {
	f := c.Fit
	if f == nil {
		return place.OnlySaid(c, [2]string{"node(s) didn't match pod affinity rules", "it has to be near a pod that is on none of the nodes that would do"})
	}
	b := f.Exclusion(check.ByPodAffinity)
	if b == nil || len(b.Pods) > 0 {
		return nil // none, or the others are somewhere: then room there is the question
	}
	terms := place.Near(c.Pod)
	at, lacks := slices.IndexFunc(terms, func(t corev1.PodAffinityTerm) bool { return undivided(c, t.TopologyKey) }), "no such pod has a node"
	unlabelled := at >= 0 // then no node will do whatever pods there are, such as those like itself
	if unlabelled {
		lacks = "no node has the label " + terms[at].TopologyKey
	}
	at = max(at, 0)
	t := &terms[at]
	found := check.Finding{
		Fit:      true,
		Message:  fmt.Sprintf("it has to be in the same %s as a pod with %s, and %s", place.DomainWord(t.TopologyKey), place.SelectorText(t.LabelSelector), lacks),
		Evidence: []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: fmt.Sprintf("spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[%d]", at), Value: t.TopologyKey + ": " + place.SelectorText(t.LabelSelector)}},
	}
	if unlabelled {
		found.Edits = relaxNear(c)
		return []check.Finding{found}
	}
	waiting := targetsWaiting(c)
	switch {
	case len(waiting) > 0 && slices.ContainsFunc(waiting, func(p *corev1.Pod) bool { return ties(c, p, c.Pod) }):
		found.Message += fmt.Sprintf("; pod %s would be one, and waits for this one in the same way", wording.Few(place.PodNames(waiting, c.Pod.Namespace)))
	case len(waiting) > 0:
		found.Message += fmt.Sprintf("; pod %s would be one, and waits itself", wording.Few(place.PodNames(waiting, c.Pod.Namespace)))
		found.Advice = fmt.Sprintf("Find out why pod %s waits: berth why pod/%s -n %s.", waiting[0].Name, waiting[0].Name, waiting[0].Namespace)
	}
	found.Edits = relaxNear(c)
	if p := targetElsewhere(c); p != nil && len(waiting) == 0 {
		found.Message += fmt.Sprintf("; pod %s of namespace %s has these labels, and the affinity does not look there", p.Name, p.Namespace)
		found.Evidence = append(found.Evidence, facts.Evidence{Object: facts.RefTo(p).In(), Field: "spec.nodeName", Value: p.Spec.NodeName})
		found.Edits = append([]edit.Edit{lookIn(c, p.Namespace)}, found.Edits...)
	}
	return []check.Finding{found}
}

// undivided says whether no node has the label of the topology key. A kubelet gives its node the host's name.
func undivided(c *check.Case, key string) bool {
	return key != corev1.LabelHostname && !slices.ContainsFunc(c.Nodes, func(n *corev1.Node) bool { _, ok := n.Labels[key]; return ok })
}

// targetElsewhere is a pod with a node that it would have to be near, if the namespace were one of those that its affinity names.
func targetElsewhere(c *check.Case) *corev1.Pod {
	anywhere := c.Pod.DeepCopy()
	for i := range anywhere.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		anywhere.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[i].NamespaceSelector = &metav1.LabelSelector{}
	}
	for _, p := range c.Pods {
		if p.Spec.NodeName != "" && !facts.Ended(p) && ties(c, anywhere, p) {
			return p
		}
	}
	return nil
}

// lookIn has all terms look in the namespace, beside those that they name.
func lookIn(c *check.Case, namespace string) edit.Edit {
	e := edit.Edit{Side: edit.Workload, Cost: edit.CostWord, Text: fmt.Sprintf("have the pod affinity look in namespace %s", namespace)}
	for i, t := range place.Near(c.Pod) {
		e.Ops = append(e.Ops, edit.Op{Op: "add", Path: edit.Pointer("spec", "affinity", "podAffinity", "requiredDuringSchedulingIgnoredDuringExecution", strconv.Itoa(i), "namespaces"), Value: append(slices.Clone(t.Namespaces), namespace)})
	}
	return e
}

// targetsWaiting are pods without a node that it would have to be near.
func targetsWaiting(c *check.Case) []*corev1.Pod {
	var out []*corev1.Pod
	for _, p := range c.Pods {
		if p.Spec.NodeName == "" && !facts.Ended(p) && p.UID != c.Pod.UID && ties(c, c.Pod, p) {
			out = append(out, p)
		}
	}
	return out
}

// ties says whether the first pod has to be near ones like the second.
func ties(c *check.Case, p, to *corev1.Pod) bool {
	terms := place.PeerTerms(p, place.Near(p))
	return len(terms) > 0 && !slices.ContainsFunc(terms, func(t place.PeerTerm) bool { return !t.Matches(c.Facts, to) })
}

// relaxNear makes all terms a wish: one that is left would still tie it.
func relaxNear(c *check.Case) []edit.Edit {
	by := place.AsWritten(c)
	if len(place.Near(by)) != len(place.Near(c.Pod)) {
		by = c.Pod
	}
	rules := by.Spec.Affinity.PodAffinity
	indexes := make([]int, len(rules.RequiredDuringSchedulingIgnoredDuringExecution))
	for i := range indexes {
		indexes[i] = i
	}
	return []edit.Edit{{
		Side: edit.Workload, Cost: 2, Text: "make the pod affinity preferred instead of required",
		Ops: place.Relaxed("podAffinity", rules.RequiredDuringSchedulingIgnoredDuringExecution, rules.PreferredDuringSchedulingIgnoredDuringExecution, indexes...),
	}}
}
