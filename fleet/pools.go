package fleet

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// poolClient is a typed client for Pools, as small as what is needed of it.
type poolClient struct{ rest rest.Interface }

func newPoolClient(cfg *rest.Config) (*poolClient, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("pool client: %w", err)
	}
	cfg = unlimited(cfg)
	cfg.GroupVersion = &v1alpha1.GroupVersion
	cfg.APIPath = "/apis"
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON // a CRD speaks no protobuf
	client, err := rest.RESTClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("pool client: %w", err)
	}
	return &poolClient{client}, nil
}

// unlimited is a copy of cfg without the client-side rate limit.
func unlimited(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.Burst, cfg.RateLimiter = -1, 0, nil
	return cfg
}

func (c *poolClient) List(ctx context.Context, opts metav1.ListOptions) (*v1alpha1.PoolList, error) {
	list := &v1alpha1.PoolList{}
	err := c.rest.Get().Resource("pools").VersionedParams(&opts, metav1.ParameterCodec).Do(ctx).Into(list)
	return list, err
}

func (c *poolClient) watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	opts.Watch = true
	return c.rest.Get().Resource("pools").VersionedParams(&opts, metav1.ParameterCodec).Watch(ctx)
}

// informer keeps a local copy of all Pools.
func (c *poolClient) informer() cache.SharedIndexInformer {
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			return c.List(ctx, opts)
		},
		WatchFuncWithContext: c.watch,
	}
	return cache.NewSharedIndexInformerWithOptions(lw, &v1alpha1.Pool{}, cache.SharedIndexInformerOptions{})
}

func (c *poolClient) Create(ctx context.Context, pool *v1alpha1.Pool) error {
	return c.rest.Post().Resource("pools").Body(pool).Do(ctx).Error()
}

// Apply creates a pool too, but at once: a POST within two seconds of the kind's creation is held
// back by the server for as long.
func (c *poolClient) Apply(ctx context.Context, pool *v1alpha1.Pool) error {
	body, err := json.Marshal(pool)
	if err != nil {
		return err
	}
	return c.rest.Patch(types.ApplyYAMLPatchType).Resource("pools").Name(pool.Name).
		Param("fieldManager", fieldManager).Body(body).Do(ctx).Error()
}

// Update writes the whole object; it conflicts if the pool changed since it was read.
func (c *poolClient) Update(ctx context.Context, pool *v1alpha1.Pool) error {
	return c.rest.Put().Resource("pools").Name(pool.Name).Body(pool).Do(ctx).Error()
}

func (c *poolClient) Delete(ctx context.Context, name string) error {
	return c.rest.Delete().Resource("pools").Name(name).Do(ctx).Error()
}

// PatchStatus replaces the status; the fleet is its only writer.
func (c *poolClient) PatchStatus(ctx context.Context, name string, status v1alpha1.PoolStatus) error {
	body, err := json.Marshal(map[string]any{"status": statusFields(status)})
	if err != nil {
		return err
	}
	return c.rest.Patch(types.MergePatchType).Resource("pools").Name(name).SubResource("status").Body(body).Do(ctx).Error()
}

// statusFields spells out the counts: in a merge patch a field that is left out keeps its old value,
// and a count that fell to zero would be.
func statusFields(s v1alpha1.PoolStatus) map[string]any {
	return map[string]any{"nodes": s.Nodes, "ready": s.Ready, "gpus": s.GPUs, "conditions": s.Conditions}
}
