// Package oracle says, slowly and obviously, what a right answer of package engine is: whether a gang can
// start (CanStart), whether a plan is lawful (Valid), whether a certificate is true (Check). It shares the
// value types of package engine and not a line of its code, knows no index, class or shortcut, and tries
// every assignment, so it is for clusters of a handful of nodes and pods. Only tests call it.
package oracle

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-dev/berth/engine"
)

// world is a snapshot at a moment, and where each pod is. Pods ask for their one of Pods like for all else,
// and a pod without a gang, or another scheduler's, is its own.
type world struct {
	engine.Snapshot
	cfg     engine.Config
	gpu     string
	now     time.Time
	node    map[string]engine.Node
	pod     map[string]engine.Pod
	gang    map[string]engine.Gang
	at, was map[string]spot // by pod: now, and before what is being tried; absent: nowhere
}

// spot is a pod's place. Devices is nil where they are not known.
type spot struct {
	node    string
	devices []string
}

func newWorld(snap engine.Snapshot, cfg engine.Config, now time.Time) *world {
	w := &world{Snapshot: snap, cfg: cfg, gpu: cmp.Or(cfg.GPU, "nvidia.com/gpu"), now: now, node: map[string]engine.Node{},
		pod: map[string]engine.Pod{}, gang: map[string]engine.Gang{}, at: map[string]spot{}, was: map[string]spot{}}
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
			w.at[p.Key], w.was[p.Key] = spot{p.Node, p.Devices}, spot{p.Node, p.Devices}
		}
		w.Pods[i], w.pod[p.Key] = p, p
	}
	for _, n := range snap.Nodes {
		w.node[n.Name] = n
	}
	for _, g := range snap.Gangs {
		w.gang[g.Key] = g
	}
	for _, a := range filter(snap.Assumptions, w.live) {
		w.at[a.Pod], w.was[a.Pod] = spot{a.Node, a.Devices}, spot{a.Node, a.Devices}
	}
	return w
}

// live, counts and stands say whether a piece of memory still means something.
func (w *world) live(a engine.Assumption) bool {
	p, known := w.pod[a.Pod]
	return known && p.Node == "" && !p.Terminating && !p.Foreign && p.UID == a.UID && w.now.Before(a.Until)
}

func (w *world) counts(r engine.Refusal) bool {
	p, known := w.pod[r.Pod]
	return known && (r.UID == "" || p.UID == r.UID) && w.now.Before(r.Until)
}

func (w *world) stands(h engine.Hold) bool {
	return w.now.Before(h.Until) && len(w.waiting(h.Gang)) > 0
}

// CanStart says whether some waiting members of the gang could start now: together with those that run
// they would make its minimum, and every rule would hold.
func CanStart(snap engine.Snapshot, cfg engine.Config, now time.Time, gang string) bool {
	w := newWorld(snap, cfg, now)
	g, known := w.gang[gang]
	waiting := w.waiting(gang)
	return known && !some(waiting, func(p engine.Pod) bool { return len(p.Features) > 0 }) &&
		some(w.models(g), func(model string) bool { return w.try(g, waiting, model) })
}

// try has the first of the members on every node in turn, with every choice of devices, and nowhere; then
// the next.
func (w *world) try(g engine.Gang, members []engine.Pod, model string) bool {
	if len(members) == 0 {
		return len(w.fresh(w.Pods)) > 0 && w.breach(g) == ""
	}
	p, rest := members[0], members[1:]
	for _, n := range w.Nodes {
		for _, ids := range w.choices(p, n, model) {
			w.at[p.Key] = spot{n.Name, ids}
			if w.try(g, rest, model) {
				return true
			}
			delete(w.at, p.Key)
		}
	}
	return w.try(g, rest, model)
}

// choices is every way to have the pod on the node, each with its devices, alike devices being one. A nil way
// leaves them to the kubelet: the node names none, or some are given away and it is not known which, so that
// only their number is sure, and nothing about how they lie.
func (w *world) choices(p engine.Pod, n engine.Node, model string) (ways [][]string) {
	count, silent, free := int(amount(p.Requests, w.gpu)), w.silent(n), w.usable(p, n, model)
	fussy := count > 1 && (p.GPU.Clique == engine.Require || p.GPU.NUMA == engine.Require)
	unnamed := len(n.Devices) == 0
	switch {
	case !w.fits(p, n), unnamed && count > 0 && (fussy || len(p.GPU.Models) > 0):
		return nil
	case unnamed, count == 0, silent > 0 && !fussy && len(free)-silent >= count:
		return [][]string{nil}
	case silent > 0:
		return nil
	}
	for _, set := range subsets(free, count) {
		if lieTogether(p, set) {
			ways = append(ways, names(set))
		}
	}
	return ways
}

