package queue

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/internal/spelling"
	"github.com/berth-dev/berth/kube/dialect"
	"github.com/berth-dev/berth/kube/dialect/kai"
	"github.com/berth-dev/berth/kube/dialect/volcano"
)

// KaiGroup is the PodGroup of the pod, nil for none.
func KaiGroup(c *check.Case) *unstructured.Unstructured {
	return groupOf(c, kai.PodGroups, "pod-group-name")
}

// groupOf is the foreign PodGroup that the pod's annotation names, or that belongs to the pod or one of its owners.
func groupOf(c *check.Case, kind string, annotations ...string) *unstructured.Unstructured {
	for _, key := range annotations {
		if name := c.Pod.Annotations[key]; name != "" {
			return c.ForeignNamed(kind, c.Pod.Namespace, name)
		}
	}
	if c.Exists && c.Pod.Spec.SchedulerName == corev1.DefaultSchedulerName {
		return nil // its scheduler knows no such groups
	}
	for _, u := range c.Foreign[kind] {
		if u.GetNamespace() == c.Pod.Namespace && slices.ContainsFunc(u.GetOwnerReferences(), func(r metav1.OwnerReference) bool {
			return c.Exists && r.UID == c.Pod.UID || slices.ContainsFunc(c.Owners, func(m facts.Object) bool { return m.GetUID() == r.UID })
		}) {
			return u
		}
	}
	return nil
}

// KaiOurs says whether KAI schedules the pod.
func KaiOurs(c *check.Case) bool {
	return c.Waits() && (KaiGroup(c) != nil || c.Pod.Spec.SchedulerName == "kai-scheduler" && len(c.Foreign[kai.Queues])+len(c.Foreign[kai.PodGroups]) > 0)
}

// KaiReason is what KAI says of the group under the reason; "" where it does not. The group's state may be newer than
// its condition: an edited group has said nothing.
func KaiReason(c *check.Case, reason string) (message string, said bool) {
	g := KaiGroup(c)
	if g == nil || c.WasEdited(g) {
		return "", false
	}
	for _, s := range dialect.Items(g.Object, "status", "schedulingConditions") {
		if dialect.Text(s, "status") == "False" {
			continue
		}
		for _, r := range dialect.Items(s, "reasons") {
			if dialect.Text(r, "reason") == reason {
				return dialect.Text(r, "message"), true
			}
		}
		if strings.HasPrefix(dialect.Text(s, "message"), reason) {
			return dialect.Text(s, "message"), true
		}
	}
	return "", false
}

// kaiQueueName is the queue that pays.
func kaiQueueName(c *check.Case) string {
	if g := KaiGroup(c); g != nil && dialect.Text(g.Object, "spec", "queue") != "" {
		return dialect.Text(g.Object, "spec", "queue")
	}
	for _, o := range append([]facts.Object{c.Pod}, c.Owners...) {
		if q := cmp.Or(o.GetLabels()[kai.QueueLabel], o.GetLabels()["runai/queue"]); q != "" {
			return q
		}
	}
	return ""
}

// KAIAmount is what a queue has of GPUs.
type KAIAmount struct {
	*unstructured.Unstructured
	Quota, limit, used, Kept int64 // kept: by work that cannot be evicted; quota and limit: -1 unlimited
}

// KaiLine are the queue and the queues above it.
func KaiLine(c *check.Case) []KAIAmount {
	var out []KAIAmount
	for name := kaiQueueName(c); name != "" && len(out) < 8; {
		u := c.ForeignNamed(kai.Queues, "", name)
		if u == nil {
			break
		}
		a := KAIAmount{Unstructured: u, Quota: -1, limit: -1}
		if v, ok := dialect.Number(u.Object, "spec", "resources", "gpu", "quota"); ok {
			a.Quota = v
		}
		if v, ok := dialect.Number(u.Object, "spec", "resources", "gpu", "limit"); ok {
			a.limit = v
		}
		a.used, _ = podspec.AmountAt(kai.GPU, u.Object, "status", "allocated", kai.GPU)
		a.Kept, _ = podspec.AmountAt(kai.GPU, u.Object, "status", "allocatedNonPreemptible", kai.GPU)
		out = append(out, a)
		name = dialect.Text(u.Object, "spec", "parentQueue")
	}
	return out
}

// KaiNeed is how many GPUs the group's waiting pods ask for: as many as have to start together.
func KaiNeed(c *check.Case) int64 {
	var each, waiting int64
	for _, p := range c.All {
		if s := facts.StateOf(p); s == facts.Pending || s == facts.Gated {
			waiting++
		}
	}
	if !c.Exists {
		waiting += int64(c.Like)
	}
	each = podspec.Amounts(&c.Pod.Spec)[kai.GPU]
	if g := KaiGroup(c); g != nil {
		if n, ok := dialect.Number(g.Object, "spec", "minMember"); ok && n > 0 {
			return each * min(n, max(waiting, 1))
		}
	}
	return each * max(waiting, 1)
}

