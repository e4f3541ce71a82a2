package queue

import (
	"fmt"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/engine/why"
)

// Refused is the finding that the pod's own scheduler has made, where its words say that it is this cause; nil: they do not.
func Refused(c *check.Case, cause why.Cause) []check.Finding {
	v := life.VerdictOn(c)
	if v == nil || v.Cause != cause {
		return nil
	}
	return []check.Finding{{
		Told: true, Message: fmt.Sprintf("scheduler %s says of pod %s: %s", c.Pod.Spec.SchedulerName, c.Pod.Name, wording.Shortened(wording.OneLine(v.Text), 240)),
		Evidence: append([]facts.Evidence{v.Evidence}, asked(c)...),
	}}
}

// asked are the labels and annotations in which the pod names its queue.
func asked(c *check.Case) (out []facts.Evidence) {
	at := facts.RefTo(c.Pod).In()
	for _, key := range queueKeys {
		if v := c.Pod.Labels[key]; v != "" {
			out = append(out, facts.Evidence{Object: at, Field: fmt.Sprintf("metadata.labels[%q]", key), Value: v})
		}
		if v := c.Pod.Annotations[key]; v != "" {
			out = append(out, facts.Evidence{Object: at, Field: fmt.Sprintf("metadata.annotations[%q]", key), Value: v})
		}
	}
	return out
}

// queueKeys are the keys under which pods name queues of schedulers whose queues nobody here reads.
var queueKeys = []string{"yunikorn.apache.org/queue", "queue", "quota.scheduling.koordinator.sh/name"}
