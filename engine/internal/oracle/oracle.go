package oracle

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/berth-dev/berth/engine"
)

// CanStart says whether some waiting members of the gang could start now: together with those that run
// they would make its minimum, and every rule would hold.
func CanStart(snap engine.Snapshot, cfg engine.Config, now time.Time, gang string) bool {
	w := newWorld(snap, cfg, now)
	g, known := w.gang[gang]
	waiting := w.waiting(gang)
	return known && !some(waiting, func(p engine.Pod) bool { return len(p.Features) > 0 }) &&
		some(w.models(g), func(model string) bool {
			if w.ruled() {
				return w.tryInAnyOrder(g, waiting, model)
			}
			return w.try(g, waiting, model)
		})
}

// try has the first of the members on every node in turn, with every choice of devices, and nowhere; then
// the next.
func (w *world) try(g engine.Gang, members []engine.Pod, model string) bool {
	if len(members) == 0 {
		return len(w.fresh(w.Pods)) > 0 && w.breach(g) == ""
	}
	w.model = model
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
	if w.closed(p, n) {
		return nil
	}
	if claimsOn(p, n) == nil {
		return w.counted(p, n, model)
	}
	for _, way := range w.counted(p, n, model) {
		for _, more := range w.offers(p, n) {
			ways = append(ways, slices.Concat(way, more))
		}
	}
	return ways
}

// counted is every way to have the devices behind the pod's GPU count, or the cards that it has parts of.
func (w *world) counted(p engine.Pod, n engine.Node, model string) (ways [][]string) {
	if p.Part != nil {
		if !w.fits(p, n) {
			return nil
		}
		return w.parts(p, n, model)
	}
	count, silent, free := int(amount(p.Requests, w.gpu)), w.silent(n), w.usable(p, n, model)
	fussy := count > 1 && (p.GPU.Clique == engine.Require || p.GPU.NUMA == engine.Require)
	unnamed := len(n.Devices) == 0
	switch {
	case !w.fits(p, n), unnamed && count > 0 && (fussy || w.picky(p, model) && !suits(p, n, model)):
		return nil
	case count > 0 && silent > 0 && len(n.Devices) > 0 && p.GPU.Names():
		return nil // the kubelet may give it one that will not do
	case count > 0 && silent > 0 && w.picky(p, model) && some(n.Devices, func(d engine.Device) bool { return d.Model != n.Devices[0].Model }):
		return nil // the kubelet may give it any of several models
	case unnamed, count == 0, silent > 0 && !fussy && len(free)-silent >= count:
		return [][]string{nil}
	case silent > 0:
		return nil
	}
	for _, set := range subsets(free, count, w.named) {
		if lieTogether(p, set) {
			ways = append(ways, names(set))
		}
	}
	return ways
}

// suits says whether what a node without a list of devices has is of the model, and the pod takes it.
func suits(p engine.Pod, n engine.Node, model string) bool {
	return n.Model == model && (len(p.GPU.Models) == 0 || slices.Contains(p.GPU.Models, model))
}

// fits says whether every rule but those of devices lets the pod onto the node.
func (w *world) fits(p engine.Pod, n engine.Node) bool {
	near := w.neighbours(p, n)
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
		w.spoiler(p, n) == "" && !w.lacksNamed(p, n) && len(w.broken(p, n)) == 0 &&
		!some(p.Requests, func(a engine.Amount) bool { return a.Value > 0 && a.Value > w.free(p, n, a.Resource) })
}

// lacksNamed says whether the node has too few devices that the pod may use, by names and models, whoever has them.
func (w *world) lacksNamed(p engine.Pod, n engine.Node) bool {
	if !w.hasGPU(p) || !p.GPU.Names() || claimed(p, n) || w.claimsOnly(n) {
		return false
	}
	if len(n.Devices) == 0 {
		return len(p.GPU.Only)+len(p.GPU.Except) > 0 || len(modelsOn(n)) == 0 || slices.Contains(p.GPU.NotModels, n.Model)
	}
	need := int(amount(p.Requests, w.gpu))
	if p.Part != nil {
		need = p.Part.Cards
	}
	return len(filter(n.Devices, func(d engine.Device) bool { return p.GPU.Takes(d.ID, d.Model) })) < need
}

