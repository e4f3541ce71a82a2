package fleet

import (
	"context"
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
		if s, ok := obj.(*resourcev1.ResourceSlice); ok && s.Spec.Driver == dra.Driver && s.Spec.NodeName != nil {
			c.nodeQueue.Add(*s.Spec.NodeName)
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: look, UpdateFunc: func(_, obj any) { look(obj) }, DeleteFunc: look}
}

// syncSlice makes the node's ResourceSlice what the state of its DRA driver wants it to be. The
// garbage collector removes the slice of a node that is gone.
func (c *controller) syncSlice(ctx context.Context, m *machine, node *corev1.Node, now time.Time) error {
	if !m.usesDRA() {
		return nil
	}
	state := m.devices.Slices(now)
	c.wakeAt(m.name, state.Changes, now)
	have, err := c.sliceStore.Get(dra.SliceName(m.name))
	if err != nil && !apierrors.IsNotFound(err) {
		return wrap(err, "look up the resource slice of node %s", m.name)
	}
	switch {
	case state.Publish:
		return c.publishSlice(ctx, m, node, have)
	case !state.Keep:
		c.countPools(c.tally.SetSlice(m.name, 0))
		return c.wipeSlice(ctx, have)
	}
	return nil
}

// publishSlice writes the slice where it is not as it should be; have is nil where there is none.
func (c *controller) publishSlice(ctx context.Context, m *machine, node *corev1.Node, have *resourcev1.ResourceSlice) error {
	want := sliceOf(m.name, m.devices, node)
	client := c.client.ResourceV1().ResourceSlices()
	var err error
	if have == nil {
		_, err = client.Create(ctx, want, metav1.CreateOptions{})
	} else if next, changed := dra.Next(have, want); changed {
		_, err = client.Update(ctx, next, metav1.UpdateOptions{})
	}
	if apierrors.IsAlreadyExists(err) {
		return nil // its event is on the way
	}
	if err == nil {
		c.countPools(c.tally.SetSlice(m.name, int64(len(want.Spec.Devices))))
	}
	return wrap(err, "publish the resource slice of node %s", m.name)
}

// wipeSlice deletes what a driver left behind that went and did not come back.
func (c *controller) wipeSlice(ctx context.Context, have *resourcev1.ResourceSlice) error {
	if have == nil {
		return nil
	}
	opts := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(have.UID))}
	err := c.client.ResourceV1().ResourceSlices().Delete(ctx, have.Name, opts)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // gone already, and its event is on the way
	}
	return wrap(err, "delete resource slice %s", have.Name)
}

// sliceOf is what the DRA driver on the node offers. The GPUs are all there, healthy or not: by
// default NVIDIA's driver does not look.
func sliceOf(name string, devices *device.Manager, node *corev1.Node) *resourcev1.ResourceSlice {
	m := dra.Machine{Node: name, GPUs: devices.Devices(), Driver: devices.Driver()}
	return m.Slice(metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID, Controller: new(true)})
}
