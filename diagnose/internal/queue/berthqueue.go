package queue

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/internal/spelling"
	"github.com/berth-dev/berth/kube/dialect"
	"github.com/berth-dev/berth/kube/report"
)

// Berth's own queues, and the keys by which work names them. The engine says what a queue forbids; here are the
// sentences and the edits.
const (
	berthQueues   = "BerthQueue.berth.dev"
	berthQueueKey = v1alpha1.KeyQueue
	// berthAdmitted is the condition of a pod that is in a queue: from then on its keys are not read.
	berthAdmitted corev1.PodConditionType = v1alpha1.PodAdmitted
)

// GateOf is the engine's gate of the cause that is shut for the pod.
func GateOf(c *check.Case, cause why.Cause) (why.Gate, bool) {
	f := c.Fit
	if f == nil {
		return why.Gate{}, false
	}
	for _, g := range f.Gates {
		if g.Cause == cause {
			return g, true
		}
	}
	return why.Gate{}, false
}

// BerthSaid is what Berth wrote of the pod under the cause, for callers who may not see what the engine would need.
func BerthSaid(c *check.Case, cause why.Cause) []check.Finding {
	if c.Fit != nil || c.State != facts.Pending {
		return nil
	}
	if w := c.ServedFor(c.Pod); w != nil {
		return asTold(c, w, cause)
	}
	return berthQuoted(c, cause)
}

// berthQuoted is Berth's own sentence about the pod, where the data beside it says that it is of the cause.
func berthQuoted(c *check.Case, cause why.Cause) []check.Finding {
	s, _, ok := place.BerthSaid(c, cause)
	if !ok {
		return nil
	}
	return []check.Finding{{Message: "Berth says: " + s.Message, Evidence: []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: `status.conditions["PodScheduled"]`, Value: s.Reason}}}}
}

// BerthGate is the engine's gate of the cause in words, and where the engine cannot be asked what Berth wrote.
func BerthGate(c *check.Case, cause why.Cause) []check.Finding {
	g, ok := GateOf(c, cause)
	if !ok {
		return BerthSaid(c, cause)
	}
	queue := berthQueue(c)
	return []check.Finding{{Message: g.Sentence(nil), Evidence: berthEvidence(c, queue), Edits: berthElsewhere(c, queue)}}
}

// berthQueue is the queue that the pod's work names; "": none by name.
func berthQueue(c *check.Case) string {
	o := BerthKeyed(c, berthQueueKey)
	if o == nil {
		return ""
	}
	return cmp.Or(o.GetAnnotations()[berthQueueKey], o.GetLabels()[berthQueueKey])
}

// BerthWrote is what Berth wrote of the pod under a cause that is of what it remembers: promises, evictions and what
// was used. No object shows these to the engine.
func BerthWrote(c *check.Case, cause why.Cause) []check.Finding {
	if g, ok := GateOf(c, cause); ok {
		return []check.Finding{{Message: g.Sentence(nil), Evidence: berthEvidence(c, berthQueue(c))}}
	}
	if c.State != facts.Pending {
		return nil
	}
	if w := c.ServedFor(c.Pod); w != nil {
		return asTold(c, w, cause)
	}
	return berthQuoted(c, cause)
}

// asTold is what the scheduler says of the pod under the cause: the one that binds alone.
func asTold(c *check.Case, w *facts.ServedWorkload, cause why.Cause) []check.Finding {
	if w.Cause != cause {
		return nil
	}
	message := w.Sentence
	if g, ok := w.Gate(cause); ok {
		message = g.Sentence(w.Certificates)
	}
	return []check.Finding{{Message: message, Evidence: []facts.Evidence{{Object: "workload/" + c.Pod.Namespace + "/" + c.WorkloadOf(c.Pod), Field: "cause", Value: string(cause)}}}}
}

// BerthWaits is the same of a wait with which nothing is wrong.
func BerthWaits(c *check.Case, cause why.Cause) []check.Finding {
	out := BerthWrote(c, cause)
	for i := range out {
		out[i].Healthy, out[i].Fit = true, true
	}
	return out
}

