package provision

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// RequestOptions configure RunRequests. Config, Cluster and Class are required.
type RequestOptions struct {
	Config  *rest.Config
	Cluster Cluster
	Class   string        // CheckCapacity, BestEffortAtomic, or one of a cloud's
	Every   time.Duration // 0: every two seconds
	Backoff time.Duration // after a request failed; each time in a row doubles it. 0: one minute
	Log     *slog.Logger  // nil: silent
}

// RunRequests asks the cluster autoscaler for the nodes of gangs that need some, with one ProvisioningRequest each, until ctx ends. It
// keeps nothing that it cannot read again: several may run, and one that is killed is carried on by the next.
func RunRequests(ctx context.Context, o RequestOptions) error {
	if o.Config == nil || o.Cluster == nil || o.Class == "" {
		return errors.New("provisioning requests: connection, cluster and class are required")
	}
	every, backoff := o.Every, o.Backoff
	if every == 0 {
		every = 2 * time.Second
	}
	if backoff == 0 {
		backoff = time.Minute
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	core, err := kubernetes.NewForConfig(o.Config)
	if err != nil {
		return fmt.Errorf("provisioning requests: %w", err)
	}
	dyn, err := dynamic.NewForConfig(o.Config)
	if err != nil {
		return fmt.Errorf("provisioning requests: %w", err)
	}
	a := &asker{core: core, requests: dyn.Resource(requestResource), class: o.Class, log: o.Log}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := a.look(ctx, o.Cluster, time.Now(), backoff); err != nil && ctx.Err() == nil {
			o.Log.Warn("provisioning requests", "err", err)
		}
	}
}

var requestResource = schema.GroupVersionResource{Group: "autoscaling.x-k8s.io", Version: "v1", Resource: "provisioningrequests"}

// Labels and annotations of requests, by which they are found again.
const (
	requestLabel   = v1alpha1.KeyPrefix + "provisioning-request" // "true"
	attemptKey     = v1alpha1.KeyPrefix + "attempt"
	validFor       = "ValidUntilSeconds" // of BestEffortAtomic: how long the autoscaler tries by itself
	validForAtomic = 600
)

// asker is the API server, as far as requests are concerned.
type asker struct {
	core     kubernetes.Interface
	requests dynamic.NamespaceableResourceInterface
	class    string
	log      *slog.Logger
	whole    map[string]bool // by namespace and name: requests all of whose templates were seen
}

// look reads, decides and writes once.
func (a *asker) look(ctx context.Context, cluster Cluster, now time.Time, backoff time.Duration) error {
	have, err := a.list(ctx)
	if err != nil {
		return fmt.Errorf("list ProvisioningRequests: %w", err)
	}
	if err := a.findTorn(ctx, have, now); err != nil {
		return err
	}
	snap, _, err := cluster.Snapshot(ctx)
	if err != nil {
		return fmt.Errorf("look at the cluster: %w", err)
	}
	pods, err := a.core.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=", ResourceVersion: "0"})
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	p := planRequests(now, &snap, pods.Items, have, backoff)
	var problems []error
	for i := range p.drop {
		r := &p.drop[i]
		a.log.Info("withdraw request", "request", r.namespace+"/"+r.name, "for", r.gang, "said", r.said)
		problems = append(problems, a.drop(ctx, r))
	}
	for i := range p.ask {
		r := &p.ask[i]
		a.log.Info("request nodes", "request", r.namespace+"/"+r.name, "for", r.gang, "pods", r.count())
		problems = append(problems, a.ask(ctx, r))
	}
	for _, m := range p.mark {
		problems = append(problems, a.mark(ctx, m))
	}
	return errors.Join(problems...)
}

func (a *asker) list(ctx context.Context) (out []request, err error) {
	list, err := a.requests.List(ctx, metav1.ListOptions{LabelSelector: requestLabel + "=true"})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		if r, ok := readRequest(&list.Items[i]); ok {
			out = append(out, r)
		}
	}
	return out, nil
}

