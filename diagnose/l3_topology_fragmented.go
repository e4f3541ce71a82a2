package diagnose

import (
	"fmt"
	"slices"
	"strings"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"

	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/engine/why"
)

var topologyFragmentedCheck = Check{
	Cause: why.TopologyFragmented, Layer: L3, Owner: Scheduler, Stage: Place, Rank: 75,
	Title:   "There is room for all its pods, but not close enough together",
	Meaning: "The pods must be in one rack, block or other part of the network, and no part has room for all of them, while the cluster as a whole has.",
	Remedy:  "Prefer the level instead of requiring it, require a wider one, move small jobs together, or wait.",
	Not:     "There are too few GPUs.",
	Find:    topologyFragmented,
}

func topologyFragmented(c *Case) []Finding {
	if g, ok := c.gate(why.TopologyFragmented); ok {
		return []Finding{{Fit: true, Message: c.closerSentence(g), Evidence: c.topologyEvidence(), Edits: c.closerEdits(g)}}
	}
	if found := c.berthSaid(why.TopologyFragmented); found != nil {
		return found
	}
	v := c.kueue()
	if v == nil || v.cause != why.TopologyFragmented {
		return nil
	}
	found := Finding{Message: fmt.Sprintf("%s has the quota, and no domain has room for all pods: %s", v.name(), strings.TrimSuffix(v.message, ".")), Evidence: v.evidence()}
	if level := c.kueueTopology(); level != "" {
		found.Edits = c.kueueOnly(c.kueueRelax())
		levels := kueueLevels(c.Facts, v.cluster)
		for _, wider := range slices.Backward(levels[:max(0, slices.Index(levels, level))]) {
			if kueueMost(c.Facts, wider, &c.Pod.Spec) >= c.kueuePods(v) {
				found.Edits = append(found.Edits, c.kueueOnly(c.kueueRelevel(wider))...)
				break
			}
		}
	}
	return []Finding{found}
}

func (c *Case) topologyEvidence() []facts.Evidence {
	for _, key := range []string{berthRequired, berthSegment} {
		if said := c.berthSays(key); said != "" {
			return []facts.Evidence{{Object: facts.RefTo(c.berthKeyed(key)).In(), Field: fmt.Sprintf("metadata.annotations[%q]", key), Value: said}}
		}
	}
	for _, o := range c.berthSpeakers() {
		if g, ok := o.(*schedulingv1beta1.PodGroup); ok && g.Spec.SchedulingConstraints != nil && len(g.Spec.SchedulingConstraints.Topology) > 0 {
			return []facts.Evidence{{Object: facts.RefTo(g).In(), Field: "spec.schedulingConstraints.topology[0].key", Value: g.Spec.SchedulingConstraints.Topology[0].Key}}
		}
	}
	return nil
}

// closerSentence is the engine's sentence. Domains are named by their path, which begins with levels that no node has.
func (c *Case) closerSentence(g why.Gate) string {
	s := g.Sentence(c.Fit.Certificates)
	if strings.HasPrefix(s, "needs ") {
		s = "the work " + s
	}
	for strings.Contains(s, "the best, /") {
		s = strings.Replace(s, "the best, /", "the best, ", 1)
	}
	return s
}

// closerEdits let the pods lie farther apart: at a wider level, the narrowest first, or anywhere.
func (c *Case) closerEdits(g why.Gate) []edit.Edit {
	asked := []string{g.Object}
	if i := g.Certificate; i >= 0 && i < len(c.Fit.Certificates) {
		asked = append(asked, c.Fit.Certificates[i].Level, c.Fit.Certificates[i].SegmentLevel)
	}
	asked = append(asked, c.berthSays(berthRequired))
	var out []edit.Edit
	for i, was := range asked {
		if was == "" || slices.ContainsFunc(asked[:i], func(a string) bool { return berthSame(c.Facts, a, was) }) {
			continue
		}
		if e, ok := c.berthRelax(was); ok {
			out = append(out, e)
		}
		levels := berthLevels(c.Facts)
		at := slices.IndexFunc(levels, func(l berthLevel) bool { return l.is(was) })
		for _, wider := range slices.Backward(levels[:max(0, at)]) {
			if e, ok := c.berthRelevel(was, wider); ok {
				out = append(out, e)
			}
		}
	}
	return out
}
