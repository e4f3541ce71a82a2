package draft

import (
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
)

// Draft is a plan in the making.
type Draft struct {
	Now  time.Time // in UTC
	Plan api.Plan

	latest uint64 // version of the last memory
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

// Forget drops something that was remembered.
func (d *Draft) Forget(kind api.Kind, key string, version uint64) {
	d.Remember(api.Change{Gone: &api.Ref{Kind: kind, Key: key, Version: version}})
}
