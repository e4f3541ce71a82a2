package web

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/facts"
)

// watched is one kind that the fleet is made of.
type watched struct {
	resource   string
	example    facts.Object
	namespaced bool
	client     func(kubernetes.Interface) rest.Interface
	add        func(*facts.Facts, any)
	// custom is of a kind that an API server may not have: it is read where it is served, and nothing is said where it is not.
	custom *schema.GroupVersionResource
}

// Names of kinds that the page says something about by itself.
const (
	nodesKind = "nodes"
	podsKind  = "pods"
)

// pools say how many GPUs their nodes have, whatever the nodes advertise.
var pools = v1alpha1.GroupVersion.WithResource("pools")

var watchedKinds = []watched{
	{nodesKind, &corev1.Node{}, false, func(c kubernetes.Interface) rest.Interface { return c.CoreV1().RESTClient() }, func(f *facts.Facts, o any) { f.Nodes = append(f.Nodes, o.(*corev1.Node)) }, nil},
	{podsKind, &corev1.Pod{}, true, func(c kubernetes.Interface) rest.Interface { return c.CoreV1().RESTClient() }, func(f *facts.Facts, o any) { f.Pods = append(f.Pods, o.(*corev1.Pod)) }, nil},
	{"daemonsets", &appsv1.DaemonSet{}, true, func(c kubernetes.Interface) rest.Interface { return c.AppsV1().RESTClient() }, func(f *facts.Facts, o any) { f.DaemonSets = append(f.DaemonSets, o.(*appsv1.DaemonSet)) }, nil},
	{"replicasets", &appsv1.ReplicaSet{}, true, func(c kubernetes.Interface) rest.Interface { return c.AppsV1().RESTClient() }, func(f *facts.Facts, o any) { f.ReplicaSets = append(f.ReplicaSets, o.(*appsv1.ReplicaSet)) }, nil},
	{"statefulsets", &appsv1.StatefulSet{}, true, func(c kubernetes.Interface) rest.Interface { return c.AppsV1().RESTClient() }, func(f *facts.Facts, o any) { f.StatefulSets = append(f.StatefulSets, o.(*appsv1.StatefulSet)) }, nil},
	{"jobs", &batchv1.Job{}, true, func(c kubernetes.Interface) rest.Interface { return c.BatchV1().RESTClient() }, func(f *facts.Facts, o any) { f.Jobs = append(f.Jobs, o.(*batchv1.Job)) }, nil},
	{"podgroups", &schedulingv1beta1.PodGroup{}, true, func(c kubernetes.Interface) rest.Interface { return c.SchedulingV1beta1().RESTClient() }, func(f *facts.Facts, o any) { f.PodGroups = append(f.PodGroups, o.(*schedulingv1beta1.PodGroup)) }, nil},
	{"compositepodgroups", &schedulingv1alpha3.CompositePodGroup{}, true, func(c kubernetes.Interface) rest.Interface { return c.SchedulingV1alpha3().RESTClient() }, func(f *facts.Facts, o any) {
		f.CompositePodGroups = append(f.CompositePodGroups, o.(*schedulingv1alpha3.CompositePodGroup))
	}, nil},
	{"resourceslices", &resourcev1.ResourceSlice{}, false, func(c kubernetes.Interface) rest.Interface { return c.ResourceV1().RESTClient() }, func(f *facts.Facts, o any) {
		f.ResourceSlices = append(f.ResourceSlices, o.(*resourcev1.ResourceSlice))
	}, nil},
	{"resourceclaims", &resourcev1.ResourceClaim{}, true, func(c kubernetes.Interface) rest.Interface { return c.ResourceV1().RESTClient() }, func(f *facts.Facts, o any) {
		f.ResourceClaims = append(f.ResourceClaims, o.(*resourcev1.ResourceClaim))
	}, nil},
	{resource: pools.Resource, example: &unstructured.Unstructured{}, custom: &pools, add: func(f *facts.Facts, o any) {
		if f.Foreign == nil {
			f.Foreign = make(map[string][]*unstructured.Unstructured)
		}
		f.Foreign[poolKind] = append(f.Foreign[poolKind], o.(*unstructured.Unstructured))
	}},
}

// poolKind is what facts call them.
var poolKind = "Pool." + v1alpha1.GroupVersion.Group

