package queue

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/internal/spelling"
	"github.com/berth-dev/berth/kube/dialect"
	"github.com/berth-dev/berth/kube/dialect/volcano"
)

// VolcanoGroup is the PodGroup of a pod that waits for Volcano, nil for none.
func VolcanoGroup(c *check.Case) *unstructured.Unstructured {
	return groupOf(c, volcano.PodGroups, "scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
}

// volcanoQueue is the queue that the group names, and its object where there is one.
func volcanoQueue(c *check.Case) (name string, queue, group *unstructured.Unstructured) {
	if group = VolcanoGroup(c); group == nil || !c.Waits() {
		return "", nil, nil
	}
	name = cmp.Or(dialect.Text(group.Object, "spec", "queue"), "default")
	return name, c.ForeignNamed(volcano.Queues, "", name), group
}

// VolcanoMissing finds that the Volcano queue does not exist.
func VolcanoMissing(c *check.Case) []check.Finding {
	name, queue, group := volcanoQueue(c)
	if f, ok := belowNothing(c, volcano.Queues, "Volcano", name, "parent"); ok && group != nil && queue != nil {
		return []check.Finding{f}
	}
	if group == nil || queue != nil || !c.Sees("queues.scheduling.volcano.sh", "") {
		return nil
	}
	found := check.Finding{Message: fmt.Sprintf("Volcano queue %s does not exist", name), Evidence: []facts.Evidence{{Object: facts.RefTo(group).In(), Field: "spec.queue", Value: name}}}
	for _, other := range spelling.ByLikeness(name, c.ForeignNames(volcano.Queues, "")) {
		if len(found.Edits) < 2 {
			found.Edits = append(found.Edits, volcanoRequeue(c, group, name, other))
		}
	}
	return []check.Finding{found}
}

// volcanoRequeue names another queue: on a Volcano Job in its spec, else in the annotation that its PodGroup is made
// from.
func volcanoRequeue(c *check.Case, group *unstructured.Unstructured, name, other string) edit.Edit {
	e := edit.Edit{Side: edit.Workload, Cost: 2, Text: fmt.Sprintf("name Volcano queue %s instead of %s", other, name), Set: []facts.Object{edit.WithValues(group, map[string]any{"/spec/queue": other})}}
	const key = "scheduling.volcano.sh/queue-name"
	if u, ok := c.Top.(*unstructured.Unstructured); ok && facts.KindOfObject(u) != nil && facts.KindOfObject(u).Group == "batch.volcano.sh" {
		e.Set = append(e.Set, edit.WithValues(u, map[string]any{"/spec/queue": other}))
		e.Command = fmt.Sprintf("kubectl get %[1]s %[2]s -n %[3]s -o json | kubectl patch --local -f - --type=merge -p '{\"spec\":{\"queue\":\"%[4]s\"}}' -o json | kubectl replace --force -f -", facts.KindOfObject(u).Name(), u.GetName(), u.GetNamespace(), other)
		return e
	}
	e.Ops = []edit.Op{place.PutAnnotation(c, key, other)}
	return e
}

// VolcanoClosed finds that the Volcano queue takes nothing.
func VolcanoClosed(c *check.Case) []check.Finding {
	name, queue, group := volcanoQueue(c)
	if queue == nil || group == nil {
		return nil
	}
	state := dialect.Text(queue.Object, "status", "state")
	if state != "Closed" && state != "Closing" {
		return nil
	}
	return []check.Finding{{
		Message:  fmt.Sprintf("Volcano queue %s is closed", name),
		Evidence: []facts.Evidence{{Object: facts.RefTo(queue).In(), Field: "status.state", Value: state}},
		Edits: []edit.Edit{{
			Side: edit.Cluster, Cost: 3, Text: fmt.Sprintf("open Volcano queue %s again: vcctl queue operate --name %s --action open", name, name), Assumes: "who closed it agrees",
			Set: []facts.Object{edit.WithValues(queue, map[string]any{"/status/state": "Open"}), edit.WithValues(group, map[string]any{"/status/phase": "Inqueue"})},
		}},
	}}
}

// VolcanoLimit is a capability of the queue that the group would pass: never says whether also with nobody else in it.
func VolcanoLimit(c *check.Case, never bool) []check.Finding {
	name, queue, group := volcanoQueue(c)
	if queue == nil || dialect.Text(group.Object, "status", "phase") == "Running" {
		return nil
	}
	for _, resource := range slices.Sorted(maps.Keys(volcano.Quantities(queue.Object, "spec", "capability"))) {
		most, _ := podspec.AmountAt(resource, queue.Object, "spec", "capability", resource)
		used, _ := podspec.AmountAt(resource, queue.Object, "status", "allocated", resource)
		need := volcanoNeed(c, group, resource)
		promised, to := volcanoPromised(c, name, group, resource)
		used += promised
		if need == 0 || used+need <= most || (need > most) != never {
			continue
		}
		raised := why.Quantity(resource, used+need)
		message := fmt.Sprintf("Volcano queue %s may hold %s %s, holds %s, and the work asks for %s more", name, why.Quantity(resource, most), resource, why.Quantity(resource, used), why.Quantity(resource, need))
		if promised > 0 {
			message += fmt.Sprintf("; %s of what it holds is kept for PodGroup %s, which was let in and does not run yet", why.Quantity(resource, promised), wording.AtMost(3, to))
		}
		if never {
			message = fmt.Sprintf("the work asks for %s %s, and Volcano queue %s may never hold more than %s", why.Quantity(resource, need), resource, name, why.Quantity(resource, most))
		}
		return []check.Finding{{
			Message:  message,
			Evidence: []facts.Evidence{{Object: facts.RefTo(queue).In(), Field: fmt.Sprintf("spec.capability[%q]", resource), Value: why.Quantity(resource, most)}},
			Edits: []edit.Edit{{
				Side: edit.Cluster, Cost: 3, Text: fmt.Sprintf("raise %s of Volcano queue %s from %s to %s", resource, name, why.Quantity(resource, most), raised),
				Set:     []facts.Object{volcano.WithCapability(queue, resource, raised)},
				Command: edit.PatchLine(queue, "merge", map[string]any{"spec": map[string]any{"capability": map[string]any{resource: raised}}}),
			}},
		}}
	}
	return nil
}

// volcanoPromised is what groups that the queue has let in, and that do not run yet, ask for at least: as long as the group is not let in
// itself, that counts as used (the enqueue action and the plugins capacity and proportion of Volcano).
func volcanoPromised(c *check.Case, queue string, group *unstructured.Unstructured, resource string) (sum int64, to []string) {
	if phase := dialect.Text(group.Object, "status", "phase"); phase != "Pending" && phase != "" {
		return 0, nil
	}
	for _, g := range c.Foreign[volcano.PodGroups] {
		if g == group || g.GetUID() == group.GetUID() || cmp.Or(dialect.Text(g.Object, "spec", "queue"), "default") != queue || dialect.Text(g.Object, "status", "phase") != "Inqueue" {
			continue
		}
		if v, ok := podspec.AmountAt(resource, g.Object, "spec", "minResources", resource); ok && v > 0 {
			sum, to = sum+v, append(to, g.GetNamespace()+"/"+g.GetName())
		}
	}
	slices.Sort(to)
	return sum, to
}

// volcanoNeed is what the group needs to start.
func volcanoNeed(c *check.Case, group *unstructured.Unstructured, resource string) int64 {
	if v, ok := podspec.AmountAt(resource, group.Object, "spec", "minResources", resource); ok {
		return v
	}
	n, _ := dialect.Number(group.Object, "spec", "minMember")
	return podspec.Amounts(&c.Pod.Spec)[resource] * max(1, n)
}
