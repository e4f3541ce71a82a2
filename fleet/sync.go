package fleet

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/fleet/fault"
)

// node is the Node as last seen; nil: there is none.
func (c *controller) node(name string) *corev1.Node {
	node, err := c.nodeStore.Get(name)
	if err != nil {
		return nil
	}
	return node
}

// syncNode takes one step towards what the machine and its pool want of the node. Each write
// comes back as an event, which leads here again until there is nothing to do.
func (c *controller) syncNode(ctx context.Context, name string) error {
	node, m := c.node(name), c.machines.get(name)
	if m == nil {
		return c.retire(ctx, name, node)
	}
	now := time.Now()
	e := m.effects()
	down := e.Down || node != nil && node.Annotations[DownAnnotation] == "true"
	if m.setPower(down, now) {
		c.log.Info("power", "node", name, "down", down)
		c.pods.NodeChanged(name)
	}
	c.wakeAt(name, m.next(now), now)
	if e.Partitioned {
		c.leases.Remove(name)
		return nil
	}
	if m.wants().byHand {
		return c.syncByHand(ctx, m, node, now)
	}
	if node == nil {
		return c.register(ctx, m, now)
	}
	if m.phase(now) == off && outlived(node, e) {
		return c.delete(ctx, node) // its machine is gone, and the new one has not come
	}
	switch v, next := reconcile(node, gives(m.wants()).with(e)); v {
	case replace:
		return c.delete(ctx, node)
	case update:
		_, err := c.client.CoreV1().Nodes().Update(ctx, next, metav1.UpdateOptions{})
		return wrap(err, "update node %s", name)
	}
	return c.heartbeat(ctx, m, node, now)
}

// outlived says that the node is of the machine that a fault replaced. Both times are in whole seconds, and the new
// machine is off for one at least: a node of the fault's own second is of the old one.
func outlived(node *corev1.Node, e *fault.Effects) bool {
	return e.NeverRegisters || !e.Replaced.IsZero() && !node.CreationTimestamp.Time.After(e.Replaced)
}

// syncByHand keeps alive a node that somebody made. It is never made here: once deleted, its machine goes too.
func (c *controller) syncByHand(ctx context.Context, m *machine, node *corev1.Node, now time.Time) error {
	if node == nil {
		return nil
	}
	if next, changed := settleIn(node, m.wants(), m.slot); changed {
		_, err := c.client.CoreV1().Nodes().Update(ctx, next, metav1.UpdateOptions{})
		return wrap(err, "update node %s", m.name)
	}
	return c.heartbeat(ctx, m, node, now)
}

// retire removes the node of a machine that is no longer wanted, if it was one of ours.
func (c *controller) retire(ctx context.Context, name string, node *corev1.Node) error {
	c.leases.Remove(name)
	if node == nil {
		return nil
	}
	if _, ours := lastApplied(node); !ours {
		return nil
	}
	return c.delete(ctx, node)
}

func (c *controller) delete(ctx context.Context, node *corev1.Node) error {
	opts := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(node.UID))}
	err := c.client.CoreV1().Nodes().Delete(ctx, node.Name, opts)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // gone already, and its event is on the way
	}
	return wrap(err, "delete node %s", node.Name)
}

// register creates the node of a machine whose kubelet is up.
func (c *controller) register(ctx context.Context, m *machine, now time.Time) error {
	if m.phase(now) == off {
		return nil
	}
	node := newNode(m.wants(), m.slot, c.facts(m, now), now)
	m.setAllocatable(node.Status.Allocatable)
	_, err := c.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil // its event is on the way
	}
	return wrap(err, "register node %s", m.name)
}

func (c *controller) facts(m *machine, now time.Time) facts {
	return facts{want: m.wants(), slot: m.slot, port: c.port, gpus: m.devices.Places(), parts: m.devices.PartsOf(), images: c.pods.Images(m.name, now), ready: m.phase(now) == running, faults: m.effects()}
}

// heartbeat is the kubelet's life sign: the lease, and the status where it changed. Besides, the DRA
// driver on the node keeps its ResourceSlice.
func (c *controller) heartbeat(ctx context.Context, m *machine, node *corev1.Node, now time.Time) error {
	if m.phase(now) == off {
		c.leases.Remove(m.name)
		return nil
	}
	c.leases.Add(m.name, node.UID)
	c.leases.Skew(m.name, m.effects().Skew)
	if err := c.tellStack(ctx, m, node, now); err != nil {
		return err
	}
	if written, err := c.stepMIG(ctx, m, node); written || err != nil {
		return err
	}
	adv := m.devices.Advertise(now)
	c.wakeAt(m.name, adv.Changes, now)
	if err := c.writeStatus(ctx, m, node, publish(node, c.facts(m, now), adv, now)); err != nil {
		return err
	}
	if err := c.syncSlices(ctx, m, node, now); err != nil {
		return err
	}
	return c.domains.settle(ctx, node)
}

func (c *controller) writeStatus(ctx context.Context, m *machine, node, next *corev1.Node) error {
	m.setAllocatable(next.Status.Allocatable)
	if equality.Semantic.DeepEqual(node, next) {
		return nil
	}
	_, err := c.client.CoreV1().Nodes().UpdateStatus(ctx, next, metav1.UpdateOptions{})
	if readyNow := isReady(next) && !isReady(node); err == nil && readyNow {
		c.pods.NodeChanged(m.name)
	}
	return wrap(err, "update status of node %s", m.name)
}

// tellStack tells the device side which pods of the GPU stack stand on the node and how they are configured.
func (c *controller) tellStack(ctx context.Context, m *machine, node *corev1.Node, now time.Time) error {
	m.devices.Recall(node.Annotations[migAnnotation])
	pods := c.pods.StackPods(m.name)
	if err := c.configurePlugin(ctx, m, node, pods); err != nil {
		return err
	}
	e := m.effects()
	m.devices.SetTrouble(e.GPUs, e.KubeletRestarting)
	m.devices.SetStack(pods, now)
	return nil
}

// wakeAt looks at the node again at that time; zero: never.
func (c *controller) wakeAt(name string, at, now time.Time) {
	if !at.IsZero() {
		c.nodeQueue.AddAfter(name, at.Sub(now))
	}
}

// syncPool writes the pool's status where it changed.
func (c *controller) syncPool(ctx context.Context, name string) error {
	obj, there, err := c.poolStore.GetByKey(name)
	if err != nil || !there {
		return err
	}
	pool := withDefaults(obj.(*v1alpha1.Pool))
	c.mu.Lock()
	problem := c.problems[name]
	c.mu.Unlock()
	next, changed := poolStatus(pool, c.tally.Pool(name), problem)
	if !changed {
		return nil
	}
	err = c.pools.PatchStatus(ctx, name, next)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return wrap(err, "status of pool %s", name)
}

func wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err)
}
