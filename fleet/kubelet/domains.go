package kubelet

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/fleet/dra"
)

// Domains are the compute domains of NVIDIA's driver, as the nodes' drivers see them.
type Domains interface {
	// Use prepares the claim of a pod on the node for a domain: its node joins the domain, or the pod is a daemon of it. The error is in the
	// driver's words; the driver tries again for a while, unless the error is a dra.PermanentError.
	Use(ctx context.Context, node string, pod types.UID, claim types.NamespacedName, uid types.UID, use dra.DomainUse) error
	// Leave says that the pod has nothing of a domain any more, if it ever had. It is quick.
	Leave(node string, pod types.UID)
}

// How long NVIDIA's driver tries to prepare a claim before it tells the kubelet why it cannot, and how often, on the wall clock: it waits for daemons,
// which the API tells of.
const (
	domainPatience = 45 * time.Second
	domainRetry    = time.Second
)

// domainError says that a claim cannot be prepared for a compute domain yet.
type domainError struct{ error }

func (e domainError) Unwrap() error { return e.error }

// useDomains prepares what the claims have of compute domains.
func (w *worker) useDomains(ctx context.Context, m *Machine, claims []podClaim) error {
	machine := driverOf(m)
	for _, claim := range claims {
		uses, err := machine.DomainUses(claim.Status.Allocation)
		for i := range uses {
			key := types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
			err = errors.Join(err, w.k.domains.Use(ctx, m.Name, w.uid, key, claim.UID, uses[i]))
		}
		if err == nil {
			continue
		}
		err = fmt.Errorf("NodePrepareResources failed for ResourceClaim %s: error preparing devices for claim '%s/%s:%s': prepare devices failed: %w", claim.Name, claim.Namespace, claim.Name, claim.UID, err)
		if _, permanent := errors.AsType[dra.PermanentError](err); !permanent {
			err = domainError{err}
		}
		return err
	}
	w.domainSince = time.Time{}
	return nil
}

// patient says whether the driver still tries to prepare the claim by itself: nobody is told before it gives up.
func (w *worker) patient(err error) bool {
	if _, is := errors.AsType[domainError](err); !is {
		return false
	}
	if w.domainSince.IsZero() {
		w.domainSince = time.Now()
		w.change(func() {}) // the pod has to show that it waits
	}
	if time.Since(w.domainSince) < domainPatience {
		return true
	}
	w.domainSince = time.Time{} // the kubelet asks again, and the driver begins anew
	return false
}

// release gives back all that the pod held.
func (w *worker) release(pod *corev1.Pod) {
	w.mu.Lock()
	ip := w.podIP
	w.mu.Unlock()
	w.k.network.leave(w, ip)
	w.host.release(w.uid)
	if len(pod.Spec.ResourceClaims) > 0 && w.k.domains != nil {
		w.k.domains.Leave(w.host.name, w.uid)
	}
}
