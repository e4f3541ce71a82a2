package queue

import (
	"fmt"
	"slices"
	"strings"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
)

// The topology levels of Berth, and how work asks to be within one.
const (
	BerthRequired  = v1alpha1.KeyTopologyRequired
	berthPreferred = v1alpha1.KeyTopologyPreferred
	BerthSegment   = v1alpha1.KeySegment
)

// BerthLevel is a level by name and by node label.
type BerthLevel struct{ Name, label string }

// Is says whether the word names the level.
func (l BerthLevel) Is(word string) bool { return word == l.Name || word == l.label }

// ladder are all levels, the widest first: of the live scheduler where it was asked.
func ladder(f *facts.Facts) []BerthLevel {
	if f.Served == nil || f.Served.Unreached != "" {
		return berthLadder
	}
	out := make([]BerthLevel, len(f.Served.Levels))
	for i, l := range f.Served.Levels {
		out[i] = BerthLevel{l.Name, l.Label}
	}
	return out
}

// berthLadder are the levels that Berth has by default.
var berthLadder = []BerthLevel{
	{"region", v1alpha1.LabelRegion}, {"zone", v1alpha1.LabelZone}, {"block", v1alpha1.LabelBlock}, {"rack", v1alpha1.LabelRack}, {"clique", v1alpha1.LabelClique},
}

// BerthSame says whether both words name one level.
func BerthSame(f *facts.Facts, a, b string) bool {
	return a == b || slices.ContainsFunc(ladder(f), func(l BerthLevel) bool { return l.Is(a) && l.Is(b) })
}

// BerthLevels are the levels that some node is in, the widest first.
func BerthLevels(f *facts.Facts) []BerthLevel {
	return slices.DeleteFunc(slices.Clone(ladder(f)), func(l BerthLevel) bool {
		for _, n := range f.Nodes {
			if n.Labels[l.label] != "" {
				return false
			}
		}
		return true
	})
}

// berthGroup is the PodGroup that asks for the level, nil for none.
func berthGroup(c *check.Case, level string) *schedulingv1beta1.PodGroup {
	for _, o := range BerthSpeakers(c) {
		if g, ok := o.(*schedulingv1beta1.PodGroup); ok && g.Spec.SchedulingConstraints != nil {
			for _, t := range g.Spec.SchedulingConstraints.Topology {
				if BerthSame(c.Facts, t.Key, level) {
					return g
				}
			}
		}
	}
	return nil
}

// BerthSays is the level under the key, "" where nobody says it.
func BerthSays(c *check.Case, key string) string {
	o := BerthKeyed(c, key)
	if o == nil {
		return ""
	}
	if v := strings.TrimSpace(o.GetAnnotations()[key]); v != "" {
		return v
	}
	return strings.TrimSpace(o.GetLabels()[key])
}

// BerthRelevel asks for another level, wherever the old one is asked for.
func BerthRelevel(c *check.Case, was string, to BerthLevel) (edit.Edit, bool) {
	text := fmt.Sprintf("require one %s instead of one %s", to.Name, was)
	if g := berthGroup(c, was); g != nil {
		n := g.DeepCopy()
		for i := range n.Spec.SchedulingConstraints.Topology {
			n.Spec.SchedulingConstraints.Topology[i].Key = to.label
		}
		return edit.Edit{Side: edit.Workload, Cost: 2, Text: fmt.Sprintf("make PodGroup %s anew with topology key %s instead of %s", g.Name, to.label, was), Set: []facts.Object{n}}, true
	}
	if said := BerthSays(c, BerthRequired); said != "" && BerthSame(c.Facts, said, was) {
		return BerthRekey(c, BerthRequired, BerthRequired, to.Name, text), true
	}
	size, level, ok := strings.Cut(BerthSays(c, BerthSegment), "@")
	if !ok || !BerthSame(c.Facts, level, was) {
		return edit.Edit{}, false
	}
	return BerthRekey(c, BerthSegment, BerthSegment, size+"@"+to.Name, fmt.Sprintf("have segments within one %s instead of one %s", to.Name, was)), true
}

// BerthRelax makes a wish of what is required.
func BerthRelax(c *check.Case, was string) (edit.Edit, bool) {
	if g := berthGroup(c, was); g != nil {
		n := g.DeepCopy()
		n.Spec.SchedulingConstraints = nil
		return edit.Edit{Side: edit.Workload, Cost: 2, Text: fmt.Sprintf("make PodGroup %s anew without its topology constraint", g.Name), Set: []facts.Object{n}}, true
	}
	if said := BerthSays(c, BerthRequired); said != "" && BerthSame(c.Facts, said, was) {
		return BerthRekey(c, BerthRequired, berthPreferred, was, fmt.Sprintf("prefer one %s instead of requiring it", was)), true
	}
	if _, level, ok := strings.Cut(BerthSays(c, BerthSegment), "@"); ok && BerthSame(c.Facts, level, was) {
		return BerthRekey(c, BerthSegment, berthPreferred, was, fmt.Sprintf("prefer one %s instead of segments within one", was)), true
	}
	return edit.Edit{}, false
}
