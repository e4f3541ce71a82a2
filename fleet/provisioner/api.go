package provisioner

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/fleet/clock"
)

var (
	poolResource        = v1alpha1.GroupVersion.WithResource("pools")
	machineResource     = v1alpha1.GroupVersion.WithResource("machines")
	reservationResource = v1alpha1.GroupVersion.WithResource("reservations")
)

// api is the API server. Pods, nodes and DaemonSets are read from a local copy; what is written here is listed anew at each look, so that
// nothing is made twice.
type api struct {
	Options
	Clock     clock.Clock
	core      kubernetes.Interface
	dyn       dynamic.Interface
	informers informers.SharedInformerFactory
	pods      corelisters.PodLister
	nodes     corelisters.NodeLister
	daemons   appslisters.DaemonSetLister
	synced    []cache.InformerSynced
	samples   map[string]*corev1.Node // by pool, its generation, zone and how it is paid for
	told      map[string]time.Time    // events, until when they are not written again
}

// world is what one look sees. What the listers gave is shared, and not written.
type world struct {
	now          time.Time
	pools        []v1alpha1.Pool // with defaults, those with launch, by name
	reservations []v1alpha1.Reservation
	machines     []v1alpha1.Machine
	nodes        []*corev1.Node // by name
	pods         []*corev1.Pod  // those that are not over, by namespace and name
	daemons      []*appsv1.DaemonSet
	on           map[string][]*corev1.Pod // by node
}

func (a *api) read(ctx context.Context, now time.Time) (*world, error) {
	w := &world{now: now, on: make(map[string][]*corev1.Pod)}
	pools, err := list[v1alpha1.Pool](ctx, a, poolResource)
	if err != nil {
		return nil, err
	}
	for i := range pools {
		if v1alpha1.Default(&pools[i]); pools[i].Spec.Launch != nil && pools[i].DeletionTimestamp == nil {
			w.pools = append(w.pools, pools[i])
		}
	}
	if w.reservations, err = list[v1alpha1.Reservation](ctx, a, reservationResource); err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	if w.machines, err = list[v1alpha1.Machine](ctx, a, machineResource); err != nil {
		return nil, err
	}
	everything := labels.Everything()
	if w.nodes, err = a.nodes.List(everything); err != nil {
		return nil, err
	}
	if w.daemons, err = a.daemons.List(everything); err != nil {
		return nil, err
	}
	pods, err := a.pods.List(everything)
	if err != nil {
		return nil, err
	}
	for _, p := range pods {
		if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		w.pods = append(w.pods, p)
		if p.Spec.NodeName != "" {
			w.on[p.Spec.NodeName] = append(w.on[p.Spec.NodeName], p)
		}
	}
	slices.SortFunc(w.pods, func(a, b *corev1.Pod) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	slices.SortFunc(w.nodes, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(w.daemons, func(a, b *appsv1.DaemonSet) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return w, nil
}

func (w *world) pool(name string) *v1alpha1.Pool {
	for i := range w.pools {
		if w.pools[i].Name == name {
			return &w.pools[i]
		}
	}
	return nil
}

func (w *world) machine(name string) *v1alpha1.Machine {
	for i := range w.machines {
		if w.machines[i].Name == name {
			return &w.machines[i]
		}
	}
	return nil
}

func (w *world) node(name string) *corev1.Node {
	i, ok := slices.BinarySearchFunc(w.nodes, name, func(n *corev1.Node, name string) int { return strings.Compare(n.Name, name) })
	if !ok {
		return nil
	}
	return w.nodes[i]
}

// list reads all objects of a resource. One that does not have the shape that it should is left out.
func list[T any](ctx context.Context, a *api, r schema.GroupVersionResource) ([]T, error) {
	found, err := a.dyn.Resource(r).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", r.Resource, err)
	}
	var out []T
	for i := range found.Items {
		var x T
		if err := decode(&found.Items[i], &x); err != nil {
			a.Log.Warn("left out", "resource", r.Resource, "name", found.Items[i].GetName(), "err", err)
			continue
		}
		out = append(out, x)
	}
	return out, nil
}

func decode(u *unstructured.Unstructured, into any) error {
	text, err := u.MarshalJSON()
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// create writes a new object and reads back what became of it; false: there is one of the name.
func (a *api) create(ctx context.Context, r schema.GroupVersionResource, namespace string, obj any) (*unstructured.Unstructured, bool, error) {
	text, err := json.Marshal(obj)
	if err != nil {
		return nil, false, err
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(text); err != nil {
		return nil, false, err
	}
	unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	got, err := a.resource(r, namespace).Create(ctx, u, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil, false, nil
	}
	return got, err == nil, err
}

func (a *api) resource(r schema.GroupVersionResource, namespace string) dynamic.ResourceInterface {
	if namespace == "" {
		return a.dyn.Resource(r)
	}
	return a.dyn.Resource(r).Namespace(namespace)
}

// patch merges; an object that is gone or has changed is looked at again.
func (a *api) patch(ctx context.Context, r schema.GroupVersionResource, namespace, name, sub string, change map[string]any) error {
	text, err := json.Marshal(change)
	if err != nil {
		return err
	}
	var subs []string
	if sub != "" {
		subs = append(subs, sub)
	}
	_, err = a.resource(r, namespace).Patch(ctx, name, types.MergePatchType, text, metav1.PatchOptions{}, subs...)
	return unlessGone(err)
}

func (a *api) delete(ctx context.Context, r schema.GroupVersionResource, namespace, name string, uid types.UID) error {
	err := a.resource(r, namespace).Delete(ctx, name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(uid))})
	return unlessGone(err)
}

func unlessGone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// updateNode writes a node as it should be, unless it changed meanwhile.
func (a *api) updateNode(ctx context.Context, n *corev1.Node) error {
	_, err := a.core.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{})
	return unlessGone(err)
}

// untaint takes the taint away where it is, and says how the node is then.
func (a *api) untaint(ctx context.Context, n *corev1.Node, key string) (*corev1.Node, error) {
	is := func(t corev1.Taint) bool { return t.Key == key }
	if !slices.ContainsFunc(n.Spec.Taints, is) {
		return n, nil
	}
	next := n.DeepCopy()
	next.Spec.Taints = slices.DeleteFunc(next.Spec.Taints, is)
	_, err := a.core.CoreV1().Nodes().Update(ctx, next, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return n, nil // at the next look
	}
	return next, err
}

func (a *api) deleteNode(ctx context.Context, n *corev1.Node) error {
	return unlessGone(a.core.CoreV1().Nodes().Delete(ctx, n.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(n.UID))}))
}