// BerthEnds is when the last pod that is seen to end for the work of the pod is gone at the latest; zero where none is
// seen.
func BerthEnds(c *check.Case) (until time.Time, because string) {
	key := c.GangOf(c.Pod)
	if key == "" {
		key = c.Pod.Namespace + "/" + c.Pod.Name
	}
	mark := berthMark(c, key)
	for _, p := range c.Pods {
		if p.DeletionTimestamp == nil || !p.DeletionTimestamp.After(until) {
			continue
		}
		if e, ok := report.EvictionOf(p); ok && (e.For == key || mark != "" && e.For == mark) {
			until, because = p.DeletionTimestamp.Time, fmt.Sprintf("pod %s/%s is gone by then", p.Namespace, p.Name)
		}
	}
	return until, because
}

// berthMark is the mark by which pods of other namespaces are told to end for the workload: Berth says it on a pod that a
// place is kept for. "": it does not.
func berthMark(c *check.Case, workload string) string {
	for _, p := range c.Pods {
		if cmp.Or(c.GangOf(p), p.Namespace+"/"+p.Name) != workload {
			continue
		}
		if held, ok := report.HeldOf(p); ok && held.Mark != "" {
			return held.Mark
		}
	}
	return ""
}

// BerthKeyed is who says the key that counts for the pod: the pod itself, a owner, its PodGroup, its namespace; nil for
// nobody.
func BerthKeyed(c *check.Case, key string) facts.Object {
	for _, o := range BerthSpeakers(c) {
		if o.GetAnnotations()[key] != "" || o.GetLabels()[key] != "" {
			return o
		}
	}
	return nil
}

// BerthSpeakers are the objects whose keys hold for the pod: itself, its owners, its PodGroup and its namespace.
func BerthSpeakers(c *check.Case) []facts.Object {
	out := []facts.Object{c.Pod}
	for _, m := range slices.Backward(c.Owners) {
		out = append(out, m)
	}
	if g := c.Pod.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
		for _, pg := range c.PodGroups {
			if pg.Namespace == c.Pod.Namespace && pg.Name == *g.PodGroupName {
				out = append(out, pg)
			}
		}
	}
	for _, n := range c.Namespaces {
		if n.Name == c.Pod.Namespace {
			out = append(out, n)
		}
	}
	return out
}

// BerthRekey has the pod's word under the key changed to the value, wherever it is said, and one key replaced by
// another where they differ.
func BerthRekey(c *check.Case, was, key, value, text string) edit.Edit {
	e := edit.Edit{Side: edit.Workload, Cost: 2, Text: text}
	o := BerthKeyed(c, was)
	if o == nil {
		e.Ops = []edit.Op{place.PutAnnotation(c, key, value)}
		return e
	}
	where := "annotations"
	if o.GetAnnotations()[was] == "" {
		where = "labels"
	}
	if o == facts.Object(c.Pod) {
		if was != key {
			e.Ops = append(e.Ops, edit.Op{Op: "remove", Path: edit.Pointer("metadata", where, was)})
		}
		e.Ops = append(e.Ops, edit.Op{Op: "add", Path: edit.Pointer("metadata", where, key), Value: value})
		return e
	}
	n := o.DeepCopyObject().(facts.Object)
	words := map[string]string{key: value}
	old, put, verb := n.GetAnnotations(), n.SetAnnotations, "annotate"
	if where == "labels" {
		old, put, verb = n.GetLabels(), n.SetLabels, "label"
	}
	for k, v := range old {
		if k != was && k != key {
			words[k] = v
		}
	}
	put(words)
	e.Set = []facts.Object{n}
	e.Command = "kubectl " + verb + " " + berthName(o) + " " + key + "=" + value + " --overwrite"
	if was != key {
		e.Command = "kubectl " + verb + " " + berthName(o) + " " + was + "- " + key + "=" + value + " --overwrite"
	}
	if _, ok := o.(*corev1.Namespace); ok {
		e.Side, e.Cost = edit.Cluster, 3
	}
	return berthAnew(c, e, o)
}

