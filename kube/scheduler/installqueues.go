package scheduler

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/cluster"
	"github.com/berth-dev/berth/kube/crd"
)

// queuesPath is where the API server has the queues.
var queuesPath = "/apis/" + v1alpha1.GroupVersion.String() + "/" + v1alpha1.QueuePlural

// installQueues returns when BerthQueues can be written, and there is a default queue. The kind Reservation comes with them. One that an administrator has is
// left as it is. One that was deleted is made again here and nowhere else: without it the scheduler implies the same queue.
func installQueues(ctx context.Context, client rest.Interface, log *slog.Logger) error {
	kind, err := crd.Read(v1alpha1.QueueCRD)
	if err != nil {
		return err
	}
	old, err := oldQueueKind(ctx, client)
	if err != nil {
		return err
	}
	if _, err := kind.Apply(ctx, client); err != nil {
		return err
	}
	// Nothing here reads Reservations: a client that writes one finds the kind served by then, or tries again.
	reserved, err := crd.Read(v1alpha1.ReservationCRD)
	if err != nil {
		return err
	}
	if _, err := reserved.Apply(ctx, client); err != nil {
		return err
	}
	if err := kind.Served(ctx, client); err != nil {
		return err
	}
	if old != nil {
		if err := old.convert(ctx, log); err != nil {
			return fmt.Errorf("convert queues.berth.dev: %w", err)
		}
	}
	queue := v1alpha1.NewDefaultQueue(cluster.DefaultGPU)
	queue.Labels = named("", "").Labels
	if err := post(ctx, client, queue); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create queue %s: %w", queue.Name, err)
	}
	return nil
}

func post(ctx context.Context, client rest.Interface, queue any) error {
	body, err := json.Marshal(queue)
	if err != nil {
		return err
	}
	return client.Post().AbsPath(queuesPath).SetHeader("Content-Type", runtime.ContentTypeJSON).SetHeader("Accept", runtime.ContentTypeJSON).Body(body).Do(ctx).Error()
}

// oldQueues is the kind Queue of berth.dev, which BerthQueue replaced on 2026-11-16 (ADR 29).
type oldQueues struct {
	client rest.Interface
	kind   crd.Kind
}

const (
	oldQueueDefinition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/queues.berth.dev"
	oldQueuesPath      = "/apis/berth.dev/v1alpha1/queues"
)

// oldQueueKind is the older kind, nil where the cluster does not have it or is about to lose it. The short name is taken
// from it: the API server serves no kind whose short name another of the same group has.
func oldQueueKind(ctx context.Context, client rest.Interface) (*oldQueues, error) {
	text, err := client.Get().AbsPath(oldQueueDefinition).SetHeader("Accept", runtime.ContentTypeJSON).Do(ctx).Raw()
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get queues.berth.dev: %w", err)
	}
	var is metav1.PartialObjectMetadata
	if err := json.Unmarshal(text, &is); err != nil {
		return nil, fmt.Errorf("read queues.berth.dev: %w", err)
	}
	kind, err := crd.Read(text)
	if err != nil || is.DeletionTimestamp != nil {
		return nil, err
	}
	err = client.Patch(types.MergePatchType).AbsPath(oldQueueDefinition).SetHeader("Accept", runtime.ContentTypeJSON).
		Body([]byte(`{"spec":{"names":{"shortNames":null}}}`)).Do(ctx).Error()
	if err != nil {
		return nil, fmt.Errorf("free the short name of queues.berth.dev: %w", err)
	}
	return &oldQueues{client: client, kind: kind}, nil
}

// convert makes a BerthQueue of each Queue, with what the queue has used, and then removes the older kind. It can be
// interrupted anywhere and done again: the older kind goes last. A BerthQueue that is there with another spec stays as it
// is, and then the older kind stays too, so that nothing that anybody wrote is lost.
func (o *oldQueues) convert(ctx context.Context, log *slog.Logger) error {
	if err := o.kind.Served(ctx, o.client); err != nil {
		return err
	}
	text, err := o.client.Get().AbsPath(oldQueuesPath).SetHeader("Accept", runtime.ContentTypeJSON).Do(ctx).Raw()
	if err != nil {
		return err
	}
	var list struct{ Items []unstructured.Unstructured }
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	var differ []string
	for i := range list.Items {
		same, err := o.convertOne(ctx, &list.Items[i])
		if err != nil {
			return fmt.Errorf("queue %s: %w", list.Items[i].GetName(), err)
		}
		if !same {
			differ = append(differ, list.Items[i].GetName())
		}
	}
	if len(differ) > 0 {
		log.Warn("Queues of the older kind queues.berth.dev differ from the BerthQueues of the same names and have no effect: compare them, then delete the CustomResourceDefinition queues.berth.dev", "queues", strings.Join(differ, ","))
		return nil
	}
	if err := o.client.Delete().AbsPath(oldQueueDefinition).SetHeader("Accept", runtime.ContentTypeJSON).Do(ctx).Error(); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete the older kind: %w", err)
	}
	log.Info("Queues have become BerthQueues, and the older kind queues.berth.dev is gone", "queues", len(list.Items))
	return nil
}

// convertOne returns whether there is then a BerthQueue that says the same as the queue.
func (o *oldQueues) convertOne(ctx context.Context, queue *unstructured.Unstructured) (same bool, err error) {
	if queue.GetDeletionTimestamp() != nil {
		return true, nil
	}
	made := &unstructured.Unstructured{Object: map[string]any{"apiVersion": v1alpha1.GroupVersion.String(), "kind": v1alpha1.QueueKind}}
	made.SetName(queue.GetName())
	made.SetLabels(queue.GetLabels())
	made.SetAnnotations(queue.GetAnnotations())
	made.SetOwnerReferences(queue.GetOwnerReferences())
	if spec, ok := queue.Object["spec"]; ok {
		made.Object["spec"] = spec
	}
	err = post(ctx, o.client, made)
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return false, err
	}
	created := err == nil
	path := queuesPath + "/" + queue.GetName()
	text, err := o.client.Get().AbsPath(path).SetHeader("Accept", runtime.ContentTypeJSON).Do(ctx).Raw()
	if err != nil {
		return false, err
	}
	var is unstructured.Unstructured
	if err := is.UnmarshalJSON(text); err != nil {
		return false, err
	}
	if is.Object["status"] == nil && queue.Object["status"] != nil { // else a scheduler has gone on from it
		status, err := json.Marshal(map[string]any{"status": queue.Object["status"]})
		if err != nil {
			return false, err
		}
		if err := o.client.Patch(types.MergePatchType).AbsPath(path, "status").SetHeader("Accept", runtime.ContentTypeJSON).Body(status).Do(ctx).Error(); err != nil {
			return false, fmt.Errorf("keep what it has used: %w", err)
		}
	}
	return created || equality.Semantic.DeepEqual(is.Object["spec"], queue.Object["spec"]), nil
}
