package l3

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var antiAffinityExhaustedCheck = check.Check{
	Cause: "anti-affinity-exhausted", Layer: check.L3, Owner: check.User, Stage: check.Place, Rank: 16,
	Title:   "Anti-affinity leaves no node",
	Meaning: "The pod must not be near certain other pods, or they must not be near it, and such pods are everywhere that it could go. GPUs may be free beside them.",
	Remedy:  "Run fewer replicas, make the rule preferred instead of required, or add a node.",
	Not:     "The cluster is full.",
	Find:    antiAffinityExhausted,
}

func antiAffinityExhausted(c *check.Case) []check.Finding {
	f := c.Fit
	if f == nil {
		return antiAffinitySaid(c)
	}
	var out []check.Finding
	mutual := false
	for i := range f.Exclusions {
		switch b := &f.Exclusions[i]; {
		case len(f.Held(b)) == 0:
		case b.Kind == check.ByAntiAffinity:
			out = append(out, ownRule(c, b))
			mutual = true
		case b.Kind == check.ByOthersRule && !(mutual && place.OfTarget(c, b.Pods[0])):
			out = append(out, othersRule(c, b))
		}
	}
	return out
}

// ownRule words a rule of the pod's own.
func ownRule(c *check.Case, b *check.Exclusion) check.Finding {
	by := place.AsWritten(c)
	if len(place.Apart(by)) <= b.Term {
		by = c.Pod
	}
	rules := by.Spec.Affinity.PodAntiAffinity
	term := &rules.RequiredDuringSchedulingIgnoredDuringExecution[b.Term]
	held := c.Fit.Held(b)
	word := place.DomainWord(term.TopologyKey)
	found := check.Finding{
		Fit:     true,
		Message: fmt.Sprintf("it must not share a %s with pods that have %s, and %s that could hold it have one: %s", word, place.SelectorText(term.LabelSelector), wording.NodesInWords(len(held)), wording.Few(place.PodNames(b.Pods, c.Pod.Namespace))),
		Evidence: []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: fmt.Sprintf("spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[%d]", b.Term),
			Value: term.TopologyKey + ": " + place.SelectorText(term.LabelSelector)}},
	}
	relax := edit.Edit{
		Side: edit.Workload, Cost: 3, Text: fmt.Sprintf("make the anti-affinity on %s preferred instead of required", term.TopologyKey),
		Ops: place.Relaxed("podAntiAffinity", rules.RequiredDuringSchedulingIgnoredDuringExecution, rules.PreferredDuringSchedulingIgnoredDuringExecution, b.Term),
	}
	found.Edits = append(found.Edits, relax)
	if slices.ContainsFunc(b.Pods, func(p *corev1.Pod) bool { return place.OfTarget(c, p) }) {
		// Its siblings have the rule too, and go on having it: less of them, or more nodes.
		if e, ok := place.FewerPods(c); ok {
			found.Edits = append([]edit.Edit{e}, found.Edits...)
		}
	}
	found.Edits = append(found.Edits, nodeMore(c, held, term.TopologyKey))
	if r := rolloutBy(c, func(p *corev1.Pod) bool { return slices.Contains(b.Pods, p) }); r != nil && len(r.old) == len(b.Pods) {
		r.told(c, &found, "all places")
	}
	found.Probe = withoutRules(c, b, relax)
	return found
}

// withoutRules is that neither the pod nor its siblings, who may have the same rule, have it any more.
func withoutRules(c *check.Case, b *check.Exclusion, relax edit.Edit) *edit.Edit {
	probe := relax
	probe.Text += ", everywhere"
	for _, p := range b.Pods {
		if place.OfTarget(c, p) && len(place.Apart(p)) > 0 {
			q := p.DeepCopy()
			q.Spec.Affinity.PodAntiAffinity = nil
			probe.Set = append(probe.Set, q)
		}
	}
	return &probe
}

