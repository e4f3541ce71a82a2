// Package oracle says, slowly and obviously, what a right answer of package engine is: whether a gang can
// start (CanStart), whether a plan is lawful (Valid), whether a certificate is true (Check). It shares the
// value types of package engine and not a line of its code, knows no index, class or shortcut, and tries
// every assignment, so it is for clusters of a handful of nodes and pods. Only tests call it.
package oracle

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/berth-dev/berth/engine"
)

// world is a snapshot at a moment, and where each pod is: bound, assumed, or placed by a trial.
type world struct {
	engine.Snapshot // each pod's requests have its one of Pods among them
	cfg             engine.Config
	gpu             string
	now             time.Time
	node            map[string]engine.Node
	pod             map[string]engine.Pod
	gang            map[string]engine.Gang // with those that pods are by themselves
	at              map[string]spot        // by pod; absent: nowhere
}

// spot is a pod's place. Devices is nil where they are not known.
type spot struct {
	node    string
	devices []string
}

func newWorld(snap engine.Snapshot, cfg engine.Config, now time.Time) *world {
	w := &world{Snapshot: snap, cfg: cfg, gpu: cmp.Or(cfg.GPU, "nvidia.com/gpu"), now: now, node: map[string]engine.Node{},
		pod: map[string]engine.Pod{}, gang: map[string]engine.Gang{}, at: map[string]spot{}}
	w.Pods = slices.Clone(snap.Pods)
	for i, p := range w.Pods {
		p.Requests = append(slices.Clip(p.Requests), engine.Amount{Resource: engine.Pods, Value: 1})
		if p.Gang == "" && !p.Foreign {
			w.gang[p.Key] = engine.Gang{Key: p.Key, Queue: p.Queue, Priority: p.Priority}
		}
		if p.Gang == "" || p.Foreign {
			p.Gang = p.Key
		}
		if p.Node != "" {
			w.at[p.Key] = spot{p.Node, p.Devices}
		}
		w.Pods[i], w.pod[p.Key] = p, p
	}
	for _, n := range snap.Nodes {
		w.node[n.Name] = n
	}
	for _, g := range snap.Gangs {
		w.gang[g.Key] = g
	}
	for _, a := range snap.Assumptions {
		if w.live(a) {
			w.at[a.Pod] = spot{a.Node, a.Devices}
		}
	}
	return w
}

// live says whether an assumption still stands for something.
func (w *world) live(a engine.Assumption) bool {
	p, known := w.pod[a.Pod]
	return known && p.Node == "" && !p.Terminating && !p.Foreign && p.UID == a.UID && w.now.Before(a.Until)
}

// stands says whether a hold still keeps room: its time has not come, and somebody waits for it.
func (w *world) stands(h engine.Hold) bool {
	return w.now.Before(h.Until) && len(w.waiting(h.Gang)) > 0
}

// counts says whether a refusal still bars its node.
func (w *world) counts(r engine.Refusal) bool {
	p, known := w.pod[r.Pod]
	return known && (r.UID == "" || p.UID == r.UID) && w.now.Before(r.Until)
}

// CanStart says whether some waiting members of the gang could start now: together with those that run
// they would make its minimum, and every rule would hold.
func CanStart(snap engine.Snapshot, cfg engine.Config, now time.Time, gang string) bool {
	w := newWorld(snap, cfg, now)
	g, known := w.gang[gang]
	waiting := w.waiting(gang)
	for _, p := range waiting {
		known = known && len(p.Features) == 0 && w.hasGroup(p)
	}
	return known && slices.ContainsFunc(w.models(g), func(model string) bool { return w.try(g, waiting, model, nil) })
}

// try puts the first of the members on every node in turn, with every choice of devices, and nowhere;
// then the next.
func (w *world) try(g engine.Gang, members []engine.Pod, model string, started []engine.Pod) bool {
	if len(members) == 0 {
		return len(started) > 0 && w.lawful(g, started) == nil
	}
	p, rest := members[0], members[1:]
	for _, n := range w.Nodes {
		for _, devices := range w.choices(p, n) {
			if w.bar(p, n, devices, model) != nil {
				continue
			}
			w.at[p.Key] = spot{n.Name, devices}
			if w.try(g, rest, model, append(slices.Clip(started), p)) {
				return true
			}
			delete(w.at, p.Key)
		}
	}
	return w.try(g, rest, model, started)
}

// bar is why the pod may not be on the node with these devices, given who is where; nil: it may.
func (w *world) bar(p engine.Pod, n engine.Node, devices []string, model string) error {
	for _, rule := range w.rules(p, n) {
		if rule.broken {
			return errors.New(rule.name)
		}
	}
	for _, a := range p.Requests {
		if free := w.free(p, n, a.Resource); a.Value > 0 && a.Value > free {
			return fmt.Errorf("asks for %d of %s, %d free", a.Value, a.Resource, free)
		}
	}
	return w.barDevices(p, n, devices, model)
}

