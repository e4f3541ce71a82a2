package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/fleet/fault"
	"github.com/berth-dev/berth/fleet/file"
)

// This file is the simulated provider: it answers Machines, and those that it has given become machines of the fleet.

// launches are the Machines that somebody asked for.
type launches struct {
	store cache.Store   // of *v1alpha1.Machine
	poke  chan struct{} // capacity 1: Machines changed
	// said are answers that the store does not have yet, by Machine; owned by the controller's loop.
	said map[types.UID]v1alpha1.MachinePhase
}

func newLaunches(store cache.Store) *launches {
	return &launches{store: store, poke: make(chan struct{}, 1), said: make(map[types.UID]v1alpha1.MachinePhase)}
}

// news carries a token whenever Machines changed.
func (l *launches) news() <-chan struct{} {
	if l == nil {
		return nil
	}
	return l.poke
}

func (l *launches) changed() {
	select {
	case l.poke <- struct{}{}:
	default: // one is waiting already
	}
}

// events are what the informer calls. Since when a machine is idle is no news. What changes in one without an answer is: an answer is for
// the Machine as it was seen, and the one that was under way is refused.
func (l *launches) events() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { l.changed() },
		UpdateFunc: func(old, obj any) {
			if a, b := old.(*v1alpha1.Machine), obj.(*v1alpha1.Machine); a.UID != b.UID || a.Status.Phase != b.Status.Phase || b.Status.Phase == "" {
				l.changed()
			}
		},
		DeleteFunc: func(any) { l.changed() },
	}
}

