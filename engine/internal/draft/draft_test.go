package draft

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/engine/internal/api"
)

var noon = time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)

// The answer may change at the first of all times that were noted, and that is told in UTC.
func TestTheFirstTimeWakes(t *testing.T) {
	d := New(noon, 0)
	east := time.FixedZone("east", 3600)
	for _, at := range []time.Time{noon.Add(2 * time.Minute), noon.Add(time.Minute).In(east), noon.Add(3 * time.Minute)} {
		d.Wake(at)
	}
	if want := noon.Add(time.Minute); d.Plan.WakeAt != want {
		t.Errorf("wakes at %v, not %v", d.Plan.WakeAt, want)
	}
}

// What is remembered has versions that nothing told before has, in the order in which it was decided. What is forgotten is
// named with the version that it had, so that a newer one stays.
func TestMemoryIsInTheOrderOfDecisions(t *testing.T) {
	d := New(noon, 41)
	d.Remember(api.Change{Hold: &api.Hold{Gang: "a", Node: "n", Version: d.NextVersion()}})
	d.Forget(api.KindPromise, "b", 7)
	d.Remember(api.Change{Promise: &api.Promise{Gang: "c", Version: d.NextVersion()}})
	want := []api.Change{
		{Hold: &api.Hold{Gang: "a", Node: "n", Version: 42}},
		{Gone: &api.Ref{Kind: api.KindPromise, Key: "b", Version: 7}},
		{Promise: &api.Promise{Gang: "c", Version: 43}},
	}
	if diff := cmp.Diff(want, d.Plan.Changes); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}
