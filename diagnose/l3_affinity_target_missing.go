package diagnose

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var affinityTargetMissingCheck = Check{
	Cause: "affinity-target-missing", Layer: L3, Owner: User, Stage: Place, Rank: 16,
	Title:   "It has to be near a pod that has no node",
	Meaning: "Required pod affinity ties the pod to others, by their labels. No pod with these labels has a node, so no node will do. Two pods may even wait for one another.",
	Remedy:  "Start what it has to be near, correct the labels in the affinity, or make it preferred.",
	Not:     "The cluster is full.",
	Find:    affinityTargetMissing,
}

func affinityTargetMissing(c *Case) []Finding {
	f := c.Fit
	if f == nil {
		return c.onlySaid([2]string{"node(s) didn't match pod affinity rules", "it has to be near a pod that is on none of the nodes that would do"})
	}
	b := f.bar(ByPodAffinity)
	if b == nil || len(b.Pods) > 0 {
		return nil // none, or the others are somewhere: then room there is the question
	}
	terms := near(c.Pod)
	found := Finding{
		Fit:      true,
		Message:  fmt.Sprintf("it has to be in the same %s as a pod with %s, and no such pod has a node", domainWord(terms[0].TopologyKey), selectorText(terms[0].LabelSelector)),
		Evidence: []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]", Value: terms[0].TopologyKey + ": " + selectorText(terms[0].LabelSelector)}},
	}
	waiting := c.targetsWaiting()
	switch {
	case len(waiting) > 0 && slices.ContainsFunc(waiting, func(p *corev1.Pod) bool { return c.ties(p, c.Pod) }):
		found.Message += fmt.Sprintf("; pod %s would be one, and waits for this one in the same way", wording.Few(podNames(waiting, c.Pod.Namespace)))
	case len(waiting) > 0:
		found.Message += fmt.Sprintf("; pod %s would be one, and waits itself", wording.Few(podNames(waiting, c.Pod.Namespace)))
		found.Advice = fmt.Sprintf("Find out why pod %s waits: berth why pod/%s -n %s.", waiting[0].Name, waiting[0].Name, waiting[0].Namespace)
	}
	found.Edits = c.relaxNear()
	return []Finding{found}
}

// targetsWaiting are pods without a node that it would have to be near.
func (c *Case) targetsWaiting() []*corev1.Pod {
	var out []*corev1.Pod
	for _, p := range c.Pods {
		if p.Spec.NodeName == "" && !facts.Ended(p) && p.UID != c.Pod.UID && c.ties(c.Pod, p) {
			out = append(out, p)
		}
	}
	return out
}

// ties says whether the first pod has to be near ones like the second.
func (c *Case) ties(p, to *corev1.Pod) bool {
	terms := peerTerms(p, near(p))
	return len(terms) > 0 && !slices.ContainsFunc(terms, func(t peerTerm) bool { return !t.matches(c.Facts, to) })
}

// relaxNear makes all terms a wish: one that is left would still tie it.
func (c *Case) relaxNear() []edit.Edit {
	by := c.asWritten()
	if len(near(by)) != len(near(c.Pod)) {
		by = c.Pod
	}
	rules := by.Spec.Affinity.PodAffinity
	indexes := make([]int, len(rules.RequiredDuringSchedulingIgnoredDuringExecution))
	for i := range indexes {
		indexes[i] = i
	}
	return []edit.Edit{{
		Side: edit.Workload, Cost: 2, Text: "make the pod affinity preferred instead of required",
		Ops: relaxed("podAffinity", rules.RequiredDuringSchedulingIgnoredDuringExecution, rules.PreferredDuringSchedulingIgnoredDuringExecution, indexes...),
	}}
}
