package l3

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
)

var gpuShareMisfitCheck = check.Check{
	Cause: "gpu-share-misfit", Layer: check.L3, Owner: check.Scheduler, Stage: check.Place, Rank: 9,
	Title:   "No card has the share of a GPU that it asks for",
	Meaning: "HAMi divides cards by memory and cores. Cards may be free by their number and still have no share of this size or kind.",
	Remedy:  "Ask for less memory or fewer cores, for another type of card, or wait until shares are given back.",
	Not:     "A GPU is free, so it must fit.",
	Find:    gpuShareMisfit,
}

func gpuShareMisfit(c *check.Case) []check.Finding {
	if c.State != facts.Pending || !hamiShares(c.Pod) {
		return nil
	}
	for _, said := range hamiSaid(c) {
		words := hamiWords(said.Value)
		if len(words) == 0 {
			continue
		}
		asks := ""
		for _, name := range facts.ExtendedOf(c.Pod) {
			q := c.Pod.Spec.Containers[0].Resources.Limits[corev1.ResourceName(name)]
			asks += fmt.Sprintf(", %s %s", &q, name)
		}
		return []check.Finding{{Owner: words[0].owner, Message: fmt.Sprintf("%s (HAMi: %s)%s", words[0].means, words[0].word, hamiAsks(asks)), Evidence: []facts.Evidence{said}}}
	}
	return nil
}

func hamiAsks(list string) string {
	if list == "" {
		return ""
	}
	return "; each pod asks for " + list[2:]
}

// hamiSaid is what was said of the pod, the newest first: only events and the pod's condition show the cards.
func hamiSaid(c *check.Case) []facts.Evidence {
	var out []facts.Evidence
	if !c.Exists {
		return nil
	}
	for _, cond := range c.Pod.Status.Conditions {
		if cond.Type == corev1.PodScheduled && cond.Status == corev1.ConditionFalse {
			out = append(out, facts.Evidence{Object: facts.RefTo(c.Pod).In(), Field: `status.conditions["PodScheduled"].message`, Value: cond.Message})
		}
	}
	for _, e := range c.EventsOf(c.Pod, "FailedScheduling", "FilteringFailed") {
		out = append(out, facts.Evidence{Object: facts.RefTo(c.Pod).In(), Field: "event " + e.Reason, Value: e.Message})
	}
	return out
}
