package queue

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/dialect"
)

// BerthBehind is what Berth wrote of a pod behind the head of its queue. Where the queue is StrictFIFO, there is something to do beside
// waiting: have the queue pass who is blocked, go to a queue that does, or have the head give way. The engine plans the pod alone, so
// it says nothing of the order: what was written holds until the queue or the head is changed.
func BerthBehind(c *check.Case) []check.Finding {
	found := BerthWrote(c, why.BehindTheHead)
	q := ownQueue(c)
	if len(found) == 0 || q == nil {
		return found
	}
	if c.WasEdited(q) && !strictly(q) || slices.ContainsFunc(BerthSpeakers(c), c.WasEdited) {
		return nil // it is in another queue, or in one of another order
	}
	if !strictly(q) {
		return found
	}
	head, gone := HeadOf(c)
	if gone {
		return nil
	}
	f := &found[0]
	f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(q).In(), Field: "spec.queueingStrategy", Value: string(v1alpha1.StrictFIFO)})
	f.Edits = append(f.Edits, edit.Edit{
		Side: edit.Cluster, Cost: 3, Text: fmt.Sprintf("change the strategy of queue %s to %s", q.GetName(), v1alpha1.BestEffortFIFO), Assumes: "the queue's owner does not need the strict order",
		Set:     []facts.Object{edit.WithValues(q, map[string]any{"/spec/queueingStrategy": string(v1alpha1.BestEffortFIFO)})},
		Command: edit.PatchLine(q, "merge", map[string]any{"spec": map[string]any{"queueingStrategy": string(v1alpha1.BestEffortFIFO)}}),
	})
	for _, e := range berthElsewhere(c, q.GetName()) {
		if o := c.ForeignNamed(berthQueues, "", queueIn(e.Text)); o != nil && strictly(o) {
			continue // whoever is blocked there would be before it
		}
		e.Assumes = cmp.Or(e.Assumes, "the other queue is for such work")
		f.Edits = append(f.Edits, e)
	}
	if head == nil {
		return found
	}
	r := facts.RefTo(head)
	f.Message += fmt.Sprintf("; what that waits for, `berth why %s -n %s` says", r, r.Namespace)
	f.Evidence = append(f.Evidence, facts.Evidence{Object: r.In(), Field: "status", Value: "blocked, and before it in queue " + q.GetName()})
	if j, ok := head.(*batchv1.Job); ok {
		held := j.DeepCopy()
		yes := true
		held.Spec.Suspend = &yes
		f.Edits = append(f.Edits, edit.Edit{
			Side: edit.Cluster, Cost: 5, Text: fmt.Sprintf("suspend %s, which is before it and blocked", r), Set: []facts.Object{held}, Gone: pendingOf(c, j),
			Command: edit.PatchLine(j, "merge", map[string]any{"spec": map[string]any{"suspend": true}}), Assumes: "its owner agrees",
		})
	}
	return found
}

// queueIn is the queue that an edit of berthElsewhere is about.
func queueIn(text string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(text, "name queue "), " ")
	return name
}

// ownQueue is the queue that the pod's work is in, the default one where it names none; nil: it was not read.
func ownQueue(c *check.Case) *unstructured.Unstructured {
	return c.ForeignNamed(berthQueues, "", cmp.Or(berthQueue(c), v1alpha1.DefaultQueue))
}

func strictly(q *unstructured.Unstructured) bool {
	return dialect.Text(q.Object, "spec", "queueingStrategy") == string(v1alpha1.StrictFIFO)
}

// HeadOf is the workload that the pod waits behind, as the scheduler names it; nil: it is not seen. gone is of one that an edit took out
// of the queue.
func HeadOf(c *check.Case) (head facts.Object, gone bool) {
	name := ""
	if g, ok := GateOf(c, why.BehindTheHead); ok {
		name = g.Object
	} else if w := c.ServedFor(c.Pod); w != nil {
		if g, ok := w.Gate(why.BehindTheHead); ok {
			name = g.Object
		}
	} else if _, data, ok := place.BerthSaid(c, why.BehindTheHead); ok && len(data.Gates) > 0 {
		name = data.Gates[0].Object
	}
	if name == "" {
		return nil, false
	}
	i := slices.IndexFunc(c.Pods, func(p *corev1.Pod) bool {
		return p.Namespace+"/"+c.WorkloadOf(p) == name || p.Namespace+"/"+p.Name == name
	})
	if i < 0 {
		return nil, c.Edited() && strings.HasPrefix(name, c.Pod.Namespace+"/") && c.Sees("pods", c.Pod.Namespace)
	}
	return c.TopOwner(c.Pods[i]), c.WasEdited(c.TopOwner(c.Pods[i]))
}

func pendingOf(c *check.Case, j *batchv1.Job) []facts.Object {
	var out []facts.Object
	for _, p := range c.PodsMadeBy(j) {
		if facts.StateOf(p) == facts.Pending {
			out = append(out, p)
		}
	}
	return out
}
