package v1alpha1

import (
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
