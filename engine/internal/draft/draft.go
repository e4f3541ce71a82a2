package draft

import (
	"slices"
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
)

// Draft is a plan in the making.
type Draft struct {
	Now  time.Time // in UTC
	Plan api.Plan

	latest uint64                // version of the last memory
	starts map[*cluster.Gang]int // by gang: the index, plus one, of its last Start in the plan
}

// New begins a plan made at the time. Versions of what it remembers follow the latest that was told.
func New(now time.Time, latest uint64) Draft {
	return Draft{Now: now, Plan: api.Plan{Now: now}, latest: latest}
}

// NextVersion is the version of one more thing to remember.
func (d *Draft) NextVersion() uint64 {
	d.latest++
	return d.latest
}

// Wake notes that the answer can change at the time.
func (d *Draft) Wake(at time.Time) {
	if d.Plan.WakeAt.IsZero() || at.Before(d.Plan.WakeAt) {
		//mutate: memory-wake-at
		d.Plan.WakeAt = at.UTC()
	}
}

// Remember lets the change be a part of carrying out the plan.
func (d *Draft) Remember(c api.Change) { d.Plan.Changes = append(d.Plan.Changes, c) }

// Assume remembers each start that was decided, for the time given: until the pods are seen on their nodes, which takes less.
func (d *Draft) Assume(lasts time.Duration) {
	n := 0
	for _, start := range d.Plan.Starts {
		n += len(start.Placements)
	}
	made := make([]api.Assumption, 0, n)
	d.Plan.Changes = slices.Grow(d.Plan.Changes, n)
	for _, start := range d.Plan.Starts {
		for _, p := range start.Placements {
			made = append(made, api.Assumption{Pod: p.Pod, UID: p.UID, Version: d.NextVersion(), Node: p.Node, Devices: p.Devices, Until: d.Now.Add(lasts)})
			d.Remember(api.Change{Assumption: &made[len(made)-1]})
		}
	}
}

// Forget drops something that was remembered.
func (d *Draft) Forget(kind api.Kind, key string, version uint64) {
	d.Remember(api.Change{Gone: &api.Ref{Kind: kind, Key: key, Version: version}})
}