// kaiFresh is the group as its grouper makes it, nothing said of it yet, with the values put in.
func kaiFresh(c *check.Case, values map[string]any) []facts.Object {
	g := KaiGroup(c)
	if g == nil {
		return nil
	}
	if g.Object["status"] != nil {
		values["/status/schedulingConditions"] = nil
	}
	return []facts.Object{edit.WithValues(g, values)}
}

// KaiMissing finds that the KAI queue which the pod names does not exist.
func KaiMissing(c *check.Case) []check.Finding {
	if !KaiOurs(c) {
		return nil
	}
	name := kaiQueueName(c)
	_, said := KaiReason(c, "QueueDoesNotExist")
	if f, ok := belowNothing(c, kai.Queues, "KAI", name, "parentQueue"); ok {
		return []check.Finding{f}
	}
	if f := kaiNoLeaf(c, name); f != nil {
		return []check.Finding{*f}
	}
	unseen := !c.Sees("queues.scheduling.run.ai", "")
	if c.ForeignNamed(kai.Queues, "", name) != nil || unseen && !said || name == "" && !said {
		return nil
	}
	found := check.Finding{Message: fmt.Sprintf("KAI queue %s does not exist", name), Edits: kaiElsewhere(c, name)}
	if name == "" {
		found.Message = "the work names no KAI queue: it has no label " + kai.QueueLabel
	}
	if g := KaiGroup(c); g != nil {
		found.Evidence = []facts.Evidence{{Object: facts.RefTo(g).In(), Field: "spec.queue", Value: name}}
	}
	return []check.Finding{found}
}

// kaiNoLeaf finds that KAI takes no work from the queue: it schedules that of queues that are below another, and have none below them
// (kai-scheduler/KAI-Scheduler#621). Of its refusal it gives no reason.
func kaiNoLeaf(c *check.Case, name string) *check.Finding {
	u := c.ForeignNamed(kai.Queues, "", name)
	if u == nil || c.Fit == nil || !c.Fit.Placed() || c.State != facts.Pending || c.Age() < facts.SilentAfter || c.WasEdited(u) {
		return nil
	}
	if g := KaiGroup(c); g == nil || c.WasEdited(g) || len(dialect.Items(g.Object, "status", "schedulingConditions")) > 0 {
		return nil
	}
	f := &check.Finding{Evidence: []facts.Evidence{{Object: facts.RefTo(u).In(), Field: "spec.parentQueue", Value: dialect.Text(u.Object, "spec", "parentQueue")}}, Edits: kaiElsewhere(c, name)}
	below := slices.IndexFunc(c.Foreign[kai.Queues], func(q *unstructured.Unstructured) bool { return dialect.Text(q.Object, "spec", "parentQueue") == name })
	switch {
	case below >= 0:
		f.Message = fmt.Sprintf("KAI queue %s has queues below it, such as %s, and takes no work itself", name, c.Foreign[kai.Queues][below].GetName())
	case dialect.Text(u.Object, "spec", "parentQueue") == "":
		f.Message = fmt.Sprintf("KAI queue %s is below no other, and KAI schedules only work of queues that are", name)
	default:
		return nil
	}
	f.Advice = "Name a queue that is below another, or put this one below another."
	return f
}

// belowNothing finds that the queue, or one above it, is below a queue that nobody has made: then none of them gets anything.
func belowNothing(c *check.Case, kind, system, name, field string) (check.Finding, bool) {
	resource := map[string]string{kai.Queues: "queues.scheduling.run.ai", volcano.Queues: "queues.scheduling.volcano.sh"}[kind]
	if !c.Sees(resource, "") {
		return check.Finding{}, false
	}
	for range 8 {
		u := c.ForeignNamed(kind, "", name)
		if u == nil {
			break
		}
		up := dialect.Text(u.Object, "spec", field)
		if up == "" || up == "root" && system == "Volcano" {
			break
		}
		if c.ForeignNamed(kind, "", up) == nil {
			return check.Finding{
				Owner: check.Scheduler, Message: fmt.Sprintf("%s queue %s is below queue %s, which does not exist", system, name, up),
				Evidence: []facts.Evidence{{Object: facts.RefTo(u).In(), Field: "spec." + field, Value: up}},
				Advice:   fmt.Sprintf("Make queue %s, or put queue %s below one that exists.", up, name),
			}, true
		}
		name = up
	}
	return check.Finding{}, false
}

