package diagnose

import (
	"fmt"
	"slices"
	"strings"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"

	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
)

// The topology levels of Berth, and how work asks to be within one.
const (
	berthRequired  = "berth.dev/topology-required"
	berthPreferred = "berth.dev/topology-preferred"
	berthSegment   = "berth.dev/segment"
)

// berthLevel is a level by name and by node label.
type berthLevel struct{ name, label string }

// is says whether the word names the level.
func (l berthLevel) is(word string) bool { return word == l.name || word == l.label }

// ladder are all levels, the widest first: of the live scheduler where it was asked.
func ladder(f *facts.Facts) []berthLevel {
	if f.Served == nil || f.Served.Unreached != "" {
		return berthLadder
	}
	out := make([]berthLevel, len(f.Served.Levels))
	for i, l := range f.Served.Levels {
		out[i] = berthLevel{l.Name, l.Label}
	}
	return out
}

// berthLadder are the levels that Berth has by default.
var berthLadder = []berthLevel{
	{"region", "topology.kubernetes.io/region"}, {"zone", "topology.kubernetes.io/zone"},
	{"block", "berth.dev/block"}, {"rack", "berth.dev/rack"}, {"clique", "nvidia.com/gpu.clique"},
}

// berthSame says whether both words name one level.
func berthSame(f *facts.Facts, a, b string) bool {
	return a == b || slices.ContainsFunc(ladder(f), func(l berthLevel) bool { return l.is(a) && l.is(b) })
}

// berthLevels are the levels that some node is in, the widest first.
func berthLevels(f *facts.Facts) []berthLevel {
	return slices.DeleteFunc(slices.Clone(ladder(f)), func(l berthLevel) bool {
		for _, n := range f.Nodes {
			if n.Labels[l.label] != "" {
				return false
			}
		}
		return true
	})
}

// berthGroup is the PodGroup that asks for the level, nil for none.
func (c *Case) berthGroup(level string) *schedulingv1beta1.PodGroup {
	for _, o := range c.berthSpeakers() {
		if g, ok := o.(*schedulingv1beta1.PodGroup); ok && g.Spec.SchedulingConstraints != nil {
			for _, t := range g.Spec.SchedulingConstraints.Topology {
				if berthSame(c.Facts, t.Key, level) {
					return g
				}
			}
		}
	}
	return nil
}

// berthSays is the level under the key, "" where nobody says it.
func (c *Case) berthSays(key string) string {
	o := c.berthKeyed(key)
	if o == nil {
		return ""
	}
	if v := strings.TrimSpace(o.GetAnnotations()[key]); v != "" {
		return v
	}
	return strings.TrimSpace(o.GetLabels()[key])
}

// berthRelevel asks for another level, wherever the old one is asked for.
func (c *Case) berthRelevel(was string, to berthLevel) (edit.Edit, bool) {
	text := fmt.Sprintf("require one %s instead of one %s", to.name, was)
	if g := c.berthGroup(was); g != nil {
		n := g.DeepCopy()
		for i := range n.Spec.SchedulingConstraints.Topology {
			n.Spec.SchedulingConstraints.Topology[i].Key = to.label
		}
		return edit.Edit{Side: edit.Workload, Cost: 2, Text: fmt.Sprintf("make PodGroup %s anew with topology key %s instead of %s", g.Name, to.label, was), Set: []facts.Object{n}}, true
	}
	if said := c.berthSays(berthRequired); said != "" && berthSame(c.Facts, said, was) {
		return c.berthRekey(berthRequired, berthRequired, to.name, text), true
	}
	size, level, ok := strings.Cut(c.berthSays(berthSegment), "@")
	if !ok || !berthSame(c.Facts, level, was) {
		return edit.Edit{}, false
	}
	return c.berthRekey(berthSegment, berthSegment, size+"@"+to.name, fmt.Sprintf("have segments within one %s instead of one %s", to.name, was)), true
}

// berthRelax makes a wish of what is required.
func (c *Case) berthRelax(was string) (edit.Edit, bool) {
	if g := c.berthGroup(was); g != nil {
		n := g.DeepCopy()
		n.Spec.SchedulingConstraints = nil
		return edit.Edit{Side: edit.Workload, Cost: 2, Text: fmt.Sprintf("make PodGroup %s anew without its topology constraint", g.Name), Set: []facts.Object{n}}, true
	}
	if said := c.berthSays(berthRequired); said != "" && berthSame(c.Facts, said, was) {
		return c.berthRekey(berthRequired, berthPreferred, was, fmt.Sprintf("prefer one %s instead of requiring it", was)), true
	}
	if _, level, ok := strings.Cut(c.berthSays(berthSegment), "@"); ok && berthSame(c.Facts, level, was) {
		return c.berthRekey(berthSegment, berthPreferred, was, fmt.Sprintf("prefer one %s instead of segments within one", was)), true
	}
	return edit.Edit{}, false
}
