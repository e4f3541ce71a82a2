package provision

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// tellUsable keeps the condition Usable of all Reservations.
func (c *controller) tellUsable(ctx context.Context, list []v1alpha1.Reservation, pools []v1alpha1.Pool, machines []v1alpha1.Machine, now time.Time) error {
	for i := range list {
		r := &list[i]
		next := usable(r, pools, machines, now)
		next.ObservedGeneration = r.Generation
		if meta.SetStatusCondition(&r.Status.Conditions, next) {
			if err := c.SetUsable(ctx, r); err != nil {
				return fmt.Errorf("status of reservation %s: %w", r.Name, err)
			}
		}
	}
	return nil
}

// usable says whether machines of the reservation can become nodes here. The reasons are the causes of `berth why` in camel case.
func usable(r *v1alpha1.Reservation, pools []v1alpha1.Pool, machines []v1alpha1.Machine, now time.Time) metav1.Condition {
	no := func(reason, format string, args ...any) metav1.Condition {
		return metav1.Condition{Type: v1alpha1.ReservationUsable, Status: metav1.ConditionFalse, Reason: reason, Message: fmt.Sprintf(format, args...)}
	}
	switch state := r.StateAt(now); {
	case state == v1alpha1.ReservationScheduled && r.Spec.Start != nil && r.Spec.Start.After(now):
		return no("ReservationNotStarted", "It starts at %s.", clock(r.Spec.Start))
	case state == v1alpha1.ReservationScheduled:
		return no("ReservationNotStarted", "It has not started.")
	case state == v1alpha1.ReservationFailed:
		return no("ReservationEnded", "It failed: the provider gives nothing of it.")
	case state == v1alpha1.ReservationExpired && r.Spec.End != nil:
		return no("ReservationEnded", "It ended at %s.", clock(r.Spec.End))
	case state == v1alpha1.ReservationExpired:
		return no("ReservationEnded", "It has ended.")
	case state == v1alpha1.ReservationExpiring && r.Spec.End != nil:
		return no("ReservationEnded", "It ends at %s and gives no machines so shortly before.", clock(r.Spec.End))
	}
	drawn, zone, kind := 0, 0, 0
	for i := range pools {
		p := pools[i].DeepCopy()
		v1alpha1.Default(p)
		if !slices.Contains(p.Spec.Reservations, r.Name) {
			continue
		}
		drawn++
		switch {
		case !r.Spec.Within(p):
			zone++
		case !r.Spec.Suits(p):
			kind++
		}
	}
	here := 0
	for i := range machines {
		if machines[i].Spec.Reservation == r.Name && machines[i].Status.Phase == v1alpha1.MachineLaunched {
			here++
		}
	}
	switch {
	case drawn == 0:
		return no("ReservationUnusedByProvisioner", "No Pool names it.")
	case zone == drawn:
		return no("ReservationWrongZone", "It is in zone %s, and no Pool that names it has machines there.", r.Spec.Zone)
	case zone+kind == drawn:
		return no("ReservationWrongType", "It is for %s, and the Pools that name it have machines of another type.", r.Spec.InstanceType)
	case r.Left() != nil && *r.Left() == 0 && here < int(r.Spec.Instances):
		return no("ReservationConsumedElsewhere", "It has none of its %d instances left.", r.Spec.Instances)
	}
	return metav1.Condition{Type: v1alpha1.ReservationUsable, Status: metav1.ConditionTrue, Reason: "Usable", Message: "Its machines can become nodes."}
}

func clock(t *metav1.Time) string { return t.UTC().Format("2006-01-02 15:04 MST") }
