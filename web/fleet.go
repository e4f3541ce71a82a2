package web

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/capacity"
	"github.com/berth-dev/berth/capacity/join"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/answer"
)

// Kinds of the table.
const (
	kindNode     = "node"
	kindWorkload = "workload"
	kindQueue    = "queue"
	kindSource   = "source"
	kindTotal    = "total"
	kindLine     = "line"
)

// node is a machine with GPUs as the page draws it. GPUs are runs of equal cells, in the order of the node's own numbers where
// these are known.
type node struct {
	Zone   string `json:"zone,omitempty"`
	Block  string `json:"block,omitempty"`
	Rack   string `json:"rack,omitempty"`
	Clique string `json:"clique,omitempty"`
	Pool   string `json:"pool,omitempty"`
	Model  string `json:"model,omitempty"`
	GPUs   []run  `json:"gpus"`
	Said   string `json:"said,omitempty"` // what is wrong, in a sentence
	Fix    string `json:"fix,omitempty"`  // what to do about it
	Parts  string `json:"parts,omitempty"`
	MIG    []part `json:"mig,omitempty"` // the instances that its GPUs are divided into, by profile
}

// part is MIG instances of one profile on a node. Which GPU has which is not said by a node that counts them.
type part struct {
	Profile string `json:"profile"`
	Slices  int    `json:"slices"` // of a GPU's 7
	N       int64  `json:"n"`
	Held    int64  `json:"held"`
}

// run is N cells that are alike.
type run struct {
	N     int      `json:"n"`
	Stage string   `json:"stage"`
	Cause string   `json:"cause,omitempty"`
	Pods  []string `json:"pods,omitempty"` // that hold them, as namespace/name; at most fewPods
	More  int      `json:"more,omitempty"` // pods that are not named
	// Hidden are pods that the viewer may not list.
	Hidden int    `json:"hidden,omitempty"`
	Work   string `json:"work,omitempty"` // the workload of the first, as namespace/name in the scheduler's words
}

// fewPods bounds the pods that are named for one GPU.
const fewPods = 4

func (r *run) like(o *run) bool {
	return r.Stage == o.Stage && r.Cause == o.Cause && r.Work == o.Work && r.More == o.More && r.Hidden == o.Hidden && slices.Equal(r.Pods, o.Pods)
}

// total is the fleet in numbers: how many GPUs reached each stage.
type total struct {
	Nodes   int              `json:"nodes"`
	Reached map[string]int64 `json:"reached"`
}

// fleetOf makes the cells out of the account of every GPU.
func fleetOf(f *facts.Facts) map[string]*node {
	r := join.Of(join.Input{Facts: f})
	byName := make(map[string]*corev1.Node, len(f.Nodes))
	for _, n := range f.Nodes {
		byName[n.Name] = n
	}
	nodes := make(map[string]*node)
	works := make(map[string]string)
	pods := make(map[string]*corev1.Pod, len(f.Pods))
	for _, p := range f.Pods {
		pods[p.Namespace+"/"+p.Name] = p
	}
	workOf := func(key string) string {
		if w, ok := works[key]; ok {
			return w
		}
		if p := pods[key]; p != nil {
			works[key] = p.Namespace + "/" + f.WorkloadOf(p)
		}
		return works[key]
	}
	on := make(map[string][]*corev1.Pod)
	for _, p := range f.Pods {
		if p.Spec.NodeName != "" && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			on[p.Spec.NodeName] = append(on[p.Spec.NodeName], p)
		}
	}
	for _, g := range r.GPUs {
		name := r.Nodes[g.Unit]
		if name == "" {
			continue // no node yet: the ledger has it
		}
		n := nodes[name]
		if n == nil {
			n = newNode(byName[name], g.Pool)
			if n.MIG = partsOf(byName[name], on[name]); len(n.MIG) > 0 {
				n.Parts = "mig"
			}
			n.Said, n.Fix = r.Said[g.Unit].Message, r.Said[g.Unit].Fix
			nodes[name] = n
		}
		cell := run{N: 1, Stage: g.Stage.String(), Cause: g.Cause}
		for _, p := range r.Holders[g.ID] {
			if len(cell.Pods) < fewPods {
				cell.Pods = append(cell.Pods, p)
			} else {
				cell.More++
			}
		}
		if len(cell.Pods) > 0 {
			cell.Work = workOf(cell.Pods[0])
		}
		if last := len(n.GPUs) - 1; last >= 0 && n.GPUs[last].like(&cell) {
			n.GPUs[last].N++
			continue
		}
		n.GPUs = append(n.GPUs, cell)
	}
	return nodes
}