// berthAnew has the pods made anew, by their controllers, that wait in a queue: they keep the terms that they entered it
// with, whatever o, which speaks for them, says from now on.
func berthAnew(c *check.Case, e edit.Edit, o facts.Object) edit.Edit {
	pods := c.PodsMadeBy(o)
	if !slices.Contains(pods, c.Pod) {
		pods = []*corev1.Pod{c.Pod}
	}
	for _, p := range pods {
		inQueue := func(s corev1.PodCondition) bool { return s.Type == berthAdmitted && s.Status == corev1.ConditionTrue }
		if p.Spec.NodeName != "" || !slices.ContainsFunc(p.Status.Conditions, inQueue) || metav1.GetControllerOf(p) == nil {
			continue
		}
		n := p.DeepCopy()
		n.Status.Conditions = slices.DeleteFunc(n.Status.Conditions, inQueue)
		e.Set = append(e.Set, n)
		e.Command += fmt.Sprintf("\nkubectl delete pod %s -n %s", p.Name, p.Namespace)
	}
	return e
}

// berthName is the object as kubectl takes it.
func berthName(o facts.Object) string {
	s := facts.KindOfObject(o).Name() + " " + o.GetName()
	if o.GetNamespace() != "" {
		s += " -n " + o.GetNamespace()
	}
	return s
}

// berthElsewhere charges the work to other queues, those with the most alike names first. The engine says which help.
func berthElsewhere(c *check.Case, name string) []edit.Edit {
	var out []edit.Edit
	others := spelling.ByLikeness(name, c.ForeignNames(berthQueues, ""))
	standing := make(map[string]int, len(others))
	for _, other := range others {
		standing[other] = choosing(c, c.ForeignNamed(berthQueues, "", other))
	}
	others = slices.DeleteFunc(others, func(other string) bool { return standing[other] == shut })
	slices.SortStableFunc(others, func(a, b string) int { return cmp.Compare(standing[a], standing[b]) })
	for _, other := range others {
		if other != name && len(out) < 3 {
			out = append(out, BerthRekey(c, berthQueueKey, berthQueueKey, other, fmt.Sprintf("name queue %s instead of %s", other, name)))
		}
	}
	return out
}

// How a queue is open to the pod's namespace.
const (
	chosen = iota // its selector chooses the namespace
	toAll         // it has no selector, or one that chooses every namespace
	shut
)

// choosing says how the queue is open to the pod's namespace, as far as that can be seen.
func choosing(c *check.Case, queue *unstructured.Unstructured) int {
	at := slices.IndexFunc(c.Namespaces, func(n *corev1.Namespace) bool { return n.Name == c.Pod.Namespace })
	var selector metav1.LabelSelector
	if queue == nil || at < 0 || !dialect.Decode(dialect.Value(queue.Object, "spec", "namespaceSelector"), &selector) {
		return toAll
	}
	s, err := metav1.LabelSelectorAsSelector(&selector)
	switch {
	case err != nil || s.Empty():
		return toAll
	case s.Matches(labels.Set(c.Namespaces[at].Labels)):
		return chosen
	}
	return shut
}

func berthEvidence(c *check.Case, name string) []facts.Evidence {
	if o := BerthKeyed(c, berthQueueKey); o != nil && o.GetAnnotations()[berthQueueKey] == "" {
		return []facts.Evidence{{Object: facts.RefTo(o).In(), Field: fmt.Sprintf("metadata.labels[%q]", berthQueueKey), Value: name}}
	} else if o != nil {
		return []facts.Evidence{{Object: facts.RefTo(o).In(), Field: fmt.Sprintf("metadata.annotations[%q]", berthQueueKey), Value: name}}
	}
	return nil
}