type rule struct {
	name   string
	broken bool
}

// rules are those that have nothing to do with amounts.
func (w *world) rules(p engine.Pod, n engine.Node) []rule {
	gpus := func(q engine.Pod) bool { return amount(q.Requests, w.gpu) > 0 }
	whole := func(q engine.Pod) bool { return w.gang[q.Gang].Layout.WholeNodes }
	rules := []rule{
		{"cordon", n.Cordoned && !tolerates(p, unschedulable)},
		{"node name", p.NodeName != "" && p.NodeName != n.Name},
		{"allowed nodes", p.Nodes != nil && !slices.Contains(p.Nodes, n.Name)},
		{"affinity", p.Affinity != nil && !slices.ContainsFunc(p.Affinity, func(t engine.Term) bool { return matches(t, n) })},
	}
	for _, t := range n.Taints {
		rules = append(rules, rule{"taint", t.Effect != engine.PreferNoSchedule && !tolerates(p, t)})
	}
	for k, v := range p.Selector {
		got, ok := n.Labels[k]
		rules = append(rules, rule{"selector", !ok || got != v})
	}
	for _, r := range w.Refusals {
		rules = append(rules, rule{"refusal", w.counts(r) && w.pod[r.Pod].Gang == p.Gang && r.Node == n.Name})
	}
	for _, q := range w.neighbours(p, n) {
		for _, a := range q.Ports {
			rules = append(rules, rule{"port", slices.ContainsFunc(p.Ports, func(b engine.Port) bool { return clash(a, b) })})
		}
		there := w.at[q.Key].node == n.Name
		rules = append(rules, rule{"whole node", there && q.Gang != p.Gang && gpus(p) && gpus(q) && (whole(p) || whole(q))})
	}
	return rules
}

// free is what is left of a resource on the node for the pod; negative by others' doing.
func (w *world) free(p engine.Pod, n engine.Node, resource string) int64 {
	free := amount(n.Allocatable, resource)
	for _, q := range w.neighbours(p, n) {
		free -= amount(q.Requests, resource)
	}
	for _, h := range w.Holds {
		if h.Node == n.Name && h.Gang != p.Gang && w.stands(h) {
			free -= amount(h.Requests, resource)
		}
	}
	return free
}

// neighbours is the pods on the node, and those nominated for it that p must leave room for.
func (w *world) neighbours(p engine.Pod, n engine.Node) (out []engine.Pod) {
	for _, q := range w.Pods {
		on, placed := w.at[q.Key]
		if on.node == n.Name || !placed && q.Nominated == n.Name && q.Gang != p.Gang && q.Priority >= w.gang[p.Gang].Priority {
			out = append(out, q)
		}
	}
	return out
}

// unschedulable is the taint that a cordon amounts to.
var unschedulable = engine.Taint{Key: "node.kubernetes.io/unschedulable", Effect: engine.NoSchedule}

func tolerates(p engine.Pod, t engine.Taint) bool {
	return slices.ContainsFunc(p.Tolerations, func(tol engine.Toleration) bool {
		return (tol.Effect == "" || tol.Effect == t.Effect) && (tol.Key == "" || tol.Key == t.Key) && (tol.Op == "Exists" || tol.Value == t.Value)
	})
}

func matches(t engine.Term, n engine.Node) bool {
	unmet := func(r engine.Requirement) bool { return !holds(r, n.Labels) }
	unmetField := func(r engine.Requirement) bool { return !holds(r, map[string]string{"metadata.name": n.Name}) }
	return len(t.Labels)+len(t.Fields) > 0 && !slices.ContainsFunc(t.Labels, unmet) && !slices.ContainsFunc(t.Fields, unmetField)
}

func holds(r engine.Requirement, labels map[string]string) bool {
	v, ok := labels[r.Key]
	switch r.Op {
	case engine.In, engine.NotIn:
		return (ok && slices.Contains(r.Values, v)) == (r.Op == engine.In)
	case engine.Exists, engine.DoesNotExist:
		return ok == (r.Op == engine.Exists)
	}
	have, err := strconv.ParseInt(v, 10, 64)
	bound, _ := strconv.ParseInt(r.Values[0], 10, 64)
	return ok && err == nil && (r.Op == engine.Gt && have > bound || r.Op == engine.Lt && have < bound)
}

func clash(a, b engine.Port) bool {
	every := func(p engine.Port) bool { return p.IP == "" || p.IP == "0.0.0.0" }
	return a.Port == b.Port && cmp.Or(a.Protocol, "TCP") == cmp.Or(b.Protocol, "TCP") && (every(a) || every(b) || a.IP == b.IP)
}

func amount(rs engine.Resources, resource string) (total int64) {
	for _, a := range rs {
		if a.Resource == resource {
			total += a.Value
		}
	}
	return total
}
