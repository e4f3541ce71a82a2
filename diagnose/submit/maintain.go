package submit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/capacity/maintenance"
	"github.com/berth-dev/berth/diagnose"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/cluster"
	"github.com/berth-dev/berth/kube/convert"
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
	out.Plan = maintenance.Make(window, nodes, worksOn(nodes, p.model.Snapshot(), cmp.Or(w.Model.Engine.GPU, cluster.DefaultGPU), w.Facts))
	return out, nil
}

// worksOn are the workloads that hold GPUs on some of the nodes.
func worksOn(nodes []string, snap engine.Snapshot, gpu string, f *facts.Facts) []maintenance.Work {
	terms := make(map[string]engine.Terms, len(snap.Gangs))
	for i := range snap.Gangs {
		terms[snap.Gangs[i].Key] = snap.Gangs[i].Terms
	}
	at := make(map[string]int)
	var all []maintenance.Work
	var of []engine.Terms
	var pods [][]string
	for i := range snap.Pods {
		p := &snap.Pods[i]
		n := p.Requests.Get(gpu)
		if p.Node == "" || p.Terminating || n == 0 {
			continue
		}
		key := p.WorkloadKey()
		j, known := at[key]
		if !known {
			t, gang := terms[p.Gang]
			if !gang {
				t = p.Terms
			}
			j = len(all)
			at[key] = j
			all, of, pods = append(all, maintenance.Work{Key: key, Started: p.Started, Checkpoint: t.Checkpoint, Restart: t.Restart}), append(of, t), append(pods, nil)
		}
		work := &all[j]
		work.GPUs += n
		pods[j] = append(pods[j], p.Key)
		if p.Started.Before(work.Started) {
			work.Started = p.Started
		}
		if slices.Contains(nodes, p.Node) && !slices.Contains(work.Nodes, p.Node) {
			work.Nodes = append(work.Nodes, p.Node)
		}
	}
	past := tookBefore(f)
	for j := range all {
		usual := past.usual(f, pods[j])
		all[j].Ends, all[j].Learned = endOf(all[j].Started, of[j], usual, f.At)
	}
	return slices.DeleteFunc(all, func(w maintenance.Work) bool { return len(w.Nodes) == 0 })
}

// endOf is when work is over that began then; zero: unknown, or it should be over already. What its author expects counts first, then
// how long work like it took, which is learned, and then the limit of its author.
func endOf(started time.Time, t engine.Terms, usual time.Duration, now time.Time) (end time.Time, learned bool) {
	takes := func(d time.Duration) time.Time {
		if t.Max > 0 && t.Max < d {
			d = t.Max
		}
		if d == 0 || started.IsZero() || !started.Add(d).After(now) {
			return time.Time{}
		}
		return started.Add(d)
	}
	if t.Expected > 0 {
		return takes(t.Expected), false
	}
	if end := takes(usual); !end.IsZero() && (t.Max == 0 || usual < t.Max) {
		return end, true
	}
	return takes(t.Max), false
}

// past are the run times of workloads that have succeeded and whose pods are still there, by kind and number of pods.
type past map[string][]time.Duration

// leastPast is how many run times of a kind tell something, as for the scheduler's own estimates (kube/cluster).
const leastPast = 3

// tookBefore reads how long workloads took from when their first pod got a node until the last one had succeeded. It needs no memory: the
// scheduler's is gone after a restart, and a bundle of evidence has none.
func tookBefore(f *facts.Facts) past {
	type work struct {
		pods       int
		kind       string
		start, end time.Time
		not        bool // a pod did not succeed, or still runs
	}
	works := make(map[string]*work)
	for _, p := range f.Pods {
		key, _ := convert.GangOf(p)
		if key == "" {
			key = p.Namespace + "/" + p.Name
		}
		w := works[key]
		if w == nil {
			w = &work{kind: convert.Kind(p)}
			works[key] = w
		}
		w.pods++
		start, end := convert.Started(p), finished(p)
		if w.not = w.not || start.IsZero() || end.IsZero(); w.not {
			continue
		}
		if w.start.IsZero() || start.Before(w.start) {
			w.start = start
		}
		if end.After(w.end) {
			w.end = end
		}
	}
	out := make(past)
	for _, w := range works { //archtest:any-order they are sorted below
		if took := w.end.Sub(w.start); !w.not && took > 0 && w.kind != "" {
			key := pastKey(w.kind, w.pods)
			out[key] = append(out[key], took)
		}
	}
	for _, list := range out { //archtest:any-order each is by itself
		slices.Sort(list)
	}
	return out
}

func pastKey(kind string, pods int) string { return fmt.Sprintf("%s x%d", kind, pods) }

// finished is when the last container of a pod that has succeeded ended; zero: it has not, or nothing tells.
func finished(p *corev1.Pod) (end time.Time) {
	if p.Status.Phase != corev1.PodSucceeded {
		return time.Time{}
	}
	for _, c := range p.Status.ContainerStatuses {
		if t := c.State.Terminated; t != nil && t.FinishedAt.After(end) {
			end = t.FinishedAt.UTC()
		}
	}
	return end
}

// usual is how long nine in ten workloads like that of the pods took; 0: too few are known.
func (t past) usual(f *facts.Facts, pods []string) time.Duration {
	namespace, name, _ := strings.Cut(pods[0], "/")
	p := f.PodNamed(namespace, name)
	if p == nil {
		return 0
	}
	list := t[pastKey(convert.Kind(p), len(pods))]
	if len(list) < leastPast {
		return 0
	}
	return list[(9*len(list)+9)/10-1]
}