// fits says whether every rule but those of devices lets the pod onto the node.
func (w *world) fits(p engine.Pod, n engine.Node) bool {
	near := w.neighbours(p, n)
	gpus := func(q engine.Pod) bool { return amount(q.Requests, w.gpu) > 0 }
	whole := func(q engine.Pod) bool { return w.gang[q.Gang].Layout.WholeNodes }
	for k, v := range p.Selector {
		if got, ok := n.Labels[k]; !ok || got != v {
			return false
		}
	}
	return (!n.Cordoned || tolerates(p, unschedulable)) &&
		!some(n.Taints, func(t engine.Taint) bool { return t.Effect != engine.PreferNoSchedule && !tolerates(p, t) }) &&
		(p.NodeName == "" || p.NodeName == n.Name) && (p.Nodes == nil || slices.Contains(p.Nodes, n.Name)) &&
		(p.Affinity == nil || some(p.Affinity, func(t engine.Term) bool { return matches(t, n) })) &&
		!some(w.Refusals, func(r engine.Refusal) bool { return w.counts(r) && w.pod[r.Pod].Gang == p.Gang && r.Node == n.Name }) &&
		!some(near, func(q engine.Pod) bool { return some(q.Ports, func(a engine.Port) bool { return clash(a, p.Ports) }) }) &&
		!some(near, func(q engine.Pod) bool {
			return w.at[q.Key].node != "" && q.Gang != p.Gang && gpus(p) && gpus(q) && (whole(p) || whole(q))
		}) &&
		!some(p.Requests, func(a engine.Amount) bool { return a.Value > 0 && a.Value > w.free(p, n, a.Resource) })
}

// free is what is left of a resource on the node for the pod; negative by others' doing.
func (w *world) free(p engine.Pod, n engine.Node, resource string) int64 {
	kept := filter(w.Holds, func(h engine.Hold) bool { return h.Node == n.Name && h.Gang != p.Gang && w.stands(h) })
	free := amount(n.Allocatable, resource) - sum(w.neighbours(p, n), resource)
	for _, h := range kept {
		free -= amount(h.Requests, resource)
	}
	return free
}

// neighbours is the pods on the node, and those nominated for it that p must leave room for.
func (w *world) neighbours(p engine.Pod, n engine.Node) []engine.Pod {
	return filter(w.Pods, func(q engine.Pod) bool {
		on, placed := w.at[q.Key]
		return on.node == n.Name || !placed && q.Nominated == n.Name && q.Gang != p.Gang && q.Priority >= w.gang[p.Gang].Priority
	})
}

// usable is the healthy devices of the node that nobody is known to have, of the model if the pod asks for one.
func (w *world) usable(p engine.Pod, n engine.Node, model string) []engine.Device {
	return filter(n.Devices, func(d engine.Device) bool {
		taken := some(w.Pods, func(q engine.Pod) bool {
			return w.at[q.Key].node == n.Name && slices.Contains(w.at[q.Key].devices, d.ID)
		})
		return !d.Unhealthy && !taken && (len(p.GPU.Models) == 0 || d.Model == model && slices.Contains(p.GPU.Models, model))
	})
}

// silent is how many GPUs of the node are given away without it being known which.
func (w *world) silent(n engine.Node) (total int) {
	for _, q := range filter(w.Pods, func(q engine.Pod) bool { return w.at[q.Key].node == n.Name }) {
		known := filter(n.Devices, func(d engine.Device) bool { return slices.Contains(w.at[q.Key].devices, d.ID) })
		total += max(0, int(amount(q.Requests, w.gpu))-len(known))
	}
	return total
}

// subsets is every way to take so many of the devices, alike ones being one.
func subsets(of []engine.Device, count int) (all [][]engine.Device) {
	if count == 0 {
		return [][]engine.Device{nil}
	}
	for i, d := range of {
		alike := func(o engine.Device) bool { return o.Model == d.Model && o.Clique == d.Clique && o.NUMA == d.NUMA }
		if some(of[:i], alike) {
			continue
		}
		for _, rest := range subsets(of[i+1:], count-1) {
			all = append(all, append([]engine.Device{d}, rest...))
		}
	}
	return all
}

