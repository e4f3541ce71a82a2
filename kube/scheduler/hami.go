package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/kube/convert"
	"github.com/berth-dev/berth/kube/dialect/hami"
)

// HAMi's device plugin does not get to know for which pod a kubelet asks it for devices. It takes the one pod on its node that is
// being allocated, and its annotations say what to give to it. So pods are bound to such a node one at a time: a lock on the node
// names the pod, and the plugin takes it away when it is done. The annotations are part of the binding, so that a pod never has a
// node without them.

// errNodeLocked says that another pod is being allocated on the node. It passes.
var errNodeLocked = errors.New("another pod is being allocated on the node")

// lockFor has the binding say what HAMi's plugin is to give to the pod, and locks the node for it. unlock takes the lock away
// again if the pod is not bound; it is nil where the node's plugin is no edition of HAMi's.
func (b *binder) lockFor(ctx context.Context, i intent, binding *corev1.Binding) (unlock func(), err error) {
	p, n := b.s.feed.Pod(i.Pod), b.s.feed.Node(i.Node)
	if p == nil || n == nil {
		return nil, nil
	}
	grants, plugin := convert.Grants(p, n, i.Devices), convert.EditionOn(n)
	if grants == nil {
		return nil, nil
	}
	now := time.Now()
	lock := hami.Lock(now, binding.Namespace, binding.Name)
	if err := b.lockNode(ctx, i.Node, plugin.LockKey, binding, lock, now); err != nil {
		return nil, err
	}
	if binding.Annotations == nil {
		binding.Annotations = make(map[string]string)
	}
	maps.Copy(binding.Annotations, plugin.Allocation(i.Node, now, grants))
	return func() { b.unlockNode(i.Node, plugin.LockKey, lock) }, nil
}

// lockNode writes the lock, unless another pod has it. A lock that is too old, or of a pod that is gone, counts for nothing. Its requests
// count as those of the pod's namespace, which waits after one that failed.
func (b *binder) lockNode(ctx context.Context, name, key string, binding *corev1.Binding, lock string, now time.Time) error {
	var n *corev1.Node
	err := b.gate.once(ctx, binding.Namespace, func(ctx context.Context) (err error) {
		n, err = b.s.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("lock node %s: %w", name, err)
	}
	if has := n.Annotations[key]; has != "" {
		since, namespace, pod, known := hami.LockedFor(has)
		own := namespace == binding.Namespace && pod == binding.Name
		if known && !own && now.Sub(since) < hami.LockTimeout && !b.gone(ctx, namespace, pod) {
			return fmt.Errorf("lock node %s: %w", name, errNodeLocked)
		}
	}
	return b.gate.once(ctx, binding.Namespace, func(ctx context.Context) error { return b.patchLock(ctx, n, key, &lock) })
}

// gone says whether there is no such pod.
func (b *binder) gone(ctx context.Context, namespace, pod string) bool {
	if pod == "" || b.s.feed.Pod(namespace+"/"+pod) != nil {
		return false
	}
	_, err := b.s.client.CoreV1().Pods(namespace).Get(ctx, pod, metav1.GetOptions{})
	return apierrors.IsNotFound(err)
}

// unlockTime is how long it is tried to take a lock away. One that stays counts for nothing after hami.LockTimeout.
const unlockTime = 10 * time.Second

// unlockNode takes the lock away, if it is still this one.
func (b *binder) unlockNode(name, key, lock string) {
	ctx, cancel := context.WithTimeout(context.Background(), unlockTime)
	defer cancel()
	n, err := b.s.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err == nil && n.Annotations[key] == lock {
		err = b.patchLock(ctx, n, key, nil)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		b.s.log.Warn("unlock", "node", name, "err", clip(err.Error(), maxNote))
	}
}

// patchLock writes the lock, or with nil takes it away, if the node is as it was read.
func (b *binder) patchLock(ctx context.Context, n *corev1.Node, key string, lock *string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": n.UID, "resourceVersion": n.ResourceVersion, "annotations": map[string]*string{key: lock},
	}})
	if err == nil {
		_, err = b.s.client.CoreV1().Nodes().Patch(ctx, n.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	if apierrors.IsConflict(err) {
		return fmt.Errorf("lock node %s: %w", n.Name, errNodeLocked)
	}
	if err != nil {
		return fmt.Errorf("lock node %s: %w", n.Name, err)
	}
	return nil
}
