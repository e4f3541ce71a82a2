package metrics

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-dev/berth/capacity"
)

var (
	seamGPUs   = gauge("seam_gpus", "Paid GPUs by the last stage that they reached, from paid to busy, why they came no further, and whose that is. They add up to all paid GPUs.", "stage", "cause", "owner")
	seamCost   = gauge("seam_cost_per_hour", "What those GPUs cost for an hour, as far as their price is known.", "stage", "cause", "owner", "currency")
	seamPriced = gauge("seam_unpriced_gpus", "Paid GPUs whose price nobody said.")
	reserved   = gauge("reservation_gpus", "Paid GPUs of a reservation by the last stage that they reached; of the reservations beyond the first 100 as \"other\".", "reservation", "stage")
)

// Seam is the account of paid GPUs in Prometheus' text format: what `berth capacity -o prometheus` prints.
func Seam(sums []capacity.Sum) (string, error) {
	r := prometheus.NewRegistry()
	if err := r.Register(seam(sums)); err != nil {
		return "", err
	}
	return write(r)
}

type seam []capacity.Sum

// Describe is of prometheus.Collector.
func (seam) Describe(chan<- *prometheus.Desc) {}

// Collect is of prometheus.Collector.
func (s seam) Collect(to chan<- prometheus.Metric) {
	type lost struct{ stage, cause, owner, currency string }
	type of struct{ reservation, stage string }
	gpus, cost, byReservation, names := make(map[lost]int64), make(map[lost]capacity.Micro), make(map[of]int64), make(map[string]bool)
	var unpriced int64
	for i := range s {
		a := &s[i]
		if a.GPUs == 0 {
			continue
		}
		at := lost{stage: a.Stage.String(), cause: labelOf(a.Cause), owner: labelOf(a.Owner)}
		gpus[at] += a.GPUs
		unpriced += a.Unpriced
		if a.Unpriced < a.GPUs {
			at.currency = labelOf(a.Currency)
			cost[at] += a.PerHour
		}
		name := cmp.Or(labelOf(a.Reservation), "none")
		if !names[name] && len(names) >= maxReservations {
			name = other
		}
		names[name] = true
		byReservation[of{name, at.stage}] += a.GPUs
	}
	set := func(m Metric, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(m.desc, prometheus.GaugeValue, v, labels...)
	}
	for at, n := range gpus {
		set(seamGPUs, float64(n), at.stage, at.cause, at.owner)
	}
	for at, m := range cost {
		set(seamCost, float64(m)/1e6, at.stage, at.cause, at.owner, at.currency)
	}
	for at, n := range byReservation {
		set(reserved, float64(n), at.reservation, at.stage)
	}
	set(seamPriced, float64(unpriced))
}
