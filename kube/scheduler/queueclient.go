package scheduler

import (
	"context"
	"fmt"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/cluster"
)

// queueClient is what is needed of a client for BerthQueues.
type queueClient interface {
	List(context.Context, metav1.ListOptions) (*v1alpha1.BerthQueueList, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
	Patch(ctx context.Context, name string, how types.PatchType, patch []byte, o metav1.PatchOptions, subresources ...string) (*v1alpha1.BerthQueue, error)
}

// queueClient is the one given, or else reaches the API server through Config.
func (o *Options) queueClient() (queueClient, error) {
	if o.queues != nil {
		return o.queues, nil
	}
	return newQueueClient(o.Config)
}

func newQueueClient(c *rest.Config) (queueClient, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("queue client: %w", err)
	}
	c = rest.CopyConfig(c)
	c.QPS, c.Burst = -1, -1
	c.GroupVersion, c.APIPath = &v1alpha1.GroupVersion, "/apis"
	c.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	c.ContentType, c.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON // custom resources know no protobuf
	client, err := rest.RESTClientFor(c)
	if err != nil {
		return nil, fmt.Errorf("queue client: %w", err)
	}
	return gentype.NewClientWithList(v1alpha1.QueuePlural, client, metav1.ParameterCodec, "",
		func() *v1alpha1.BerthQueue { return &v1alpha1.BerthQueue{} }, func() *v1alpha1.BerthQueueList { return &v1alpha1.BerthQueueList{} }), nil
}

// watchQueues returns an informer that is to be run. known says that the queues have been given to the feed, or that
// there is no such kind: then the informer goes on asking and nobody waits for it.
func (s *scheduler) watchQueues(ctx context.Context) (i cache.SharedIndexInformer, known cache.InformerSynced, err error) {
	served, err := s.serves(ctx, v1alpha1.GroupVersion.String(), v1alpha1.QueueKind)
	if err != nil {
		return nil, nil, err
	}
	if s.queues, err = s.opts.queueClient(); err != nil {
		return nil, nil, err
	}
	if i, err = s.queueInformer(); err != nil {
		return nil, nil, err
	}
	r, err := i.AddEventHandler(handler(s.feed.Set, s.feed.Remove))
	if err != nil {
		return nil, nil, err
	}
	return i, func() bool { return !served || r.HasSynced() }, nil
}

// queueInformer watches BerthQueues. Where there is no such kind it asks again, ever more rarely but at least every
// minute, and takes it that there are no queues: a cluster may get the kind, or lose it, while the scheduler runs.
func (s *scheduler) queueInformer() (cache.SharedIndexInformer, error) {
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return s.queues.List(ctx, o)
		},
		WatchFuncWithContext: s.queues.Watch,
	}
	i := cache.NewSharedIndexInformerWithOptions(cache.ToListWatcherWithWatchListSemantics(lw, s.queues), &v1alpha1.BerthQueue{}, cache.SharedIndexInformerOptions{})
	if err := i.SetTransform(func(o any) (any, error) { cluster.Trim(o); return o, nil }); err != nil {
		return nil, err
	}
	var said atomic.Bool
	err := i.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		switch {
		case !apierrors.IsNotFound(err):
			cache.DefaultWatchErrorHandler(ctx, r, err)
			return
		case !said.Swap(true):
			s.log.Warn("this cluster has no BerthQueues (CustomResourceDefinition berthqueues.berth.dev): a pod that names one waits")
		}
		s.feed.DropQueues()
	})
	return i, err
}
