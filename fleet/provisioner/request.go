package provisioner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// ProvisioningRequests of the cluster autoscaler (apis/provisioningrequest/autoscaling.x-k8s.io/v1/types.go).
var requestResource = schema.GroupVersionResource{Group: "autoscaling.x-k8s.io", Version: "v1", Resource: "provisioningrequests"}

const (
	checkCapacity    = "check-capacity.autoscaling.x-k8s.io"
	bestEffortAtomic = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
	consumeKey       = "autoscaling.x-k8s.io/consume-provisioning-request"
	noRetry          = "noRetry" // provisioningrequest/checkcapacity/provisioningclass.go, NoRetryParameterKey

	condAccepted    = "Accepted"
	condProvisioned = "Provisioned"
	condFailed      = "Failed"
	condExpired     = "BookingExpired"

	bookedFor  = 10 * time.Minute   // processors/provreq/processor.go, defaultReservationTime
	expiresIn  = 7 * 24 * time.Hour // the same, defaultExpirationTime and defaultTerminalProvReqTTL
	firstRetry = time.Minute        // config/flags/flags.go, provisioning-request-initial-backoff-time
	mostRetry  = 10 * time.Minute   // the same, provisioning-request-max-backoff-time

	// mostPods is how many pods of a request are looked at: the API has no bound.
	mostPods = 10000
)

