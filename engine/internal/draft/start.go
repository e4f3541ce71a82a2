package draft

import (
	"cmp"
	"slices"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/why"
)

// Start notes that the pods of the gang start, on the nodes that they have in the model, and what they borrow. A gang that grows in
// the plan that starts it has one Start, with its pods by rank. With inOrder that is only so while no other has started in between:
// then what was placed later may lean on what started before it, and must not be carried out earlier.
func (d *Draft) Start(g *cluster.Gang, kind api.StartKind, model string, pods []*cluster.Pod, borrowed api.Resources, inOrder bool) {
	//mutate: grow-in-order
	if n := d.starts[g]; n > 0 && (n == len(d.Plan.Starts) || !inOrder) {
		start := &d.Plan.Starts[n-1]
		start.Placements = append(start.Placements, placements(pods)...)
		rank := make(map[string]*cluster.Pod)
		for _, p := range g.All() {
			rank[p.Key] = p
		}
		slices.SortFunc(start.Placements, func(a, b api.Placement) int { return cluster.ComparePods(rank[a.Pod], rank[b.Pod]) })
		start.Model, start.Borrowed = cmp.Or(start.Model, model), start.Borrowed.Plus(borrowed)
		return
	}
	if d.starts == nil {
		d.starts = make(map[*cluster.Gang]int)
	}
	d.starts[g] = len(d.Plan.Starts) + 1
	d.Plan.Starts = append(d.Plan.Starts, api.Start{Gang: g.Key, Kind: kind, Model: model, Borrowed: borrowed, Placements: placements(pods)})
}

func placements(pods []*cluster.Pod) []api.Placement {
	out := make([]api.Placement, len(pods))
	for i, p := range pods {
		out[i] = api.Placement{Pod: p.Key, UID: p.UID, Node: p.Host.Name, Devices: p.HostDevices}
	}
	return out
}

// Starts says whether some of the gang starts in the plan, and with which GPU model, "" for any.
func (d *Draft) Starts(g *cluster.Gang) (model string, ok bool) {
	if n := d.starts[g]; n > 0 {
		return d.Plan.Starts[n-1].Model, true
	}
	return "", false
}

// Wait notes that the workload waits at the gates, the one that binds first. short says that it runs under its minimum.
func (d *Draft) Wait(workload string, gates []why.Gate, short bool) {
	d.Plan.Waiting = append(d.Plan.Waiting, api.Waiting{Gang: workload, Verdict: why.VerdictOf(gates), Cause: gates[0].Cause, Gates: gates, Short: short})
}
