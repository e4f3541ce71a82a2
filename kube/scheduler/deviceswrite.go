package scheduler

import (
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/kube/cluster"
)

// allocate gives the resource claims of every member their devices, and reserves them for it, in the order in which upstream's
// scheduler writes: the finalizer, then allocation and reservation in one write. Devices are those of the plan; Kubernetes' own
// allocator makes the allocation of them, and so has to agree.
func (v *preparer) allocate(ctx context.Context, p *preparation) *cluster.Failure {
	var mu sync.Mutex
	var all sync.WaitGroup
	var failed *cluster.Failure
	for _, w := range p.Devices {
		all.Go(func() {
			if err := v.allocateFor(ctx, w); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed = &cluster.Failure{Reason: err.Error(), Blamed: []cluster.Want{{Pod: w.Pod, Node: w.Node}}}
			}
		})
	}
	all.Wait()
	if failed != nil {
		return failed
	}
	for _, w := range p.Devices {
		if err := v.shareWith(ctx, w); err != nil {
			return &cluster.Failure{Reason: err.Error(), Blamed: []cluster.Want{{Pod: w.Pod, Node: w.Node}}}
		}
	}
	return nil
}

// shareWith reserves for the pod the claims that have got their devices with another pod of the start.
func (v *preparer) shareWith(ctx context.Context, w cluster.DeviceWant) error {
	if len(w.Shared) == 0 {
		return nil
	}
	scene := v.s.feed.Scene(w)
	if scene == nil {
		return fmt.Errorf("pod %s, its node or a claim of it is gone", w.Pod)
	}
	for _, c := range scene.Shared {
		if err := v.reserve(ctx, c, nil, scene.Users[c.UID]); err != nil {
			return fmt.Errorf("resource claim %s: %w", c.Name, err)
		}
	}
	return nil
}

func (v *preparer) allocateFor(ctx context.Context, w cluster.DeviceWant) error {
	scene := v.s.feed.Scene(w)
	if scene == nil {
		return fmt.Errorf("pod %s, its node or a claim of it is gone", w.Pod)
	}
	if err := v.extend(ctx, w, scene); err != nil {
		return err
	}
	open := slices.DeleteFunc(slices.Clone(scene.Claims), func(c *resourcev1.ResourceClaim) bool { return c.Status.Allocation != nil })
	results := make(map[types.UID]*resourcev1.AllocationResult, len(open))
	if len(open) > 0 {
		made, err := v.makes(ctx, scene.Node, scene.Slices, scene.Classes, open, scene.Held)
		if err != nil {
			return fmt.Errorf("devices of pod %s on node %s: %w", w.Pod, w.Node, err)
		}
		for i := range made {
			made[i].AllocationTimestamp = new(metav1.Now()) // the API server drops it where its gate is off
			results[open[i].UID] = &made[i]
		}
	}
	for _, c := range scene.Claims {
		by, named := scene.Users[c.UID]
		if !named { // one that stands for extended resources
			by = resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: scene.Pod.Name, UID: scene.Pod.UID}
		}
		if err := v.reserve(ctx, c, results[c.UID], by); err != nil {
			return fmt.Errorf("resource claim %s: %w", c.Name, err)
		}
	}
	if w.Extended != nil {
		return v.mapExtended(ctx, scene.Pod, &corev1.PodExtendedResourceClaimStatus{
			ResourceClaimName: scene.Claims[len(scene.Claims)-1].Name, RequestMappings: w.Mappings,
		})
	}
	return nil
}

