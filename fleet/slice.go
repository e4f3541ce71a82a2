package fleet

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-dev/berth/fleet/device"
	"github.com/berth-dev/berth/fleet/dra"
)

// sliceEvents looks at a node again when somebody changed what its DRA driver has published.
func (c *controller) sliceEvents() cache.ResourceEventHandler {
	look := func(obj any) {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		if s, ok := obj.(*resourcev1.ResourceSlice); ok && (s.Spec.Driver == dra.Driver || s.Spec.Driver == dra.HAMiDriver || s.Spec.Driver == dra.DomainDriver) && s.Spec.NodeName != nil {
			c.nodeQueue.Add(*s.Spec.NodeName)
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: look, UpdateFunc: func(_, obj any) { look(obj) }, DeleteFunc: look}
}

// syncSlices makes the node's ResourceSlices what the state of its DRA driver wants them to be. The
// garbage collector removes the slices of a node that is gone.
func (c *controller) syncSlices(ctx context.Context, m *machine, node *corev1.Node, now time.Time) error {
	if !m.usesDRA() {
		return nil
	}
	state := m.devices.Slices(now)
	c.wakeAt(m.name, state.Changes, now)
	want, channels := slicesOf(m.name, m.devices, node)
	have := map[string]*resourcev1.ResourceSlice{}
	for _, w := range slices.Concat(want, channels) {
		s, err := c.sliceStore.Get(w.Name)
		if err != nil && !apierrors.IsNotFound(err) {
			return wrap(err, "look up the resource slices of node %s", m.name)
		}
		if err == nil {
			have[w.Name] = s
		}
	}
	switch {
	case state.Publish:
		if err := c.publishSlices(ctx, m, have, want); err != nil {
			return err
		}
		c.countPools(c.tally.SetSlice(m.name, int64(len(m.devices.Devices()))))
		return c.publishSlices(ctx, m, have, channels)
	case !state.Keep:
		c.countPools(c.tally.SetSlice(m.name, 0))
		return c.wipeSlices(ctx, have)
	}
	return nil
}

// publishSlices writes the slices of a driver that are not as they should be.
func (c *controller) publishSlices(ctx context.Context, m *machine, have map[string]*resourcev1.ResourceSlice, want []*resourcev1.ResourceSlice) error {
	client := c.client.ResourceV1().ResourceSlices()
	for _, next := range dra.Next(have, want) {
		var err error
		switch {
		case next == nil:
			continue
		case have[next.Name] == nil:
			_, err = client.Create(ctx, next, metav1.CreateOptions{})
		default:
			_, err = client.Update(ctx, next, metav1.UpdateOptions{})
		}
		if apierrors.IsAlreadyExists(err) {
			return nil // its event is on the way
		}
		if err != nil {
			return wrap(err, "publish resource slice %s", next.Name)
		}
	}
	return nil
}

// wipeSlices deletes what a driver left behind that went and did not come back.
func (c *controller) wipeSlices(ctx context.Context, have map[string]*resourcev1.ResourceSlice) error {
	for _, name := range slices.Sorted(maps.Keys(have)) {
		opts := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(have[name].UID))}
		err := c.client.ResourceV1().ResourceSlices().Delete(ctx, name, opts)
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) { // else it is gone, and its event is on the way
			return wrap(err, "delete resource slice %s", name)
		}
	}
	return nil
}

// slicesOf is what the DRA driver on the node offers: GPUs, and channels of compute domains. The GPUs are all there, healthy or not: by
// default NVIDIA's driver does not look.
func slicesOf(name string, devices *device.Manager, node *corev1.Node) (gpus, channels []*resourcev1.ResourceSlice) {
	m := dra.Machine{Node: name, GPUs: devices.Devices(), Driver: devices.Driver(), Dynamic: devices.DynamicMIG(), Shares: devices.SharesGPUs(), Clique: devices.Clique(), Trouble: devices.Seen()}
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID, Controller: new(true)}
	if s := m.DomainSlice(owner); s != nil {
		channels = append(channels, s)
	}
	return m.Slices(owner), channels
}
