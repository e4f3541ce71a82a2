package provisioner

import (
	"cmp"
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

// waits says that the request is neither provisioned nor over.
func (r *provisioningRequest) waits() bool {
	return !r.is(condFailed) && !r.is(condProvisioned) && r.DeletionTimestamp == nil
}

// answer takes the next step of requests: bookings that are over, those that hold, those that machines come for, and of the others the first
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
		if of := s.machinesOf(w, r); len(of) > 0 && r.waits() { // before others are given the room that they make
			pods, err := s.podsOf(ctx, r)
			if err == nil {
				err = s.complete(ctx, w, r, pods, bins, of)
			}
			problems = append(problems, err)
		}
	}
	for i := range requests {
		r := &requests[i]
		if r.Spec.Class != checkCapacity && r.Spec.Class != bestEffortAtomic || r.DeletionTimestamp != nil || len(s.machinesOf(w, r)) > 0 || !s.due(w, r) {
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
	if !r.waits() {
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
	left := unplaced(bins, pods)
	if len(left) == 0 {
		book(w, bins, r, pods)
		return s.say(ctx, w, r, condProvisioned, metav1.ConditionTrue, "CapacityIsFound", "Capacity is found in the cluster")
	}
	if r.Spec.Class == bestEffortAtomic {
		if g, nodes, _ := s.best(ctx, w, s.groups(w), left, true); g != nil {
			return s.grow(ctx, w, g, nodes, r.key())
		}
	} else if r.Spec.Parameters[noRetry] == "true" {
		return s.say(ctx, w, r, condFailed, metav1.ConditionTrue, "CapacityIsNotFound", "CA could not find requested capacity")
	}
	return s.notFound(ctx, w, r)
}

// unplaced are the pods that find no room beside each other.
func unplaced(bins []*bin, pods []*corev1.Pod) (left []*corev1.Pod) {
	trial := make([]*bin, len(bins))
	for i, b := range bins {
		trial[i] = &bin{node: b.node, free: b.free.DeepCopy(), pods: b.pods}
	}
	for _, p := range pods {
		if !place(trial, p) {
			left = append(left, p)
		}
	}
	return left
}

// complete waits for the machines that were asked for. The real one asks its provider for all in one call; here whoever asked may have
// been killed after some of them: the rest is asked for now, in the same group, or all are given back.
func (s *autoscaler) complete(ctx context.Context, w *world, r *provisioningRequest, pods []*corev1.Pod, bins []*bin, of []v1alpha1.Machine) error {
	if left := unplaced(bins, pods); len(left) > 0 {
		for _, g := range s.groups(w) {
			if g.name != groupOf(&of[0]) || s.closed(w, g) != "" {
				continue
			}
			if nodes, helped := g.estimate(w, left); len(helped) == len(left) {
				book(w, bins, r, pods)
				return s.grow(ctx, w, g, nodes, r.key())
			}
		}
		return s.withdraw(ctx, w, r)
	}
	book(w, bins, r, pods)
	if slices.ContainsFunc(of, func(m v1alpha1.Machine) bool { return m.Status.Phase != v1alpha1.MachineLaunched }) {
		return nil
	}
	return s.say(ctx, w, r, condProvisioned, metav1.ConditionTrue, "CapacityIsProvisioned", "Capacity is found in the cluster")
}

func (s *autoscaler) notFound(ctx context.Context, w *world, r *provisioningRequest) error {
	return s.say(ctx, w, r, condProvisioned, metav1.ConditionFalse, "CapacityIsNotFound", "Capacity is not found, CA will try to find it later.")
}

// withdraw gives back what came for a request of which a machine is missing, those that were refused last: whoever comes next begins again
// as long as there is one.
func (s *autoscaler) withdraw(ctx context.Context, w *world, r *provisioningRequest) error {
	of := s.machinesOf(w, r)
	slices.SortStableFunc(of, func(a, b v1alpha1.Machine) int {
		return cmp.Compare(len(a.Status.Error), len(b.Status.Error)) // who was refused has an error
	})
	problems := []error{s.notFound(ctx, w, r)}
	for _, m := range of {
		if err := s.giveBack(ctx, w, m.Name); err != nil {
			return errors.Join(append(problems, err)...)
		}
	}
	return errors.Join(problems...)
}

// waitingFor is the request of the key that is not provisioned yet; nil: there is none.
func waitingFor(requests []provisioningRequest, key string) *provisioningRequest {
	for i := range requests {
		if r := &requests[i]; r.key() == key && r.waits() {
			return r
		}
	}
	return nil
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
