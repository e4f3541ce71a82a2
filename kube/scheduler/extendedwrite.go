package scheduler

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/kube/cluster"
	"github.com/berth-dev/berth/kube/convert"
)

// extend makes the claim that stands for the pod's extended resources, and adds it to the scene as its last. A claim that an
// earlier start left, of whatever scheduler, goes first: which devices it has was decided then. A pod that needs none, and names one
// of an earlier start, stops naming it: the kubelet would wait for that claim.
//
//	delete what is left -> create -> allocate and reserve -> name it in the pod's status -> bind
//
// A leader that finds it half done begins again: the claim is found by its owner, and an allocation by its reservation.
func (v *preparer) extend(ctx context.Context, w cluster.DeviceWant, scene *cluster.DeviceScene) error {
	if w.Unmap {
		return v.mapExtended(ctx, scene.Pod, nil)
	}
	if w.Extended == nil {
		return nil
	}
	if err := v.dropExtended(ctx, w); err != nil {
		return fmt.Errorf("remove the claim of an earlier start of pod %s: %w", w.Pod, err)
	}
	made, err := v.makeExtended(ctx, w)
	if err != nil {
		return fmt.Errorf("make a claim for the extended resources of pod %s: %w", w.Pod, err)
	}
	cluster.Trim(made)
	v.s.feed.Set(made)
	scene.Claims = append(scene.Claims, made)
	return nil
}

// makeExtended creates the claim, under a name that follows from the pod so that a request whose answer was lost makes no second
// one. What has the name already is taken for such, if it is the pod's and has no devices; else it is deleted, and made anew. A
// claim of somebody else under that name is left alone, and the server makes up another.
func (v *preparer) makeExtended(ctx context.Context, w cluster.DeviceWant) (made *resourcev1.ResourceClaim, err error) {
	api := v.s.client.ResourceV1().ResourceClaims(w.Extended.Namespace)
	create := func(c *resourcev1.ResourceClaim) error {
		return v.gate.again(ctx, c.Namespace, func(ctx context.Context) (err error) {
			made, err = api.Create(ctx, c, metav1.CreateOptions{})
			return err
		})
	}
	if err = create(w.Extended.DeepCopy()); !apierrors.IsAlreadyExists(err) {
		return made, err
	}
	err = v.gate.again(ctx, w.Extended.Namespace, func(ctx context.Context) (err error) {
		made, err = api.Get(ctx, w.Extended.Name, metav1.GetOptions{})
		return err
	})
	if err != nil {
		return nil, err
	}
	switch pod, ok := convert.ExtendedFor(made); {
	case !ok || string(pod.UID) != w.UID:
		other := w.Extended.DeepCopy()
		other.Name = ""
		return made, create(other)
	case made.Status.Allocation == nil && made.DeletionTimestamp == nil && equality.Semantic.DeepEqual(made.Spec, w.Extended.Spec):
		return made, nil
	}
	cluster.Trim(made)
	v.s.feed.Set(made)
	if err := v.dropExtended(ctx, w); err != nil {
		return nil, err
	}
	return made, create(w.Extended.DeepCopy())
}

// mapExtended writes into the pod's status which claim stands for its extended resources, nil for none.
func (v *preparer) mapExtended(ctx context.Context, p *corev1.Pod, status *corev1.PodExtendedResourceClaimStatus) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": p.UID},
		"status":   map[string]any{"extendedResourceClaimStatus": status},
	})
	if err != nil {
		return err
	}
	err = v.gate.again(ctx, p.Namespace, func(ctx context.Context) error {
		_, err := v.s.client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		return err
	})
	if err != nil {
		return fmt.Errorf("name the claim in the status of pod %s: %w", p.Name, err)
	}
	return nil
}

// isExtended says whether the claim stands for the extended resources of a pod.
func isExtended(c *resourcev1.ResourceClaim) bool {
	_, ok := convert.ExtendedFor(c)
	return ok
}

// dropExtended deletes the claim that stands for the pod's extended resources, if there is one. Nothing else can use it.
func (v *preparer) dropExtended(ctx context.Context, w cluster.DeviceWant) error {
	c := v.s.feed.ExtendedClaimOf(w.UID)
	if c == nil {
		return nil
	}
	api := v.s.client.ResourceV1().ResourceClaims(c.Namespace)
	remove := func(ctx context.Context) error {
		now, err := api.Get(ctx, c.Name, metav1.GetOptions{})
		if err != nil || now.UID != c.UID {
			return err
		}
		if i := slices.Index(now.Finalizers, resourcev1.Finalizer); i >= 0 {
			now.Finalizers = slices.Delete(now.Finalizers, i, i+1)
			if _, err := api.Update(ctx, now, metav1.UpdateOptions{}); err != nil {
				return err
			}
		}
		return api.Delete(ctx, c.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(c.UID))})
	}
	err := v.gate.again(ctx, c.Namespace, remove)
	for apierrors.IsConflict(err) && ctx.Err() == nil {
		err = v.gate.again(ctx, c.Namespace, remove)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		v.s.log.Warn("delete a claim for extended resources", "claim", keyOf(c), "pod", w.Pod, "err", err)
		return err
	}
	v.s.feed.Remove(c)
	return nil
}
