package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/api/v1alpha1"
)

const (
	// installedAnnotation on the CRD says that the first installation came to its end.
	installedAnnotation = "berth.dev/fleet-installed"
	// fieldManager is the name under which Berth owns what it applies.
	fieldManager = "berth"
	// servedPoll is how often a new kind is asked for: it takes some tens of milliseconds until it
	// is served.
	servedPoll = 10 * time.Millisecond
	// servedLimit is when to give up on that.
	servedLimit = 30 * time.Second
)

// Install prepares a cluster for Run, with administrator rights: the Pool kind and the fleet's
// rights every time; the GPU stack's DaemonSets, its device class and the given Pools only the
// first time, so that a restart does not undo what users changed or removed since.
func Install(ctx context.Context, admin *rest.Config, pools []v1alpha1.Pool) error {
	c, err := newInstaller(admin)
	if err != nil {
		return err
	}
	crd, err := newManifest(v1alpha1.CRD)
	if err != nil {
		return fmt.Errorf("pool kind: %w", err)
	}
	first, err := c.applyCRD(ctx, crd)
	if err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.applyAll(groupCtx, prerequisites) })
	if first {
		group.Go(func() error { return c.installStack(groupCtx) })
		group.Go(func() error { return c.applyAll(groupCtx, deviceClasses) })
	}
	group.Go(func() error { return c.installPools(groupCtx, pools, first) })
	if err := group.Wait(); err != nil || !first {
		return err
	}
	return c.markInstalled(ctx, crd)
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

// applyCRD reports whether an installation still has to be done, or finished.
func (c *installer) applyCRD(ctx context.Context, crd manifest) (first bool, err error) {
	got, err := c.apply(ctx, crd)
	if err != nil {
		return false, err
	}
	var object metav1.PartialObjectMetadata
	if err := json.Unmarshal(got, &object); err != nil {
		return false, fmt.Errorf("read back the pool kind: %w", err)
	}
	return object.Annotations[installedAnnotation] == "", nil
}

// installStack needs its namespace first; the rest goes in any order.
func (c *installer) installStack(ctx context.Context) error {
	if err := c.applyAll(ctx, gpuNamespace); err != nil {
		return err
	}
	return c.applyAll(ctx, gpuStack)
}

// installPools waits until Pools are served, and creates the given ones the first time, unless
// an installation that broke off, or a user, was quicker.
func (c *installer) installPools(ctx context.Context, pools []v1alpha1.Pool, first bool) error {
	have, err := c.served(ctx)
	if err != nil {
		return fmt.Errorf("wait for the pool kind: %w", err)
	}
	if !first || len(have.Items) > 0 {
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	for i := range pools {
		group.Go(func() error { return wrap(c.pools.Apply(ctx, bare(&pools[i])), "create pool %s", pools[i].Name) })
	}
	return group.Wait()
}

// served lists the Pools as soon as the API server knows what that means.
func (c *installer) served(ctx context.Context) (list *v1alpha1.PoolList, err error) {
	err = wait.PollUntilContextTimeout(ctx, servedPoll, servedLimit, true, func(ctx context.Context) (bool, error) {
		var err error
		list, err = c.pools.ListNow(ctx)
		if apierrors.IsNotFound(err) || apierrors.IsTooManyRequests(err) {
			return false, nil
		}
		return err == nil, err
	})
	return list, err
}

func (c *installer) markInstalled(ctx context.Context, crd manifest) error {
	mark := fmt.Sprintf(`{"metadata":{"annotations":{%q:"true"}}}`, installedAnnotation)
	err := c.rest.Patch(types.MergePatchType).AbsPath(crd.Path).Param("fieldManager", fieldManager+"-install").Body([]byte(mark)).Do(ctx).Error()
	return wrap(err, "mark the fleet as installed")
}

// bare is the pool as a new object: what a user may give, and nothing a server fills in.
func bare(pool *v1alpha1.Pool) *v1alpha1.Pool {
	out := &v1alpha1.Pool{Spec: *pool.Spec.DeepCopy()}
	out.Name, out.Labels, out.Annotations = pool.Name, pool.Labels, pool.Annotations
	out.APIVersion, out.Kind = v1alpha1.GroupVersion.String(), "Pool"
	return out
}
