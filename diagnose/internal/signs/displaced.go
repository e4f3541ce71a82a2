package signs

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

// displacing are the reasons of events with which pods lose a place that they had, or had won: preempted by others, evicted, or
// beaten to it by another scheduler.
var displacing = map[string]string{
	"Preempted": "preempted", "Preempting": "preempted", "EvictedByPreemption": "preempted", "Evicted": "evicted", "TaintManagerEviction": "evicted", "EvictedDueToPreempted": "preempted",
	"OutOfcpu": "refused by the node they had won", "OutOfmemory": "refused by the node they had won", "OutOfpods": "refused by the node they had won", "UnexpectedAdmissionError": "refused by the node they had won",
}

// displaced is about work that had a place, more than once of late, and lost it each time: what keeps it is not that there is none.
func displaced(c *check.Case) []Sign {
	if c.Edited() || c.State == facts.Succeeded || c.State == facts.Running && !facts.Unsettled(c.Pod) {
		return nil
	}
	name := c.Owner().GetName()
	times, how, last := 0, "", (*corev1.Event)(nil)
	for _, e := range c.Events {
		word := displacing[e.Reason]
		o := &e.InvolvedObject
		if word == "" || o.Kind != "Pod" || o.Namespace != c.Pod.Namespace || o.Name != name && !strings.HasPrefix(o.Name, name+"-") || c.Now.Sub(facts.EventTime(e)) > time.Hour {
			continue
		}
		n := int(e.Count)
		if e.Series != nil {
			n = int(e.Series.Count)
		}
		times += max(1, n)
		if last == nil || facts.EventTime(e).After(facts.EventTime(last)) {
			last, how = e, word
		}
	}
	if times < 2 {
		return nil
	}
	return []Sign{{
		Evidence: life.Shown(last), Since: facts.EventTime(last), Layer: check.L3, Owner: check.Scheduler, Stage: check.Place,
		What:   fmt.Sprintf("pods of %s were %s %d times within the hour, last %s%s", facts.RefTo(c.Owner()), how, times, last.InvolvedObject.Name, saying("", wording.Shortened(last.Message, 160))),
		Advice: "Give the work a priority or a place that others do not take: it loses each one that it gets.",
	}}
}
