package oracle

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine"
)

// flavorOf is the flavor of the resource in which what is on the node counts in the queue, "" for none: of those whose labels the node
// has the one with the most, the first of several. A node that does not exist, or not any more, is of none: its labels are unknown.
func (w *world) flavorOf(queue, resource string, n engine.Node) (name string) {
	if n.Name == "" {
		return ""
	}
	q, _ := w.queue(queue)
	for _, g := range q.Flavors {
		most := -1
		for _, f := range g.Flavors {
			if slices.Contains(g.Resources, resource) && len(f.Labels) > most && has(n.Labels, f.Labels) {
				name, most = f.Name, len(f.Labels)
			}
		}
	}
	return name
}

func has(labels, all map[string]string) bool {
	return !some(slices.Collect(maps.Keys(all)), func(k string) bool { v, ok := labels[k]; return !ok || v != all[k] })
}

// mixture names what is wrong with the flavors that members of the gang get by what is being tried; "": nothing. Members that request
// the same get the same, and each gets one of every resource that counts in flavors. Where some run, others get one that these have.
func (w *world) mixture(g engine.Gang) string {
	members := w.members(g, g.Group)
	for _, p := range w.fresh(members) {
		for _, a := range p.Requests {
			if a.Value <= 0 || !w.flavors(g.Queue, a.Resource) {
				continue
			}
			of := func(o engine.Pod) string { return w.flavorOf(g.Queue, a.Resource, w.node[w.at[o.Key].node]) }
			mine := of(p)
			if mine == "" {
				return fmt.Sprintf("flavors: %s has none of %s", p.Key, a.Resource)
			}
			alike := filter(w.up(members), func(o engine.Pod) bool { return slices.Equal(o.Requests, p.Requests) && of(o) != "" })
			ran := filter(alike, func(o engine.Pod) bool { return w.was[o.Key].node != "" })
			other := func(o engine.Pod) bool { return of(o) != mine }
			if i := slices.IndexFunc(alike, func(o engine.Pod) bool { return w.was[o.Key].node == "" && other(o) }); i >= 0 {
				return fmt.Sprintf("flavors: %s has %s of %s, and %s has %s", p.Key, mine, a.Resource, alike[i].Key, of(alike[i]))
			}
			if len(ran) > 0 && len(filter(ran, other)) == len(ran) {
				return fmt.Sprintf("flavors: %s has %s of %s, and %s runs in %s", p.Key, mine, a.Resource, ran[0].Key, of(ran[0]))
			}
		}
	}
	return ""
}

// flavors says whether the resource counts in flavors of the queue.
func (w *world) flavors(queue, resource string) bool {
	q, _ := w.queue(queue)
	return some(q.Flavors, func(g engine.FlavorGroup) bool { return slices.Contains(g.Resources, resource) })
}

// narrowed is the pod that asks for nodes of the flavors besides, of each group that covers what it requests one; false: they are none
// that it could get.
func (w *world) narrowed(p engine.Pod, flavors []string) (engine.Pod, bool) {
	q, _ := w.queue(w.gang[p.Gang].Queue)
	known := 0
	for _, g := range q.Flavors {
		at := slices.IndexFunc(g.Flavors, func(f engine.Flavor) bool { return slices.Contains(flavors, f.Name) })
		if !some(w.countsIn(p), func(resource string) bool { return slices.Contains(g.Resources, resource) }) {
			continue
		}
		if at < 0 {
			return p, len(flavors) == 0 // a proof without flavors is about all nodes
		}
		known++
		p = w.onlyOn(p, g, at)
	}
	return p, known == len(flavors)
}

// given is the pod as it is on the node: it asks for the flavors besides in which it counts there. A spread is over the nodes of these.
func (w *world) given(p engine.Pod, n engine.Node) engine.Pod {
	var flavors []string
	for _, resource := range w.countsIn(p) {
		if f := w.flavorOf(w.gang[p.Gang].Queue, resource, n); f != "" && !slices.Contains(flavors, f) {
			flavors = append(flavors, f)
		}
	}
	p, _ = w.narrowed(p, flavors)
	return p
}

// countsIn are the resources that the pod counts in: what it requests, and GPUs for parts, instances and claims of them.
func (w *world) countsIn(p engine.Pod) (out []string) {
	ofGPU := p.Part != nil || p.Claimed > 0
	for _, a := range p.Requests {
		if a.Value > 0 {
			out = append(out, a.Resource)
			ofGPU = ofGPU || strings.HasPrefix(a.Resource, "nvidia.com/mig-")
		}
	}
	if ofGPU {
		out = append(out, w.gpu)
	}
	return out
}

// onlyOn is the pod that asks for nodes of the i-th flavor of the group.
func (w *world) onlyOn(p engine.Pod, g engine.FlavorGroup, i int) engine.Pod {
	f := g.Flavors[i]
	selector := maps.Clone(p.Selector)
	if selector == nil {
		selector = map[string]string{}
	}
	for _, k := range slices.Sorted(maps.Keys(f.Labels)) {
		if was, ok := selector[k]; ok && was != f.Labels[k] {
			p.Affinity = []engine.Term{}
			return p
		}
	}
	maps.Copy(selector, f.Labels)
	p.Selector = selector
	for j, o := range g.Flavors {
		more := maps.Clone(o.Labels)
		maps.DeleteFunc(more, func(k, v string) bool { return f.Labels[k] == v })
		before := len(o.Labels) > len(f.Labels) || len(o.Labels) == len(f.Labels) && j < i
		clash := some(slices.Collect(maps.Keys(more)), func(k string) bool { _, ok := f.Labels[k]; return ok })
		if !before || clash {
			continue
		}
		terms := p.Affinity
		if terms == nil {
			terms = []engine.Term{{}}
		}
		p.Affinity = []engine.Term{}
		for _, t := range terms {
			for _, k := range slices.Sorted(maps.Keys(more)) {
				t := t
				t.Labels = append(slices.Clone(t.Labels), engine.Requirement{Key: k, Op: engine.NotIn, Values: []string{more[k]}})
				p.Affinity = append(p.Affinity, t)
			}
		}
	}
	return p
}
