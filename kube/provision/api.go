package provision

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// berthScheduler evicts its own pods from nodes that leave, gangs whole and with their warning.
const berthScheduler = "berth"

// api is the API server as a store.
type api struct {
	berth rest.Interface
	core  kubernetes.Interface
}

func newAPI(cfg *rest.Config) (*api, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.Burst, cfg.RateLimiter = -1, 0, nil
	core, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	cfg.GroupVersion, cfg.APIPath = &v1alpha1.GroupVersion, "/apis"
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	berth, err := rest.RESTClientFor(cfg)
	if err != nil {
		return nil, err
	}
	return &api{berth, core}, nil
}

func (a *api) Pools(ctx context.Context) ([]v1alpha1.Pool, error) {
	list := &v1alpha1.PoolList{}
	err := a.berth.Get().Resource("pools").Do(ctx).Into(list)
	return list.Items, err
}

// Reservations are none where the kind is not served: the scheduler installs it.
func (a *api) Reservations(ctx context.Context) ([]v1alpha1.Reservation, error) {
	list := &v1alpha1.ReservationList{}
	err := a.berth.Get().Resource("reservations").Do(ctx).Into(list)
	if apierrors.IsNotFound(err) {
		err = nil
	}
	return list.Items, err
}

func (a *api) Machines(ctx context.Context) ([]v1alpha1.Machine, error) {
	list := &v1alpha1.MachineList{}
	err := a.berth.Get().Resource("machines").Do(ctx).Into(list)
	return list.Items, err
}

func (a *api) Create(ctx context.Context, m *v1alpha1.Machine) error {
	err := a.berth.Post().Resource("machines").Body(m).Do(ctx).Error()
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func (a *api) Delete(ctx context.Context, m *v1alpha1.Machine) error {
	opts := &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(m.UID))}
	err := a.berth.Delete().Resource("machines").Name(m.Name).Body(opts).Do(ctx).Error()
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

func (a *api) SetIdle(ctx context.Context, m *v1alpha1.Machine, since time.Time) error {
	var at any
	if !since.IsZero() {
		at = metav1.NewMicroTime(since)
	}
	return a.patch(ctx, "machines", m.Name, "status", map[string]any{"metadata": map[string]any{"uid": m.UID}, "status": map[string]any{"idleSince": at}})
}

func (a *api) SetPool(ctx context.Context, name string, s v1alpha1.PoolStatus) error {
	return a.patch(ctx, "pools", name, "status", map[string]any{"status": map[string]any{"machines": s.Machines, "stockouts": s.Stockouts, "shortages": s.Shortages}})
}

func (a *api) SetUsable(ctx context.Context, r *v1alpha1.Reservation) error {
	return a.patch(ctx, "reservations", r.Name, "status", map[string]any{"metadata": map[string]any{"resourceVersion": r.ResourceVersion}, "status": map[string]any{"conditions": r.Status.Conditions}})
}

// patch merges; an object that is gone or has changed is looked at again.
func (a *api) patch(ctx context.Context, resource, name, sub string, change any) error {
	body, err := json.Marshal(change)
	if err != nil {
		return err
	}
	err = a.berth.Patch(types.MergePatchType).Resource(resource).Name(name).SubResource(sub).Body(body).Do(ctx).Error()
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

func (a *api) Nodes(ctx context.Context) ([]corev1.Node, error) {
	list, err := a.core.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"}) // from the API server's cache
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

func (a *api) SetLeaves(ctx context.Context, node, at, with string) error {
	change := map[string]any{v1alpha1.KeyLeavesAt: at, v1alpha1.KeyLeavesWith: with}
	if at == "" {
		change = map[string]any{v1alpha1.KeyLeavesAt: nil, v1alpha1.KeyLeavesWith: nil}
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": change}})
	if err != nil {
		return err
	}
	_, err = a.core.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, body, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (a *api) Drain(ctx context.Context, name string, all bool) error {
	node, err := a.core.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	taint := corev1.Taint{Key: drainTaint, Effect: corev1.TaintEffectNoSchedule}
	if !node.Spec.Unschedulable || !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == drainTaint }) {
		node.Spec.Unschedulable = true
		node.Spec.Taints = append(slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == drainTaint }), taint)
		if _, err := a.core.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	pods, err := a.work(ctx, name)
	var problems []error
	for i := range pods {
		if _, warned := pods[i].Annotations[v1alpha1.KeyEvictAt]; pods[i].DeletionTimestamp != nil || !all && (warned || pods[i].Spec.SchedulerName == berthScheduler) {
			continue
		}
		err := a.core.CoreV1().Pods(pods[i].Namespace).EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: pods[i].Namespace, Name: pods[i].Name}})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsTooManyRequests(err) { // a budget: at the next look
			problems = append(problems, fmt.Errorf("evict %s/%s: %w", pods[i].Namespace, pods[i].Name, err))
		}
	}
	return errors.Join(append(problems, err)...)
}

func (a *api) Busy(ctx context.Context, name string) (bool, error) {
	pods, err := a.work(ctx, name)
	return len(pods) > 0, err
}

// work are the pods on the node that are not the node's own and not over.
func (a *api) work(ctx context.Context, node string) ([]corev1.Pod, error) {
	list, err := a.core.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
		owner := metav1.GetControllerOf(&p)
		_, static := p.Annotations[corev1.MirrorPodAnnotationKey]
		return static || owner != nil && owner.Kind == "DaemonSet" || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	}), nil
}
