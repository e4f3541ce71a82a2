package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-dev/berth/engine"
)

// Figures are the scheduler at one moment.
type Figures struct {
	GPU    string // the resource that queues' figures are of
	Queues []engine.QueueUse
	Fleet  engine.Report
	Plan   engine.Plan // the last one; not written to
}

// asked collects Figures when it is scraped. Where there are none, because another process leads, it has no series.
type asked struct{ ask func() (Figures, error) }

func gauge(n, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", n), help, labels, nil)
}

var (
	pending = gauge("pending_workloads", "Workloads that wait, by cause, as of the last plan.", "cause")

	queueQuota    = gauge("queue_quota_gpus", "GPUs that a queue is guaranteed.", "queue")
	queueUsed     = gauge("queue_used_gpus", "GPUs that the workloads of a queue, and of those below it, hold.", "queue")
	queueBorrowed = gauge("queue_borrowed_gpus", "GPUs that a queue uses beyond its quota.", "queue")
	queueLent     = gauge("queue_lent_gpus", "GPUs of a queue's quota that others use.", "queue")
	queuePending  = gauge("queue_pending_gpus", "GPUs that the pending workloads of a queue do not have.", "queue")
	queueWaiting  = gauge("queue_pending_workloads", "Pending workloads of a queue.", "queue")
	queueShare    = gauge("queue_share_gpus", "Fair share of a queue now.", "queue")
	queuesHidden  = gauge("queues_without_series", "Queues beyond the most that have series.")

	fleetNodes     = gauge("fleet_nodes", "Nodes that are not cordoned.")
	fleetFree      = gauge("fleet_free_nodes", "Nodes with GPUs none of which is allocated.")
	fleetGPUs      = gauge("fleet_schedulable_gpus", "GPUs that nodes offer to pods.")
	fleetAllocated = gauge("fleet_allocated_gpus", "GPUs that pods hold, whoever scheduled them.")
	fleetFragments = gauge("fleet_fragmentation_ratio", "Free part of the GPUs of nodes that are in use.")
	largest        = gauge("fleet_largest_job_gpus", "Most free GPUs of one model inside one domain of a level: the largest job that could start there.", "model", "level")

	all = []*prometheus.Desc{
		pending, queueQuota, queueUsed, queueBorrowed, queueLent, queuePending, queueWaiting, queueShare, queuesHidden,
		fleetNodes, fleetFree, fleetGPUs, fleetAllocated, fleetFragments, largest,
	}
)

// Describe is of prometheus.Collector.
func (asked) Describe(to chan<- *prometheus.Desc) {
	for _, d := range all {
		to <- d
	}
}

// Collect is of prometheus.Collector.
func (a asked) Collect(to chan<- prometheus.Metric) {
	f, err := a.ask()
	if err != nil {
		return
	}
	set := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	f.pending(set)
	f.queues(set)
	u := f.Fleet.All
	set(fleetNodes, float64(u.Nodes))
	set(fleetFree, float64(u.FreeNodes))
	set(fleetGPUs, float64(u.GPUs))
	set(fleetAllocated, float64(u.Allocated))
	set(fleetFragments, u.Fragmentation())
	f.largest(set)
}

type setter func(d *prometheus.Desc, v float64, labels ...string)

func (f *Figures) pending(set setter) {
	counts := make(map[string]int)
	for i := range f.Plan.Waiting {
		counts[string(f.Plan.Waiting[i].Cause)]++
	}
	for cause, n := range counts {
		set(pending, float64(n), cause)
	}
}

func (f *Figures) queues(set setter) {
	seen, hidden := make(map[string]bool), 0
	for i := range f.Queues {
		q := &f.Queues[i]
		label := labelOf(q.Name)
		switch {
		case !q.Known || seen[label]: // one that does not exist is whatever a pod names
			continue
		case len(seen) == maxQueues:
			hidden++
			continue
		}
		seen[label] = true
		set(queueQuota, float64(q.Quota.Get(f.GPU)), label)
		set(queueUsed, float64(q.Used.Get(f.GPU)), label)
		set(queueBorrowed, float64(q.Borrowed.Get(f.GPU)), label)
		set(queueLent, float64(q.Lent.Get(f.GPU)), label)
		set(queueShare, float64(q.Share.Get(f.GPU)), label)
		set(queuePending, float64(q.Waiting.GPUs), label)
		set(queueWaiting, float64(q.Waiting.Workloads), label)
	}
	set(queuesHidden, float64(hidden))
}

func (f *Figures) largest(set setter) {
	type place struct{ model, level string }
	seen, models := make(map[place]bool), make(map[string]bool)
	for _, l := range f.Fleet.Largest {
		p := place{labelOf(l.Model), labelOf(l.Level)}
		if !models[p.model] && len(models) >= maxModels || seen[p] {
			continue
		}
		models[p.model], seen[p] = true, true
		set(largest, float64(l.GPUs), p.model, p.level)
	}
}

// labelOf is text of an object as a label: valid, and not longer than people read.
func labelOf(text string) string {
	if len(text) > maxLabel {
		text = text[:maxLabel]
	}
	return strings.ToValidUTF8(text, "?")
}
