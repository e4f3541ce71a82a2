package kubelet

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-dev/berth/fleet/device"
)

// watch keeps the workers in step with the API server's bound pods until ctx ends. Pods in a terminal
// phase are watched too: one that is terminal and being deleted still waits for its kubelet, and a field
// selector cannot tell those apart.
//
// A reflector feeds the workers directly, without an informer between: they are the only store.
func (k *Kubelet) watch(ctx context.Context) {
	const bound = "spec.nodeName!="
	pods := k.client.CoreV1().Pods(metav1.NamespaceAll)
	lw := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = bound
			return pods.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = bound
			return pods.Watch(ctx, o)
		},
	}, k.client)
	r := cache.NewReflectorWithOptions(lw, &corev1.Pod{}, podStore{k}, cache.ReflectorOptions{Name: "berth-kubelet"})
	r.RunWithContext(ctx)
}

// podStore is the reflector's view of the workers.
type podStore struct{ k *Kubelet }

func (s podStore) Add(obj any) error    { return s.Update(obj) }
func (s podStore) Resync() error        { return nil }
func (s podStore) Update(obj any) error { s.k.see(obj.(*corev1.Pod)); return nil }

func (s podStore) Delete(obj any) error {
	if pod, ok := obj.(*corev1.Pod); ok {
		s.k.forget(pod.UID)
	}
	return nil
}

// Replace is a new list. All of it is made known before the first worker starts, so that a machine can
// give back what its pods held before it admits a new one.
func (s podStore) Replace(list []any, _ string) error {
	listed := make(map[types.UID]bool, len(list))
	var fresh []*worker
	for _, obj := range list {
		pod := obj.(*corev1.Pod)
		listed[pod.UID] = true
		if w := s.k.introduce(pod); w != nil {
			fresh = append(fresh, w)
		}
	}
	for _, uid := range s.k.unlisted(listed) {
		s.k.forget(uid)
	}
	for _, w := range fresh {
		s.k.start(w)
	}
	return nil
}

// see takes in a pod that is new or has changed.
func (k *Kubelet) see(pod *corev1.Pod) {
	if w := k.introduce(pod); w != nil {
		k.start(w)
	}
}

// introduce tells a known pod's worker of the pod, and makes a worker for one that has a life to live
// here. Only a new worker is returned.
func (k *Kubelet) introduce(seen *corev1.Pod) *worker {
	pod := new(*seen)       // the reflector's object may be shared
	pod.ManagedFields = nil // never read, and half of the object
	k.mu.Lock()
	defer k.mu.Unlock()
	if w := k.pods[pod.UID]; w != nil {
		if w.learn(pod); w.leftOver() {
			k.workers.Go(func() { w.finish(k.ctx) })
		}
		return nil
	}
	if pod.Spec.NodeName == "" || terminal(pod) && pod.DeletionTimestamp == nil {
		return nil
	}
	h := k.hosts[pod.Spec.NodeName]
	if h == nil {
		h = newHost(pod.Spec.NodeName, k.machine)
		k.hosts[h.name] = h
	}
	_, stack := device.StackPodOf(pod)
	w := newWorker(k, h, pod, stack)
	k.pods[pod.UID] = w
	k.byName[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] = w
	h.attach(w)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tellStack()
	return w
}

func (k *Kubelet) start(w *worker) { k.workers.Go(func() { w.run(k.ctx) }) }

// forget is for a pod whose object is gone.
func (k *Kubelet) forget(uid types.UID) {
	k.mu.Lock()
	w := k.pods[uid]
	delete(k.pods, uid)
	if w != nil {
		pod := w.current()
		name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
		if k.byName[name] == w {
			delete(k.byName, name)
		}
	}
	k.mu.Unlock()
	if w != nil {
		w.vanish()
	}
}

// unlisted are the pods that were known and are not in a new list.
func (k *Kubelet) unlisted(listed map[types.UID]bool) []types.UID {
	k.mu.Lock()
	defer k.mu.Unlock()
	var gone []types.UID
	for uid := range k.pods {
		if !listed[uid] {
			gone = append(gone, uid)
		}
	}
	return gone
}
