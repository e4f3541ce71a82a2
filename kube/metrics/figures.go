package metrics

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-dev/berth/engine"
)

// Figures are the scheduler that leads, at one moment.
type Figures struct {
	GPU     string    // the resource that queues' figures are of
	At      time.Time // when they were taken
	Queues  []engine.QueueUse
	Tallies []engine.Tally
	Fleet   engine.Report
	Plan    engine.Plan // the last one; not written to
	Work    Work
}

// Work is what the leader has done since it leads.
type Work struct {
	Cycles, Starts, Bindings, Evictions, EvictionsRefused, EventsShed, Discrepancies int64
	// Unseen is the age of the oldest binding that the API server took and that no watch has shown yet.
	Unseen time.Duration
}

// Process is what a scheduler process says of itself, also while it stands by.
type Process struct {
	Leads           bool
	Unreachable     time.Duration // the API server; 0: it answers
	Questions, Shed int64         // asked of this process, and those that it had no time for
}

var (
	leading     = gauge("scheduler_leading", "Whether this process leads: 1 or 0.")
	unreachable = gauge("scheduler_api_unreachable_seconds", "How long the API server has been unreachable; 0 while it answers.")
	questions   = counter("scheduler_questions_total", "Questions asked of this process.")
	shed        = counter("scheduler_questions_refused_total", "Questions for which there was no time.")

	cycles        = counter("scheduler_cycles_total", "Plans made.")
	starts        = counter("scheduler_starts_total", "Workloads that were given nodes.")
	bindings      = counter("scheduler_bindings_sent_total", "Bindings that the API server took.")
	evicted       = counter("scheduler_evictions_total", "Pods that were evicted.")
	notEvicted    = counter("scheduler_evictions_refused_total", "Evictions that the API server did not allow.")
	discrepancies = counter("scheduler_audit_discrepancies_total", "Accounts of the engine that a recount did not confirm: an error in Berth.")
	eventsShed    = counter("scheduler_events_shed_total", "Events of scheduled pods that were not written.")
	unseen        = gauge("scheduler_watch_behind_seconds", "Age of the oldest binding that the API server took and that the watch has not shown yet; 0 where there is none.")
	waiting       = gauge("scheduler_waiting_workloads", "Workloads that wait, as of the last plan.")
	pending       = gauge("pending_workloads", "Workloads that wait, by cause, as of the last plan.", "cause")
	promised      = gauge("promised_workloads", "Workloads that wait with a promised start time.")

	queueQuota    = gauge("queue_quota_gpus", "GPUs that a queue is guaranteed.", "queue")
	queueUsed     = gauge("queue_used_gpus", "GPUs that the workloads of a queue, and of those below it, hold.", "queue")
	queueBorrowed = gauge("queue_borrowed_gpus", "GPUs that a queue uses beyond its quota.", "queue")
	queueLent     = gauge("queue_lent_gpus", "GPUs of a queue's quota that others use.", "queue")
	queuePending  = gauge("queue_pending_gpus", "GPUs that the pending workloads of a queue do not have.", "queue")
	queueWaiting  = gauge("queue_pending_workloads", "Pending workloads of a queue.", "queue")
	queueShare    = gauge("queue_share_gpus", "Fair share of a queue now.", "queue")
	queueSeconds  = counter("queue_gpu_seconds_total", "GPU-seconds that a queue has used since it was first seen.", "queue")
	budgetSpent   = gauge("queue_budget_spent_ratio", "Part of a queue's budget of a resource that is used up in the current period; of several budgets, of the one that is used up furthest.", "queue", "resource")
	queuesHidden  = gauge("queues_without_series", "Queues beyond the most that have series.")
	userUsed      = gauge("user_used_gpus", "GPUs that the workloads of a user hold: the 20 who hold most, and everybody else as user \"other\".", "user")

	fleetNodes     = gauge("fleet_nodes", "Nodes that are not cordoned.")
	fleetFree      = gauge("fleet_free_nodes", "Nodes with GPUs none of which is allocated.")
	fleetGPUs      = gauge("fleet_schedulable_gpus", "GPUs that nodes offer to pods.")
	fleetAllocated = gauge("fleet_allocated_gpus", "GPUs that pods hold, whoever scheduled them.")
	fleetFragments = gauge("fleet_fragmentation_ratio", "Free part of the GPUs of nodes that are in use.")
	largest        = gauge("fleet_largest_job_gpus", "Most free GPUs of one model inside one domain of a level: the largest job that could start there. Level \"cluster\" is all nodes.", "model", "level")
	poolNodes      = gauge("pool_nodes", "Nodes of a pool that are not cordoned.", "pool")
	poolGPUs       = gauge("pool_schedulable_gpus", "GPUs that nodes of a pool offer to pods.", "pool")
	poolAllocated  = gauge("pool_allocated_gpus", "GPUs of a pool that pods hold, whoever scheduled them.", "pool")
)

