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

// syncSlices makes the node's ResourceSlices what the states of its DRA drivers want them to be: of the one for GPUs, and of the one for
// compute domains. The garbage collector removes the slices of a node that is gone.
func (c *controller) syncSlices(ctx context.Context, m *machine, node *corev1.Node, now time.Time) error {
	if m.usesDRA() {
		if err := c.syncGPUSlices(ctx, m, node, now); err != nil {
			return err
		}
	}
	if m.devices.Clique() == "" {
		return nil
	}
	state := m.devices.ChannelSlices(now)
	c.wakeAt(m.name, state.Changes, now)
	return c.settleSlices(ctx, m, state, channelSlices(m.name, m.devices, node))
}

func (c *controller) syncGPUSlices(ctx context.Context, m *machine, node *corev1.Node, now time.Time) error {
	state := m.devices.Slices(now)
	c.wakeAt(m.name, state.Changes, now)
	if err := c.settleSlices(ctx, m, state, gpuSlices(m.name, m.devices, node)); err != nil {
		return err
	}
	switch {
	case state.Publish:
		c.countPools(c.tally.SetSlice(m.name, int64(len(m.devices.Devices()))))
	case !state.Keep:
		c.countPools(c.tally.SetSlice(m.name, 0))
	}
	return nil
}

// settleSlices writes the slices that a driver wants, or deletes them, as its state says.
func (c *controller) settleSlices(ctx context.Context, m *machine, state device.SliceState, want []*resourcev1.ResourceSlice) error {
	have := map[string]*resourcev1.ResourceSlice{}
	for _, w := range want {
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
		return c.publishSlices(ctx, have, want)
	case !state.Keep:
		return c.wipeSlices(ctx, have)
	}
	return nil
}

// publishSlices writes the slices of a driver that are not as they should be.
func (c *controller) publishSlices(ctx context.Context, have map[string]*resourcev1.ResourceSlice, want []*resourcev1.ResourceSlice) error {
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

// gpuSlices are the GPUs that the DRA driver on the node offers. They are all there, healthy or not: by default NVIDIA's driver does not look.
func gpuSlices(name string, devices *device.Manager, node *corev1.Node) []*resourcev1.ResourceSlice {
	return draMachine(name, devices).Slices(ownedBy(node))
}

// channelSlices are the channels of compute domains that the node offers.
func channelSlices(name string, devices *device.Manager, node *corev1.Node) []*resourcev1.ResourceSlice {
	if s := draMachine(name, devices).DomainSlice(ownedBy(node)); s != nil {
		return []*resourcev1.ResourceSlice{s}
	}
	return nil
}

func draMachine(name string, devices *device.Manager) dra.Machine {
	return dra.Machine{Node: name, GPUs: devices.Devices(), Driver: devices.Driver(), Dynamic: devices.DynamicMIG(), Shares: devices.SharesGPUs(), Clique: devices.Clique(), Trouble: devices.Seen()}
}

func ownedBy(node *corev1.Node) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID, Controller: new(true)}
}