type provisioningRequest struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Class      string            `json:"provisioningClassName"`
		Parameters map[string]string `json:"parameters"`
		PodSets    []struct {
			Count    int32 `json:"count"`
			Template struct {
				Name string `json:"name"`
			} `json:"podTemplateRef"`
		} `json:"podSets"`
	} `json:"spec"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

func (r *provisioningRequest) key() string { return r.Namespace + "/" + r.Name }

func (r *provisioningRequest) is(condition string) bool {
	return meta.IsStatusConditionTrue(r.Status.Conditions, condition)
}

// answer takes the next step of requests: bookings that are over, those that hold, and of those that wait the first
// (processors/provreq/processor.go, injector.go).
func (s *autoscaler) answer(ctx context.Context, w *world, requests []provisioningRequest, bins []*bin) error {
	var problems []error
	for i := range requests {
		problems = append(problems, s.refresh(ctx, w, &requests[i]))
	}
	for i := range requests {
		if r := &requests[i]; r.is(condProvisioned) && !r.is(condFailed) && !r.is(condExpired) && r.DeletionTimestamp == nil {
			pods, err := s.podsOf(ctx, r)
			if err != nil {
				problems = append(problems, s.say(ctx, w, r, condFailed, metav1.ConditionTrue, "FailedToBookCapacity", fmt.Sprintf("Couldn't create pods, err: %v", err)))
				continue
			}
			book(w, bins, r, pods)
		}
	}
	for i := range requests {
		r := &requests[i]
		if r.Spec.Class != checkCapacity && r.Spec.Class != bestEffortAtomic || r.DeletionTimestamp != nil || !s.due(w, r) {
			continue
		}
		pods, err := s.podsOf(ctx, r)
		if apierrors.IsNotFound(err) && w.now.Sub(r.CreationTimestamp.Time) < 5*time.Second {
			continue // its templates come after it, and the real one's copy of the API server is no faster
		}
		if err != nil {
			problems = append(problems, s.say(ctx, w, r, condFailed, metav1.ConditionTrue, "FailedToCreatePods", err.Error()))
			continue
		}
		if !r.is(condAccepted) {
			problems = append(problems, s.say(ctx, w, r, condAccepted, metav1.ConditionTrue, "Accepted", "ProvisioningRequest is accepted by ClusterAutoscaler"))
		}
		return errors.Join(append(problems, s.provide(ctx, w, r, pods, bins))...)
	}
	return errors.Join(problems...)
}

// refresh ends bookings and requests by time.
func (s *autoscaler) refresh(ctx context.Context, w *world, r *provisioningRequest) error {
	over := func(c *metav1.Condition, after time.Duration) bool {
		return c != nil && c.LastTransitionTime.Add(s.Clock.Wall(after)).Before(w.now)
	}
	provisioned, failed := meta.FindStatusCondition(r.Status.Conditions, condProvisioned), meta.FindStatusCondition(r.Status.Conditions, condFailed)
	switch {
	case over(provisioned, expiresIn) || over(failed, expiresIn):
		return s.delete(ctx, requestResource, r.Namespace, r.Name, r.UID)
	case r.is(condExpired) || r.is(condFailed):
	case r.is(condProvisioned) && over(provisioned, bookedFor):
		return s.say(ctx, w, r, condExpired, metav1.ConditionTrue, "CapacityReservationTimeExpired", "Capacity reservation time is expired")
	case !r.is(condProvisioned) && r.CreationTimestamp.Add(s.Clock.Wall(expiresIn)).Before(w.now):
		return s.say(ctx, w, r, condFailed, metav1.ConditionTrue, "Expired", "ProvisioningRequest is expired")
	}
	return nil
}

// due says whether the request is to be tried now: it is new, or its last try was long enough ago.
func (s *autoscaler) due(w *world, r *provisioningRequest) bool {
	if r.is(condFailed) || r.is(condProvisioned) {
		delete(s.retry, r.key())
		return false
	}
	c := meta.FindStatusCondition(r.Status.Conditions, condProvisioned)
	if c == nil {
		return true
	}
	wait := max(s.retry[r.key()], firstRetry)
	if !c.LastTransitionTime.Add(s.Clock.Wall(wait)).Before(w.now) {
		return false
	}
	s.retry[r.key()] = min(2*wait, mostRetry)
	return true
}

// provide looks for room for all pods of the request; where there is too little, machines are asked for if its class does that
// (provisioningrequest/checkcapacity, besteffortatomic).
func (s *autoscaler) provide(ctx context.Context, w *world, r *provisioningRequest, pods []*corev1.Pod, bins []*bin) error {
	if of := s.machinesOf(w, r); len(of) > 0 { // the provider is being asked
		if slices.ContainsFunc(of, func(m v1alpha1.Machine) bool { return m.Status.Phase != v1alpha1.MachineLaunched }) {
			book(w, bins, r, pods)
			return nil
		}
		book(w, bins, r, pods)
		return s.say(ctx, w, r, condProvisioned, metav1.ConditionTrue, "CapacityIsProvisioned", "Capacity is found in the cluster")
	}
	trial := make([]*bin, len(bins))
	for i, b := range bins {
		trial[i] = &bin{node: b.node, free: b.free.DeepCopy(), pods: b.pods}
	}
	var left []*corev1.Pod
	for _, p := range pods {
		if !place(trial, p) {
			left = append(left, p)
		}
	}
	if len(left) == 0 {
		book(w, bins, r, pods)
		return s.say(ctx, w, r, condProvisioned, metav1.ConditionTrue, "CapacityIsFound", "Capacity is found in the cluster")
	}
	if r.Spec.Class == bestEffortAtomic {
		if g, nodes, helped := s.best(w, s.groups(w), left); g != nil && len(helped) == len(left) {
			return s.grow(ctx, w, g, nodes, r.key())
		}
	} else if r.Spec.Parameters[noRetry] == "true" {
		return s.say(ctx, w, r, condFailed, metav1.ConditionTrue, "CapacityIsNotFound", "CA could not find requested capacity")
	}
	return s.notFound(ctx, w, r)
}

func (s *autoscaler) notFound(ctx context.Context, w *world, r *provisioningRequest) error {
	return s.say(ctx, w, r, condProvisioned, metav1.ConditionFalse, "CapacityIsNotFound", "Capacity is not found, CA will try to find it later.")
}

// revert gives back what came for a request of which a machine was refused.
func (s *autoscaler) revert(ctx context.Context, w *world, requests []provisioningRequest, key string) error {
	var problems []error
	for i := range requests {
		if r := &requests[i]; r.key() == key && !r.is(condProvisioned) {
			for _, m := range s.machinesOf(w, r) {
				problems = append(problems, s.giveBack(ctx, w, m.Name))
			}
			problems = append(problems, s.notFound(ctx, w, r))
		}
	}
	return errors.Join(problems...)
}

func (s *autoscaler) machinesOf(w *world, r *provisioningRequest) (out []v1alpha1.Machine) {
	for i := range w.machines {
		if w.machines[i].Annotations[consumeKey] == r.key() {
			out = append(out, w.machines[i])
		}
	}
	return out
}

// book puts the request's pods on nodes, so that nobody else has them. Those that run already take their own place.
func book(w *world, bins []*bin, r *provisioningRequest, pods []*corev1.Pod) {
	running := 0
	for _, p := range w.pods {
		if p.Namespace == r.Namespace && p.Annotations[consumeKey] == r.Name && p.Spec.NodeName != "" {
			running++
		}
	}
	for _, p := range pods[min(running, len(pods)):] {
		place(bins, p)
	}
}

// podsOf are the pods that the request is for, from its templates (provisioningrequest/pods/pods.go).
func (s *autoscaler) podsOf(ctx context.Context, r *provisioningRequest) (out []*corev1.Pod, err error) {
	for i, set := range r.Spec.PodSets {
		t, err := s.core.CoreV1().PodTemplates(r.Namespace).Get(ctx, set.Template.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		for j := range set.Count {
			if len(out) == mostPods {
				return out, nil
			}
			p := &corev1.Pod{Spec: t.Template.Spec}
			p.Namespace, p.Name = r.Namespace, fmt.Sprintf("%s-%d-%d", r.Name, i, j)
			p.UID = types.UID(p.Namespace + "/" + p.Name)
			out = append(out, p)
		}
	}
	return out, nil
}

// say writes a condition.
func (s *autoscaler) say(ctx context.Context, w *world, r *provisioningRequest, name string, status metav1.ConditionStatus, reason, message string) error {
	next := metav1.Condition{Type: name, Status: status, Reason: reason, Message: message, ObservedGeneration: r.Generation, LastTransitionTime: metav1.NewTime(w.now.Truncate(time.Second))}
	if c := meta.FindStatusCondition(r.Status.Conditions, name); c != nil && c.Status == status { // each try has its own time
		c.LastTransitionTime = next.LastTransitionTime
	}
	meta.SetStatusCondition(&r.Status.Conditions, next)
	s.Log.Info("request", "request", r.key(), name, status, "reason", reason)
	return s.patch(ctx, requestResource, r.Namespace, r.Name, "status", map[string]any{"metadata": map[string]any{"uid": r.UID}, "status": map[string]any{"conditions": r.Status.Conditions}})
}