// asked collects what is asked when somebody scrapes. Where there are no figures, because another process leads, it has
// only the series of the process.
type asked struct {
	process func() Process
	ask     func() (Figures, error)
}

// Describe is of prometheus.Collector. What is not described is not checked: the catalogue is, by a test.
func (asked) Describe(chan<- *prometheus.Desc) {}

// Collect is of prometheus.Collector.
func (a asked) Collect(to chan<- prometheus.Metric) {
	set := func(m Metric, v float64, labels ...string) {
		kind := prometheus.GaugeValue
		if m.Type == "counter" {
			kind = prometheus.CounterValue
		}
		to <- prometheus.MustNewConstMetric(m.desc, kind, v, labels...)
	}
	p := a.process()
	set(leading, number(p.Leads))
	set(unreachable, p.Unreachable.Seconds())
	set(questions, float64(p.Questions))
	set(shed, float64(p.Shed))
	f, err := a.ask()
	if err != nil {
		return
	}
	f.Work.collect(set)
	f.pending(set)
	f.queues(set)
	f.users(set)
	f.fleet(set)
}

func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

type setter func(m Metric, v float64, labels ...string)

func (w *Work) collect(set setter) {
	set(cycles, float64(w.Cycles))
	set(starts, float64(w.Starts))
	set(bindings, float64(w.Bindings))
	set(evicted, float64(w.Evictions))
	set(notEvicted, float64(w.EvictionsRefused))
	set(discrepancies, float64(w.Discrepancies))
	set(eventsShed, float64(w.EventsShed))
	set(unseen, w.Unseen.Seconds())
}

func (f *Figures) pending(set setter) {
	counts := make(map[string]int)
	for i := range f.Plan.Waiting {
		counts[string(f.Plan.Waiting[i].Cause)]++
	}
	for cause, n := range counts {
		set(pending, float64(n), cause)
	}
	set(waiting, float64(len(f.Plan.Waiting)))
	set(promised, float64(len(f.Plan.Promises)))
}

func (f *Figures) fleet(set setter) {
	u := f.Fleet.All
	set(fleetNodes, float64(u.Nodes))
	set(fleetFree, float64(u.FreeNodes))
	set(fleetGPUs, float64(u.GPUs))
	set(fleetAllocated, float64(u.Allocated))
	set(fleetFragments, u.Fragmentation())
	f.largest(set)
	for i, seen := 0, make(map[string]bool); i < len(f.Fleet.Pools) && len(seen) < maxPools; i++ {
		p := &f.Fleet.Pools[i]
		label := labelOf(p.Pool)
		if seen[label] {
			continue
		}
		seen[label] = true
		set(poolNodes, float64(p.Nodes), label)
		set(poolGPUs, float64(p.GPUs), label)
		set(poolAllocated, float64(p.Allocated), label)
	}
}

func (f *Figures) largest(set setter) {
	type place struct{ model, level string }
	seen, models := make(map[place]bool), make(map[string]bool)
	for _, l := range f.Fleet.Largest {
		p := place{labelOf(l.Model), labelOf(l.Level)}
		if p.level == "" {
			p.level = "cluster"
		}
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
