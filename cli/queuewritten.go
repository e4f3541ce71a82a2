package cli

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/answer"
)

// written is the queues as their own objects say they were when last counted: what there is to show without a
// scheduler that answers.
func (a asker) written(ctx context.Context) (out answer.QueueList, err error) {
	if a.kept != nil {
		return writtenIn(a.kept)
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	result := a.client.Get().AbsPath("/apis", v1alpha1.GroupVersion.Group, v1alpha1.GroupVersion.Version, v1alpha1.QueuePlural).Do(ctx)
	if err := result.Error(); err != nil {
		return out, fmt.Errorf("list queues: %w", err)
	}
	body, err := result.Raw()
	if err != nil {
		return out, err
	}
	var list v1alpha1.BerthQueueList
	if err := json.Unmarshal(body, &list); err != nil {
		return out, fmt.Errorf("read queues: %w", err)
	}
	for i := range list.Items {
		out.Items = append(out.Items, writtenQueue(&list.Items[i]))
	}
	return out, nil
}

func writtenQueue(q *v1alpha1.BerthQueue) answer.Queue {
	out := answer.Queue{ObjectMeta: q.ObjectMeta, Parent: q.Spec.Parent, Weight: int64(q.Spec.Weight)}
	out.Running.Workloads, out.Waiting.Workloads = int(q.Status.Running), int(q.Status.Waiting)
	for _, r := range q.Spec.Resources {
		name := amountName(r.Name, r.GPUModel)
		add(&out.Quota, name, r.Quota)
		add(&out.Limits, name, r.Limit)
	}
	for _, u := range q.Status.Resources {
		name := amountName(u.Name, u.GPUModel)
		add(&out.Used, name, notZero(&u.Used))
		add(&out.Wanted, name, notZero(&u.Wanted))
		add(&out.Borrowed, name, notZero(u.Borrowed))
		add(&out.Lent, name, notZero(u.Lent))
		add(&out.Share, name, notZero(u.FairShare))
		if name == string(gpuResource) {
			out.Waiting.GPUs = u.Wanted.Value()
		}
	}
	if s := q.Status.Spending; s != nil {
		out.GPUSeconds = s.TotalSeconds
	}
	for _, b := range q.Status.Budgets {
		out.Budgets = append(out.Budgets, answer.Budget{
			Resource: b.Resource, Spent: b.SpentSeconds, Seconds: 3600 * amount(b.Resource, b.Hours).Value, PeriodSeconds: int64(b.To.Sub(b.From.Time).Seconds()),
		})
	}
	writtenConditions(&out, q)
	return out
}

// writtenConditions reads what is wrong with the queue, as far as that was said of what it is now.
func writtenConditions(out *answer.Queue, q *v1alpha1.BerthQueue) {
	for _, c := range q.Status.Conditions {
		switch {
		case c.ObservedGeneration < q.Generation:
		case c.Type == v1alpha1.QueueValid && c.Status == metav1.ConditionFalse:
			out.Problem = c.Message
		case c.Type == v1alpha1.QueuePromisesExceedParent && c.Status == metav1.ConditionTrue:
			out.Warnings = append(out.Warnings, c.Message)
		}
	}
}

// amountName names the resource, or as much of it as is of one GPU model.
func amountName(name, model string) string {
	if model == "" {
		return name
	}
	return engine.OfModel(name, model)
}

func notZero(q *resource.Quantity) *resource.Quantity {
	if q == nil || q.IsZero() {
		return nil
	}
	return q
}

func add(to *[]why.Amount, name string, q *resource.Quantity) {
	if q != nil {
		*to = append(*to, amount(name, *q))
	}
}

// amount is in the engine's units: milli-CPU for cpu, else whole.
func amount(name string, q resource.Quantity) why.Amount {
	if name == string(corev1.ResourceCPU) {
		return why.Amount{Resource: name, Value: q.MilliValue()}
	}
	return why.Amount{Resource: name, Value: q.Value()}
}
