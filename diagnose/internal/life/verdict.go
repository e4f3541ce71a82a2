package life

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/engine/why"
)

// Verdict is what a scheduler whose queues nobody here reads says of a pod.
type Verdict struct {
	Cause why.Cause // "": there is no room for it, which can be looked up
	Queue string    // that it names; "": none
	Text  string    // its own words, from where they matter
	facts.Evidence
}

// verdicts are the words of such schedulers, the more telling first. The group is the queue.
var verdicts = []struct {
	cause why.Cause
	words *regexp.Regexp
}{
	// Koordinator, pkg/scheduler/plugins/elasticquota/plugin.go and plugin_helper.go.
	{why.OverQueueLimit, regexp.MustCompile(`Insufficient quotas, quotaName(?:Topo)?: \[?([^\s,\]]+).*`)},
	{"non-preemptible-over-quota", regexp.MustCompile(`Insufficient non-preemptible quotas, quotaName: ([^\s,]+).*`)},
	// scheduler-plugins, pkg/capacityscheduling/capacity_scheduling.go. The quota has the namespace's name in its words.
	{why.OverQueueLimit, regexp.MustCompile(`rejected in PreFilter because ElasticQuota (\S+) is more than Max`)},
	{"waiting-for-quota", regexp.MustCompile(`rejected in PreFilter because total ElasticQuota used is more than min()`)},
	// YuniKorn, yunikorn-core pkg/scheduler/partition.go and placement.go, pkg/scheduler/objects/events; yunikorn-k8shim pkg/cache.
	{why.QueueForbidden, regexp.MustCompile(`submit access to queue (\S+) denied.*`)},
	{why.QueueMissing, regexp.MustCompile(`failed to find queue (\S+) for application|(?:failed to create rule based queue (\S+) for|failed to place) application.*`)},
	{why.ExceedsQueueMaximum, regexp.MustCompile(`queue (\S+) cannot fit application.*`)},
	{why.OverQueueLimit, regexp.MustCompile(`Request '[^']*' does not fit in queue '([^']*)'.*|is skipped from scheduling because the queue quota has been exceed`)},
	{why.OverUserLimit, regexp.MustCompile(`Request '[^']*' exceeds the available user quota()`)},
	{"", regexp.MustCompile(`request is waiting for cluster resources become available()|Scheduling has timed out due to insufficient resources()`)},
}

// mostWords is how much of a text is read: schedulers write a few kilobytes at most.
const mostWords = 16 << 10

// ReadVerdict finds such words in a text.
func ReadVerdict(text string) (Verdict, bool) {
	text = strings.ToValidUTF8(text[:min(len(text), mostWords)], "")
	text, _, _ = strings.Cut(text, " preemption: ")
	text = strings.TrimSuffix(text, ".")
	for _, row := range verdicts {
		if m := row.words.FindStringSubmatch(text); m != nil {
			i := slices.IndexFunc(m[1:], func(s string) bool { return s != "" })
			v := Verdict{Cause: row.cause, Text: strings.TrimSpace(m[0])}
			if i >= 0 {
				v.Queue = m[1+i]
			}
			return v, true
		}
	}
	return Verdict{}, false
}

// VerdictOn is the verdict of the pod's scheduler: as it failed the pod, in its condition, or in its newest events; nil: there is none.
func VerdictOn(c *check.Case) *Verdict {
	if !c.Exists || c.State != facts.Pending && !NeverPlaced(c.Pod) {
		return nil
	}
	at := facts.RefTo(c.Pod).In()
	find := func(text string, e facts.Evidence) *Verdict {
		if v, ok := ReadVerdict(text); ok {
			v.Evidence = e
			return &v
		}
		return nil
	}
	if v := find(c.Pod.Status.Message, Failure(c)); v != nil && v.Cause != "" {
		return v
	}
	for _, k := range c.Pod.Status.Conditions {
		if k.Type == corev1.PodScheduled && k.Status == corev1.ConditionFalse {
			if v := find(k.Message, facts.Evidence{Object: at, Field: "status.conditions[PodScheduled]", Value: k.Reason + ": " + k.Message}); v != nil && v.Cause != "" {
				return v
			}
		}
	}
	if all := c.EventsOf(c.Pod); len(all) > 0 && facts.Emitter(all[0]) == c.Pod.Spec.SchedulerName { // unless others have had it since
		for _, e := range all {
			if v := find(e.Message, Shown(e)); v != nil && facts.Emitter(e) == c.Pod.Spec.SchedulerName {
				if v.Cause == "" {
					return nil
				}
				return v
			}
		}
	}
	return nil
}

// NeverPlaced says whether the pod has failed without having had a node: its scheduler, or whoever made it, has failed it. No kubelet has
// seen it.
func NeverPlaced(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodFailed && p.Spec.NodeName == ""
}