// lieTogether says whether the devices are in one clique and on one NUMA node as far as the pod requires.
func lieTogether(p engine.Pod, set []engine.Device) bool {
	return !some(set, func(d engine.Device) bool {
		return p.GPU.Clique == engine.Require && len(set) > 1 && (d.Clique == "" || d.Clique != set[0].Clique) ||
			p.GPU.NUMA == engine.Require && d.NUMA != set[0].NUMA
	})
}

var unschedulable = engine.Taint{Key: "node.kubernetes.io/unschedulable", Effect: engine.NoSchedule} // what a cordon amounts to

func tolerates(p engine.Pod, t engine.Taint) bool {
	return some(p.Tolerations, func(o engine.Toleration) bool {
		return (o.Effect == "" || o.Effect == t.Effect) && (o.Key == "" || o.Key == t.Key) && (o.Op == "Exists" || o.Value == t.Value)
	})
}

func matches(t engine.Term, n engine.Node) bool {
	unmet := func(r engine.Requirement) bool { return !holds(r, n.Labels) }
	unmetField := func(r engine.Requirement) bool { return !holds(r, map[string]string{"metadata.name": n.Name}) }
	return len(t.Labels)+len(t.Fields) > 0 && !some(t.Labels, unmet) && !some(t.Fields, unmetField)
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

func clash(a engine.Port, ports []engine.Port) bool {
	every := func(p engine.Port) bool { return p.IP == "" || p.IP == "0.0.0.0" }
	return some(ports, func(b engine.Port) bool {
		return a.Port == b.Port && cmp.Or(a.Protocol, "TCP") == cmp.Or(b.Protocol, "TCP") && (every(a) || every(b) || a.IP == b.IP)
	})
}

// breach names the rule about the gang as a whole that what is being tried breaks; "": none. A group that
// gets no member is as it was.
func (w *world) breach(g engine.Gang) string {
	charged := filter(w.Pods, func(p engine.Pod) bool { return w.gang[p.Gang].Queue == g.Queue })
	queue := filter(w.Queues, func(q engine.Queue) bool { return q.Name == g.Queue })
	if g.Queue != "" && (len(queue) == 0 || some(queue[0].Limits, func(l engine.Amount) bool {
		return sum(w.fresh(charged), l.Resource) > 0 && sum(w.up(charged), l.Resource) > l.Value
	})) {
		return "queue"
	}
	for _, group := range append(slices.Clip(g.Groups), g.Group) {
		members := w.members(g, group)
		switch l := group.Layout; {
		case len(w.fresh(members)) == 0:
		case !w.full(g, group):
			return "minimum of group " + group.Name
		case l.Required != "" && !w.together(members, l.Required):
			return "required " + l.Required
		case l.Segment > 0 && !w.inOrder(group, members):
			return "first by rank"
		case l.Segment > 0 && some(slices.Collect(slices.Chunk(members, l.Segment)), func(s []engine.Pod) bool { return !w.together(s, l.SegmentLevel) }):
			return "segments of " + l.SegmentLevel
		}
	}
	return ""
}

// full says whether the group has its minimum: of members, or of groups below it.
func (w *world) full(g engine.Gang, group engine.Group) bool {
	below := filter(g.Groups, func(c engine.Group) bool { return c.Parent == group.Name })
	if len(below) > 0 {
		return len(filter(below, func(c engine.Group) bool { return w.full(g, c) })) >= cmp.Or(group.MinGroups, len(below))
	}
	members := w.members(g, group)
	return len(w.up(members)) >= cmp.Or(group.Min, group.Size, len(members))
}

// inOrder says whether, of a group with segments, the first by rank made up what lacked of the minimum:
// otherwise segments would start in halves.
func (w *world) inOrder(group engine.Group, members []engine.Pod) bool {
	waited := filter(members, func(p engine.Pod) bool { return w.was[p.Key].node == "" })
	lacked := max(0, cmp.Or(group.Min, group.Size, len(members))-(len(members)-len(waited)))
	return len(w.fresh(waited[:lacked])) == lacked
}

// together says whether those of the pods that are being tried are in one domain of the level: at home,
// where most of the others run.
func (w *world) together(pods []engine.Pod, level string) bool {
	home := w.home(filter(pods, func(p engine.Pod) bool { return w.was[p.Key].node != "" }), level)
	return !some(w.fresh(pods), func(p engine.Pod) bool {
		d, in := w.domain(w.node[w.at[p.Key].node], level)
		home = cmp.Or(home, d)
		return !in || d != home
	})
}

// home is the domain of the level where most of the pods are, the first by name of equals; "": none.
func (w *world) home(pods []engine.Pod, level string) (home string) {
	count := map[string]int{}
	for _, p := range pods {
		if d, in := w.domain(w.node[w.at[p.Key].node], level); in && level != "" {
			count[d]++
		}
	}
	for d, c := range count {
		if home == "" || c > count[home] || c == count[home] && d < home {
			home = d
		}
	}
	return home
}

// domain is the node's domain of a level, named by the path to it, and whether it is in one: it has the
// level's label. A wider label that it does not have is an empty step of the path.
func (w *world) domain(n engine.Node, level string) (string, bool) {
	var path []string
	for _, l := range w.cfg.Levels {
		v, ok := n.Labels[l.Label]
		if path = append(path, v); l.Name == level || l.Label == level {
			return strings.Join(path, "/"), ok
		}
	}
	if level == engine.NodeLevel {
		return n.Name, n.Name != ""
	}
	v, ok := n.Labels[level]
	return v, ok
}

// models is the GPU models that the gang may get, best first: the one that a member is known to run on, else
// those that all waiting members who ask for any have in common; "" where none asks.
func (w *world) models(g engine.Gang) []string {
	asking := filter(w.members(g, g.Group), func(p engine.Pod) bool { return len(p.GPU.Models) > 0 && amount(p.Requests, w.gpu) > 0 })
	for _, p := range w.up(asking) {
		ids := w.at[p.Key].devices
		on := filter(w.node[w.at[p.Key].node].Devices, func(d engine.Device) bool { return len(ids) == 0 || slices.Contains(ids, d.ID) })
		if len(on) > 0 && !some(on, func(d engine.Device) bool { return d.Model != on[0].Model }) && slices.Contains(p.GPU.Models, on[0].Model) {
			return []string{on[0].Model}
		}
	}
	waiting := filter(asking, func(p engine.Pod) bool { return w.at[p.Key].node == "" })
	if len(waiting) == 0 {
		return []string{""}
	}
	return filter(waiting[0].GPU.Models, func(m string) bool {
		return !some(waiting, func(p engine.Pod) bool { return !slices.Contains(p.GPU.Models, m) })
	})
}

// members is the living members of a group and of those below it in order of rank; nobody else's pods.
func (w *world) members(g engine.Gang, group engine.Group) []engine.Pod {
	out := filter(w.Pods, func(p engine.Pod) bool {
		return p.Gang == g.Key && !p.Terminating && !p.Foreign && inside(g, p.Subgroup, group.Name)
	})
	slices.SortFunc(out, func(a, b engine.Pod) int { return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Key, b.Key)) })
	return out
}

