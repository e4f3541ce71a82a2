package l1

import (
	"cmp"
	"fmt"
	"time"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/supply"
	"github.com/berth-dev/berth/engine/why"
)

// reserved are findings of the cause about Pools of Berth that lack machines of their Reservations. A pool of which any reservation
// can give machines has none: that reservation is not what it waits for.
func reserved(c *check.Case, cause why.Cause) (out []check.Finding) {
	all := supply.ReservedPools(c)
	usable := make(map[string]bool)
	for _, r := range all {
		if f, _ := unusable(c, r); f == "" {
			usable[r.Pool.Name] = true
		}
	}
	for _, r := range all {
		is, f := unusable(c, r)
		if is != cause || usable[r.Pool.Name] {
			continue
		}
		f.Fit, f.Probe = true, r.Probe(c)
		out = append(out, f)
	}
	return out
}

// unusable is why machines of the reservation cannot become nodes of the pool; "": nothing keeps them.
func unusable(c *check.Case, r supply.Reserved) (why.Cause, check.Finding) {
	x, zone := &r.Reservation.Spec, r.Pool.Spec.Topology.Zone
	drawn := fmt.Sprintf("pool %s draws on reservation %s", r.Pool.Name, r.Reservation.Name)
	say := func(message, field, value string) check.Finding {
		return check.Finding{Message: drawn + ", which " + message, Evidence: []facts.Evidence{r.Shown(field, value)}}
	}
	switch state := r.Reservation.StateAt(c.Now); {
	case state == v1alpha1.ReservationScheduled && x.Start != nil && x.Start.After(c.Now):
		f := say("starts at "+clock(x.Start.Time), "spec.start", clock(x.Start.Time))
		f.Until, f.Because = x.Start.Time, "reservation "+r.Reservation.Name+" starts"
		return "reservation-not-started", f
	case state == v1alpha1.ReservationScheduled:
		return "reservation-not-started", say("has not started", "status.state", string(state))
	case state == v1alpha1.ReservationFailed:
		return "reservation-ended", say("failed: the provider gives nothing of it", "status.state", string(state))
	case state == v1alpha1.ReservationExpired && x.End != nil && !x.End.After(c.Now):
		return "reservation-ended", say("ended at "+clock(x.End.Time), "spec.end", clock(x.End.Time))
	case state == v1alpha1.ReservationExpired:
		return "reservation-ended", say("has ended", "status.state", string(state))
	case state == v1alpha1.ReservationExpiring && x.End != nil:
		return "reservation-ended", say("ends at "+clock(x.End.Time)+" and gives no machines so shortly before", "spec.end", clock(x.End.Time))
	case !x.InZone(zone):
		return "reservation-wrong-zone", say(fmt.Sprintf("is in zone %s; the pool is in zone %s", x.Zone, zone), "spec.zone", x.Zone)
	case !x.LikePool(r.Pool):
		return "reservation-wrong-type", say(fmt.Sprintf("is for %s with %d %s; the pool has machines of another type", x.InstanceType, x.GPUs.Count, cmp.Or(x.GPUs.Model, "GPUs")), "spec.instanceType", x.InstanceType)
	}
	if left := r.Reservation.Left(); left != nil && *left == 0 && r.Here < int(x.Instances) {
		return "reservation-consumed-elsewhere", say(fmt.Sprintf("is active and has none of its %d instances left; %d of them are in this cluster", x.Instances, r.Here), "status.available", "0")
	}
	return "", check.Finding{}
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 MST") }