// BerthMissing is the finding that the queue does not exist.
func BerthMissing(c *check.Case, name string) check.Finding {
	queue := &unstructured.Unstructured{Object: map[string]any{"apiVersion": v1alpha1.GroupVersion.String(), "kind": v1alpha1.QueueKind, "metadata": map[string]any{"name": name}}}
	return check.Finding{
		Message: fmt.Sprintf("queue %s does not exist", name), Evidence: berthEvidence(c, name),
		Edits: append(berthElsewhere(c, name), edit.Edit{Side: edit.Cluster, Cost: 3, Text: fmt.Sprintf("make queue %s, without limits", name), Set: []facts.Object{queue}, Command: edit.ApplyLine(queue)}),
	}
}

// BerthForbidden is the finding that the namespace may not use the queue.
func BerthForbidden(c *check.Case, name string) check.Finding {
	found := check.Finding{Message: fmt.Sprintf("queue %s is not open to namespace %s", name, c.Pod.Namespace), Evidence: berthEvidence(c, name), Edits: berthElsewhere(c, name)}
	if q := c.ForeignNamed(berthQueues, "", name); q != nil {
		if e, ok := AdmitNamespace(c, q); ok {
			found.Edits = append(found.Edits, e)
		}
	}
	return found
}

// BerthStopped is the finding that the queue, which may be above the pod's own, is stopped.
func BerthStopped(c *check.Case, name string) check.Finding {
	found := check.Finding{Message: fmt.Sprintf("queue %s is stopped", name), Evidence: berthEvidence(c, berthQueue(c)), Edits: berthElsewhere(c, berthQueue(c))}
	q := c.ForeignNamed(berthQueues, "", name)
	if q == nil {
		return found
	}
	found.Evidence = append([]facts.Evidence{{Object: facts.RefTo(q).In(), Field: "spec.stopPolicy", Value: dialect.Text(q.Object, "spec", "stopPolicy")}}, found.Evidence...)
	found.Edits = append([]edit.Edit{{
		Side: edit.Cluster, Cost: 3, Text: fmt.Sprintf("reopen queue %s", name), Assumes: "who stopped it agrees",
		Set:     []facts.Object{edit.WithValues(q, map[string]any{"/spec/stopPolicy": string(v1alpha1.StopNone)})},
		Command: edit.PatchLine(q, "merge", map[string]any{"spec": map[string]any{"stopPolicy": string(v1alpha1.StopNone)}}),
	}}, found.Edits...)
	return found
}

// AdmitNamespace labels the pod's namespace as the queue's spec.namespaceSelector wants it, or has the selector name
// the namespace where it goes by names.
func AdmitNamespace(c *check.Case, queue *unstructured.Unstructured) (edit.Edit, bool) {
	at := slices.IndexFunc(c.Namespaces, func(n *corev1.Namespace) bool { return n.Name == c.Pod.Namespace })
	var selector metav1.LabelSelector
	if at < 0 || !dialect.Decode(dialect.Value(queue.Object, "spec", "namespaceSelector"), &selector) {
		return edit.Edit{}, false
	}
	for _, other := range c.Foreign[queue.GetKind()+"."+queue.GroupVersionKind().Group] {
		if other.GetName() != queue.GetName() && choosing(c, other) == chosen {
			return edit.Edit{}, false // the namespace is another queue's, and labelled so
		}
	}
	n := c.Namespaces[at].DeepCopy()
	var words []string
	put := func(k, v string) {
		if n.Labels == nil {
			n.Labels = make(map[string]string)
		}
		if n.Labels[k] != v && k != corev1.LabelMetadataName {
			n.Labels[k] = v
			words = append(words, k+"="+v)
		}
	}
	//archtest:any-order each label is set once, and the words are sorted before they are used
	for k, v := range selector.MatchLabels {
		put(k, v)
	}
	for i, r := range selector.MatchExpressions {
		if r.Operator != metav1.LabelSelectorOpIn || len(r.Values) == 0 {
			continue
		}
		if r.Key == corev1.LabelMetadataName && !slices.Contains(r.Values, n.Name) {
			return namedInSelector(c, queue, i, n.Name)
		}
		if !slices.Contains(r.Values, n.Labels[r.Key]) {
			put(r.Key, r.Values[0])
		}
	}
	slices.Sort(words)
	s, err := metav1.LabelSelectorAsSelector(&selector)
	if err != nil || !s.Matches(labels.Set(n.Labels)) || len(words) == 0 {
		return edit.Edit{}, false
	}
	return edit.Edit{
		Side: edit.Cluster, Cost: 5, Set: []facts.Object{n}, Text: fmt.Sprintf("label namespace %s with %s, which %s %s selects", n.Name, strings.Join(words, ", "), strings.ToLower(queue.GetKind()), queue.GetName()),
		Command: fmt.Sprintf("kubectl label namespace %s %s --overwrite", n.Name, strings.Join(words, " ")), Assumes: "who owns the queue agrees",
	}, true
}