// inside says whether a subgroup is the group or below it; all are in the gang's own, "".
func inside(g engine.Gang, subgroup, group string) bool {
	return subgroup == group || group == "" ||
		some(g.Groups, func(c engine.Group) bool { return c.Name == subgroup && inside(g, c.Parent, group) && c.Parent != "" })
}

// waiting, up and fresh are the members of a gang that are nowhere, and those of the pods that are somewhere,
// or are only being tried there.
func (w *world) waiting(gang string) []engine.Pod {
	return filter(w.members(engine.Gang{Key: gang}, engine.Group{}), func(p engine.Pod) bool { return w.at[p.Key].node == "" })
}

func (w *world) up(pods []engine.Pod) []engine.Pod {
	return filter(pods, func(p engine.Pod) bool { return w.at[p.Key].node != "" })
}

func (w *world) fresh(pods []engine.Pod) []engine.Pod {
	return filter(w.up(pods), func(p engine.Pod) bool { return w.was[p.Key].node == "" })
}

func amount(rs engine.Resources, resource string) (total int64) {
	for _, a := range rs {
		if a.Resource == resource {
			total += a.Value
		}
	}
	return total
}

func sum(pods []engine.Pod, resource string) (total int64) {
	for _, p := range pods {
		total += amount(p.Requests, resource)
	}
	return total
}

func names(devices []engine.Device) (ids []string) {
	for _, d := range devices {
		ids = append(ids, d.ID)
	}
	return ids
}

func some[T any](list []T, is func(T) bool) bool { return slices.ContainsFunc(list, is) }

func filter[T any](list []T, keep func(T) bool) (out []T) {
	for _, x := range list {
		if keep(x) {
			out = append(out, x)
		}
	}
	return out
}
