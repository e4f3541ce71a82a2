package storage

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"
)

// lookAtClaim makes the volume of a claim that asks for one, once its time has come.
func (m *maker) lookAtClaim(ctx context.Context, i item) error {
	claim, err := m.claims.PersistentVolumeClaims(i.namespace).Get(i.name)
	if err != nil {
		return nil // gone
	}
	class, node := m.asks(claim)
	if class == nil {
		m.forget(claim.UID)
		return nil
	}
	if wait := m.left(claim, class, node, time.Now()); wait > 0 {
		m.queue.AddAfter(i, wait)
		return nil
	}
	at, why := m.placeFor(claim, class, node)
	if why != "" {
		return m.decline(ctx, claim, class, why)
	}
	if slices.Contains(strings.Split(class.Parameters[FullParameter], ","), at.value) {
		return m.decline(ctx, claim, class, fmt.Sprintf("insufficient capacity in %s", at.value))
	}
	return m.create(ctx, claim, class, at)
}

// asks returns the class of a claim for which a volume is to be made, and the node to make it for; nil: none is.
// A claim says whose work it is once Kubernetes' controller has marked it.
func (m *maker) asks(claim *corev1.PersistentVolumeClaim) (*storagev1.StorageClass, string) {
	node := claim.Annotations[volume.AnnSelectedNode]
	if claim.Spec.VolumeName != "" || claim.DeletionTimestamp != nil || claim.Annotations[volume.AnnStorageProvisioner] != Provisioner {
		return nil, ""
	}
	class, err := m.classes.Get(volume.GetPersistentVolumeClaimClass(claim))
	if err != nil || node == "" && !immediate(class) {
		return nil, ""
	}
	return class, node
}

// immediate says whether volumes of the class are made before a pod needs them, which is the API's default.
func immediate(class *storagev1.StorageClass) bool {
	return class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingImmediate
}

// placeFor is where the volume is made: where the selected node is. Where none is selected, it is one of the places that nodes are in
// and the class allows, whichever: a pod that needs the volume has to follow it, and finds no GPU there perhaps. why is what stands
// against all of them.
func (m *maker) placeFor(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, node string) (at place, why string) {
	if node != "" {
		n := m.Node(node)
		if n == nil {
			return place{}, fmt.Sprintf("node %q not found", node)
		}
		return placeOf(n), ""
	}
	var all []place
	if m.Nodes != nil {
		for _, n := range m.Nodes() {
			if allows(class, n) {
				all = append(all, placeOf(n))
			}
		}
	}
	if len(all) == 0 {
		return place{}, "no topology key found on any node that the class allows"
	}
	slices.SortFunc(all, func(a, b place) int { return cmp.Or(strings.Compare(a.key, b.key), strings.Compare(a.value, b.value)) })
	all = slices.Compact(all)
	return all[seed(claim)%uint64(len(all))], ""
}

// allows says whether the class has volumes where the node is.
func allows(class *storagev1.StorageClass, n *corev1.Node) bool {
	for _, term := range class.AllowedTopologies {
		in := func(e corev1.TopologySelectorLabelRequirement) bool {
			return !slices.Contains(e.Values, n.Labels[e.Key])
		}
		if !slices.ContainsFunc(term.MatchLabelExpressions, in) {
			return true
		}
	}
	return len(class.AllowedTopologies) == 0
}

func seed(claim *corev1.PersistentVolumeClaim) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s/%s", claim.Namespace, claim.Name)
	return h.Sum64()
}

// left is how long the volume will take yet. A claim that turns to another node starts anew.
func (m *maker) left(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, node string, now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	w, ok := m.work[claim.UID]
	if !ok || w.node != node {
		w = work{node, now.Add(m.Clock.Wall(takes(claim, class, node)))}
		m.work[claim.UID] = w
	}
	return w.ready.Sub(now)
}

func (m *maker) forget(claim types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.work, claim)
}

// takes is how long the volume takes to make, in simulated time.
func takes(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, node string) time.Duration {
	if d, err := time.ParseDuration(class.Parameters[TakesParameter]); err == nil {
		return d
	}
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s/%s on %s", claim.Namespace, claim.Name, node)
	return time.Second + time.Duration(h.Sum64()%uint64(2*time.Second))
}

// decline tells the scheduler that there will be no volume for the node: it takes the node's name back.
func (m *maker) decline(ctx context.Context, claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, why string) error {
	if claim.Annotations[volume.AnnSelectedNode] == "" { // there is nothing to take back: it is tried again
		m.forget(claim.UID)
		m.events.Eventf(claim, corev1.EventTypeWarning, "ProvisioningFailed", "failed to provision volume with StorageClass %q: %s", class.Name, why)
		return fmt.Errorf("claim %s/%s: %s", claim.Namespace, claim.Name, why)
	}
	patch := fmt.Sprintf(`{"metadata":{"uid":%q,"resourceVersion":%q,"annotations":{%q:null}}}`, claim.UID, claim.ResourceVersion, volume.AnnSelectedNode)
	_, err := m.Client.CoreV1().PersistentVolumeClaims(claim.Namespace).Patch(ctx, claim.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("take back the node of claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	m.forget(claim.UID)
	m.events.Eventf(claim, corev1.EventTypeWarning, "ProvisioningFailed", "failed to provision volume with StorageClass %q: %s", class.Name, why)
	return nil
}
