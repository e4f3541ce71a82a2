package draft

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
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

// A gang that grows in the plan that starts it has one Start, with its pods by rank. Where rules between pods are known, growth
// that comes after the start of another gang has one of its own, because it may lean on that.
func TestGrowthIsPartOfTheStart(t *testing.T) {
	m := cluster.NewModel(api.Config{})
	g := &cluster.Gang{Key: "g"}
	for i, key := range []string{"g-0", "g-1", "g-2"} {
		p := &cluster.Pod{Pod: &api.Pod{Key: key, Rank: i}, Host: m.NodeNamed("n")}
		g.Members = append(g.Members, p)
	}
	other := &cluster.Gang{Key: "other"}
	for _, c := range []struct {
		inOrder bool
		want    []string
	}{{false, []string{"g: g-0 g-1 g-2", "other:"}}, {true, []string{"g: g-0 g-2", "other:", "g: g-1"}}} {
		d := New(noon, 0)
		if _, ok := d.Starts(g); ok {
			t.Error("it starts before anything was decided")
		}
		d.Start(g, api.Begin, "", g.Members[2:], nil, c.inOrder)
		d.Start(g, api.Grow, "H100", g.Members[:1], nil, c.inOrder)
		d.Start(other, api.Begin, "", nil, nil, c.inOrder)
		d.Start(g, api.Grow, "H100", g.Members[1:2], nil, c.inOrder)
		var got []string
		for _, s := range d.Plan.Starts {
			text := s.Gang + ":"
			for _, p := range s.Placements {
				text += " " + p.Pod
			}
			got = append(got, text)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("in order: %v\n%s", c.inOrder, diff)
		}
		if model, ok := d.Starts(g); !ok || model != "H100" {
			t.Errorf("it starts: %v, with model %q", ok, model)
		}
	}
}

// Each pod that starts is assumed to be on its node until the time given is over.
func TestStartsAreAssumed(t *testing.T) {
	m := cluster.NewModel(api.Config{})
	g := &cluster.Gang{Key: "g", Members: []*cluster.Pod{{Pod: &api.Pod{Key: "g-0", UID: "u"}, Host: m.NodeNamed("n"), HostDevices: []string{"d"}}}}
	d := New(noon, 7)
	d.Start(g, api.Begin, "", g.Members, nil, false)
	d.Assume(time.Minute)
	want := []api.Change{{Assumption: &api.Assumption{Pod: "g-0", UID: "u", Version: 8, Node: "n", Devices: []string{"d"}, Until: noon.Add(time.Minute)}}}
	if diff := cmp.Diff(want, d.Plan.Changes); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}