// readRequest is the object as a request; false where it is not one of ours.
func readRequest(u *unstructured.Unstructured) (request, bool) {
	r := request{namespace: u.GetNamespace(), name: u.GetName(), gang: u.GetAnnotations()[v1alpha1.KeyLaunchedFor], since: u.GetCreationTimestamp().Time}
	attempt, err := strconv.Atoi(u.GetAnnotations()[attemptKey])
	if err != nil || r.gang == "" || u.GetDeletionTimestamp() != nil {
		return r, false
	}
	r.attempt = attempt
	sets, _, _ := unstructured.NestedSlice(u.Object, "spec", "podSets")
	for _, s := range sets {
		if set, ok := s.(map[string]any); ok && len(r.sets) < mostSets {
			n, _, _ := unstructured.NestedInt64(set, "count")
			r.sets = append(r.sets, podSet{count: int32(min(max(n, 0), 1<<20))})
		}
	}
	var status struct {
		Conditions []metav1.Condition `json:"conditions"`
	}
	if m, ok := u.Object["status"].(map[string]any); !ok || runtime.DefaultUnstructuredConverter.FromUnstructured(m, &status) != nil {
		return r, true
	}
	// What ends it counts before what began it: Provisioned stays True after the booking has expired.
	for _, s := range []struct {
		condition string
		state     requestState
	}{{"Provisioned", requestProvisioned}, {"Failed", requestFailed}, {"BookingExpired", requestOver}, {"CapacityRevoked", requestOver}} {
		for _, c := range status.Conditions {
			if c.Type == s.condition && c.Status == metav1.ConditionTrue {
				r.state, r.since, r.said = s.state, c.LastTransitionTime.Time, c.Message
			}
		}
	}
	return r, true
}

// tornAfter is how old a request is before it is called torn: until then whoever wrote it may be about to write its templates.
const tornAfter = 10 * time.Second

// findTorn marks the open requests that lack a template, as whoever wrote them was stopped in between: an autoscaler waits for the
// template for ever. A request whose templates were seen once is not looked at again.
func (a *asker) findTorn(ctx context.Context, have []request, now time.Time) error {
	whole := make(map[string]bool, len(have))
	for i := range have {
		r := &have[i]
		key := r.namespace + "/" + r.name
		for j := 0; j < len(r.sets) && r.state == requestOpen && !a.whole[key] && !r.torn; j++ {
			_, err := a.core.CoreV1().PodTemplates(r.namespace).Get(ctx, templateName(r, j), metav1.GetOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("template of request %s: %w", key, err)
			}
			r.torn = err != nil
		}
		whole[key] = !r.torn
		r.torn = r.torn && !now.Before(r.since.Add(tornAfter))
	}
	a.whole = whole
	return nil
}

// ask writes the request, and then the templates of its pods, which go with it: the autoscaler looks again while one is missing.
func (a *asker) ask(ctx context.Context, r *request) error {
	u := requestObject(r, a.class)
	made, err := a.requests.Namespace(r.namespace).Create(ctx, u, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		made, err = a.requests.Namespace(r.namespace).Get(ctx, r.name, metav1.GetOptions{})
	}
	if err != nil {
		return fmt.Errorf("request %s/%s: %w", r.namespace, r.name, err)
	}
	owner := metav1.OwnerReference{APIVersion: made.GetAPIVersion(), Kind: made.GetKind(), Name: made.GetName(), UID: made.GetUID()}
	for i, s := range r.sets {
		t := &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: templateName(r, i), OwnerReferences: []metav1.OwnerReference{owner}}}
		t.Template.Spec = s.spec
		if _, err := a.core.CoreV1().PodTemplates(r.namespace).Create(ctx, t, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("template of request %s/%s: %w", r.namespace, r.name, err)
		}
	}
	return nil
}

func templateName(r *request, i int) string { return r.name + "-" + strconv.Itoa(i) }

// requestObject is the request as an object.
func requestObject(r *request, class string) *unstructured.Unstructured {
	sets := make([]any, len(r.sets))
	for i, s := range r.sets {
		sets[i] = map[string]any{"podTemplateRef": map[string]any{"name": templateName(r, i)}, "count": int64(s.count)}
	}
	spec := map[string]any{"provisioningClassName": class, "podSets": sets}
	if class == BestEffortAtomic {
		spec["parameters"] = map[string]any{validFor: strconv.Itoa(validForAtomic)}
	}
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": requestResource.GroupVersion().String(), "kind": "ProvisioningRequest", "spec": spec}}
	u.SetNamespace(r.namespace)
	u.SetName(r.name)
	u.SetLabels(map[string]string{requestLabel: "true"})
	u.SetAnnotations(map[string]string{v1alpha1.KeyLaunchedFor: r.gang, attemptKey: strconv.Itoa(r.attempt)})
	return u
}

func (a *asker) drop(ctx context.Context, r *request) error {
	err := a.requests.Namespace(r.namespace).Delete(ctx, r.name, metav1.DeleteOptions{})
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("withdraw %s/%s: %w", r.namespace, r.name, err)
}

// mark writes on the pod which request it uses.
func (a *asker) mark(ctx context.Context, m marking) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": m.pod.UID, "annotations": map[string]any{consumeKey: m.request, classKey: a.class}}})
	if err != nil {
		return err
	}
	_, err = a.core.CoreV1().Pods(m.pod.Namespace).Patch(ctx, m.pod.Name, types.MergePatchType, body, metav1.PatchOptions{})
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("pod %s/%s: %w", m.pod.Namespace, m.pod.Name, err)
}