// evict asks for the pod to end; false: a budget does not let it.
func (a *api) evict(ctx context.Context, p *corev1.Pod) (bool, error) {
	err := a.core.CoreV1().Pods(p.Namespace).EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}})
	if apierrors.IsTooManyRequests(err) {
		return false, nil
	}
	return true, unlessGone(err)
}

// ask writes the Machine of a node to be, which the fleet answers. request is the ProvisioningRequest that it is for; "": none.
func (a *api) ask(ctx context.Context, w *world, name string, o *offer, taints, request string) error {
	m := &v1alpha1.Machine{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Machine"}}
	m.Name, m.Labels = name, map[string]string{v1alpha1.LabelPool: o.class.Name}
	m.Annotations = make(map[string]string)
	if taints != "" {
		m.Annotations[v1alpha1.KeyRegisterWithTaints] = taints
	}
	if request != "" {
		m.Annotations[consumeKey] = request
	}
	m.Spec = v1alpha1.MachineSpec{Pool: o.class.Name, Index: w.freeIndex(o.class.Name), Zone: o.zone, CapacityType: o.from, Reservation: o.reservation, For: o.class.Name}
	a.Log.Info("launch", "machine", name, "pool", o.class.Name, "zone", o.zone, "from", o.from, "reservation", o.reservation)
	_, made, err := a.create(ctx, machineResource, "", m)
	if made {
		m.CreationTimestamp = metav1.NewTime(w.now)
		w.machines = append(w.machines, *m)
	}
	return err
}

// freeIndex is the lowest number that no machine of the pool has.
func (w *world) freeIndex(pool string) int32 {
	used := make(map[int32]bool)
	for i := range w.machines {
		if w.machines[i].Spec.Pool == pool {
			used[w.machines[i].Spec.Index] = true
		}
	}
	i := int32(0)
	for used[i] {
		i++
	}
	return i
}

// giveBack deletes a Machine.
func (a *api) giveBack(ctx context.Context, w *world, name string) error {
	m := w.machine(name)
	if m == nil {
		return nil
	}
	a.Log.Info("release", "machine", name)
	if err := a.delete(ctx, machineResource, "", name, m.UID); err != nil {
		return err
	}
	w.machines = slices.DeleteFunc(w.machines, func(o v1alpha1.Machine) bool { return o.Name == name })
	return nil
}

// tell writes an event, unless the same was written within the time.
func (a *api) tell(ctx context.Context, now time.Time, about corev1.ObjectReference, source, kind, reason, message string, again time.Duration) {
	key := about.Kind + "/" + string(about.UID) + "/" + reason + "/" + message
	if until, ok := a.told[key]; ok && now.Before(until) {
		return
	}
	for k, until := range a.told {
		if !now.Before(until) {
			delete(a.told, k)
		}
	}
	a.told[key] = now.Add(a.Clock.Wall(again))
	namespace := cmp.Or(about.Namespace, metav1.NamespaceDefault)
	e := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{GenerateName: about.Name + ".", Namespace: namespace},
		InvolvedObject: about, Reason: reason, Message: message, Type: kind, Count: 1,
		Source: corev1.EventSource{Component: source}, ReportingController: source,
		FirstTimestamp: metav1.NewTime(now), LastTimestamp: metav1.NewTime(now),
	}
	if _, err := a.core.CoreV1().Events(namespace).Create(ctx, e, metav1.CreateOptions{}); err != nil && ctx.Err() == nil {
		a.Log.Debug("event", "reason", reason, "err", err)
	}
}

func podRef(p *corev1.Pod) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion}
}

func nodeRef(n *corev1.Node) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID}
}
