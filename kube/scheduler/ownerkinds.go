package scheduler

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-dev/berth/kube/convert"
)

// lookForOwners watches the metadata of kinds that make what makes pods, such as JobSets: to hold back one of these holds back its
// pods. Of kinds that are not served nothing is asked but, every dialectEvery, whether they are.
func (d *dialects) lookForOwners(ctx context.Context) (synced []cache.InformerSynced, err error) {
	if d.s.opts.Config == nil {
		return nil, nil // a test of something else
	}
	groups, err := d.s.client.Discovery().ServerGroups()
	if err != nil {
		return nil, fmt.Errorf("owners: %w", err)
	}
	for _, kind := range convert.OwnerKinds() {
		if kind.Typed || d.watched[kind.Plural+"."+kind.Group] {
			continue
		}
		resource, err := d.served(ctx, groups, kind)
		if err != nil {
			return nil, fmt.Errorf("owners: %w", err)
		}
		if resource.Empty() {
			continue
		}
		known, err := d.watchOwners(ctx, kind, resource)
		if err != nil {
			return nil, fmt.Errorf("owners: %w", err)
		}
		synced = append(synced, known)
	}
	return synced, nil
}

// served is the first version of the kind that is served; empty for none.
func (d *dialects) served(ctx context.Context, groups *metav1.APIGroupList, kind convert.OwnerKind) (schema.GroupVersionResource, error) {
	for _, g := range groups.Groups {
		if g.Name != kind.Group {
			continue
		}
		for _, v := range g.Versions {
			is, err := d.s.serves(ctx, v.GroupVersion, kind.Kind)
			if err != nil {
				return schema.GroupVersionResource{}, err
			}
			if is {
				return schema.GroupVersionResource{Group: g.Name, Version: v.Version, Resource: kind.Plural}, nil
			}
		}
	}
	return schema.GroupVersionResource{}, nil
}

func (d *dialects) watchOwners(ctx context.Context, kind convert.OwnerKind, resource schema.GroupVersionResource) (cache.InformerSynced, error) {
	if d.metadata == nil {
		c := rest.CopyConfig(d.s.opts.Config)
		c.QPS, c.Burst = -1, -1
		client, err := metadata.NewForConfig(c)
		if err != nil {
			return nil, err
		}
		d.metadata = client
	}
	i := metadatainformer.NewFilteredMetadataInformer(d.metadata, resource, metav1.NamespaceAll, 0, nil, nil).Informer()
	err := i.SetTransform(func(o any) (any, error) {
		if m, ok := o.(*metav1.PartialObjectMetadata); ok {
			m.Kind, m.ManagedFields = kind.Kind, nil
			convert.TrimOwner(m)
		}
		return o, nil
	})
	if err != nil {
		return nil, err
	}
	r, err := i.AddEventHandler(handler(d.s.feed.Set, d.s.feed.Remove))
	if err != nil {
		return nil, err
	}
	d.s.feed.WatchOwners(kind.Kind)
	d.watched[kind.Plural+"."+kind.Group] = true
	d.running.Go(func() { i.RunWithContext(ctx) })
	return r.HasSynced, nil
}
