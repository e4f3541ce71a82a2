package join

import (
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/capacity/bill"
	"github.com/berth-dev/berth/capacity/payer"
	"github.com/berth-dev/berth/diagnose/facts"
)

// TariffOf is what machines cost, as Reservations and Pools say now. A reservation without a start is paid for since it was
// written down; one that failed, that is late, or that ended nobody knows when, is left out.
func TariffOf(f *facts.Facts) bill.Tariff {
	w := newWorld(Input{Facts: f})
	out := bill.Tariff{Pools: make(map[string]bill.Pool)}
	for i := range w.reservations {
		r := &w.reservations[i]
		late := r.State == v1alpha1.ReservationScheduled && !r.Start.After(f.At)
		if late || r.State == v1alpha1.ReservationFailed || r.State == v1alpha1.ReservationExpired && r.End.IsZero() {
			continue
		}
		x := bill.Reservation{
			Name: r.Name, ID: r.spec.ID, InstanceType: r.spec.InstanceType, Zone: r.spec.Zone, GPUs: int(r.spec.GPUs.Count), Instances: int(r.spec.Instances),
			Open: r.spec.Match == v1alpha1.MatchOpen, Start: r.Start, End: r.End, Price: billPrice(r.spec.Price),
		}
		if x.Start.IsZero() {
			x.Start = f.ForeignNamed(reservationKind, "", r.Name).GetCreationTimestamp().UTC()
		}
		out.Reservations = append(out.Reservations, x)
	}
	//archtest:any-order a map is made of a map
	for name, p := range w.pools {
		out.Pools[name] = bill.Pool{
			Reservations: payer.PoolOf(p, w.payers()).Draws, GPUs: p.GPUsPerNode(), Price: billPrice(p.Spec.Price), Spot: billPrice(p.Spec.PriceOf(v1alpha1.CapacitySpot)), Selects: p.Spec.Selects,
		}
	}
	return out
}

func billPrice(p *v1alpha1.Price) bill.Price {
	micro, currency, known := priceOf(p)
	if !known {
		return bill.Price{}
	}
	return bill.Price{Known: true, Micro: micro, Currency: currency}
}
