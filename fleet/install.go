package fleet

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/crd"
)

const (
	// installedAnnotation on the CRD says that the first installation came to its end.
	installedAnnotation = v1alpha1.KeyFleetInstalled
	// fieldManager is the name under which Berth owns what it applies.
	fieldManager = "berth"
)

// Install prepares a cluster for Run, with administrator rights: the Pool kind and the fleet's
// rights every time; the GPU stack's DaemonSets, the device and storage classes, metrics.k8s.io and the given
// Pools only the first time, so that a restart does not undo what users changed or removed since.
func Install(ctx context.Context, admin *rest.Config, pools []v1alpha1.Pool) error {
	c, err := newInstaller(admin)
	if err != nil {
		return err
	}
	kind, err := crd.Read(v1alpha1.CRD)
	if err != nil {
		return fmt.Errorf("pool kind: %w", err)
	}
	trouble, err := crd.Read(v1alpha1.FaultCRD)
	if err != nil {
		return fmt.Errorf("fault kind: %w", err)
	}
	launches, err := crd.Read(v1alpha1.MachineCRD)
	if err != nil {
		return fmt.Errorf("machine kind: %w", err)
	}
	text, err := manifestFiles.ReadFile("manifests/computedomain.yaml")
	if err != nil {
		return err
	}
	domains, err := crd.Read(text)
	if err != nil {
		return fmt.Errorf("compute domain kind: %w", err)
	}
	for _, k := range []crd.Kind{trouble, launches, domains} {
		if _, err := k.Apply(ctx, c.rest); err != nil {
			return err
		}
	}
	annotations, err := kind.Apply(ctx, c.rest)
	if err != nil {
		return err
	}
	first := annotations[installedAnnotation] == "" // or broken off
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.applyAll(groupCtx, prerequisites) })
	if first {
		group.Go(func() error { return c.installStack(groupCtx) })
		group.Go(func() error { return c.applyAll(groupCtx, classes) })
		group.Go(func() error { return c.applyAll(groupCtx, metricsObjects) })
	}
	group.Go(func() error {
		if err := kind.Served(groupCtx, c.rest); err != nil {
			return err
		}
		return c.installPools(groupCtx, pools, first)
	})
	if err := group.Wait(); err != nil || !first {
		return err
	}
	return c.markInstalled(ctx, kind)
}

type installer struct {
	rest  rest.Interface
	pools *poolClient
}

func newInstaller(admin *rest.Config) (*installer, error) {
	pools, err := newPoolClient(admin)
	if err != nil {
		return nil, err
	}
	cfg := unlimited(admin)
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	cfg.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.UnversionedRESTClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("install client: %w", err)
	}
	return &installer{client, pools}, nil
}

// apply writes one object as its owner, whether it is there or not, and returns it as it is now.
func (c *installer) apply(ctx context.Context, m manifest) ([]byte, error) {
	got, err := c.rest.Patch(types.ApplyYAMLPatchType).AbsPath(m.Path).
		Param("fieldManager", fieldManager).Param("force", "true").Body(m.Body).Do(ctx).Raw()
	return got, wrap(err, "apply %s", m.Path)
}

func (c *installer) applyAll(ctx context.Context, source func() ([]manifest, error)) error {
	list, err := source()
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, m := range list {
		group.Go(func() error { _, err := c.apply(ctx, m); return err })
	}
	return group.Wait()
}

// installStack needs its namespace first, then its configurations and services; the rest goes in any order.
func (c *installer) installStack(ctx context.Context) error {
	if err := c.applyAll(ctx, gpuNamespace); err != nil {
		return err
	}
	if err := c.applyAll(ctx, gpuConfigs); err != nil {
		return err
	}
	if err := c.applyAll(ctx, gpuServices); err != nil {
		return err
	}
	return c.applyAll(ctx, gpuStack)
}

// installPools creates the given Pools the first time, unless an installation that broke off, or a
// user, was quicker.
func (c *installer) installPools(ctx context.Context, pools []v1alpha1.Pool, first bool) error {
	if !first {
		return nil
	}
	have, err := c.pools.List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list pools: %w", err)
	}
	if len(have.Items) > 0 {
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	for i := range pools {
		group.Go(func() error { return wrap(c.pools.Apply(ctx, bare(&pools[i])), "create pool %s", pools[i].Name) })
	}
	return group.Wait()
}

func (c *installer) markInstalled(ctx context.Context, kind crd.Kind) error {
	mark := fmt.Sprintf(`{"metadata":{"annotations":{%q:"true"}}}`, installedAnnotation)
	err := c.rest.Patch(types.MergePatchType).AbsPath(kind.Path).Param("fieldManager", fieldManager+"-install").Body([]byte(mark)).Do(ctx).Error()
	return wrap(err, "mark the fleet as installed")
}

// bare is the pool as a new object: what a user may give, and nothing a server fills in.
func bare(pool *v1alpha1.Pool) *v1alpha1.Pool {
	out := &v1alpha1.Pool{Spec: *pool.Spec.DeepCopy()}
	out.Name, out.Labels, out.Annotations = pool.Name, pool.Labels, pool.Annotations
	out.APIVersion, out.Kind = v1alpha1.GroupVersion.String(), "Pool"
	return out
}