// source is how well a kind can be read. Viewers are told.
type source struct {
	Synced bool   `json:"synced"`          // it was read at least once
	Error  string `json:"error,omitempty"` // what the API server said when it was last asked; "": all is well
	// Forbidden says that rights are lacking: with Only, everywhere else than in that namespace.
	Forbidden bool   `json:"forbidden,omitempty"`
	Only      string `json:"only,omitempty"`
	// Ours says that it is the page that lacks the rights, and not the viewer.
	Ours bool `json:"ours,omitempty"`
	// Since is when reading began to fail, in milliseconds.
	Since int64 `json:"since,omitempty"`
}

// reader watches the cluster, once for all viewers, and calls back when something changed.
type reader struct {
	client    kubernetes.Interface
	customs   dynamic.Interface
	clock     *clock
	namespace string // read alone where the whole cluster may not be
	changed   func()

	mu      sync.Mutex
	touched map[string]bool // nodes of which something changed
	all     bool            // something changed that may concern any of them
	stores  map[string]cache.Store
	sources map[string]source
}

func newReader(cfg *rest.Config, namespace string, clock *clock, changed func()) (*reader, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.Burst = 50, 100
	clock.listen(cfg)
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	customs, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	r := &reader{client: client, customs: customs, clock: clock, namespace: namespace, changed: changed, stores: make(map[string]cache.Store), all: true, sources: make(map[string]source)}
	for _, k := range watchedKinds {
		r.sources[k.resource] = source{}
	}
	return r, nil
}

// run watches until the context ends.
func (r *reader) run(ctx context.Context) {
	var all sync.WaitGroup
	for i := range watchedKinds {
		all.Go(func() { r.watch(ctx, &watchedKinds[i]) })
	}
	all.Wait()
}

// widenAfter is how often somebody who may read one namespace asks for the whole cluster again.
const widenAfter = 5 * time.Minute

// watch follows one kind, in the whole cluster or, where that is forbidden, in the namespace.
func (r *reader) watch(ctx context.Context, k *watched) {
	for ctx.Err() == nil {
		if k.custom != nil && !r.served(k.custom) {
			r.well(k.resource, "", true)
			select {
			case <-ctx.Done():
			case <-time.After(serveAfter):
			}
			continue
		}
		within, cancel := context.WithCancel(ctx)
		only := ""
		if k.namespaced && r.forbidden(ctx, k) {
			only = r.namespace
			within, cancel = context.WithTimeout(ctx, widenAfter)
		}
		r.follow(within, k, only)
		cancel()
	}
}

// serveAfter is how often it is asked whether a kind is served that was not.
const serveAfter = 10 * time.Second

// served says whether the API server has the kind. One that cannot be asked may have it: reading it says what is the matter.
func (r *reader) served(k *schema.GroupVersionResource) bool {
	all, err := r.client.Discovery().ServerResourcesForGroupVersion(k.GroupVersion().String())
	if err != nil {
		return !apierrors.IsNotFound(err)
	}
	return slices.ContainsFunc(all.APIResources, func(a metav1.APIResource) bool { return a.Name == k.Resource })
}

// from is how the kind is listed and watched.
func (r *reader) from(k *watched, only string) *cache.ListWatch {
	if k.custom == nil {
		return cache.NewListWatchFromClient(k.client(r.client), k.resource, only, fields.Everything())
	}
	objects := r.customs.Resource(*k.custom).Namespace(only)
	return &cache.ListWatch{
		ListWithContextFunc:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return objects.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return objects.Watch(ctx, o) },
	}
}

// forbidden asks for one object.
func (r *reader) forbidden(ctx context.Context, k *watched) bool {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	err := k.client(r.client).Get().Resource(k.resource).Param("limit", "1").Do(ctx).Error()
	return apierrors.IsForbidden(err)
}

func (r *reader) follow(ctx context.Context, k *watched, only string) {
	from := r.from(k, only)
	var informer cache.SharedIndexInformer
	lw := &cache.ListWatch{
		ListWithContextFunc: from.ListWithContextFunc,
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := from.WatchFuncWithContext(ctx, o)
			if err == nil { // it answers again, though it may have nothing to tell
				r.well(k.resource, only, informer.HasSynced())
			}
			return w, err
		},
	}
	informer = cache.NewSharedIndexInformer(lw, k.example, 0, cache.Indexers{})
	_ = informer.SetTransform(trim) // fails only once it runs
	_ = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) { r.failed(k.resource, only, err) })
	note := func(objects ...any) {
		r.touch(objects)
		r.well(k.resource, only, informer.HasSynced())
	}
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { note(o) }, UpdateFunc: func(was, is any) { note(was, is) }, DeleteFunc: func(o any) { note(o) },
	})
	r.mu.Lock()
	r.stores[k.resource] = informer.GetStore()
	r.mu.Unlock()
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			note()
		}
	}()
	informer.RunWithContext(ctx)
}