// reserve writes the allocation, nil for a claim that has one, and what it is reserved for.
func (v *preparer) reserve(ctx context.Context, c *resourcev1.ResourceClaim, made *resourcev1.AllocationResult, consumer resourcev1.ResourceClaimConsumerReference) error {
	return v.editClaim(ctx, c, func(now *resourcev1.ResourceClaim) (bool, error) {
		has, its := now.Status.Allocation, slices.Contains(now.Status.ReservedFor, consumer)
		switch {
		case now.DeletionTimestamp != nil:
			return false, fmt.Errorf("it is being deleted")
		case made != nil && has != nil && !(its && equality.Semantic.DeepEqual(has.Devices.Results, made.Devices.Results)):
			return false, fmt.Errorf("it has other devices by now")
		case made == nil && has == nil:
			return false, fmt.Errorf("it has lost its devices")
		case its && has != nil:
			return false, nil // an earlier try came through, and its answer was lost
		case len(now.Status.ReservedFor) >= resourcev1.ResourceClaimReservedForMaxSize:
			return false, fmt.Errorf("it is in use by %d pods, as many as can be", len(now.Status.ReservedFor))
		}
		if made != nil {
			now.Status.Allocation = made
		}
		if !its {
			now.Status.ReservedFor = append(now.Status.ReservedFor, consumer)
		}
		return true, nil
	})
}

// giveBack takes the reservations of a start that is given up off its claims, and the devices of those that nothing else uses.
func (v *preparer) giveBack(ctx context.Context, p *preparation) {
	for _, w := range p.Devices {
		if w.Extended != nil {
			v.dropExtended(ctx, w)
		}
		for _, key := range slices.Concat(w.Claims, w.Shared, w.Attaching) {
			c := v.s.feed.ResourceClaim(key)
			if c != nil && isExtended(c) {
				v.dropExtended(ctx, w)
				continue
			}
			group := w.Group
			if v.s.feed.ClaimInUse(key) {
				group = "" // others of its group run with it
			}
			its := func(r resourcev1.ResourceClaimConsumerReference) bool {
				return string(r.UID) == w.UID || group != "" && string(r.UID) == group
			}
			if c == nil || !slices.ContainsFunc(c.Status.ReservedFor, its) {
				continue
			}
			err := v.editClaim(ctx, c, func(now *resourcev1.ResourceClaim) (bool, error) {
				left := slices.DeleteFunc(slices.Clone(now.Status.ReservedFor), its)
				if len(left) == len(now.Status.ReservedFor) {
					return false, nil
				}
				if now.Status.ReservedFor = left; len(left) == 0 {
					now.Status.ReservedFor, now.Status.Allocation, now.Status.Devices = nil, nil, nil
				}
				return true, nil
			})
			if err != nil && !apierrors.IsNotFound(err) {
				v.s.log.Warn("give devices back", "claim", key, "pod", w.Pod, "err", err)
			}
		}
	}
}

// editClaim edits the status of a claim as it is known, and after a conflict as the API server has it.
func (v *preparer) editClaim(ctx context.Context, c *resourcev1.ResourceClaim, edit func(*resourcev1.ResourceClaim) (bool, error)) error {
	api := v.s.client.ResourceV1().ResourceClaims(c.Namespace)
	known := c.DeepCopy()
	for {
		var refused error
		err := v.gate.again(ctx, c.Namespace, func(ctx context.Context) (err error) {
			now := known
			if now == nil {
				if now, err = api.Get(ctx, c.Name, metav1.GetOptions{}); err != nil {
					return err
				}
			}
			known = nil
			if now.UID != c.UID {
				refused = fmt.Errorf("it is another one by now")
				return nil
			}
			needed, err := edit(now)
			if err != nil || !needed {
				if refused = err; err == nil {
					cluster.Trim(now)
					v.s.feed.Learn(now)
				}
				return nil
			}
			status := now.Status
			if now.Status.Allocation != nil && !slices.Contains(now.Finalizers, resourcev1.Finalizer) {
				now.Finalizers = append(now.Finalizers, resourcev1.Finalizer)
				if now, err = api.Update(ctx, now, metav1.UpdateOptions{}); err != nil {
					return err
				}
				now.Status = status
			}
			got, err := api.UpdateStatus(ctx, now, metav1.UpdateOptions{})
			if err == nil {
				cluster.Trim(got)
				v.s.feed.Learn(got)
			}
			if apierrors.IsNotFound(err) {
				v.s.feed.Remove(c) // it may have gone before it was learned of
			}
			return err
		})
		if refused != nil {
			return refused
		}
		if !apierrors.IsConflict(err) || ctx.Err() != nil {
			return err
		}
	}
}