// around are the facts about some nodes: each node's GPUs are counted by themselves.
func around(f *facts.Facts, names map[string]bool) *facts.Facts {
	out := &facts.Facts{At: f.At, Objects: f.Objects}
	out.Nodes, out.Pods = nil, nil
	for _, n := range f.Nodes {
		if names[n.Name] {
			out.Nodes = append(out.Nodes, n)
		}
	}
	for _, p := range f.Pods {
		if names[p.Spec.NodeName] {
			out.Pods = append(out.Pods, p)
		}
	}
	return out
}

func sumOf(nodes map[string]*node) total {
	sum := total{Nodes: len(nodes), Reached: make(map[string]int64)}
	for _, n := range nodes {
		for i := range n.GPUs {
			r := &n.GPUs[i]
			for _, s := range capacity.Stages() {
				sum.Reached[s.String()] += int64(r.N)
				if s.String() == r.Stage {
					break
				}
			}
		}
	}
	return sum
}

func newNode(n *corev1.Node, pool string) *node {
	if n == nil {
		return &node{Pool: pool}
	}
	return nodeOf(n.Labels, pool)
}

// nodeOf is a machine with these labels, and no GPUs yet.
func nodeOf(l map[string]string, pool string) *node {
	out := &node{
		Zone: l[corev1.LabelTopologyZone], Block: l[v1alpha1.LabelBlock], Rack: l[v1alpha1.LabelRack], Clique: l[v1alpha1.LabelClique],
		Pool: pool, Model: l["nvidia.com/gpu.product"],
	}
	if strings.Contains(out.Model, "-MIG-") { // the label of the strategy is there whether or not a GPU is divided
		out.Parts = "mig"
	}
	if l["nvidia.com/gpu.sharing-strategy"] != "" && l["nvidia.com/gpu.sharing-strategy"] != "none" {
		out.Parts = cmp.Or(out.Parts, l["nvidia.com/gpu.sharing-strategy"])
	}
	return out
}

// partsOf are the MIG instances that a node offers, the largest first.
func partsOf(n *corev1.Node, pods []*corev1.Pod) (out []part) {
	if n == nil {
		return nil
	}
	for name, q := range n.Status.Allocatable {
		profile, ok := strings.CutPrefix(string(name), "nvidia.com/mig-")
		count, _, sized := strings.Cut(profile, "g.")
		k, err := strconv.Atoi(count)
		if !ok || !sized || err != nil || q.Value() <= 0 {
			continue
		}
		p := part{Profile: profile, Slices: min(max(k, 1), 7), N: q.Value()}
		for _, pod := range pods {
			for i := range pod.Spec.Containers {
				asked := pod.Spec.Containers[i].Resources.Requests[name]
				p.Held += asked.Value()
			}
		}
		p.Held = min(p.Held, p.N)
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b part) int { return cmp.Or(cmp.Compare(b.Slices, a.Slices), cmp.Compare(a.Profile, b.Profile)) })
	return out
}

// rows encodes values by name.
func rows[V any](values map[string]V) map[string]json.RawMessage {
	out := make(map[string]json.RawMessage, len(values))
	for name, v := range values {
		out[name] = encode(v)
	}
	return out
}

// lineRows are queues and workloads by name, with their place in the lists: a queue has its place in the tree, and a workload in
// the line.
func lineRows(queues answer.QueueList, workloads answer.WorkloadList) (q, w map[string]json.RawMessage) {
	type queueRow struct {
		Order int `json:"order"`
		answer.Queue
	}
	type workloadRow struct {
		Order int    `json:"order"`
		Title string `json:"title"`
		answer.Workload
	}
	q, w = make(map[string]json.RawMessage), make(map[string]json.RawMessage)
	for i, item := range queues.Items {
		q[item.Name] = encode(queueRow{i, item})
	}
	waiting := 0
	for _, item := range workloads.Items {
		row := workloadRow{Title: item.Reference().Title(), Workload: item}
		if item.State == answer.Waiting {
			row.Order = waiting
			waiting++
		}
		if item.Position != nil {
			item.Position.Ahead = nil // the line says it
		}
		w[item.Namespace+"/"+item.Name] = encode(row)
	}
	return q, w
}

// models are the GPU models of the fleet, sorted.
func models(nodes map[string]*node) []string {
	out := make(map[string]bool)
	for _, n := range nodes {
		if n.Model != "" {
			out[n.Model] = true
		}
	}
	return slices.Sorted(maps.Keys(out))
}
