package l3

import (
	"fmt"
	"slices"
	"strings"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/queue"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/engine/why"
)

var topologyFragmentedCheck = check.Check{
	Cause: why.TopologyFragmented, Layer: check.L3, Owner: check.Scheduler, Stage: check.Place, Rank: 75,
	Title:   "There is room for all its pods, but not close enough together",
	Meaning: "The pods must be in one rack, block or other part of the network, and no part has room for all of them, while the cluster as a whole has.",
	Remedy:  "Prefer the level instead of requiring it, require a wider one, move small jobs together, or wait.",
	Not:     "There are too few GPUs.",
	Find:    topologyFragmented,
}

func topologyFragmented(c *check.Case) []check.Finding {
	if g, ok := queue.GateOf(c, why.TopologyFragmented); ok {
		return []check.Finding{{Fit: true, Message: closerSentence(c, g), Evidence: topologyEvidence(c), Edits: closerEdits(c, g)}}
	}
	if found := queue.BerthSaid(c, why.TopologyFragmented); found != nil {
		return found
	}
	if t := queue.VolcanoTierOf(c); t != nil && c.Waits() {
		return []check.Finding{tierTooLow(t)}
	}
	v := queue.Kueue(c)
	if v == nil || v.Cause != why.TopologyFragmented {
		return nil
	}
	found := check.Finding{Message: fmt.Sprintf("%s has the quota, and no domain has room for all pods: %s", v.Name(), strings.TrimSuffix(v.Message, ".")), Evidence: v.Evidence()}
	if level := queue.KueueTopology(c); level != "" {
		found.Edits = queue.KueueOnly(c, queue.KueueRelax(c))
		levels := queue.KueueLevels(c.Facts, v.Cluster)
		for _, wider := range slices.Backward(levels[:max(0, slices.Index(levels, level))]) {
			if queue.KueueMost(c.Facts, wider, &c.Pod.Spec) >= queue.KueuePods(c, v) {
				found.Edits = append(found.Edits, queue.KueueOnly(c, queue.KueueRelevel(c, wider))...)
				break
			}
		}
	}
	return []check.Finding{found}
}

// tierTooLow words a group whose pods have to be closer together than there is room for.
func tierTooLow(t *queue.VolcanoTier) check.Finding {
	r := facts.RefTo(t.Group)
	found := check.Finding{
		Message:  fmt.Sprintf("%s needs %s in one HyperNode of tier %d at the most, and the largest of these has room for %d now", r, wording.Pods(t.Need), t.Allowed, t.Room),
		Evidence: []facts.Evidence{{Object: r.In(), Field: "spec.networkTopology.highestTierAllowed", Value: fmt.Sprint(t.Allowed)}},
		Advice:   "Wait, or move small jobs together; or ask for mode soft.",
	}
	if t.Most < t.Need {
		found.Owner, found.Advice = check.User, "Ask for fewer pods, or for mode soft."
		found.Message = fmt.Sprintf("%s needs %s in one HyperNode of tier %d at the most, and the largest of these has room for %d when it is empty", r, wording.Pods(t.Need), t.Allowed, t.Most)
	}
	if t.Wider > 0 {
		found.Advice = fmt.Sprintf("Let highestTierAllowed be %d, where one HyperNode is large enough, or ask for mode soft; a Job of Volcano has it in spec.networkTopology.", t.Wider)
	}
	return found
}

func topologyEvidence(c *check.Case) []facts.Evidence {
	for _, key := range []string{queue.BerthRequired, queue.BerthSegment} {
		if said := queue.BerthSays(c, key); said != "" {
			return []facts.Evidence{{Object: facts.RefTo(queue.BerthKeyed(c, key)).In(), Field: fmt.Sprintf("metadata.annotations[%q]", key), Value: said}}
		}
	}
	for _, o := range queue.BerthSpeakers(c) {
		if g, ok := o.(*schedulingv1beta1.PodGroup); ok && g.Spec.SchedulingConstraints != nil && len(g.Spec.SchedulingConstraints.Topology) > 0 {
			return []facts.Evidence{{Object: facts.RefTo(g).In(), Field: "spec.schedulingConstraints.topology[0].key", Value: g.Spec.SchedulingConstraints.Topology[0].Key}}
		}
	}
	for _, o := range c.Above(c.Pod) {
		if o.Spec.SchedulingConstraints != nil && len(o.Spec.SchedulingConstraints.Topology) > 0 {
			return []facts.Evidence{{Object: facts.RefTo(o).In(), Field: "spec.schedulingConstraints.topology[0].key", Value: o.Spec.SchedulingConstraints.Topology[0].Key}}
		}
	}
	return nil
}

// closerSentence is the engine's sentence. Domains are named by their path, which begins with levels that no node has.
func closerSentence(c *check.Case, g why.Gate) string {
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
func closerEdits(c *check.Case, g why.Gate) []edit.Edit {
	asked := []string{g.Object}
	if i := g.Certificate; i >= 0 && i < len(c.Fit.Certificates) {
		asked = append(asked, c.Fit.Certificates[i].Level, c.Fit.Certificates[i].SegmentLevel)
	}
	asked = append(asked, queue.BerthSays(c, queue.BerthRequired))
	var out []edit.Edit
	for i, was := range asked {
		if was == "" || slices.ContainsFunc(asked[:i], func(a string) bool { return queue.BerthSame(c.Facts, a, was) }) {
			continue
		}
		if e, ok := queue.BerthRelax(c, was); ok {
			out = append(out, e)
		}
		levels := queue.BerthLevels(c.Facts)
		at := slices.IndexFunc(levels, func(l queue.BerthLevel) bool { return l.Is(was) })
		for _, wider := range slices.Backward(levels[:max(0, at)]) {
			if e, ok := queue.BerthRelevel(c, was, wider); ok {
				out = append(out, e)
			}
		}
	}
	return out
}