// kaiElsewhere names other queues: leaves of the tree, those with the most alike names first.
func kaiElsewhere(c *check.Case, name string) []edit.Edit {
	var leaves []string
	for _, q := range c.ForeignNames(kai.Queues, "") {
		if !slices.ContainsFunc(c.Foreign[kai.Queues], func(u *unstructured.Unstructured) bool { return dialect.Text(u.Object, "spec", "parentQueue") == q }) && q != name {
			leaves = append(leaves, q)
		}
	}
	hangs := func(q string) bool {
		return dialect.Text(c.ForeignNamed(kai.Queues, "", q).Object, "spec", "parentQueue") != ""
	}
	if slices.ContainsFunc(leaves, hangs) { // as KAI wants them
		leaves = slices.DeleteFunc(leaves, func(q string) bool { return !hangs(q) })
	}
	var out []edit.Edit
	for _, q := range spelling.ByLikeness(name, leaves) {
		if len(out) < 2 {
			out = append(out, KaiRelabel(c, kai.QueueLabel, q, fmt.Sprintf("name KAI queue %s instead of %s", q, cmp.Or(name, "none")), map[string]any{"/spec/queue": q}))
		}
	}
	return out
}

// KaiRelabel sets a label that KAI's grouper reads, where it is or else on the pods, and has the group follow.
func KaiRelabel(c *check.Case, key, value, text string, group map[string]any) edit.Edit {
	e := edit.Edit{Side: edit.Workload, Cost: 2, Text: text, Set: kaiFresh(c, group)}
	if _, pod := c.Top.(*corev1.Pod); !pod && c.Top.GetLabels()[key] != "" {
		n := c.Top.DeepCopyObject().(facts.Object)
		labels := map[string]string{}
		for k, v := range n.GetLabels() {
			labels[k] = v
		}
		labels[key] = value
		n.SetLabels(labels)
		e.Set = append(e.Set, n)
		e.Command = fmt.Sprintf("kubectl label %s %s -n %s %s=%s --overwrite", facts.KindOfObject(c.Top).Name(), c.Top.GetName(), c.Top.GetNamespace(), key, value)
		return e
	}
	e.Ops = []edit.Op{place.PutLabel(c, key, value)}
	return e
}

// KaiOverLimit finds that a KAI queue has reached its limit.
func KaiOverLimit(c *check.Case) []check.Finding {
	if !KaiOurs(c) {
		return nil
	}
	message, said := KaiReason(c, "OverLimit")
	need := KaiNeed(c)
	for _, q := range KaiLine(c) {
		if q.limit < 0 || q.used+need <= q.limit {
			continue
		}
		e := KaiRaise(c, func(q KAIAmount) (string, int64, bool) {
			return "limit", q.used + need, q.limit >= 0 && q.used+need > q.limit
		})
		return []check.Finding{{
			Message:  fmt.Sprintf("KAI queue %s may hold %s, holds %d, and the work asks for %d more", q.GetName(), wording.Number(q.limit, "GPU"), q.used, need),
			Evidence: []facts.Evidence{{Object: facts.RefTo(q.Unstructured).In(), Field: "spec.resources.gpu.limit", Value: fmt.Sprint(q.limit)}},
			Edits:    append(kaiElsewhere(c, kaiQueueName(c)), e),
		}}
	}
	if said && len(KaiLine(c)) == 0 {
		return []check.Finding{{Message: "KAI says: " + strings.TrimSuffix(message, ".")}}
	}
	return nil
}

// KaiRaise raises a figure of all queues in the line that are too low.
func KaiRaise(c *check.Case, low func(KAIAmount) (field string, to int64, yes bool)) edit.Edit {
	e := edit.Edit{Side: edit.Cluster, Cost: 3, Set: kaiFresh(c, map[string]any{})}
	var texts, commands []string
	for _, q := range KaiLine(c) {
		field, to, yes := low(q)
		if !yes {
			continue
		}
		texts = append(texts, fmt.Sprintf("raise the GPU %s of KAI queue %s to %d", field, q.GetName(), to))
		e.Set = append(e.Set, edit.WithValues(q.Unstructured, map[string]any{"/spec/resources/gpu/" + field: to}))
		commands = append(commands, edit.PatchLine(q.Unstructured, "merge", map[string]any{"spec": map[string]any{"resources": map[string]any{"gpu": map[string]any{field: to}}}}))
	}
	e.Text, e.Command = strings.Join(texts, "; and "), strings.Join(commands, "\n")
	return e
}

// KaiKept says whether KAI may not evict the work: it says so, or its priority is 100 or more.
func KaiKept(c *check.Case) bool {
	g := KaiGroup(c)
	name := c.Pod.Spec.PriorityClassName
	if g != nil {
		switch dialect.Text(g.Object, "spec", "preemptibility") {
		case "preemptible":
			return false
		case "non-preemptible":
			return true
		}
		name = cmp.Or(dialect.Text(g.Object, "spec", "priorityClassName"), name)
	}
	for _, p := range c.PriorityClasses {
		if p.Name == name {
			return p.Value >= 100
		}
	}
	return name == "build" || name == "inference"
}