// touch notes which nodes are to be counted again: those that changed, and those of pods that did. Leases and status of pods
// elsewhere cost nothing, and other kinds have everything counted again.
func (r *reader) touch(objects []any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.touched == nil {
		r.touched = make(map[string]bool)
	}
	for _, o := range objects {
		if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
			o = gone.Obj
		}
		switch o := o.(type) {
		case *corev1.Node:
			r.touched[o.Name] = true
		case *corev1.Pod:
			if o.Spec.NodeName != "" {
				r.touched[o.Spec.NodeName] = true
			}
		default:
			r.all = true
		}
	}
}

// changes are the nodes to count again since it was last asked; all says that it is every one.
func (r *reader) changes() (touched map[string]bool, all bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	touched, all = r.touched, r.all
	r.touched, r.all = nil, false
	return touched, all
}

func (r *reader) well(resource, only string, synced bool) {
	r.mu.Lock()
	r.sources[resource] = source{Synced: synced, Forbidden: only != "", Only: only}
	r.mu.Unlock()
	r.changed()
}

// failed notes what the API server said. A kind that is not served has no objects, and a watch that ends is asked for again at
// once: neither is worth a word.
func (r *reader) failed(resource, only string, err error) {
	if errors.Is(err, context.Canceled) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return
	}
	r.mu.Lock()
	s := r.sources[resource]
	if apierrors.IsNotFound(err) {
		s = source{Synced: true}
	} else {
		if s.Error == "" {
			s.Since = r.clock.now().UnixMilli()
		}
		s.Error, s.Only, s.Forbidden = err.Error(), only, apierrors.IsForbidden(err) || only != ""
	}
	r.sources[resource] = s
	r.mu.Unlock()
	r.changed()
}

// read is what is known now, and how well. ready is false until nodes and pods were read, or cannot be.
func (r *reader) read() (f *facts.Facts, sources map[string]source, ready bool) {
	r.mu.Lock()
	stores, sources := maps.Clone(r.stores), maps.Clone(r.sources)
	r.mu.Unlock()
	f = &facts.Facts{At: r.clock.now()}
	for _, k := range watchedKinds {
		if s := stores[k.resource]; s != nil {
			for _, o := range s.List() {
				k.add(f, o)
			}
		}
	}
	known := func(kind string) bool { return sources[kind].Synced || sources[kind].Error != "" }
	return f, sources, known(nodesKind) && known(podsKind)
}

// trim drops what the fleet is not made of. Pods of DaemonSets stay as they are: the GPU stack is read from them.
func trim(o any) (any, error) {
	m, ok := o.(metav1.Object)
	if !ok {
		return o, nil
	}
	m.SetManagedFields(nil)
	switch o := o.(type) {
	case *unstructured.Unstructured: // a pool: how many nodes it has is its own matter, the nodes that there are are drawn
		unstructured.RemoveNestedField(o.Object, "spec", "nodes")
		unstructured.RemoveNestedField(o.Object, "spec", "nodeNames")
		unstructured.RemoveNestedField(o.Object, "status")
	case *corev1.Pod:
		delete(o.Annotations, corev1.LastAppliedConfigAnnotation)
		if c := metav1.GetControllerOfNoCopy(o); c != nil && c.Kind == "DaemonSet" {
			return o, nil
		}
		o.Spec.Volumes = nil
		for _, list := range [][]corev1.Container{o.Spec.Containers, o.Spec.InitContainers} {
			for i := range list {
				list[i] = corev1.Container{Name: list[i].Name, Resources: list[i].Resources, RestartPolicy: list[i].RestartPolicy}
			}
		}
	case *corev1.Node:
		o.Status.Images = nil
	case *batchv1.Job:
		o.Spec.Template.Spec = corev1.PodSpec{}
	case *appsv1.ReplicaSet:
		o.Spec.Template.Spec = corev1.PodSpec{}
	case *appsv1.StatefulSet:
		o.Spec.Template.Spec, o.Spec.VolumeClaimTemplates = corev1.PodSpec{}, nil
	}
	return o, nil
}

// resources are the watched kinds' names, sorted.
func resources(sources map[string]source) []string { return slices.Sorted(maps.Keys(sources)) }
