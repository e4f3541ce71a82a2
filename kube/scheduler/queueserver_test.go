package scheduler

import (
	"context"
	"encoding/json"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// queueServer is the part of the world that serves Queues.
type queueServer struct {
	w       *world
	tracker clienttesting.ObjectTracker
	refuse  error // of statuses, while set

	absent  bool // the kind is not installed
	watches []watch.Interface
	patches []string // names
}

var queuesResource = v1alpha1.GroupVersion.WithResource(v1alpha1.QueuePlural)

func newQueueServer(w *world) *queueServer {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		w.t.Fatal(err)
	}
	s := &queueServer{w: w, tracker: clienttesting.NewObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder())}
	s.install(true)
	return s
}

// install gives the cluster the kind, or takes it and all queues away.
func (s *queueServer) install(there bool) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.absent = !there
	lists := slices.DeleteFunc(s.w.client.Resources, func(l *metav1.APIResourceList) bool { return l.GroupVersion == v1alpha1.GroupVersion.String() })
	if there {
		lists = append(lists, &metav1.APIResourceList{GroupVersion: v1alpha1.GroupVersion.String(), APIResources: []metav1.APIResource{{Kind: v1alpha1.QueueKind}}})
	}
	s.w.client.Resources = lists
	for _, w := range s.watches {
		w.Stop()
	}
	s.watches = nil
}

func (s *queueServer) IsWatchListSemanticsUnSupported() bool { return true }

func (s *queueServer) List(context.Context, metav1.ListOptions) (*v1alpha1.BerthQueueList, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if s.absent {
		return nil, apierrors.NewNotFound(queuesResource.GroupResource(), "")
	}
	list, err := s.tracker.List(queuesResource, v1alpha1.GroupVersion.WithKind(v1alpha1.QueueKind), "")
	if err != nil {
		return nil, err
	}
	return list.(*v1alpha1.BerthQueueList), nil
}

func (s *queueServer) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if s.absent {
		return nil, apierrors.NewNotFound(queuesResource.GroupResource(), "")
	}
	w, err := s.tracker.Watch(queuesResource, "")
	s.watches = append(s.watches, w)
	return w, err
}

func (s *queueServer) Patch(_ context.Context, name string, _ types.PatchType, patch []byte, _ metav1.PatchOptions, _ ...string) (*v1alpha1.BerthQueue, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.patches = append(s.patches, name)
	if s.refuse != nil {
		return nil, s.refuse
	}
	have, err := s.tracker.Get(queuesResource, "", name)
	if err != nil {
		return nil, err
	}
	old, _ := json.Marshal(have)
	merged, err := strategicpatch.StrategicMergePatch(old, patch, v1alpha1.BerthQueue{}) // no list of a BerthQueue is merged
	if err != nil {
		return nil, err
	}
	got := &v1alpha1.BerthQueue{}
	if err := json.Unmarshal(merged, got); err != nil {
		return nil, err
	}
	if got.UID != have.(*v1alpha1.BerthQueue).UID {
		return nil, apierrors.NewConflict(queuesResource.GroupResource(), name, nil)
	}
	got.ResourceVersion = s.w.next()
	return got, s.tracker.Update(queuesResource, got, "")
}

// edit changes a queue as a user would.
func (s *queueServer) edit(name string, change func(*v1alpha1.BerthQueue)) {
	s.w.t.Helper()
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	have, err := s.tracker.Get(queuesResource, "", name)
	if err != nil {
		s.w.t.Fatal(err)
	}
	q := have.(*v1alpha1.BerthQueue).DeepCopy()
	change(q)
	q.ResourceVersion = s.w.next()
	if err := s.tracker.Update(queuesResource, q, ""); err != nil {
		s.w.t.Fatal(err)
	}
}

func (s *queueServer) remove(name string) {
	s.w.t.Helper()
	if err := s.tracker.Delete(queuesResource, "", name); err != nil {
		s.w.t.Fatal(err)
	}
}

// status is the queue's, without the times in it.
func (s *queueServer) status(name string) v1alpha1.QueueStatus {
	s.w.t.Helper()
	have, err := s.tracker.Get(queuesResource, "", name)
	if err != nil {
		s.w.t.Fatal(err)
	}
	out := have.(*v1alpha1.BerthQueue).Status.DeepCopy()
	for i := range out.Conditions {
		out.Conditions[i].LastTransitionTime = metav1.Time{}
	}
	return *out
}

func (s *queueServer) written() int { return locked(s.w, func() int { return len(s.patches) }) }

// deny sets what statuses are answered with, nil for the truth.
func (s *queueServer) deny(err error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.refuse = err
}

// limit is a queue of so many GPUs, open to the namespaces with the labels: none given, all.
func limit(name string, gpus int64, selector map[string]string) *v1alpha1.BerthQueue {
	q := &v1alpha1.BerthQueue{ObjectMeta: metav1.ObjectMeta{Name: name}}
	raise(gpus)(q)
	if selector != nil {
		q.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: selector}
	}
	return q
}

func raise(gpus int64) func(*v1alpha1.BerthQueue) {
	return func(q *v1alpha1.BerthQueue) {
		q.Spec.Resources = []v1alpha1.QueueResource{{Name: "nvidia.com/gpu", Limit: resource.NewQuantity(gpus, resource.DecimalSI)}}
	}
}
