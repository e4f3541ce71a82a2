package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/fleet/fault"
)

// faults keeps the machines as the Faults in the API server want them.
type faults struct {
	client *poolClient
	store  cache.Store   // of *v1alpha1.Fault
	poke   chan struct{} // capacity 1: Faults changed
	any    bool          // there were some at the last look; owned by the controller's loop
	// launches are those by which launches fail now; owned by the controller's loop.
	launches []fault.Launch
}

func newFaults(client *poolClient, store cache.Store) *faults {
	return &faults{client: client, store: store, poke: make(chan struct{}, 1)}
}

func (f *faults) changed() {
	select {
	case f.poke <- struct{}{}:
	default: // one is waiting already
	}
}

// news carries a token whenever Faults changed.
func (f *faults) news() <-chan struct{} {
	if f == nil {
		return nil
	}
	return f.poke
}

// due is a timer that may have no time.
type due struct{ timer *time.Timer }

func newDue(at time.Time) *due {
	d := &due{time.NewTimer(time.Hour)}
	d.set(at)
	return d
}

// set is the next time at which something is due; zero: nothing is.
func (d *due) set(at time.Time) {
	d.timer.Stop()
	if !at.IsZero() {
		d.timer.Reset(time.Until(at))
	}
}

func (d *due) C() <-chan time.Time { return d.timer.C }
func (d *due) stop()               { d.timer.Stop() }

// events are what the informer calls. A status that was written here is no news.
func (f *faults) events() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { f.changed() },
		UpdateFunc: func(old, obj any) {
			if a, b := old.(*v1alpha1.Fault), obj.(*v1alpha1.Fault); a.UID != b.UID || a.Generation != b.Generation {
				f.changed()
			}
		},
		DeleteFunc: func(any) { f.changed() },
	}
}

// takeFaults brings the machines in line with the Faults, writes their statuses and says when to look again; zero: on news.
// One goroutine calls it.
func (c *controller) takeFaults(ctx context.Context, now time.Time) time.Time {
	if c.faults == nil {
		return time.Time{}
	}
	var list []*v1alpha1.Fault
	for _, obj := range c.faults.store.List() {
		list = append(list, obj.(*v1alpha1.Fault))
	}
	if len(list) == 0 && !c.faults.any {
		return time.Time{}
	}
	c.faults.any = len(list) > 0
	all := c.machines.all()
	plan := fault.New(list, c.hittable(all, list), c.machines.clock, now)
	c.faults.launches = plan.Launches
	for _, m := range all {
		if before, changed := m.setFaults(plan.Effects[m.name], now); changed {
			c.log.Info("faults", "node", m.name)
			c.pods.Faulted(m.name, before, plan.Effects[m.name])
			c.pods.NodeChanged(m.name)
			c.nodeQueue.Add(m.name)
		}
	}
	for _, f := range list {
		c.tellFault(ctx, f, plan.Status[f.Name])
	}
	return plan.Next
}

// hittable are the machines as faults see them. Labels are read only where a fault selects by them.
func (c *controller) hittable(all []*machine, list []*v1alpha1.Fault) []fault.Node {
	byLabel := slices.ContainsFunc(list, func(f *v1alpha1.Fault) bool { return f.Spec.Selector != nil && len(*f.Spec.Selector) > 0 })
	out := make([]fault.Node, 0, len(all))
	for _, m := range all {
		w := m.wants()
		n := fault.Node{Name: m.name, GPUs: m.devices.Devices()}
		if !w.byHand {
			n.Pool = w.pool.Name
		}
		if byLabel {
			n.Labels = gives(w).Labels
			if node := c.node(m.name); node != nil {
				n.Labels = node.Labels
			}
		}
		out = append(out, n)
	}
	return out
}

