package submit

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/capacity/maintenance"
	"github.com/berth-dev/berth/diagnose"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/cluster"
)

// DrainKind is the kind of a Drain as an object.
const DrainKind = "Drain"

// Drain is when nodes are drained, and what it costs.
type Drain struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	At         time.Time `json:"at"`
	maintenance.Plan
	Unseen []facts.Unseen `json:"unseen,omitempty"`
}

// Maintain plans when the nodes are drained in the window. Work that holds GPUs counts, whichever scheduler placed it.
func Maintain(w World, nodes []string, window maintenance.Window) (Drain, error) {
	out := Drain{APIVersion: diagnose.APIVersion, Kind: DrainKind, At: w.Facts.At, Unseen: slices.Clone(w.Facts.Unseen)}
	p := newPlanner(w.Facts, w.Model)
	if p.blind() {
		return out, ErrBlind
	}
	for _, name := range nodes {
		if !slices.ContainsFunc(w.Facts.Nodes, func(n *corev1.Node) bool { return n.Name == name }) {
			return out, fmt.Errorf("there is no node %s%s", name, among(name, w.NodeNames()))
		}
	}
	out.Plan = maintenance.Make(window, nodes, worksOn(nodes, p.model.Snapshot(), cmp.Or(w.Model.Engine.GPU, cluster.DefaultGPU), w.Facts.At))
	return out, nil
}

// worksOn are the workloads that hold GPUs on some of the nodes.
func worksOn(nodes []string, snap engine.Snapshot, gpu string, now time.Time) []maintenance.Work {
	terms := make(map[string]engine.Terms, len(snap.Gangs))
	for i := range snap.Gangs {
		terms[snap.Gangs[i].Key] = snap.Gangs[i].Terms
	}
	at := make(map[string]int)
	var all []maintenance.Work
	for i := range snap.Pods {
		p := &snap.Pods[i]
		n := p.Requests.Get(gpu)
		if p.Node == "" || p.Terminating || n == 0 {
			continue
		}
		key := p.WorkloadKey()
		t, gang := terms[p.Gang]
		if !gang {
			t = p.Terms
		}
		j, known := at[key]
		if !known {
			j = len(all)
			at[key] = j
			all = append(all, maintenance.Work{Key: key, Started: p.Started, Checkpoint: t.Checkpoint, Restart: t.Restart, Ends: endOf(p.Started, t, now)})
		}
		work := &all[j]
		work.GPUs += n
		if p.Started.Before(work.Started) {
			work.Started, work.Ends = p.Started, endOf(p.Started, t, now)
		}
		if slices.Contains(nodes, p.Node) && !slices.Contains(work.Nodes, p.Node) {
			work.Nodes = append(work.Nodes, p.Node)
		}
	}
	return slices.DeleteFunc(all, func(w maintenance.Work) bool { return len(w.Nodes) == 0 })
}

// endOf is when work is over that began then, as its author says; zero: nobody knows, or it should be over already.
func endOf(started time.Time, t engine.Terms, now time.Time) time.Time {
	takes := t.Expected
	if t.Max > 0 && (takes == 0 || t.Max < takes) {
		takes = t.Max
	}
	if takes == 0 || started.IsZero() || !started.Add(takes).After(now) {
		return time.Time{}
	}
	return started.Add(takes)
}
