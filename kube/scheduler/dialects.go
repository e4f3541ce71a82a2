package scheduler

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-dev/berth/kube/dialect"
	"github.com/berth-dev/berth/kube/dialect/all"
)

// dialectEvery is how often it is looked whether the API server serves the kinds of another dialect.
const dialectEvery = time.Minute

const (
	// refusedRest is how long it is not looked again after the API server first refused to show a kind; it doubles with each look up to
	// dialectEvery. An API server that has just started refuses all requests until it has read the roles.
	refusedRest = 5 * time.Second
	// missEvery is how often it is looked whether a pod came that was made for an object of a kind that is not watched.
	missEvery = time.Second
	// missRest is how long it is not looked again after such a pod came in vain.
	missRest = 10 * time.Second
)

// dialects are what is watched for manifests that were written for other schedulers. A dialect is in use where its first kind is
// served, or it was switched on; nothing is watched for the others.
type dialects struct {
	s       *scheduler
	client  dynamic.Interface
	watched map[string]bool // kinds
	refused map[string]bool // kinds that are served, and that the API server does not show to the scheduler
	classes bool            // priority classes are watched
	running sync.WaitGroup

	metadata metadata.Interface // of owners; nil: none is watched yet
}

// watchDialects watches the kinds of dialects that are served, and goes on looking for others until ctx ends. synced say that all
// that is there now has been given to the feed.
func (s *scheduler) watchDialects(ctx context.Context) (d *dialects, synced []cache.InformerSynced, err error) {
	d = &dialects{s: s, client: s.opts.foreign, watched: make(map[string]bool), refused: make(map[string]bool)}
	if d.client == nil && s.opts.Config == nil {
		return d, nil, nil // a test of something else
	}
	if d.client == nil {
		if d.client, err = newDynamicClient(s.opts.Config); err != nil {
			return nil, nil, err
		}
	}
	s.foreign = d.client
	if synced, err = d.look(ctx); err != nil {
		return nil, nil, err
	}
	owners, err := d.lookForOwners(ctx)
	if err != nil {
		return nil, nil, err
	}
	synced = append(synced, owners...)
	d.running.Go(func() { d.keepLooking(ctx) })
	return d, synced, nil
}

// keepLooking looks for rivals and kinds now and then, and for kinds soon after a pod came that was made for an object of one that is
// not watched: the pod is held back for a few seconds (kube/cluster/made.go), in which its gang can still be found.
func (d *dialects) keepLooking(ctx context.Context) {
	rivals, kinds, idle := time.Duration(0), time.Duration(0), missRest // since it was last looked; idle: after a miss in vain
	rest := refusedRest                                                 // after a refusal
	for sleep(ctx, missEvery) {
		rivals, kinds, idle = rivals+missEvery, kinds+missEvery, idle+missEvery
		if rivals >= rivalEvery {
			rivals = 0
			for _, one := range all.Dialects() {
				if d.watched[one.Kinds()[0].Name()] {
					d.lookForRival(ctx, one)
				}
			}
		}
		missed := idle >= missRest && d.s.feed.MissedMaker()
		every := dialectEvery
		if len(d.refused) > 0 {
			every = rest
		}
		if !missed && kinds < every {
			continue
		}
		if kinds >= rest {
			rest = min(2*rest, dialectEvery)
		}
		kinds = 0
		known := len(d.watched)
		if _, err := d.look(ctx); err != nil && ctx.Err() == nil {
			d.s.log.Warn("look for dialects", "err", err)
		}
		if _, err := d.lookForOwners(ctx); err != nil && ctx.Err() == nil {
			d.s.log.Warn("look for owners", "err", err)
		}
		if missed && len(d.watched) == known { // nothing new is served: the object that made the pod cannot be read
			idle = 0
		}
	}
}

func newDynamicClient(c *rest.Config) (dynamic.Interface, error) {
	c = rest.CopyConfig(c)
	c.QPS, c.Burst = -1, -1
	client, err := dynamic.NewForConfig(jsonOnly(c))
	if err != nil {
		return nil, fmt.Errorf("dialects: %w", err)
	}
	return client, nil
}

// look watches kinds that are served and not watched yet.
func (d *dialects) look(ctx context.Context) (synced []cache.InformerSynced, err error) {
	on := make(map[string]bool)
	for _, name := range d.s.opts.Dialects {
		on[name] = true
	}
	for _, one := range all.Readers() {
		spoken := on[one.Name()]
		_, maker := one.(dialect.Maker)
		for i, kind := range one.Kinds() {
			if d.watched[kind.Name()] {
				spoken = true
				continue
			}
			served, err := d.s.serves(ctx, kind.GroupVersion().String(), kind.Kind)
			if err != nil {
				return nil, err
			}
			if i == 0 && !served && !spoken && !maker {
				break
			}
			if spoken = spoken || served; !served || maker && !d.mayRead(ctx, kind) {
				continue
			}
			d.lookForRival(ctx, one)
			d.s.feed.Speak(one)
			known, err := d.watch(ctx, one, kind)
			if err != nil {
				return nil, err
			}
			synced = append(synced, known)
		}
		if spoken {
			d.s.feed.Speak(one)
			if !d.classes && !maker {
				d.classes = true
				known, err := d.watchClasses(ctx)
				if err != nil {
					return nil, err
				}
				synced = append(synced, known)
			}
		}
	}
	return synced, nil
}

// mayRead says whether objects of the kind can be listed. One who updates the scheduler and not its rights still has a scheduler: pods
// of such objects are placed one by one, which is said on them.
func (d *dialects) mayRead(ctx context.Context, kind dialect.Kind) bool {
	_, err := d.client.Resource(kind.GroupVersion().WithResource(kind.Plural)).List(ctx, metav1.ListOptions{Limit: 1})
	if !apierrors.IsForbidden(err) {
		delete(d.refused, kind.Name())
		return true
	}
	if !d.refused[kind.Name()] {
		d.refused[kind.Name()] = true
		d.s.log.Warn("not watching, for lack of rights", "kind", kind.Name())
	}
	return false
}

// watch has the kind's objects given to the feed.
func (d *dialects) watch(ctx context.Context, by dialect.Dialect, kind dialect.Kind) (cache.InformerSynced, error) {
	resource := kind.GroupVersion().WithResource(kind.Plural)
	i := dynamicinformer.NewFilteredDynamicInformer(d.client, resource, metav1.NamespaceAll, 0, nil, nil).Informer()
	err := i.SetTransform(func(o any) (any, error) {
		if u, ok := o.(*unstructured.Unstructured); ok {
			u.SetManagedFields(nil)
			by.Trim(u)
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
	d.watched[kind.Name()] = true
	d.s.log.Info("watching", "dialect", by.Name(), "kind", kind.Name())
	d.running.Go(func() { i.RunWithContext(ctx) })
	return r.HasSynced, nil
}

// watchClasses has priority classes given to the feed, which no other pod needs: the API server looks them up for these.
func (d *dialects) watchClasses(ctx context.Context) (cache.InformerSynced, error) {
	f := d.s.factory()
	r, err := f.Scheduling().V1().PriorityClasses().Informer().AddEventHandler(handler(d.s.feed.Set, d.s.feed.Remove))
	if err != nil {
		return nil, err
	}
	f.Start(ctx.Done())
	d.running.Go(func() { <-ctx.Done(); f.Shutdown() })
	return r.HasSynced, nil
}