// tellFault writes a status that changed. It is tried again with the next look.
func (c *controller) tellFault(ctx context.Context, f *v1alpha1.Fault, next v1alpha1.FaultStatus) {
	if equality.Semantic.DeepEqual(f.Status, wholeSeconds(next)) {
		return
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": f.UID}, "status": faultStatusFields(wholeSeconds(next))})
	if err == nil {
		err = c.faults.client.rest.Patch(types.MergePatchType).Resource("faults").Name(f.Name).SubResource("status").Body(body).Do(ctx).Error()
	}
	if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
		c.log.Debug("status of fault", "fault", f.Name, "err", err)
	}
}

// wholeSeconds is the status as it comes back from the API server.
func wholeSeconds(s v1alpha1.FaultStatus) v1alpha1.FaultStatus {
	for _, t := range []**metav1.Time{&s.ActiveSince, &s.HealedAt} {
		if *t != nil {
			*t = &metav1.Time{Time: (*t).Truncate(time.Second)}
		}
	}
	return s
}

// faultStatusFields spells out what is empty: in a merge patch a field that is left out keeps its old value.
func faultStatusFields(s v1alpha1.FaultStatus) map[string]any {
	return map[string]any{
		"phase": s.Phase, "activeSince": s.ActiveSince, "healedAt": s.HealedAt, "times": s.Times, "hit": s.Hit,
		"targets": s.Targets, "message": nilIfEmpty(s.Message),
	}
}

func nilIfEmpty(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// faultInformer keeps a local copy of all Faults.
func (c *poolClient) faultInformer() cache.SharedIndexInformer {
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			list := &v1alpha1.FaultList{}
			err := c.rest.Get().Resource("faults").VersionedParams(&opts, metav1.ParameterCodec).Do(ctx).Into(list)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			opts.Watch = true
			return c.rest.Get().Resource("faults").VersionedParams(&opts, metav1.ParameterCodec).Watch(ctx)
		},
	}
	return cache.NewSharedIndexInformerWithOptions(lw, &v1alpha1.Fault{}, cache.SharedIndexInformerOptions{})
}

// Faults lists the Faults of a cluster in order of age.
func Faults(ctx context.Context, cfg *rest.Config) ([]v1alpha1.Fault, error) {
	client, err := newPoolClient(cfg)
	if err != nil {
		return nil, err
	}
	list := &v1alpha1.FaultList{}
	if err := client.rest.Get().Resource("faults").Do(ctx).Into(list); err != nil {
		return nil, fmt.Errorf("list faults: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.Fault) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	return list.Items, nil
}

// Inject creates a Fault and returns it as the API server has it. One without a name is named after its type: xid-1, xid-2.
func Inject(ctx context.Context, cfg *rest.Config, f v1alpha1.Fault, dryRun bool) (*v1alpha1.Fault, error) {
	client, err := newPoolClient(cfg)
	if err != nil {
		return nil, err
	}
	f.APIVersion, f.Kind = v1alpha1.GroupVersion.String(), "Fault"
	for i := 1; ; i++ {
		next := f
		next.Name = cmp.Or(f.Name, fmt.Sprintf("%s-%d", f.Spec.Type, i))
		out := &v1alpha1.Fault{}
		request := client.rest.Post().Resource("faults").Body(&next)
		if dryRun {
			request = request.Param("dryRun", "All")
		}
		err := request.Do(ctx).Into(out)
		if err == nil || !apierrors.IsAlreadyExists(err) || f.Name != "" || i > 10000 {
			return out, err
		}
	}
}

// Clear deletes Faults by name. Those that are not there are an error, after the others were deleted.
func Clear(ctx context.Context, cfg *rest.Config, names []string) (cleared []string, err error) {
	client, err := newPoolClient(cfg)
	if err != nil {
		return nil, err
	}
	var problems []error
	for _, name := range names {
		err := client.rest.Delete().Resource("faults").Name(name).Do(ctx).Error()
		switch {
		case apierrors.IsNotFound(err):
			problems = append(problems, fmt.Errorf("there is no fault %q", name))
		case err != nil:
			problems = append(problems, fmt.Errorf("clear %s: %w", name, err))
		default:
			cleared = append(cleared, name)
		}
	}
	return cleared, errors.Join(problems...)
}
