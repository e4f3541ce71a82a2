package scheduler

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// watch starts the informers and returns when each has given its first list to the feed, or ctx has ended. stop
// waits for them to end, which they do after ctx.
func (s *scheduler) watch(ctx context.Context) (stop func(), err error) {
	groups, err := s.serves(ctx, "scheduling.k8s.io/v1beta1", "PodGroup")
	if err != nil {
		return nil, fmt.Errorf("scheduler: watch: %w", err)
	}
	all, live := s.factories()
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
	core, f := all.Core().V1(), s.feed
	add(core.Nodes().Informer(), handler(f.setNode, f.removeNode), true)
	add(live.Core().V1().Pods().Informer(), handler(f.setPod, f.removePod), true)
	add(core.PersistentVolumeClaims().Informer(), handler(f.setClaim, f.removeClaim), false)
	add(core.PersistentVolumes().Informer(), handler(f.setVolume, f.removeVolume), false)
	add(all.Storage().V1().StorageClasses().Informer(), handler(f.setClass, f.removeClass), false)
	if groups {
		add(all.Scheduling().V1beta1().PodGroups().Informer(), handler(f.setGroup, f.removeGroup), true)
	}
	if err != nil {
		return nil, fmt.Errorf("scheduler: watch: %w", err)
	}
	all.Start(ctx.Done())
	live.Start(ctx.Done())
	cache.WaitForCacheSync(ctx.Done(), synced...)
	return func() { all.Shutdown(); live.Shutdown() }, nil
}

// factories are of informers of all objects, and of those that are not over.
func (s *scheduler) factories() (all, live informers.SharedInformerFactory) {
	small := informers.WithTransform(func(o any) (any, error) { strip(o); return o, nil })
	all = informers.NewSharedInformerFactoryWithOptions(s.client, 0, small)
	// A pod that succeeded is a deletion to us. One that failed is not: it may have been refused by its node.
	live = informers.NewSharedInformerFactoryWithOptions(s.client, 0, small, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)).String()
	}))
	return all, live
}

// strip drops what nobody here reads: who wrote which field, and all but the outcome of a pod that is over.
func strip(o any) {
	if m, ok := o.(metav1.Object); ok {
		m.SetManagedFields(nil)
	}
	if p, ok := o.(*corev1.Pod); ok && p.Status.Phase == corev1.PodFailed {
		p.Spec = corev1.PodSpec{NodeName: p.Spec.NodeName, SchedulerName: p.Spec.SchedulerName}
		p.Status = corev1.PodStatus{Phase: p.Status.Phase, Reason: p.Status.Reason, Message: p.Status.Message}
	}
}

// serves says whether the API server has the kind.
func (s *scheduler) serves(ctx context.Context, groupVersion, kind string) (bool, error) {
	var list *metav1.APIResourceList
	err := again(ctx, func() (err error) {
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