// nodeMore adds a node like one that is held, in a domain of its own.
func nodeMore(c *check.Case, held []string, key string) edit.Edit {
	n := c.NodeNamed(held[0])
	m := place.Another(n, nil)
	if key != corev1.LabelHostname {
		m.Labels[key] = n.Labels[key] + "-more"
	}
	text := fmt.Sprintf("add a node like %s", n.Name)
	if key != corev1.LabelHostname {
		text += " in another " + place.DomainWord(key)
	}
	return edit.Edit{Side: edit.Cluster, Cost: 9, Text: text, Set: []facts.Object{m}}
}

// othersRule words a rule of other pods that keeps this one away.
func othersRule(c *check.Case, b *check.Exclusion) check.Finding {
	other := place.TopOf(c.Facts, b.Pods[0])
	term := place.Apart(b.Pods[0])[b.Term]
	held := c.Fit.Held(b)
	found := check.Finding{
		Fit: true,
		Message: fmt.Sprintf("%s of namespace %s, who has %s there, lets no pod with %s onto its %ss, and this one is such a pod",
			facts.RefTo(other), other.GetNamespace(), wording.NodesInWords(len(held)), place.SelectorText(term.LabelSelector), place.DomainWord(term.TopologyKey)),
		Evidence: []facts.Evidence{{Object: facts.RefTo(b.Pods[0]).In(), Field: fmt.Sprintf("spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[%d]", b.Term),
			Value: term.TopologyKey + ": " + place.SelectorText(term.LabelSelector)}},
		Advice: fmt.Sprintf("Ask the owner of %s to narrow its anti-affinity, or use other labels.", facts.RefTo(other)),
	}
	if e, ok := relaxOther(other, b); ok {
		found.Edits = append(found.Edits, e)
	}
	found.Edits = append(found.Edits, nodeMore(c, held, term.TopologyKey))
	return found
}

// relaxOther makes the rule of another workload a wish.
func relaxOther(other facts.Object, b *check.Exclusion) (edit.Edit, bool) {
	t := facts.TemplateOf(other)
	if t == nil || t.Spec.Affinity == nil || t.Spec.Affinity.PodAntiAffinity == nil || len(t.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) <= b.Term {
		return edit.Edit{}, false
	}
	rules := t.Spec.Affinity.PodAntiAffinity
	ops := place.Relaxed("podAntiAffinity", rules.RequiredDuringSchedulingIgnoredDuringExecution, rules.PreferredDuringSchedulingIgnoredDuringExecution, b.Term)
	e := edit.Edit{Side: edit.Cluster, Cost: 5, Text: fmt.Sprintf("make the anti-affinity of %s preferred instead of required", facts.RefTo(other)),
		Command: edit.PatchCommand(other, nil, ops), Assumes: fmt.Sprintf("the pods of %s are restarted by it, and its owner agrees", facts.RefTo(other))}
	after, err := edit.Patch(other, facts.TemplatePath(other), ops)
	if err != nil {
		return edit.Edit{}, false
	}
	e.Set = append(e.Set, after)
	for _, p := range b.Pods {
		q := p.DeepCopy()
		a := q.Spec.Affinity.PodAntiAffinity
		a.RequiredDuringSchedulingIgnoredDuringExecution = slices.Delete(a.RequiredDuringSchedulingIgnoredDuringExecution, b.Term, b.Term+1)
		e.Set = append(e.Set, q)
	}
	return e, true
}

// antiAffinitySaid goes by the scheduler's words where nodes may not be seen.
func antiAffinitySaid(c *check.Case) []check.Finding {
	return place.OnlySaid(c,
		[2]string{"node(s) didn't match pod anti-affinity rules", "pods that it must not be near are on the nodes that would do"},
		[2]string{"node(s) didn't satisfy existing pods anti-affinity rules", "pods that must not be near it are on the nodes that would do"},
	)
}
