package oracle

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine"
)

// lawful says what is wrong with a gang after members of it started: quota, minimums, layouts. A group
// that got none of them is as it was.
func (w *world) lawful(g engine.Gang, started []engine.Pod) error {
	if err := w.withinQuota(g, started); err != nil {
		return err
	}
	for _, group := range append(slices.Clip(g.Groups), g.Group) {
		members := w.members(g, group)
		switch l := group.Layout; {
		case !slices.ContainsFunc(started, func(p engine.Pod) bool { return inside(g, p, group) }):
		case !w.full(g, group):
			return fmt.Errorf("group %q starts under its minimum", group.Name)
		case l.Required != "" && !w.together(members, started, l.Required):
			return fmt.Errorf("group %q: not in one domain of %s", group.Name, l.Required)
		case l.Segment > 0:
			for segment := range slices.Chunk(members, l.Segment) {
				if !w.together(segment, started, l.SegmentLevel) {
					return fmt.Errorf("the segment of %s is not in one domain of %s", segment[0].Key, l.SegmentLevel)
				}
			}
		}
	}
	return nil
}

func (w *world) withinQuota(g engine.Gang, started []engine.Pod) error {
	i := slices.IndexFunc(w.Queues, func(q engine.Queue) bool { return q.Name == g.Queue })
	if i < 0 && g.Queue != "" {
		return errors.New("no such queue")
	}
	for _, limit := range w.limits(i) {
		var asked, used int64
		for _, p := range started {
			asked += amount(p.Requests, limit.Resource)
		}
		for _, p := range w.up(w.Pods) {
			if w.gang[p.Gang].Queue == g.Queue {
				used += amount(p.Requests, limit.Resource)
			}
		}
		if asked > 0 && used > limit.Value {
			return fmt.Errorf("queue %s: %d of %s, limit %d", g.Queue, used, limit.Resource, limit.Value)
		}
	}
	return nil
}

func (w *world) limits(queue int) engine.Resources {
	if queue < 0 {
		return nil
	}
	return w.Queues[queue].Limits
}

// full says whether the group has its minimum: of members, or of groups below it.
func (w *world) full(g engine.Gang, group engine.Group) bool {
	below, up := 0, 0
	for _, c := range g.Groups {
		if c.Parent == group.Name {
			below++
			if w.full(g, c) {
				up++
			}
		}
	}
	if below > 0 {
		return up >= cmp.Or(group.MinGroups, below)
	}
	members := w.members(g, group)
	return len(w.up(members)) >= cmp.Or(group.Min, group.Size, len(members))
}

// together says whether those of the pods that started are in one domain of the level: at home, where
// others ran before.
func (w *world) together(pods, started []engine.Pod, level string) bool {
	isNew := func(p engine.Pod) bool {
		return slices.ContainsFunc(started, func(q engine.Pod) bool { return q.Key == p.Key })
	}
	up := w.up(pods)
	domain := w.home(slices.DeleteFunc(slices.Clone(up), isNew), level)
	for _, p := range slices.DeleteFunc(up, func(p engine.Pod) bool { return !isNew(p) }) {
		d, in := w.domain(w.node[w.at[p.Key].node], level)
		if domain = cmp.Or(domain, d); !in || d != domain {
			return false
		}
	}
	return true
}

// home is the domain of the level where most of the pods are, the first by name of equals; "": none.
func (w *world) home(pods []engine.Pod, level string) (home string) {
	count := map[string]int{}
	for _, p := range pods {
		n, known := w.node[w.at[p.Key].node]
		if d, in := w.domain(n, level); known && in && level != "" {
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
	if level == engine.NodeLevel {
		return n.Name, true
	}
	var path []string
	for _, l := range w.cfg.Levels {
		v, ok := n.Labels[l.Label]
		path = append(path, v)
		if l.Name == level || l.Label == level {
			return strings.Join(path, "/"), ok
		}
	}
	v, ok := n.Labels[level]
	return v, ok
}

// members is the living members of a group in order of rank. A foreign pod is no member of anything.
func (w *world) members(g engine.Gang, group engine.Group) (out []engine.Pod) {
	for _, p := range w.Pods {
		if p.Gang == g.Key && !p.Terminating && !p.Foreign && inside(g, p, group) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b engine.Pod) int {
		return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Key, b.Key))
	})
	return out
}

// waiting is the members of a gang that are nowhere, in order of rank.
func (w *world) waiting(gang string) []engine.Pod {
	all := w.members(engine.Gang{Key: gang}, engine.Group{})
	return slices.DeleteFunc(all, func(p engine.Pod) bool { return w.at[p.Key].node != "" })
}

// up is those of the pods that are somewhere.
func (w *world) up(pods []engine.Pod) (out []engine.Pod) {
	for _, p := range pods {
		if w.at[p.Key].node != "" {
			out = append(out, p)
		}
	}
	return out
}

// hasGroup says whether the pod's subgroup exists and is a leaf.
func (w *world) hasGroup(p engine.Pod) bool {
	groups := w.gang[p.Gang].Groups
	is := func(g engine.Group) bool { return g.Name == p.Subgroup }
	above := func(g engine.Group) bool { return g.Parent == p.Subgroup }
	return !slices.ContainsFunc(groups, above) && (slices.ContainsFunc(groups, is) || p.Subgroup == "")
}

// inside says whether the pod is in the group or in one below it; all are in the gang's own group.
func inside(g engine.Gang, p engine.Pod, group engine.Group) bool {
	name := p.Subgroup
	for range g.Groups {
		for _, c := range g.Groups {
			if c.Name == name && name != group.Name {
				name = c.Parent
				break
			}
		}
	}
	return name == group.Name || group.Name == ""
}
