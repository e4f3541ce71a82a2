package l3

import (
	"fmt"
	"strings"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/queue"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var nonPreemptibleOverQuotaCheck = check.Check{
	Cause: "non-preemptible-over-quota", Layer: check.L3, Owner: check.User, Stage: check.Admit, Rank: 23,
	Title:   "Work that may not be evicted would pass its queue's quota",
	Meaning: "KAI lets a queue go over its quota only with work that it may evict again. Deployments and interactive work are not of that kind unless they say so.",
	Remedy:  "Say that the work may be evicted, or have the queue's quota raised.",
	Not:     "The queue is at its limit, or the cluster is full.",
	Find:    nonPreemptibleOverQuota,
}

func nonPreemptibleOverQuota(c *check.Case) []check.Finding {
	if found := queue.Refused(c, "non-preemptible-over-quota"); found != nil {
		return found
	}
	if !queue.KaiOurs(c) {
		return nil
	}
	message, said := queue.KaiReason(c, "NonPreemptibleOverQuota")
	if !said && !queue.KaiKept(c) {
		return nil
	}
	need := queue.KaiNeed(c)
	low := func(q queue.KAIAmount) bool { return q.Quota >= 0 && q.Kept+need > q.Quota }
	for _, q := range queue.KaiLine(c) {
		if !low(q) {
			continue
		}
		return []check.Finding{{
			Message:  fmt.Sprintf("the work may not be evicted and asks for %s, and KAI queue %s, whose quota is %d, holds %d for work of that kind", wording.Number(need, "GPU"), q.GetName(), q.Quota, q.Kept),
			Evidence: []facts.Evidence{{Object: facts.RefTo(q.Unstructured).In(), Field: "spec.resources.gpu.quota", Value: fmt.Sprint(q.Quota)}},
			Edits: []edit.Edit{
				queue.KaiRelabel(c, "kai.scheduler/preemptibility", "preemptible", "say that the work may be evicted: label kai.scheduler/preemptibility=preemptible", map[string]any{"/spec/preemptibility": "preemptible"}),
				queue.KaiRaise(c, func(q queue.KAIAmount) (string, int64, bool) { return "quota", q.Kept + need, low(q) }),
			},
		}}
	}
	if said && len(queue.KaiLine(c)) == 0 {
		return []check.Finding{{Message: "KAI says: " + strings.TrimSuffix(message, ".")}}
	}
	return nil
}