// free is what is left of a resource on the node for the pod; negative by others' doing.
func (w *world) free(p engine.Pod, n engine.Node, resource string) int64 {
	mine := w.claimed(w.Holds, p.Gang)
	kept := filter(w.Holds, func(h engine.Hold) bool { return h.Node == n.Name && !mine[place(h)] && w.stands(h) })
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
		return !d.Unhealthy && !taken && p.GPU.Takes(d.ID, d.Model) && (!w.picky(p, model) || d.Model == model && (len(p.GPU.Models) == 0 || slices.Contains(p.GPU.Models, model)))
	})
}

// silent is how many GPUs of the node are given away without it being known which.
func (w *world) silent(n engine.Node) (total int) {
	for _, q := range filter(w.Pods, func(q engine.Pod) bool { return w.at[q.Key].node == n.Name }) {
		known := filter(n.Devices, func(d engine.Device) bool { return slices.Contains(w.at[q.Key].devices, d.ID) })
		want := int(amount(q.Requests, w.gpu))
		if q.Part != nil {
			want = q.Part.Cards
		}
		total += max(0, want-len(known))
	}
	return total
}

// named says which pods may use the device, as far as they name devices: two devices that differ in it are not alike, since a
// pod that comes later may need the one and not the other.
func (w *world) named(d engine.Device) (by string) {
	for _, p := range w.Pods {
		if p.GPU.Names() && p.GPU.Takes(d.ID, d.Model) {
			by += p.Key + " "
		}
	}
	return by
}

// subsets is every way to take so many of the devices, alike ones being one. named tells devices apart that look alike.
func subsets(of []engine.Device, count int, named func(engine.Device) string) (all [][]engine.Device) {
	if count == 0 {
		return [][]engine.Device{nil}
	}
	for i, d := range of {
		alike := func(o engine.Device) bool {
			return o.Model == d.Model && o.Clique == d.Clique && o.NUMA == d.NUMA && named(o) == named(d)
		}
		if some(of[:i], alike) {
			continue
		}
		for _, rest := range subsets(of[i+1:], count-1, named) {
			all = append(all, append([]engine.Device{d}, rest...))
		}
	}
	return all
}

// lieTogether says whether the devices are in one clique and on one NUMA node as far as the pod requires.
func lieTogether(p engine.Pod, set []engine.Device) bool {
	return !some(set, func(d engine.Device) bool {
		return p.GPU.Clique == engine.Require && len(set) > 1 && (d.Clique == "" || d.Clique != set[0].Clique) ||
			p.GPU.NUMA == engine.Require && len(set) > 1 && (d.NUMA < 0 || d.NUMA != set[0].NUMA)
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
	return cmp.Or(w.overdraft(g), w.disorder(g), w.mixture(g))
}

// disorder names the rule about where members of the gang are that the placement being tried breaks; "": none.
func (w *world) disorder(g engine.Gang) string {
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
	//archtest:any-order the most, and of several the first by name
	for d, c := range count {
		if home == "" || c > count[home] || c == count[home] && d < home {
			home = d
		}
	}
	return home
}

// models is the GPU models that the gang may get, best first: the one that a member is known to run on, else
// those that all waiting members who ask for any have in common; "" where none asks, or all there are where its queue counts them apart.
func (w *world) models(g engine.Gang) []string {
	asking := filter(w.members(g, g.Group), func(p engine.Pod) bool { return len(p.GPU.Models) > 0 && w.hasGPU(p) })
	for _, p := range w.up(asking) {
		ids, n := w.at[p.Key].devices, w.node[w.at[p.Key].node]
		if len(n.Devices) == 0 && slices.Contains(p.GPU.Models, n.Model) {
			return []string{n.Model}
		}
		on := filter(n.Devices, func(d engine.Device) bool { return len(ids) == 0 || slices.Contains(ids, d.ID) })
		if len(on) > 0 && !some(on, func(d engine.Device) bool { return d.Model != on[0].Model }) && slices.Contains(p.GPU.Models, on[0].Model) {
			return []string{on[0].Model}
		}
	}
	waiting := filter(asking, func(p engine.Pod) bool { return w.at[p.Key].node == "" })
	if len(waiting) == 0 && w.apart(g) {
		return w.allModels()
	}
	if len(waiting) == 0 {
		return []string{""}
	}
	return filter(waiting[0].GPU.Models, func(m string) bool {
		return !some(waiting, func(p engine.Pod) bool { return !slices.Contains(p.GPU.Models, m) })
	})
}
