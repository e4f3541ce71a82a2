package cli

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1alpha1 "github.com/berth-dev/berth/api/v1alpha1"
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
	result := a.client.Get().AbsPath("/apis", v1alpha1.GroupVersion.Group, v1alpha1.GroupVersion.Version, "queues").Do(ctx)
	if err := result.Error(); err != nil {
		return out, fmt.Errorf("list queues: %w", err)
	}
	body, err := result.Raw()
	if err != nil {
		return out, err
	}
	var list v1alpha1.QueueList
	if err := json.Unmarshal(body, &list); err != nil {
		return out, fmt.Errorf("read queues: %w", err)
	}
	for i := range list.Items {
		out.Items = append(out.Items, writtenQueue(&list.Items[i]))
	}
	return out, nil
}

func writtenQueue(q *v1alpha1.Queue) answer.Queue {
	out := answer.Queue{ObjectMeta: q.ObjectMeta}
	out.Running.Workloads, out.Waiting.Workloads = int(q.Status.Running), int(q.Status.Waiting)
	for _, r := range q.Spec.Resources {
		if r.Limit != nil && r.GPUModel == "" {
			out.Limits = append(out.Limits, amount(r.Name, *r.Limit))
		}
	}
	for _, u := range q.Status.Resources {
		if u.GPUModel != "" {
			continue
		}
		if !u.Used.IsZero() {
			out.Used = append(out.Used, amount(u.Name, u.Used))
		}
		if !u.Wanted.IsZero() {
			out.Wanted = append(out.Wanted, amount(u.Name, u.Wanted))
		}
		if u.Name == string(gpuResource) {
			out.Waiting.GPUs = u.Wanted.Value()
		}
	}
	return out
}

// amount is in the engine's units: milli-CPU for cpu, else whole.
func amount(name string, q resource.Quantity) why.Amount {
	if name == string(corev1.ResourceCPU) {
		return why.Amount{Resource: name, Value: q.MilliValue()}
	}
	return why.Amount{Resource: name, Value: q.Value()}
}