// namedInSelector adds the namespace to the names in the queue's selector.
func namedInSelector(c *check.Case, queue *unstructured.Unstructured, expression int, name string) (edit.Edit, bool) {
	path := fmt.Sprintf("/spec/namespaceSelector/matchExpressions/%d/values/-", expression)
	open, err := edit.Patch(queue, "", []edit.Op{{Op: "add", Path: path, Value: name}})
	if err != nil {
		return edit.Edit{}, false
	}
	return edit.Edit{
		Side: edit.Cluster, Cost: 5, Set: []facts.Object{open}, Text: fmt.Sprintf("add namespace %s to those that %s %s selects", name, strings.ToLower(queue.GetKind()), queue.GetName()),
		Command: edit.PatchLine(queue, "json", []edit.Op{{Op: "add", Path: path, Value: name}}), Assumes: "who owns the queue agrees",
	}, true
}

// BerthLimit is a limit of a queue that the work would pass.
func BerthLimit(c *check.Case, g why.Gate, message string) check.Finding {
	found := check.Finding{Message: message, Edits: berthElsewhere(c, g.Object)}
	if e, ok := berthAskLess(c, g); ok {
		found.Edits = append(found.Edits, e)
	}
	q := c.ForeignNamed(berthQueues, "", g.Object)
	if q == nil {
		return found
	}
	for i, r := range dialect.Items(q.Object, "spec", "resources") {
		if dialect.Text(r, "name") != g.Resource {
			continue
		}
		pods := int64(1)
		if c.GangOf(c.Pod) == "" {
			pods = int64(c.Like) // each is work of its own
		}
		path, limit := fmt.Sprintf("/spec/resources/%d/limit", i), g.Quantity(g.Have+g.Need*pods)
		found.Evidence = append(found.Evidence, facts.Evidence{Object: facts.RefTo(q).In(), Field: fmt.Sprintf("spec.resources[%q].limit", g.Resource), Value: g.Quantity(g.Limit)})
		found.Edits = append(found.Edits, edit.Edit{
			Side: edit.Cluster, Cost: 3, Set: []facts.Object{edit.WithValues(q, map[string]any{path: limit})},
			Text:    fmt.Sprintf("raise %s of queue %s from %s to %s", g.Resource, g.Object, g.Quantity(g.Limit), limit),
			Command: edit.PatchLine(q, "json", []edit.Op{{Op: "replace", Path: path, Value: limit}}),
		})
	}
	return found
}

// berthAskLess has the pod ask for what the queue has left, where it is by itself and not one of a gang.
func berthAskLess(c *check.Case, g why.Gate) (edit.Edit, bool) {
	left := g.Limit - g.Have
	if left <= 0 || g.Milli || c.GangOf(c.Pod) != "" || c.Like > 1 {
		return edit.Edit{}, false
	}
	op, ok := place.AskLess(c, g.Resource, left)
	return edit.Edit{Side: edit.Workload, Cost: 2, Ops: []edit.Op{op}, Text: fmt.Sprintf("ask for %s %s instead of %s", why.Quantity(g.Resource, left), g.Resource, why.Quantity(g.Resource, g.Need))}, ok
}