// list is in order of age: who asked first has it first.
func (l *launches) list() []*v1alpha1.Machine {
	if l == nil {
		return nil
	}
	var out []*v1alpha1.Machine
	for _, obj := range l.store.List() {
		out = append(out, obj.(*v1alpha1.Machine))
	}
	slices.SortFunc(out, func(a, b *v1alpha1.Machine) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	return out
}

// launched are the nodes of Machines that the provider has given, in order of age. A name that a pool asks for is the pool's.
func launched(pools []*v1alpha1.Pool, list []*v1alpha1.Machine, taken []want) (out []want) {
	if len(list) == 0 {
		return nil
	}
	byName, names := make(map[string]*v1alpha1.Pool, len(pools)), make(map[string]bool, len(taken))
	for _, p := range defaulted(pools) {
		if p.Spec.Launch != nil && len(file.Check(p)) == 0 {
			byName[p.Name] = p
		}
	}
	for _, w := range taken {
		names[w.name()] = true
	}
	like := make(map[v1alpha1.MachineSpec]*v1alpha1.Pool) // by pool, zone and how it is paid for
	for _, m := range list {
		p := byName[m.Spec.Pool]
		if p == nil || m.Status.Phase != v1alpha1.MachineLaunched || m.DeletionTimestamp != nil || names[m.Name] || len(taken)+len(out) >= maxNodes {
			continue
		}
		key := v1alpha1.MachineSpec{Pool: m.Spec.Pool, Zone: m.Spec.Zone, CapacityType: m.Spec.CapacityType}
		if like[key] == nil {
			like[key] = p.InZone(m.Spec.Zone, m.Spec.CapacityType)
		}
		w := want{pool: like[key], index: int(m.Spec.Index), named: m.Name}
		if m.Spec.For != m.Spec.Pool {
			w.whom = m.Spec.For
		}
		w.taints = registerTaints(m.Annotations[v1alpha1.KeyRegisterWithTaints])
		out = append(out, w)
	}
	return out
}

// registerTaints reads what a kubelet is given as --register-with-taints. What cannot be a taint is left out.
func registerTaints(text string) (out []corev1.Taint) {
	for _, part := range strings.Split(text, ",") {
		name, effect, _ := strings.Cut(strings.TrimSpace(part), ":")
		key, value, _ := strings.Cut(name, "=")
		switch e := corev1.TaintEffect(effect); e {
		case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
			if len(validation.IsQualifiedName(key)) == 0 && len(validation.IsValidLabelValue(value)) == 0 {
				out = mergeTaints(out, nil, []corev1.Taint{{Key: key, Value: value, Effect: e}})
			}
		}
	}
	return out
}

// answerLaunches gives the Machines that were asked for, or says why not. One goroutine calls it. An answer is never taken back, also
// where the local copy does not have it yet.
func (c *controller) answerLaunches(ctx context.Context, now time.Time) {
	if c.launches == nil {
		return
	}
	list, given := c.launches.list(), make(map[[2]string]int)
	phases := c.launches.phases(list)
	for i, m := range list {
		if phases[i] == v1alpha1.MachineLaunched {
			given[[2]string{m.Spec.Pool, m.Spec.Zone}]++
		}
	}
	for i, m := range list {
		if phases[i] != "" || m.DeletionTimestamp != nil {
			continue
		}
		at := [2]string{m.Spec.Pool, m.Spec.Zone}
		status, answered := answerTo(m, c.faults.failing(), given[at], now)
		if !answered {
			continue
		}
		switch err := c.pools.patchMachine(ctx, m, status); {
		case err == nil:
			c.launches.said[m.UID] = status.Phase
			if status.Phase == v1alpha1.MachineLaunched {
				given[at]++
			}
		case apierrors.IsNotFound(err) || apierrors.IsConflict(err): // gone or changed, and its event is on the way
		case ctx.Err() == nil:
			c.log.Debug("status of machine", "machine", m.Name, "err", err)
			c.launches.changed()
		}
	}
}

// phases are what was last said of each Machine of the list. It forgets what the store has by now, and what is gone.
func (l *launches) phases(list []*v1alpha1.Machine) []v1alpha1.MachinePhase {
	out, said := make([]v1alpha1.MachinePhase, len(list)), make(map[types.UID]v1alpha1.MachinePhase)
	for i, m := range list {
		if out[i] = m.Status.Phase; out[i] == "" && l.said[m.UID] != "" {
			out[i], said[m.UID] = l.said[m.UID], l.said[m.UID]
		}
	}
	l.said = said
	return out
}

// failing is how launches fail now.
func (f *faults) failing() []fault.Launch {
	if f == nil {
		return nil
	}
	return f.launches
}

// answerTo is what the provider says of a machine, of which it has given so many; false: it does not answer.
func answerTo(m *v1alpha1.Machine, failing []fault.Launch, given int, now time.Time) (v1alpha1.MachineStatus, bool) {
	for _, f := range failing {
		switch {
		case f.Pool != m.Spec.Pool || f.Zone != "" && f.Zone != m.Spec.Zone || given < f.Available:
		case f.Error == v1alpha1.ErrorReservationCapacityExceeded && m.Spec.CapacityType != v1alpha1.CapacityReserved:
		case f.Error == v1alpha1.ErrorLaunchTimeout:
			return v1alpha1.MachineStatus{}, false
		default:
			return v1alpha1.MachineStatus{Phase: v1alpha1.MachineFailed, Error: string(f.Error), Message: launchMessage(f.Error, m)}, true
		}
	}
	return v1alpha1.MachineStatus{Phase: v1alpha1.MachineLaunched, LaunchedAt: &metav1.MicroTime{Time: now}}, true
}

// launchMessage is the error in its provider's manner.
func launchMessage(e v1alpha1.LaunchError, m *v1alpha1.Machine) string {
	switch e {
	case v1alpha1.ErrorInsufficientInstanceCapacity:
		return fmt.Sprintf("We currently do not have sufficient capacity in the Availability Zone you requested (%s).", m.Spec.Zone)
	case v1alpha1.ErrorReservationCapacityExceeded:
		return fmt.Sprintf("The capacity reservation %s does not have enough available instances.", m.Spec.Reservation)
	case v1alpha1.ErrorVcpuLimitExceeded:
		return "You have requested more vCPU capacity than your current vCPU limit allows for the instance bucket."
	case v1alpha1.ErrorZoneResourcePoolExhausted:
		return fmt.Sprintf("The zone %s does not have enough resources available to fulfill the request.", m.Spec.Zone)
	case v1alpha1.ErrorQuotaExceeded:
		return "Quota for GPUs of all regions was exceeded."
	case v1alpha1.ErrorAllocationFailed:
		return fmt.Sprintf("Allocation failed in zone %s.", m.Spec.Zone)
	}
	return "You are not authorized to perform this operation."
}

// patchMachine replaces what the provider says of a machine, unless it changed since it was read.
func (c *poolClient) patchMachine(ctx context.Context, m *v1alpha1.Machine, s v1alpha1.MachineStatus) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": m.UID, "resourceVersion": m.ResourceVersion}, "status": s})
	if err != nil {
		return err
	}
	return c.rest.Patch(types.MergePatchType).Resource("machines").Name(m.Name).SubResource("status").Body(body).Do(ctx).Error()
}

// machineInformer keeps a local copy of all Machines.
func (c *poolClient) machineInformer() cache.SharedIndexInformer {
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			list := &v1alpha1.MachineList{}
			err := c.rest.Get().Resource("machines").VersionedParams(&opts, metav1.ParameterCodec).Do(ctx).Into(list)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			opts.Watch = true
			return c.rest.Get().Resource("machines").VersionedParams(&opts, metav1.ParameterCodec).Watch(ctx)
		},
	}
	return cache.NewSharedIndexInformerWithOptions(lw, &v1alpha1.Machine{}, cache.SharedIndexInformerOptions{})
}
