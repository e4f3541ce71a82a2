package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-dev/berth/kube/cluster"
)

// sometimes are kinds of Kubernetes that some supported versions do not serve, or not unless they are asked to, and what holds where
// they are not. They are looked for once: after an upgrade of the API server the scheduler is restarted.
var sometimes = []struct{ version, kind, instead string }{
	{"scheduling.k8s.io/v1beta1", "PodGroup", "gangs are named by berth.dev keys, and by kinds of other projects"},
	{"scheduling.k8s.io/v1alpha3", "CompositePodGroup", "groups have no groups above them"},
	{"resource.k8s.io/v1", "DeviceClass", "GPUs are those of device plugins, and pods with claims of devices wait"},
	{"resource.k8s.io/v1", "DeviceTaintRule", "taints of devices are those in ResourceSlices"},
}

// watch starts the informers and returns when each has given its first list to the feed, or ctx has ended. stop
// waits for them to end, which they do after ctx.
func (s *scheduler) watch(ctx context.Context) (stop func(), err error) {
	has := make(map[string]bool)
	for _, k := range sometimes {
		if has[k.kind], err = s.serves(ctx, k.version, k.kind); err != nil {
			return nil, fmt.Errorf("scheduler: watch: %w", err)
		}
		if !has[k.kind] {
			s.log.Info("not served", "kind", k.version+" "+k.kind, "instead", k.instead)
		}
	}
	all := s.factory()
	var synced []cache.InformerSynced
	add := func(i cache.SharedIndexInformer, h cache.ResourceEventHandlerFuncs, versioned bool) {
		r, failed := i.AddEventHandler(h)
		if failed != nil {
			err = errors.Join(err, failed)
			return
		}
		synced = append(synced, r.HasSynced)
		if versioned {
			s.settler.watches = append(s.settler.watches, i)
		}
	}
	core, objects := all.Core().V1(), handler(s.feed.Set, s.feed.Remove)
	add(core.Nodes().Informer(), objects, true)
	add(core.Pods().Informer(), handler(s.podSeen, s.podGone), true)
	add(core.PersistentVolumeClaims().Informer(), objects, false)
	add(core.PersistentVolumes().Informer(), objects, false)
	add(all.Storage().V1().StorageClasses().Informer(), objects, false)
	add(all.Storage().V1().CSINodes().Informer(), objects, false)
	add(all.Storage().V1().CSIDrivers().Informer(), objects, false)
	add(all.Storage().V1().CSIStorageCapacities().Informer(), objects, false)
	add(all.Batch().V1().Jobs().Informer(), objects, false)
	add(all.Apps().V1().StatefulSets().Informer(), objects, false)
	add(all.Apps().V1().ReplicaSets().Informer(), objects, false)
	add(all.Apps().V1().Deployments().Informer(), objects, false)
	add(all.Policy().V1().PodDisruptionBudgets().Informer(), objects, false)
	add(core.Services().Informer(), objects, false)
	add(core.Namespaces().Informer(), objects, false)
	if has["DeviceClass"] {
		add(all.Resource().V1().DeviceClasses().Informer(), objects, false)
		add(all.Resource().V1().ResourceSlices().Informer(), objects, false)
		add(all.Resource().V1().ResourceClaims().Informer(), objects, false)
		add(all.Resource().V1().ResourceClaimTemplates().Informer(), objects, false)
	}
	if has["DeviceTaintRule"] {
		add(all.Resource().V1().DeviceTaintRules().Informer(), objects, false)
	}
	if has["PodGroup"] {
		add(all.Scheduling().V1beta1().PodGroups().Informer(), objects, true)
	}
	if has["CompositePodGroup"] {
		add(all.Scheduling().V1alpha3().CompositePodGroups().Informer(), objects, true)
	}
	queues, known, failed := s.watchQueues(ctx)
	if err = errors.Join(err, failed); err != nil {
		return nil, fmt.Errorf("scheduler: watch: %w", err)
	}
	foreign, theirs, failed := s.watchDialects(ctx)
	if failed != nil {
		return nil, fmt.Errorf("scheduler: watch: %w", failed)
	}
	all.Start(ctx.Done())
	var others sync.WaitGroup
	others.Go(func() { queues.RunWithContext(ctx) })
	cache.WaitForCacheSync(ctx.Done(), append(append(synced, known), theirs...)...)
	return func() { all.Shutdown(); others.Wait(); foreign.running.Wait() }, nil
}

// factory makes informers of objects without the fields that nothing here reads.
func (s *scheduler) factory() informers.SharedInformerFactory {
	return informers.NewSharedInformerFactoryWithOptions(s.client, 0, informers.WithTransform(func(o any) (any, error) { cluster.Trim(o); return o, nil }))
}

// serves says whether the API server has the kind. It asks until the server answers, however long that takes.
func (s *scheduler) serves(ctx context.Context, groupVersion, kind string) (bool, error) {
	var list *metav1.APIResourceList
	err := answered(ctx, func(context.Context) (err error) {
		list, err = s.client.Discovery().ServerResourcesForGroupVersion(groupVersion)
		return err
	})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("is %s served: %w", kind, err)
	}
	for _, r := range list.APIResources {
		if r.Kind == kind {
			return true, nil
		}
	}
	return false, nil
}

// answered sends until the API server answers. One that has just started and does not know who may do what refuses for a while, which
// is its answer only if it lasts.
func answered(ctx context.Context, send func(context.Context) error) error {
	var refusedSince time.Time
	return retried(ctx, func(ctx context.Context) error {
		err := send(ctx)
		switch {
		case !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err):
			refusedSince = time.Time{}
		case refusedSince.IsZero():
			refusedSince = time.Now()
			return errors.New(err.Error())
		case time.Since(refusedSince) < awaken:
			return errors.New(err.Error())
		}
		return err
	})
}

// handler calls set for every new version of an object and gone when it is deleted: also where the watch was cut meanwhile, and another of
// its name is there by then, which informers tell as a change.
func handler[T metav1.Object](set, gone func(T)) cache.ResourceEventHandlerFuncs {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { set(o.(T)) },
		UpdateFunc: func(old, o any) {
			if was, ok := old.(T); ok && was.GetUID() != o.(T).GetUID() {
				gone(was)
			}
			set(o.(T))
		},
		DeleteFunc: func(o any) {
			if d, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = d.Obj
			}
			if t, ok := o.(T); ok {
				gone(t)
			}
		},
	}
}
