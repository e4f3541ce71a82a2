package v1alpha1

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// expiring is how long before its end a reservation gives no more machines: the clouds take a block's machines back half an
// hour to an hour before.
const expiring = time.Hour

// StateAt is the reservation's state at a time. Its own times count before what the provider said once: a reservation that was
// active yesterday has ended if its end has passed.
func (r *Reservation) StateAt(now time.Time) ReservationState {
	said := r.Status.State
	switch {
	case said == ReservationFailed || said == ReservationExpired:
		return said
	case r.Spec.End != nil && !now.Before(r.Spec.End.Time):
		return ReservationExpired
	case r.Spec.Start != nil && now.Before(r.Spec.Start.Time):
		return ReservationScheduled
	case said == ReservationScheduled && (r.Spec.Start == nil || r.Status.ObservedAt != nil && !r.Status.ObservedAt.Time.Before(r.Spec.Start.Time)):
		return said // it should have started, and its provider said after that that it had not
	case said == ReservationExpiring || r.Spec.End != nil && r.Spec.End.Sub(now) <= expiring:
		return ReservationExpiring
	}
	return ReservationActive
}

// Left is how many instances nobody has, as the provider said; nil: it did not say. What it said before the reservation began is no
// answer: a block has nothing to give until it starts.
func (r *Reservation) Left() *int32 {
	before := r.Spec.Start != nil && r.Status.ObservedAt != nil && r.Status.ObservedAt.Time.Before(r.Spec.Start.Time)
	if before || r.Status.State == ReservationScheduled {
		return nil
	}
	return r.Status.Available
}

// InZone says whether machines in the zone can be of the reservation, as far as it is known.
func (s *ReservationSpec) InZone(zone string) bool {
	return s.Zone == "" || zone == "" || zone == s.Zone
}

// LikePool says whether machines of the pool have the reserved GPUs.
func (s *ReservationSpec) LikePool(p *Pool) bool {
	if p.GPUsPerNode() != int(s.GPUs.Count) {
		return false
	}
	want := plainModel(s.GPUs.Model)
	return !slices.ContainsFunc(p.Spec.GPUs, func(g GPU) bool {
		have := plainModel(g.Model)
		return want != "" && !strings.HasPrefix(have, want) && !strings.HasPrefix(want, have)
	})
}

// plainModel is a GPU's name without its maker and how it is written: h20080gb.
func plainModel(s string) string {
	s = strings.ToLower(s)
	s = strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			return c
		}
		return -1
	}, s)
	return strings.TrimPrefix(s, "nvidia")
}

// NamedBy says whether text, which a label or a Machine has, names the reservation, whose object is called name, on a machine in the zone: by
// the provider's id, or by the object's name or the last part of the id, which reservations of several zones may have in common.
func (s *ReservationSpec) NamedBy(text, name, zone string) bool {
	return text != "" && (text == s.ID || s.InZone(zone) && (text == name || strings.HasSuffix(s.ID, "/"+text)))
}

// Labels of nodes and NodeClaims that say how a machine is paid for, in the words of who makes nodes. Karpenter has them on both, and
// names a reservation by its id; GKE names it without its project and zone.
const (
	karpenterCapacityType = "karpenter.sh/capacity-type"
	karpenterReservation  = "karpenter.k8s.aws/capacity-reservation-id"
	gkeReservation        = "cloud.google.com/reservation-name"
)

// ReservedAs is the reservation that the labels of a node or a NodeClaim name; "": none.
func ReservedAs(labels map[string]string) string {
	return cmp.Or(labels[karpenterReservation], labels[gkeReservation])
}

// spotLabels mark spot machines on managed clusters: EKS, GKE and AKS.
var spotLabels = map[string]string{
	"eks.amazonaws.com/capacityType": "SPOT", "cloud.google.com/gke-spot": "true", "kubernetes.azure.com/scalesetpriority": "spot",
}

// CapacityTypeOf is how a machine is paid for, as its labels say; "": they do not. No cloud's node group tells whether a machine that is not
// spot is paid for by a reservation.
func CapacityTypeOf(labels map[string]string) CapacityType {
	if said := cmp.Or(labels[LabelCapacityType], labels[karpenterCapacityType]); said != "" {
		return CapacityType(said)
	}
	for key, value := range spotLabels { //archtest:any-order one is enough
		if labels[key] == value {
			return CapacitySpot
		}
	}
	return ""
}
