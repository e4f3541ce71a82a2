package place

import (
	"fmt"
	"testing"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/index"
	"github.com/berth-dev/berth/engine/why"
)

const gpu = "nvidia.com/gpu"

// racks is a cluster whose i-th rack has so many nodes of two GPUs, and a gang whose members ask for one and the last of
// them for two.
func racks(t *testing.T, nodes ...int) (*cluster.Model, *Placer) {
	t.Helper()
	config, _ := api.Config{Levels: []api.Level{{Name: "rack", Label: "rack"}}}.Normal()
	m := cluster.NewModel(config)
	snap := api.Snapshot{Version: api.SnapshotVersion, Gangs: []api.Gang{{Key: "g", Version: 1, Group: api.Group{Layout: api.Layout{Required: "rack"}}}}}
	for r, n := range nodes {
		for i := range n {
			snap.Nodes = append(snap.Nodes, api.Node{
				Name: fmt.Sprintf("r%dn%d", r, i), Version: 1, Labels: map[string]string{"rack": fmt.Sprint(r)},
				Allocatable: api.Resources{{Resource: gpu, Value: 2}, {Resource: api.Pods, Value: 9}},
			})
		}
	}
	for i := range 4 {
		requests := api.Resources{{Resource: gpu, Value: 1}}
		if i == 3 {
			requests[0].Value = 2
		}
		snap.Pods = append(snap.Pods, api.Pod{Key: fmt.Sprintf("g-%d", i), Version: 1, Gang: "g", Rank: i, Spec: api.Spec{Requests: requests}})
	}
	m.LoadAll(&snap)
	m.Freshen()
	ix := index.New(m)
	ix.Refresh()
	return m, New(m, ix)
}

// rackOf returns the rack that all allocated pods of the gang are in, "" where that is not one.
func rackOf(m *cluster.Model) string {
	rack := ""
	for _, p := range m.Gangs["g"].Members {
		if p.Host == nil {
			continue
		}
		if at := p.Host.Spec.Labels["rack"]; rack != "" && rack != at {
			return ""
		} else {
			rack = at
		}
	}
	return rack
}

// Like members go to the tightest rack that holds all of them.
func TestUniformTakesTheTightestRack(t *testing.T) {
	m, p := racks(t, 3, 1, 2)
	g := m.Gangs["g"]
	pods := g.Members[:3]
	kin := p.NewKin(g, g.TurnNow(), "", false, nil, nil)
	if !p.Uniform(Order{Class: kin.Class(pods[0]), Layout: g.Layout(), Pods: pods, Want: len(pods)}) {
		t.Fatal("no place is found")
	}
	if got := rackOf(m); got != "2" {
		t.Errorf("the pods are in rack %q, not in 2, which holds them with least to spare", got)
	}
}

// A search places unlike members together, asks whether their queue affords them, and leaves nothing where it does not.
func TestSearchAsksItsLimits(t *testing.T) {
	for _, afford := range []bool{true, false} {
		m, p := racks(t, 1, 3)
		g := m.Gangs["g"]
		var refused []why.Gate
		if !afford {
			refused = []why.Gate{{Cause: why.OverQuota, Certificate: -1}}
		}
		mark := m.Mark()
		x := p.NewSearch(g, p.NewKin(g, g.TurnNow(), "", false, nil, nil), 1000, Limits{
			Afford:  func([]*cluster.Pod) []why.Gate { return refused },
			Exceeds: func([]*cluster.Pod) bool { return false },
			Delays:  func([]*cluster.Pod) []why.Gate { return nil },
			Decides: func(*cluster.Pod) bool { return true },
		})
		if got := x.Minimum(); got != afford {
			t.Errorf("the queue affords it: %v, and it is placed: %v", afford, got)
		}
		if afford && rackOf(m) != "1" {
			t.Errorf("the pods are in rack %q", rackOf(m))
		}
		if !afford && (m.Mark() != mark || x.Failure().Cause != why.OverQuota) {
			t.Errorf("after a refusal: %+v", x.Failure())
		}
	}
}

// Once the queue has refused a place, members that exceed its limits by themselves are taken back before others are placed
// beside them. A place that does not begin with such members is found all the same.
func TestSearchLeavesWhatExceedsLimits(t *testing.T) {
	over := []why.Gate{{Cause: why.OverQueueLimit, Certificate: -1}}
	for _, c := range []struct {
		cheap string // the node on which the queue affords the first member; "": none
		asks  bool   // whether the search is told what exceeds limits
	}{{"r0n2", true}, {"r0n2", false}, {"", true}, {"", false}} {
		m, p := racks(t, 4)
		g := m.Gangs["g"]
		first := g.Members[0]
		dear := func([]*cluster.Pod) bool { return first.Host != nil && first.Host.Name != c.cheap }
		x := p.NewSearch(g, p.NewKin(g, g.TurnNow(), "", false, nil, nil), 1000, Limits{
			Afford: func(pods []*cluster.Pod) []why.Gate {
				if dear(pods) {
					return over
				}
				return nil
			},
			Exceeds: func(pods []*cluster.Pod) bool { return c.asks && dear(pods) },
			Delays:  func([]*cluster.Pod) []why.Gate { return nil },
			Decides: func(*cluster.Pod) bool { return true },
		})
		if got, want := x.Minimum(), c.cheap != ""; got != want || want && first.Host.Name != c.cheap {
			t.Errorf("%+v: placed %v, the first on %v", c, got, first.Host)
		}
		if c.cheap == "" && x.Failure().Cause != why.OverQueueLimit {
			t.Errorf("%+v: %+v", c, x.Failure())
		}
		if most := 20; c.asks != (x.Steps <= most) {
			t.Errorf("%+v: %d steps", c, x.Steps)
		}
	}
}
